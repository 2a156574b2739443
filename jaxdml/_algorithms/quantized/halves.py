"""Convert float16, bfloat16 and int32 to float32 and back, with integer operations.

XLA may remove a pair of conversions through a narrow float, of which one can be the caller's, and keep the wide value.
Its devices also differ in what they do to subnormals. Here neither can happen.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._algorithms.bits import bits_of

_MANTISSA_BITS = 23
_MAGNITUDE = 2**31 - 1
_DROPPED = _MANTISSA_BITS - 10
"""How many bits of the mantissa float16 does not have."""

_REBIAS = 127 - 15 << _MANTISSA_BITS
_HALF_INFINITY = 0x7C00
_HALF_NAN = 0x7E00
_ONE_HALF = 126 << _MANTISSA_BITS
_LEAST_HALF = 127 - 14 << _MANTISSA_BITS
"""The bits of ``2.0**-14``, the least normal float16, as float32."""


def widened(x: jax.Array) -> jax.Array:
    """Return float32, float16, bfloat16 or int32 as float32; an int32 is rounded once, ties to even."""
    if x.dtype == jnp.float32:
        return x
    if x.dtype == jnp.int32:
        return rounded(x)
    bits = bits_of(x).astype(jnp.int32)
    if x.dtype == jnp.bfloat16:
        return _float(bits << 16)
    magnitude = bits & 0x7FFF
    # An exponent of all ones stays one.
    normal = (magnitude << _DROPPED) + jnp.where(magnitude < _HALF_INFINITY, _REBIAS, 2 * _REBIAS)
    subnormal = _bits(magnitude.astype(jnp.float32) * 2.0**-24)
    wide = jnp.where(magnitude < 1 << 10, subnormal, normal)
    return _float(wide | (bits & 0x8000) << 16)


def rounded(x: jax.Array) -> jax.Array:
    """Return an int32 as float32, rounded once, ties to even: both parts and their product are exact."""
    return (x >> 16).astype(jnp.float32) * 2.0**16 + (x & 0xFFFF).astype(jnp.float32)


def narrowed(x: jax.Array, dtype: np.dtype) -> jax.Array:
    """Return float32 as ``dtype``, float32, float16 or bfloat16, rounded once, ties to even. A NaN has one pattern."""
    if dtype == jnp.float32:
        return x
    bits = _bits(x)
    if dtype == jnp.bfloat16:
        return _as_float(bits + 0x7FFF + (bits >> 16 & 1) >> 16, dtype)
    magnitude = bits & _MAGNITUDE
    short = magnitude - _REBIAS
    normal = short + ((1 << _DROPPED - 1) - 1) + (short >> _DROPPED & 1) >> _DROPPED
    # The last bit of 1/2 is worth as much as that of a subnormal float16.
    subnormal = _bits(_float(magnitude) + 0.5) - _ONE_HALF
    half = jnp.where(magnitude < _LEAST_HALF, subnormal, jnp.minimum(normal, _HALF_INFINITY))
    half = jnp.where(magnitude > 0xFF << _MANTISSA_BITS, _HALF_NAN, half)
    return _as_float(half | (bits >> 16 & 0x8000), dtype)


def _bits(x: jax.Array) -> jax.Array:
    return lax.bitcast_convert_type(x, jnp.int32)


def _float(bits: jax.Array) -> jax.Array:
    return lax.bitcast_convert_type(bits, jnp.float32)


def _as_float(bits: jax.Array, dtype: np.dtype) -> jax.Array:
    return lax.bitcast_convert_type(bits.astype(jnp.uint16), dtype)

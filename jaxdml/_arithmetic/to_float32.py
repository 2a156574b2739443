"""Convert float16, bfloat16 and int32 to float32, with the same bits on every device.

If the caller has rounded to a narrow float, XLA may remove that conversion together with one back, and keep the wide
value. And devices differ in what they do to subnormals. With integer operations neither happens.
"""

import jax
import jax.numpy as jnp

from jaxdml._arithmetic.bits import bits_of
from jaxdml._arithmetic.float_parts import MANTISSA_BITS, float_of_bits, int_bits

_DROPPED = MANTISSA_BITS - 10
"""How many bits of the mantissa float16 does not have."""

_REBIAS = 127 - 15 << MANTISSA_BITS
_INFINITY = 0x7C00
_LEAST_NORMAL = 1 << 10


def widened(x: jax.Array) -> jax.Array:
    """Return float32, float16, bfloat16 or int32 as float32; an int32 is rounded once, ties to even."""
    if x.dtype == jnp.float32:
        return x
    if x.dtype == jnp.int32:
        return rounded(x)
    bits = bits_of(x).astype(jnp.int32)
    if x.dtype == jnp.bfloat16:
        return float_of_bits(bits << 16)
    magnitude = bits & 0x7FFF
    # An exponent of all ones stays one.
    normal = (magnitude << _DROPPED) + jnp.where(magnitude < _INFINITY, _REBIAS, 2 * _REBIAS)
    subnormal = int_bits(magnitude.astype(jnp.float32) * 2.0**-24)
    wide = jnp.where(magnitude < _LEAST_NORMAL, subnormal, normal)
    return float_of_bits(wide | (bits & 0x8000) << 16)


def rounded(x: jax.Array) -> jax.Array:
    """Return an int32 as float32, rounded once, ties to even: both parts and their product are exact."""
    return (x >> 16).astype(jnp.float32) * 2.0**16 + (x & 0xFFFF).astype(jnp.float32)

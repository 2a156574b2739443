"""Take float32 numbers apart, and scale them by powers of two, with integer operations."""

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.bits import bits_of

MANTISSA_BITS = 23
SIGN = -(2**31)
MAGNITUDE = 2**31 - 1
LEAST_NORMAL = 1 << MANTISSA_BITS
INFINITY = 0xFF << MANTISSA_BITS
"""Of the bits of a float32, as int32: the length of the mantissa, the masks of the sign and of the magnitude, and all
bits of ``2**-126`` and of infinity."""

_HALVES = 2**22 + 2**21
"""Adding this to a float32 rounds it to a multiple of 1/2, the value of the last bit of a sum from 2**22 to 2**23."""

_HALVES_BITS = 0x4AC00000
"""The bits of ``float32(_HALVES)``."""


def int_bits(x: jax.Array) -> jax.Array:
    """Return the bits of a float32 as int32."""
    return lax.bitcast_convert_type(x, jnp.int32)


def float_of_bits(bits: jax.Array) -> jax.Array:
    """Return the float32 that has these bits."""
    return lax.bitcast_convert_type(bits, jnp.float32)


def decompose(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Write a float32 as ``(-1)**negative * mantissa * 2**exponent`` with ``2**23 <= mantissa < 2**24``.

    Subnormals are normalized too. Zero becomes a tiny number, and infinity and NaN become huge ones: what is computed
    from them means nothing, but it stays in range and is the same on every device.
    """
    bits = bits_of(x)
    fraction = bits & ((1 << MANTISSA_BITS) - 1)
    biased = (bits >> MANTISSA_BITS & 0xFF).astype(jnp.int32)
    shift = lax.clz(fraction).astype(jnp.int32) - (31 - MANTISSA_BITS)
    subnormal = biased == 0
    mantissa = jnp.where(subnormal, fraction << shift.astype(jnp.uint32), fraction | (1 << MANTISSA_BITS))
    exponent = jnp.where(subnormal, 1 - shift, biased) - 127 - MANTISSA_BITS
    zero = subnormal & (fraction == 0)
    mantissa = jnp.where(zero, jnp.uint32(1 << MANTISSA_BITS), mantissa)
    return bits >> 31 == 1, mantissa, jnp.where(zero, -1000, exponent)


def power_of_two(exponent: jax.Array) -> jax.Array:
    """Return ``2.0**exponent`` as float32, for exponents of normal numbers."""
    return times_power_of_two(jnp.float32(1), exponent)


def times_power_of_two(x: jax.Array, exponent: jax.Array) -> jax.Array:
    """Return ``x * 2.0**exponent``. ``x``, of either sign, and the result must be normal float32 numbers."""
    return float_of_bits(int_bits(x) + (exponent << MANTISSA_BITS))


def lower_and_half(estimate: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return an int32 ``lower`` with ``-1/4 <= estimate - lower <= 3/4``, and ``lower + 1/2`` as float32.

    That holds for float32 below 2**21 in magnitude. For greater ones ``lower`` may be wrong, but it has the same sign
    and at least the magnitude 2**20.

    It takes additions and no conversion: XLA's conversions clamp, which is slow on GPUs. A device may contract the
    addition and the multiplication that gave ``estimate`` into one operation. The bounds then hold for the product
    before it is rounded to float32.
    """
    bits = int_bits(estimate + float(_HALVES))
    return (bits >> 1) - (_HALVES_BITS >> 1), float_of_bits(bits | 1) - float(_HALVES)

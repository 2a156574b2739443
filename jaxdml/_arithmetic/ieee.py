"""Multiply and add float32 numbers as IEEE 754 defines it, with the same bits on every device.

XLA's plain operations do not have that: its CPU backend reads and writes subnormals as zeros, and it may contract
``a * b + c`` into one operation with one rounding. Devices also differ in the bits of a NaN; here every NaN result is
``NAN``. Everything is elementwise, and operands broadcast.

Only additions and multiplications whose operands and results are zeros, normal numbers, infinities or NaNs are left to
the device, because every device rounds those correctly. Subnormals are handled in *units* of ``2**-149``, the spacing
of subnormals: times ``2**149`` they are small integers. A select by the bits of a result stands between it and what
reads it. So no compiler can contract it with a later addition.
"""

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.bits import bits_of
from jaxdml._arithmetic.float_parts import (
    INFINITY,
    LEAST_NORMAL,
    MAGNITUDE,
    MANTISSA_BITS,
    SIGN,
    float_of_bits,
    int_bits,
)
from jaxdml._arithmetic.sizes import at_most

NAN = 0x7FC00000
"""The bits of every NaN that is returned."""

_FLOAT16_NAN = 0x7E00
"""The bits of a NaN in float16."""

_UNITS = 149 << MANTISSA_BITS
"""Added to the bits of a normal number, this multiplies it by 2**149."""

_EXACT_BITS = 127 + MANTISSA_BITS << MANTISSA_BITS
"""The bits of ``2.0**23``: below it, numbers in units stand for subnormals."""

_SMALL_BITS = 127 - 64 << MANTISSA_BITS
"""The bits of ``2.0**-64``. If a term is at least that, no subnormal term changes the sum, and the sum is none."""


def product(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return float32 ``a * b``, rounded once, ties to even; it takes some 50 integer operations.

    If one factor is integral, ``scaled`` takes a dozen.
    """
    a_bits, b_bits = int_bits(a), int_bits(b)
    a_wide, b_wide = (_wide(bits & MAGNITUDE) for bits in (a_bits, b_bits))
    (a_high, a_low), (b_high, b_low) = (_halves_of_mantissa(wide) for wide in (a_wide, b_wide))
    # The product of the mantissas has 47 or 48 bits. Keep its upper 30 or 31, and set the last if any lower bit is set.
    low = a_low * b_low
    middle = a_high * b_low + a_low * b_high + (low >> 12)
    lost = (middle & 0x1F) | (low & 0xFFF)
    word = (a_high * b_high << 7) + (middle >> 5) | jnp.minimum(lost, 1)
    # Normalize it to 31 bits.
    long = word >> 30
    word <<= 1 - long
    exponent = (a_wide >> MANTISSA_BITS) + (b_wide >> MANTISSA_BITS) + (long - 127)
    # Round it to 24 bits, or to fewer if the result is subnormal; from 32 bits dropped on, nothing is left.
    word = jnp.where(exponent < -MANTISSA_BITS, 0, word)
    dropped = jnp.clip(8 - exponent, 7, 31)
    rounded = word + ((1 << dropped - 1) - 1 + (word >> dropped & 1))
    rounded = lax.shift_right_logical(rounded, dropped)
    # The leading bit of a normal result adds 1 to the exponent, and a carry adds another.
    magnitude = rounded + (jnp.clip(exponent, 1, 254) - 1 << MANTISSA_BITS)
    magnitude = jnp.where(exponent > 254, INFINITY, magnitude)
    greater = jnp.maximum(a_bits & MAGNITUDE, b_bits & MAGNITUDE)
    # Zeros are told by their exponent. LLVM makes a comparison of floats of one of their bits with 0.
    zero = jnp.minimum(a_wide, b_wide) < -100 << MANTISSA_BITS
    magnitude = jnp.where(zero, 0, jnp.where(greater == INFINITY, INFINITY, magnitude))
    undefined = (greater > INFINITY) | (zero & (greater == INFINITY))
    return float_of_bits(jnp.where(undefined, NAN, magnitude | ((a_bits ^ b_bits) & SIGN)))


def scaled(integers: jax.Array, scale: jax.Array) -> jax.Array:
    """Return float32 ``integers * scale``, rounded once, ties to even, for ``integers`` that are finite integers.

    ``integers`` is 0 or at least 1 in magnitude, and at most 2**100. So with a normal scale the result is no subnormal.
    In units a subnormal scale is an integer, and so is the product: if that is below 2**23, it was not rounded.
    """
    bits = int_bits(scale)
    subnormal = bits & MAGNITUDE < LEAST_NORMAL
    factor = float_of_bits(jnp.where(subnormal, _in_units(bits), bits))
    if not at_most(integers.size, scale.size):
        # Without the barrier XLA would fuse this into what follows, and compute it again for every element.
        factor, subnormal = lax.optimization_barrier((factor, subnormal))  # type: ignore[no-untyped-call]
    multiplied = int_bits(integers * factor)
    return float_of_bits(_one_nan(jnp.where(subnormal, _from_units(multiplied), multiplied)))


def one_nan(x: jax.Array) -> jax.Array:
    """Return ``x`` with ``NAN`` for every NaN. A product ``x`` is then not contracted with a later addition."""
    return float_of_bits(_one_nan(int_bits(x)))


def narrowed(x: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """Round float32 to ``dtype``: float32, float16 or bfloat16. A NaN must be ``NAN``; it becomes that of ``dtype``."""
    bits = bits_of(x)
    if dtype == jnp.bfloat16:
        # Some devices convert subnormals to zeros.
        rounded = (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(jnp.uint16)
        return lax.bitcast_convert_type(rounded, dtype)
    if dtype == jnp.float16:
        narrow = jnp.where(bits == NAN, jnp.uint16(_FLOAT16_NAN), bits_of(x.astype(dtype)))
        return lax.bitcast_convert_type(narrow, dtype)
    return x


def total(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return float32 ``a + b``, rounded once, ties to even.

    Small terms are added in units, where no term or sum is subnormal. A sum that is subnormal needs no rounding.
    """
    a_bits, b_bits = int_bits(a), int_bits(b)
    small = jnp.maximum(a_bits & MAGNITUDE, b_bits & MAGNITUDE) < _SMALL_BITS
    left, right = (float_of_bits(jnp.where(small, _in_units(x), x)) for x in (a_bits, b_bits))
    added = int_bits(left + right)
    return float_of_bits(_one_nan(jnp.where(small, _from_units(added), added)))


def _wide(magnitude: jax.Array) -> jax.Array:
    """Return the bits of a magnitude with an exponent of any size: subnormals are normalized, 0 has -149."""
    integer = int_bits(magnitude.astype(jnp.float32))
    return jnp.where(magnitude < LEAST_NORMAL, integer - _UNITS, magnitude)


def _halves_of_mantissa(wide: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the upper and the lower 12 bits of the mantissa, the leading bit among them."""
    return wide >> 12 & 0x7FF | 0x800, wide & 0xFFF


def _in_units(bits: jax.Array) -> jax.Array:
    """Return the bits of a number in units, if it is below 2**-22 in magnitude."""
    magnitude = bits & MAGNITUDE
    integer = int_bits(magnitude.astype(jnp.float32))
    return jnp.where(magnitude < LEAST_NORMAL, integer, magnitude + _UNITS) | (bits & SIGN)


def _from_units(bits: jax.Array) -> jax.Array:
    """Return the bits of a number that is given in units, and is an integer if it is below 2**23 in magnitude."""
    magnitude = bits & MAGNITUDE
    # Adding 2**23 moves such an integer to the lowest bits. Where XLA contracts this, the product was exact anyway.
    subnormal = int_bits(float_of_bits(magnitude) + 2.0**MANTISSA_BITS) - _EXACT_BITS
    return jnp.where(magnitude < _EXACT_BITS, subnormal, magnitude - _UNITS) | (bits & SIGN)


def _one_nan(bits: jax.Array) -> jax.Array:
    return jnp.where(bits & MAGNITUDE > INFINITY, NAN, bits)

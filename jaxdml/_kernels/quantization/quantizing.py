"""Round IEEE quotients to integers, in the same way on every device, without a division that decides a bit.

``rint(fl(x / scale))`` is wanted, where ``fl`` rounds to float32 as IEEE 754 does. XLA's own division does not.

Both numbers are multiplied by one power of two: ``dividend = x * 2**e`` and ``divisor = |scale| * 2**e``, the sign of
the scale goes to the dividend. The divisor is a multiple of 2**-23 below 2. (Scales of 2**127 and more give one from 2
to 4 that is a multiple of 2**-22. What follows holds for them in units that are twice as large.) IEEE's quotient stays
the same wherever it does not round to 0. An estimate of it gives an integer n such that the answer is n or n + 1: see
``lower_and_half``. It is n + 1 if the float32 quotient is above ``half = n + 1/2``, or if n is odd and it is ``half``.

The float32 quotient is at least a float32 number t if the real quotient exceeds the midpoint of t and its predecessor,
and a real quotient is never equal to such a midpoint: the midpoint has 25 significant bits, and times the divisor it
has at least as many. ``half`` has few bits, so its neighbours are ``2**(k - 23)`` away, where ``2**k`` is the power of
two at or below ``|half|``. (If ``|half|`` is 1/2, the neighbour towards 0 is nearer. But n is then 0 or -1, and the one
away from 0 is asked for.) So the answer is n + 1 exactly if

    dividend - half * divisor > gap * divisor,  with gap = 2**(k - 24) for an even n, -2**(k - 24) for an odd n.

The right side is exact. On the left the divisor is split in two parts of 12 bits. ``half`` has 10 bits if the result
does not saturate at 8 bits. So both products are exact, and it does not matter whether a device contracts them with the
subtractions. ``dividend`` (if it is 1/4 or more), the products and the differences are multiples of 2**-24. If the left
side is below 1/2 in magnitude, both differences are below 1, so they are exact. Otherwise they have a relative error of
2**-23, and the right side is below 2**-14: the comparison is right too.

For 16 bits ``half`` is split too, in the nearest multiple of 256 and a rest of up to 128.5. Each has 9 bits, so all
four products are exact. In the order of ``_residual`` each difference is less than 2**24 times the power of two that
its terms are multiples of, so it is exact too.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._arithmetic.float_parts import (
    INFINITY,
    LEAST_NORMAL,
    MAGNITUDE,
    MANTISSA_BITS,
    SIGN,
    float_of_bits,
    int_bits,
    lower_and_half,
)
from jaxdml._arithmetic.residuals import clamp

_ONE = 127 << MANTISSA_BITS

_LARGEST_POWER = 253
"""The biased exponent of ``2**126``: the factor of subnormal scales, and of the least normal ones."""

_OF_ZERO = 127 - 60 << MANTISSA_BITS
"""The bits of ``2**-60``, for a divisor of 0: every dividend but 0 is at least ``2**-23``, and saturates."""


def quantize(x: jax.Array, scale: jax.Array, zero_point: jax.Array | None, dtype: np.dtype[np.integer]) -> jax.Array:
    """Return ``clamp(rint(fl(x / scale)) + zero_point)``. A quotient that is NaN counts as 0.

    Args:
      x: float32.
      scale: float32 that broadcasts against ``x``.
      zero_point: int32 that broadcasts against ``x``, or None for 0.
      dtype: int8, uint8, int16 or uint16.
    """
    dividend, divisor = _dividend_and_divisor(x, scale)
    lower, half = lower_and_half(dividend * (1 / divisor))
    power = (int_bits(half) & INFINITY) - (24 << MANTISSA_BITS)
    gap = float_of_bits(power ^ (lower << 31))
    goes_up = _residual(dividend, divisor, lower, half, dtype) > gap * divisor
    rounded = jnp.where(dividend == dividend, lower + goes_up.astype(jnp.int32), 0)  # noqa: PLR0124
    return clamp(rounded, zero_point, dtype)


def _dividend_and_divisor(x: jax.Array, scale: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the dividend, or NaN or 0 if the scale is infinite or NaN, and the divisor, which is positive.

    A dividend that overflows or underflows belongs to a quotient that saturates, or rounds to 0. A subnormal ``x`` does
    not round to 0 only where it is multiplied by ``2**126``. Then it is ``fraction * 2**-23``, which no device flushes.
    """
    bits = int_bits(scale)
    magnitude = bits & MAGNITUDE
    power = jnp.clip(254 - (magnitude >> MANTISSA_BITS), 1, _LARGEST_POWER)
    normal = magnitude + ((power - 127) << MANTISSA_BITS)
    divisor = float_of_bits(jnp.where(magnitude == 0, _OF_ZERO, jnp.where(magnitude < INFINITY, normal, _ONE)))
    subnormal = (magnitude > 0) & (magnitude < LEAST_NORMAL)
    divisor = jnp.where(subnormal, _fraction(magnitude), divisor)
    finite = magnitude < INFINITY
    factor = float_of_bits(jnp.where(finite, power << MANTISSA_BITS | (bits & SIGN), 0))
    factor_of_fraction = float_of_bits(jnp.where(power == _LARGEST_POWER, _ONE | (bits & SIGN), 0))
    of_x = int_bits(x)
    small = (of_x & MAGNITUDE) < LEAST_NORMAL
    return jnp.where(small, _fraction(of_x) * factor_of_fraction, x * factor), divisor


def _fraction(bits: jax.Array) -> jax.Array:
    """Return the number with the bits of a subnormal times ``2**126``."""
    one = bits & SIGN | _ONE
    return float_of_bits(bits | _ONE) - float_of_bits(one)


def _residual(
    dividend: jax.Array, divisor: jax.Array, lower: jax.Array, half: jax.Array, dtype: np.dtype[np.integer]
) -> jax.Array:
    """Return ``dividend - half * divisor``, exact where that is small."""
    high = float_of_bits(int_bits(divisor) & -(1 << 12))
    low = divisor - high
    if dtype.itemsize == 1:
        return dividend - half * high - half * low
    upper = (lower + 128 & -256).astype(jnp.float32)
    rest = half - upper
    return dividend - upper * high - rest * high - upper * low - rest * low

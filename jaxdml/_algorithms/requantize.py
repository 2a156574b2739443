"""Round ``acc * a_scale * b_scale / output_scale`` correctly, ties to even, with nothing but exact steps.

Write each scale as an integer of 24 bits and a sign times a power of two. With the accumulator N, the quotient to round
is ``v = N * ma * mb * 2**e / mo``. Let f be an integer that an estimate of v in float32 exceeds by -1/4 to 3/4: v
rounds to f or to f + 1. Unless the estimate falls within ``TOLERANCE`` times its magnitude of ``f + 1/2``, v lies on
the same side of that, which tells to which of the two. Where it does fall so near, the sign of
``D = N * ma * mb * 2**(e + 1) - (2 * f + 1) * mo`` decides, multiplied by the power of two that makes it an integer.
Its two terms agree in their leading bits, so D is small, and computing it modulo 2**64 gives its sign exactly: no term
ever has to be held whole.

How a device rounds the estimate does not matter. It takes a handful of operations, each within 2**-22 even where
division is not correctly rounded or a product is contracted into a fused multiply-add, and the tolerance is 2**-18.
The 64-bit integers exist only within.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._algorithms import fixed_point
from jaxdml._algorithms.fixed_point import lower_and_half, times_power_of_two
from jaxdml._algorithms.order_keys import bits_of

TOLERANCE = 2.0**-18
"""Relative distance from a half within which the estimate is not believed."""

_LEAST_SHIFT = 0
"""From here down the quotient saturates for every accumulator but 0."""

_GREATEST_SHIFT, _GREATEST_DEEP_SHIFT = 62, 78
"""From here on it rounds to 0 for every accumulator below 2**31, or 2**47."""

_HALF_WORD = 16

_DEEP_SHIFT = 45
"""A halves' power of two from here on leaves the numerator more bits than it needs, or than there are."""

_MANTISSA_BITS = 23

_FEW = 2**13
"""So many outputs are rounded by their residuals at once: to weigh two ways looks at 2048 places itself."""

_PER_MULTIPLIER = 2**11
"""So many outputs must share a multiplier for its halves, four places each, to be fewer than they are."""

Scales = tuple[jax.Array, jax.Array, jax.Array]
Accumulate = Callable[..., jax.Array]


def _decompose(scale: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Write a float32 as ``(-1)**negative * mantissa * 2**exponent`` with ``2**23 <= mantissa < 2**24``.

    Subnormals are normalized too. Zero becomes a number so small, and infinity and NaN become numbers so large, that
    what they give is in range and the same everywhere, though it means nothing.
    """
    bits = bits_of(scale)
    fraction = bits & ((1 << _MANTISSA_BITS) - 1)
    biased = (bits >> _MANTISSA_BITS & 0xFF).astype(jnp.int32)
    shift = lax.clz(fraction).astype(jnp.int32) - (31 - _MANTISSA_BITS)
    subnormal = biased == 0
    mantissa = jnp.where(subnormal, fraction << shift.astype(jnp.uint32), fraction | (1 << _MANTISSA_BITS))
    exponent = jnp.where(subnormal, 1 - shift, biased) - 127 - _MANTISSA_BITS
    zero = subnormal & (fraction == 0)
    mantissa = jnp.where(zero, jnp.uint32(1 << _MANTISSA_BITS), mantissa)
    return bits >> 31 == 1, mantissa, jnp.where(zero, -1000, exponent)


def requantize(
    low: jax.Array,
    high: jax.Array | None,
    a_scale: jax.Array,
    b_scale: jax.Array,
    output_scale: jax.Array,
    zero_point: jax.Array | None,
    dtype: jnp.dtype,
) -> jax.Array:
    """Return ``clamp(round(acc * a_scale * b_scale / output_scale) + zero_point)``, rounded once and correctly.

    Args:
      low: int32 accumulator, below 2**31 in magnitude; with ``high``, its lower 16 bits, from 0.
      high: None, or int32 and the accumulator is ``low + 2**16 * high``, below 2**47 in magnitude.
      a_scale: float32 that broadcasts against the accumulator, like the other scales and the zero point.
      b_scale: float32.
      output_scale: float32.
      zero_point: int32, or None for 0.
      dtype: int8 or uint8.
    """
    ma, mb, mo, shift = _fraction((a_scale, b_scale, output_scale))
    shift = jnp.clip(shift, _LEAST_SHIFT, _GREATEST_SHIFT if high is None else _GREATEST_DEEP_SHIFT)
    accumulator = low.astype(jnp.float32)
    if high is not None:
        accumulator += high.astype(jnp.float32) * 2.0**_HALF_WORD
    a_part, b_part, o_part = (m.astype(jnp.float32) for m in (ma, mb, mo))
    # The scales of a and of the output go by rows, so that what they make is often small.
    estimate = accumulator * times_power_of_two(a_part / o_part * 0.5 * b_part, -shift)
    lower, half = lower_and_half(estimate)
    missing = half - estimate
    doubtful = jnp.abs(missing) <= TOLERANCE * jnp.abs(estimate)
    # Both are int32, below 0 where it rounds up, so that no word of 64 bits is compared or selected.
    exactly = _missing(low, high, ma, mb, mo, shift, lower)
    signed = jnp.where(doubtful, exactly, lax.bitcast_convert_type(missing, jnp.int32))
    return _clamp(lower - (signed >> 31), zero_point, dtype)


def _clamp(rounded: jax.Array, zero_point: jax.Array | None, dtype: jnp.dtype) -> jax.Array:
    result = rounded if zero_point is None else rounded + zero_point
    bounds = np.iinfo(dtype)
    return jnp.clip(result, bounds.min, bounds.max).astype(dtype)


def requantize_by_multiplier(
    accumulate: Accumulate, parts: object, scales: Scales, zero_point: jax.Array | None, dtype: jnp.dtype
) -> jax.Array:
    """Return what ``requantize`` does of ``accumulate(parts)``, by residuals only if a multiplier leaves doubts.

    Args:
      accumulate: gives the int32 accumulator. It is called in every branch, so that it need not be stored.
      parts: its argument, a tree of arrays.
      scales: of ``a``, of ``b`` and of the output.
      zero_point: int32, or None for 0.
      dtype: int8 or uint8.
    """
    shape = jax.eval_shape(accumulate, parts).shape
    outputs = math.prod(shape)
    distinct = math.prod(np.broadcast_shapes(*(scale.shape for scale in scales)))

    def by_residuals(parts: object) -> jax.Array:
        return requantize(accumulate(parts), None, *scales, zero_point, dtype)

    if outputs <= _FEW or distinct * 2 > outputs:
        return by_residuals(parts)
    multiplier = multiplier_of(scales)

    def by_multiplier(parts: object) -> jax.Array:
        rounded, _ = fixed_point.rounded_products(accumulate(parts), multiplier)
        return _clamp(rounded, zero_point, dtype)

    if distinct * _PER_MULTIPLIER <= outputs:
        doubtful = fixed_point.may_be_doubtful(multiplier)
    else:
        _, where = fixed_point.rounded_products(accumulate(parts), multiplier)
        # Stored as bytes first: XLA has a fast maximum of those, and a slow one of anything that it fuses into it.
        stored = lax.optimization_barrier(where.astype(jnp.uint8))  # type: ignore[no-untyped-call]
        doubtful = jnp.max(stored) > 0
    return lax.cond(doubtful, by_residuals, by_multiplier, parts)


def multiplier_of(scales: Scales) -> fixed_point.Multiplier:
    """Return ``a_scale * b_scale / output_scale``."""
    (a_negative, ma, ea), (b_negative, mb, eb), (o_negative, mo, eo) = map(_decompose, scales)
    return fixed_point.multiplier(a_negative ^ b_negative ^ o_negative, ma, mb, mo, ea + eb - eo)


def _fraction(scales: Scales) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Write ``a_scale * b_scale / output_scale`` as ``ma * mb / mo * 2**(-1 - shift)`` in int32, ``mo`` positive."""
    (a_negative, ma, ea), (b_negative, mb, eb), (o_negative, mo, eo) = map(_decompose, scales)
    ma, mb, mo = (mantissa.astype(jnp.int32) for mantissa in (ma, mb, mo))
    ma, mb = jnp.where(a_negative ^ o_negative, -ma, ma), jnp.where(b_negative, -mb, mb)
    return ma, mb, mo, (eo - ea - 1) - eb


def _missing(
    low: jax.Array,
    high: jax.Array | None,
    ma: jax.Array,
    mb: jax.Array,
    mo: jax.Array,
    shift: jax.Array,
    lower: jax.Array,
) -> jax.Array:
    """Return an int32, below 0 just where the quotient, a few tolerances from ``lower + 1/2`` at most, rounds up.

    It is the upper half of -D, less 1 where a tie would go up. With N below 2**31, N * ma * mb is below 2**79, and D
    within 2**-17 of it: below 2**62.

    With N below 2**47, D is below 2**78. But unless it saturates the quotient is below 2**10, so D is also below
    2**(18 + shift), with the shift that makes the halves an integer. So where that is 45 or more, both terms are taken
    in units of 2**16. What the first has below that breaks a tie, and the second has nothing there.
    """
    with jax.enable_x64(True):
        ma, mb, mo = (mantissa.astype(jnp.int64) for mantissa in (ma, mb, mo))
        tie_goes_up = lower & 1
        if high is None:
            numerator = low.astype(jnp.int64) * ma * mb
        else:
            # N * ma is whole * 2**16 + rest, and so is what mb makes of them.
            of_low = low.astype(jnp.int64) * ma
            whole = (high.astype(jnp.int64) * ma + (of_low >> _HALF_WORD)) * mb
            rest = (of_low & 0xFFFF) * mb
            in_half_words = shift >= _DEEP_SHIFT
            numerator = jnp.where(in_half_words, whole + (rest >> _HALF_WORD), (whole << _HALF_WORD) + rest)
            shift = jnp.where(in_half_words, shift - _HALF_WORD, shift)
            tie_goes_up |= (in_half_words & (rest & 0xFFFF != 0)).astype(jnp.int32)
        halves = (2 * lower + 1).astype(jnp.int64) * mo << shift.astype(jnp.int64)
        return (halves - numerator - tie_goes_up.astype(jnp.int64) >> 32).astype(jnp.int32)

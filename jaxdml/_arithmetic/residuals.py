"""Round ``acc * a_scale * b_scale / output_scale`` correctly, ties to even, in the same way on every device.

Write each scale as a sign and an integer of 24 bits times a power of two. With the accumulator N, the quotient to
round is ``v = N * ma * mb * 2**e / mo``. A float32 estimate of v gives an integer f with
``-1/4 <= estimate - f <= 3/4``, so v rounds to f or to f + 1. If the estimate is farther from ``f + 1/2`` than
``TOLERANCE`` times its magnitude, v is on the same side of ``f + 1/2`` as the estimate, and that decides. Otherwise the
sign of the residual ``D = N * ma * mb * 2**(e + 1) - (2 * f + 1) * mo`` decides. D is computed in units of a power of
two that makes both terms integers. They agree in their leading bits, so D is small, and computing both modulo 2**64
gives its sign exactly.

It does not matter how a device rounds the estimate. The estimate takes a handful of operations, each with a relative
error of at most 2**-22 even if division is not correctly rounded or a product is contracted into a fused multiply-add.
The tolerance is 2**-18. The 64-bit integers exist only inside; arguments and results have 32 bits or fewer.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._arithmetic.float_parts import decompose, int_bits, lower_and_half, times_power_of_two

TOLERANCE = 2.0**-18
"""The relative distance from ``f + 1/2`` within which the estimate does not decide."""

_MIN_SHIFT = 0
"""At this shift and below, the quotient saturates for every accumulator but 0."""

_MAX_SHIFT, _MAX_DEEP_SHIFT = 62, 78
"""At these shifts and above, the quotient rounds to 0 for every accumulator below 2**31, or below 2**47."""

_HALF_WORD = 16
"""The bits of ``low`` in a deep accumulator ``low + 2**16 * high``."""

_DEEP_SHIFT = 45
"""From this shift on, both terms of the residual are taken in units of 2**16: see ``_residual``."""

Scales = tuple[jax.Array, jax.Array, jax.Array]
"""The scales of ``a``, of ``b`` and of the output: float32 that broadcast against the accumulator."""


def by_residuals(
    low: jax.Array,
    high: jax.Array | None,
    scales: Scales,
    zero_point: jax.Array | None,
    dtype: jnp.dtype,
    bias: jax.Array | None = None,
) -> jax.Array:
    """Return ``clamp(round(acc * a_scale * b_scale / output_scale) + zero_point)``, rounded once and correctly.

    Args:
      low: the int32 accumulator, below 2**31 in magnitude. With ``high``, its lower 16 bits, not negative.
      high: None, or int32. The accumulator is then ``low + 2**16 * high``, below 2**47 in magnitude.
      scales: of ``a``, of ``b`` and of the output.
      zero_point: int32 that broadcasts against the accumulator, or None for 0.
      dtype: int8 or uint8.
      bias: int32 to add to the accumulator, or None for 0; only without ``high``. The sum need not fit int32.
    """
    ma, mb, mo, shift = _mantissas_and_shift(scales)
    shift = jnp.clip(shift, _MIN_SHIFT, _MAX_SHIFT if high is None else _MAX_DEEP_SHIFT)
    accumulator = low.astype(jnp.float32)
    if bias is not None:
        total = low + bias
        wrapped = ((low ^ total) & (bias ^ total)) < 0
        # Numbers of one sign do not cancel, so their sum in float32 has a small relative error.
        accumulator = jnp.where(wrapped, accumulator + bias.astype(jnp.float32), total.astype(jnp.float32))
    if high is not None:
        accumulator += high.astype(jnp.float32) * 2.0**_HALF_WORD
    a_part, b_part, o_part = (m.astype(jnp.float32) for m in (ma, mb, mo))
    # Divide first: the scales of a and of the output are at most one per row, so the quotient is often a small array.
    estimate = accumulator * times_power_of_two(a_part / o_part * 0.5 * b_part, -shift)
    lower, half = lower_and_half(estimate)
    missing = half - estimate
    doubtful = jnp.abs(missing) <= TOLERANCE * jnp.abs(estimate)
    # Both candidates are int32 and negative where the quotient rounds up, so no 64-bit word is compared or selected.
    exactly = _residual(low, high, bias, ma, mb, mo, shift, lower)
    signed = jnp.where(doubtful, exactly, int_bits(missing))
    return clamp(lower - (signed >> 31), zero_point, dtype)


def clamp(rounded: jax.Array, zero_point: jax.Array | None, dtype: jnp.dtype) -> jax.Array:
    """Add the zero point to int32 quotients and clamp them to the range of ``dtype``."""
    result = rounded if zero_point is None else rounded + zero_point
    bounds = np.iinfo(dtype)
    return jnp.clip(result, bounds.min, bounds.max).astype(dtype)


def _mantissas_and_shift(scales: Scales) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Write ``a_scale * b_scale / output_scale`` as ``ma * mb / mo * 2**(-1 - shift)`` in int32, ``mo`` positive."""
    (a_negative, ma, ea), (b_negative, mb, eb), (o_negative, mo, eo) = map(decompose, scales)
    ma, mb, mo = (mantissa.astype(jnp.int32) for mantissa in (ma, mb, mo))
    ma, mb = jnp.where(a_negative ^ o_negative, -ma, ma), jnp.where(b_negative, -mb, mb)
    return ma, mb, mo, (eo - ea - 1) - eb


def _residual(
    low: jax.Array,
    high: jax.Array | None,
    bias: jax.Array | None,
    ma: jax.Array,
    mb: jax.Array,
    mo: jax.Array,
    shift: jax.Array,
    lower: jax.Array,
) -> jax.Array:
    """Return an int32 that is negative exactly where the quotient rounds up from ``lower``.

    The quotient must be within a few tolerances of ``lower + 1/2``. The result is the upper 32 bits of -D, after 1 is
    subtracted from -D where a tie would round up. With N below 2**31, N * ma * mb is below 2**79. D is below 2**-17
    times that, so below 2**62. With a bias N is below 2**32, and D below 2**63.

    With N below 2**47, D is below 2**78. But a quotient that does not saturate is below 2**10, so D is also below
    2**(18 + shift). Therefore, from a shift of 45 on, both terms are divided by 2**16. The second term is a multiple of
    2**16. The first one may have a remainder, which is dropped. If that is not 0, a D of 0 is not a tie: the quotient
    rounds up.
    """
    with jax.enable_x64(True):
        ma, mb, mo = (mantissa.astype(jnp.int64) for mantissa in (ma, mb, mo))
        tie_goes_up = lower & 1
        if high is None:
            total = low.astype(jnp.int64)
            numerator = (total if bias is None else total + bias.astype(jnp.int64)) * ma * mb
        else:
            # N * ma is upper * 2**16 + rest; each part is then multiplied by mb.
            of_low = low.astype(jnp.int64) * ma
            upper = (high.astype(jnp.int64) * ma + (of_low >> _HALF_WORD)) * mb
            rest = (of_low & 0xFFFF) * mb
            in_half_words = shift >= _DEEP_SHIFT
            numerator = jnp.where(in_half_words, upper + (rest >> _HALF_WORD), (upper << _HALF_WORD) + rest)
            shift = jnp.where(in_half_words, shift - _HALF_WORD, shift)
            tie_goes_up |= (in_half_words & (rest & 0xFFFF != 0)).astype(jnp.int32)
        midpoint = (2 * lower + 1).astype(jnp.int64) * mo << shift.astype(jnp.int64)
        return (midpoint - numerator - tie_goes_up.astype(jnp.int64) >> 32).astype(jnp.int32)

"""Multiply int32 accumulators by a real multiplier and round, in 32-bit words; report which results are doubtful.

Write the multiplier m, in units of ``2**-30``, as ``integer + fraction``. ``integer`` is one, and ``fraction``
is a float32 of at most about 1/2 in magnitude. A float32 estimate of ``acc * m`` gives an integer F with
``-1/4 <= acc * m - F <= 3/4``, up to an error of 2**-8. The product rounds up from F if this is positive:

    (acc * m - F - 1/2) * 2**30 = D + acc * fraction    with    D = acc * integer - (F << 30) - (1 << 29)

The left side is at most 2**30 in magnitude and ``acc * fraction`` about as much, so D fits int32. int32 arithmetic
wraps around and gives D exactly, although its terms do not fit. The float32 term adds an error of at most
``tolerance``. If the sum is closer to 0 than that, the result is doubtful, and the caller has to decide it in another
way.

If the fraction is 0, D is all of the sum and no result is doubtful. Such multipliers are the multiples of ``2**-30``,
powers of two among them. True ties are frequent only for these. A tie rounds up if F is odd, so ``F & 1`` is added to
D. For other multipliers this changes the sum by at most 1, which the tolerance includes.

The tolerance assumes only that a float32 operation or conversion has a relative error of at most 2**-23, not that it
is correctly rounded. Three such errors act on ``acc * fraction``, or on a D that nearly cancels it; both are at most
``limit / 2`` in magnitude. ``fraction`` itself has an error of at most 3 * 2**-23, which is multiplied by at most
``limit``. These errors together are below ``limit * 2**-20``. The added ``F & 1``, and the error of the last sum, which
is close to 0, are less than 2 units.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.float_parts import decompose, lower_and_half, power_of_two
from jaxdml._arithmetic.residuals import Scales

_UNIT_BITS = 30
"""``integer`` and ``fraction`` are in units of ``2**-30``: with these, D fits int32."""

_SATURATED = 300.0
"""A quotient beyond 256 in magnitude saturates with every zero point; the rest is room for rounding errors."""

_DIGIT = 16
"""The bits of a digit of the long division after the first one."""


class Multiplier(NamedTuple):
    """Hold real numbers ``(integer + fraction) * 2**-30`` and bounds that follow from them, all of one shape."""

    estimate: jax.Array
    """float32, within a relative 2**-20 of the multiplier."""
    integer: jax.Array
    """int32, modulo 2**32."""
    fraction: jax.Array
    """float32, within 3 * 2**-23 of the exact fraction, and 0 where that is 0."""
    limit: jax.Array
    """int32: every accumulator of greater magnitude saturates."""
    tolerance: jax.Array
    """float32, in units of ``2**-30``; negative where nothing is doubtful."""


def multiplier_of(scales: Scales) -> Multiplier:
    """Return ``a_scale * b_scale / output_scale``."""
    (a_negative, ma, ea), (b_negative, mb, eb), (o_negative, mo, eo) = map(decompose, scales)
    return _multiplier(a_negative ^ b_negative ^ o_negative, ma, mb, mo, ea + eb - eo)


def _multiplier(negative: jax.Array, ma: jax.Array, mb: jax.Array, mo: jax.Array, exponent: jax.Array) -> Multiplier:
    """Return ``ma * mb / mo * 2**exponent``, negated where ``negative``.

    A multiplier of 256 or more saturates every accumulator but 0, so the result may be any number of 256 or more. A
    multiplier below 2**-50 rounds every accumulator to 0, so the result may be any number below 2**-30.

    Args:
      negative: bool, the sign.
      ma: uint32 of 24 bits, the top one set; ``mb`` and ``mo`` alike.
      mb: uint32.
      mo: uint32.
      exponent: int32.
    """
    fa, fb, fo = (m.astype(jnp.float32) for m in (ma, mb, mo))
    ratio = fa * (fb / fo)
    # Long division. The quotients are float32 estimates, which may be off; the remainders are exact because they fit
    # int32. ma * mb / mo = high + (low + last / mo) * 2**-16.
    divisor = mo.astype(jnp.int32)
    first = ratio.astype(jnp.int32)
    rest = lax.bitcast_convert_type(ma * mb, jnp.int32) - first * divisor
    second = (rest.astype(jnp.float32) * 2.0**_DIGIT / fo).astype(jnp.int32)
    last = (rest << _DIGIT) - second * divisor
    high, low = first + (second >> _DIGIT), second & ((1 << _DIGIT) - 1)
    # In units of 2**-30 the lowest bit of ``low`` is worth 2**-down.
    down = jnp.clip(-(exponent + _UNIT_BITS - _DIGIT), 0, 60)
    from_low, from_high = jnp.minimum(down, _DIGIT), jnp.clip(down - _DIGIT, 0, 31)
    integer = jnp.where(down <= _DIGIT, (high << (_DIGIT - from_low)) + (low >> from_low), high >> from_high)
    high_left, low_left = high & ((1 << from_high) - 1), low & ((1 << from_low) - 1)
    exact = (last == 0) & (high_left == 0) & (low_left == 0)
    left = high_left.astype(jnp.float32) * 2.0**_DIGIT + (low_left.astype(jnp.float32) + last.astype(jnp.float32) / fo)
    fraction = left * power_of_two(-down)
    upper = fraction > 0.5
    integer, fraction = integer + upper.astype(jnp.int32), jnp.where(upper, fraction - 1.0, fraction)

    estimate = ratio * power_of_two(-down - (_UNIT_BITS - _DIGIT))
    saturating = _SATURATED / estimate
    greatest = 2.0**30
    limit = jnp.where(
        saturating < greatest, jnp.minimum(saturating, greatest).astype(jnp.int32) + 1, jnp.int32(2**31 - 1)
    )
    tolerance = jnp.where(exact, -1.0, 2.0 + limit.astype(jnp.float32) * 2.0**-20)
    sign = jnp.where(negative, jnp.float32(-1), jnp.float32(1))
    return Multiplier(estimate * sign, jnp.where(negative, -integer, integer), fraction * sign, limit, tolerance)


def rounded_products(accumulator: jax.Array, by: Multiplier) -> tuple[jax.Array, jax.Array]:
    """Return the int32 products, rounded with ties to even unless they saturate, and a mask of the doubtful ones."""
    accumulator = jnp.clip(accumulator, -by.limit, by.limit)
    lower, _ = lower_and_half(accumulator.astype(jnp.float32) * by.estimate)
    past = _past_half(accumulator, lower, by)
    return lower + (past > 0).astype(jnp.int32), jnp.abs(past) <= by.tolerance


def _past_half(accumulator: jax.Array, lower: jax.Array, by: Multiplier) -> jax.Array:
    """Return how far the product is past ``lower + 1/2``, in units of ``2**-30``; 1 more if ``lower`` is odd."""
    integer = accumulator * by.integer - (lower << _UNIT_BITS) + (lower & 1) - (1 << (_UNIT_BITS - 1))
    return integer.astype(jnp.float32) + accumulator.astype(jnp.float32) * by.fraction


def may_be_doubtful(by: Multiplier) -> jax.Array:
    """Tell whether any accumulator at all could be doubtful: one answer for all multipliers in ``by``.

    Doubtful products lie near a half, an integer plus 1/2, and at most 512 halves are within range. If the multiplier
    is at least 4 tolerances, only the two accumulators next to each half can be doubtful. Dividing the half by the
    multiplier in float32 gives an accumulator near the exact quotient, and ``_past_half`` tells how far its product
    misses the half. Dividing that miss by the multiplier corrects the accumulator. It is then within 0.76 of the exact
    quotient: 1/2 by rounding and 1/4 by the tolerance. So both neighbours are among the three accumulators that are
    tested. A multiplier above 1/8 needs no correction: the truncated quotient is itself a neighbour, and the miss might
    not fit int32. If a multiplier is less than 4 tolerances, the answer is yes.
    """
    whole_multiplier = jnp.abs(by.estimate) * 2.0**_UNIT_BITS
    crowded = whole_multiplier < 4 * by.tolerance
    by = Multiplier(*(part.reshape(-1, 1, 1) for part in by))
    lower = jnp.arange(-256, 256, dtype=jnp.int32).reshape(1, -1, 1)
    reach = by.limit.astype(jnp.float32)
    start = jnp.clip((lower.astype(jnp.float32) + 0.5) / by.estimate, -reach, reach)
    start = jnp.clip(start, -(2.0**30), 2.0**30).astype(jnp.int32)
    miss = _past_half(start, lower, by) / (by.estimate * 2.0**_UNIT_BITS)
    flat = jnp.abs(by.estimate) <= 0.125
    step = jnp.where(flat, jnp.clip(miss, -(2.0**24), 2.0**24), 0.0)
    nearest = start - jnp.round(step).astype(jnp.int32)
    past = _past_half(nearest + jnp.arange(-1, 2, dtype=jnp.int32).reshape(1, 1, -1), lower, by)
    return jnp.any(crowded) | jnp.any(jnp.abs(past) <= by.tolerance)

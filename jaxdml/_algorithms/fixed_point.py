"""Multiply int32 accumulators by a real multiplier and round, in 32-bit words, and say where that decides nothing.

Write the multiplier m, in units of ``2**-30``, as ``whole + fraction`` with an exact integer and a float32 of at most
about a half. Let F be an integer with ``-1/4 <= acc * m - F <= 3/4``, give or take 2**-8: a float32 estimate gives
one. Whether to round up from F is the sign of

    (acc * m - F - 1/2) * 2**30 = D + acc * fraction    with    D = acc * whole - (F << 30) - (1 << 29).

The left side is within 2**30 and ``acc * fraction`` about as much, so D fits int32, and int32 arithmetic, which wraps
around, gives it exactly although its terms do not fit. What float32 then adds is wrong by at most ``tolerance``.
Where the sum is nearer to 0 than that, it is doubtful, and whoever asks has to decide by other means.

A multiplier without a fraction leaves no doubt: D is the whole answer. Those are the powers of two and all others
that ``2**-30`` divides, so this is where true ties abound. A tie goes up where F is odd, which adding
``F & 1`` to D decides. For other multipliers this moves the sum by 1, which the tolerance includes.

The tolerance supposes no more than that a float32 operation or conversion is within 2**-23 of its result, not that it
is correctly rounded. Three such errors act on ``acc * fraction``, or on a D that all but cancels it, together on at
most ``limit / 2``; ``fraction`` is wrong by 3 * 2**-23, which ``limit`` multiplies. Both are less than
``limit * 2**-20``, and the tie and the last sum, which is next to 0, are less than 2 units.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

_UNIT_BITS = 30
_SATURATED = 300.0
"""Beyond 256 in magnitude no zero point brings a quotient back into 8 bits; this leaves room for its rounding."""

_HALVES = 2**22 + 2**21
"""A float32 sum with it is rounded to a multiple of a half: the last bit of a number from 2**22 to 2**23."""

_HALVES_BITS = 0x4AC00000
"""The bits of ``float32(_HALVES)``."""

_DIGIT = 16


class Multiplier(NamedTuple):
    """``(whole + fraction) * 2**-30``, and what goes with it. All parts have one shape."""

    estimate: jax.Array
    """float32, within 2**-20 of it."""
    whole: jax.Array
    """int32, modulo 2**32."""
    fraction: jax.Array
    """float32, within 3 * 2**-23 of the exact one, and 0 where that is 0."""
    limit: jax.Array
    """int32: an accumulator of at least this magnitude saturates."""
    tolerance: jax.Array
    """float32, in units of ``2**-30``; below 0 where nothing is doubtful."""


def multiplier(negative: jax.Array, ma: jax.Array, mb: jax.Array, mo: jax.Array, exponent: jax.Array) -> Multiplier:
    """Write ``ma * mb / mo * 2**exponent`` as a multiplier, with its sign.

    Multipliers from 256 on, which saturate whatever is not 0, come out as some other from 256 on, and those below
    2**-50, which round everything to 0, as some other below 2**-30.

    Args:
      negative: where it is below 0.
      ma: uint32 of 24 bits, the top one set; as ``mb`` and ``mo``.
      mb: uint32.
      mo: uint32.
      exponent: int32.
    """
    fa, fb, fo = (m.astype(jnp.float32) for m in (ma, mb, mo))
    ratio = fa * (fb / fo)
    # Long division with quotients estimated in float32, which may be off, and remainders that are exact because they
    # fit int32: ma * mb / mo = high + (low + last / mo) * 2**-16.
    divisor = mo.astype(jnp.int32)
    first = ratio.astype(jnp.int32)
    rest = lax.bitcast_convert_type(ma * mb, jnp.int32) - first * divisor
    second = (rest.astype(jnp.float32) * 2.0**_DIGIT / fo).astype(jnp.int32)
    last = (rest << _DIGIT) - second * divisor
    high, low = first + (second >> _DIGIT), second & ((1 << _DIGIT) - 1)
    # In units of 2**-30 the lowest bit of low is 2**-down.
    down = jnp.clip(-(exponent + _UNIT_BITS - _DIGIT), 0, 60)
    from_low, from_high = jnp.minimum(down, _DIGIT), jnp.clip(down - _DIGIT, 0, 31)
    whole = jnp.where(down <= _DIGIT, (high << (_DIGIT - from_low)) + (low >> from_low), high >> from_high)
    high_left, low_left = high & ((1 << from_high) - 1), low & ((1 << from_low) - 1)
    exact = (last == 0) & (high_left == 0) & (low_left == 0)
    left = high_left.astype(jnp.float32) * 2.0**_DIGIT + (low_left.astype(jnp.float32) + last.astype(jnp.float32) / fo)
    fraction = left * power_of_two(-down)
    upper = fraction > 0.5
    whole, fraction = whole + upper.astype(jnp.int32), jnp.where(upper, fraction - 1.0, fraction)

    estimate = ratio * power_of_two(-down - (_UNIT_BITS - _DIGIT))
    saturating = _SATURATED / estimate
    greatest = 2.0**30
    limit = jnp.where(
        saturating < greatest, jnp.minimum(saturating, greatest).astype(jnp.int32) + 1, jnp.int32(2**31 - 1)
    )
    tolerance = jnp.where(exact, -1.0, 2.0 + limit.astype(jnp.float32) * 2.0**-20)
    sign = jnp.where(negative, jnp.float32(-1), jnp.float32(1))
    return Multiplier(estimate * sign, jnp.where(negative, -whole, whole), fraction * sign, limit, tolerance)


def power_of_two(exponent: jax.Array) -> jax.Array:
    """Return ``2.0**exponent`` as float32, for exponents of normal numbers."""
    return times_power_of_two(jnp.float32(1), exponent)


def times_power_of_two(x: jax.Array, exponent: jax.Array) -> jax.Array:
    """Return ``x * 2.0**exponent``. ``x``, of either sign, and the result must be normal float32 numbers."""
    return lax.bitcast_convert_type(lax.bitcast_convert_type(x, jnp.int32) + (exponent << 23), jnp.float32)


def rounded_products(accumulator: jax.Array, by: Multiplier) -> tuple[jax.Array, jax.Array]:
    """Return the int32 products, rounded with ties to even unless they saturate, and where that is doubtful."""
    accumulator = jnp.clip(accumulator, -by.limit, by.limit)
    lower, _ = lower_and_half(accumulator.astype(jnp.float32) * by.estimate)
    past = _past_half(accumulator, lower, by)
    return lower + (past > 0).astype(jnp.int32), jnp.abs(past) <= by.tolerance


def lower_and_half(estimate: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return an int32 that a float32, below 2**21 in magnitude, exceeds by -1/4 to 3/4; and it plus 1/2, in float32.

    Of a float32 of a greater magnitude the int32 may be wrong, but it has the same sign and at least 2**20.

    That takes sums and no conversion: those of XLA clamp, and are slow on GPUs. Contraction of a sum with a product
    into one operation is welcome.
    """
    bits = lax.bitcast_convert_type(estimate + float(_HALVES), jnp.int32)
    return (bits >> 1) - (_HALVES_BITS >> 1), lax.bitcast_convert_type(bits | 1, jnp.float32) - float(_HALVES)


def _past_half(accumulator: jax.Array, lower: jax.Array, by: Multiplier) -> jax.Array:
    whole = accumulator * by.whole - (lower << _UNIT_BITS) + (lower & 1) - (1 << (_UNIT_BITS - 1))
    return whole.astype(jnp.float32) + accumulator.astype(jnp.float32) * by.fraction


def may_be_doubtful(by: Multiplier) -> jax.Array:
    """Tell whether any accumulator at all can be doubtful: one answer for all of ``by``.

    Where the multiplier is at least 4 tolerances, only the accumulators on both sides of a half can, for 512 halves
    within reach. A division in float32 leads near a half, and how far it misses, divided by the multiplier, to within
    0.76 of it: half an accumulator by rounding, a quarter by the tolerance. So both are among the three looked at.
    Above 1/8 the division alone does that, and its misses would not fit int32. Where the multiplier is less than 4
    tolerances, the answer is yes.
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

"""Find float32 factors whose chain of products is proved to round every sum correctly.

``float32(sum) * first * second`` never decreases as the sum grows, and nor does its rounding. So it is right for every
sum if it is on both sides of each half, an integer plus 1/2, and for the least and the greatest sum. Only sums whose
product is within a relative ``_NEAR`` of a half can be wrong. Whether one is depends on the last bits of the factors as
if by chance, and mostly there are few. So other factors of the same product are tried until all are right. A small
multiplier has many; but the sums of a filter that is nearly zero may reach no half at all. Shifted sums have fewer that
are so near, since results near 0 keep more bits: 255 has 16 bits after the point, 15 has 20.

The addition that rounds may add an offset, too. An odd zero point turns ties: 1/2 and 3 are 7/2, which is rounded to 4,
and 4 - 3 is not 0. So it adds no odd one where some sum is a tie. Other products may be halves only because float32
rounds them, and factors are proved for the way in which these are rounded then.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from jaxdml._arithmetic.float_parts import MANTISSA_BITS
from jaxdml._kernels.requantization.proofs import HALVES

_NEAR = 1.01 * 2.0**-22
"""Four roundings to float32 have a smaller relative error: of the sum, of the second factor and of two products."""

_LEAST, _MOST_HALVES = 2.0**-13, 2**4
"""For a smaller multiplier, whose products reach more halves, no factors are sought but for shifted sums."""

_BITS, _TRIALS, _FEW_TRIALS = 10, 2**17, 2**6
"""First factors of up to so many bits are tried, since the product of a sum with one is mostly exact, then others. So
many are tried, or so few where sums may be shifted."""

_LEAST_AT_ONCE, _AT_ONCE = 2**3, 2**8
"""How many are tried at once, at the beginning and later."""

_NEIGHBOURS = 4
"""How many sums are tried at a half."""

_LEAST_AROUND_THE_MIDDLE, _AROUND, _MIDDLES, _TRIALS_AROUND_THE_MIDDLE = 2.0**-14, 48, 24, 2**12
"""For a smaller multiplier sums are not shifted either. By how much the middle of results may differ from that of their
limits; how many middles are tried, and so many first factors with each."""

_HELD, _SATURATING = 2**24, 2.0**-14
"""float32 holds every integer up to the first. From the second multiplier on three quarters of that saturate, whatever
the zero point is."""

_MOST_BITS = 4
"""How many bits after the point a shift has at most."""


class Found(NamedTuple):
    """Hold what rounds sums, one number for each multiplier."""

    first: np.ndarray
    second: np.ndarray
    subtracted: np.ndarray
    """float32 or int32, from the sums."""
    middle: np.ndarray
    """The integer that is added to what is rounded."""
    at_once: bool
    """Whether the addition of that and the zero point is to round. The factors are proved for that order only."""


def factors(
    multipliers: np.ndarray, greatest: Any, reach: int, odd: bool
) -> tuple[np.ndarray, np.ndarray, bool] | None:
    """Return two float32 factors of each multiplier that round every sum correctly, or None if none are found.

    Return also whether the addition of the offset is to round. They are proved for that order only.

    Args:
      multipliers: float64 ``[N]``, which round every sum correctly.
      greatest: no sum is greater in magnitude.
      reach: results beyond this magnitude saturate, at most 255.
      odd: whether the offset is odd.
    """
    for at_once in _ways(odd and _have_ties(np.abs(multipliers), greatest, reach).any()):
        first, second, left = _factors(multipliers, 0, greatest, reach, odd and at_once, _TRIALS)
        if not left.size:
            return first, second, at_once
    return None


def _ways(turns: Any) -> tuple[bool, ...]:
    """Return the values of ``at_once`` to try, in order: only False if one addition ``turns`` ties."""
    return (False,) if turns else (True, False)


def shifted_factors(
    multipliers: np.ndarray, ends: tuple[Any, Any], limits: tuple[int, int], subtracted: np.ndarray, stored: int
) -> Found | None:
    """Return two factors of each multiplier, and how to shift the sums for them, or None if none are found.

    Args:
      multipliers: float64 ``[N]``, which round every sum correctly.
      ends: the least and the greatest sum, int64 that broadcast.
      limits: the least and the greatest result before the zero point is added: others saturate.
      subtracted: int64 ``[N]``, what leads from the sums that are stored to those.
      stored: no sum that is stored is greater in magnitude.
    """
    low, high = (np.broadcast_to(end, multipliers.shape) for end in ends)
    # A filter that is nearly zero has one result, which its bias decides. In its units a bias may be large.
    results = [np.clip(np.rint(end * multipliers), *limits) for end in (low, high)]
    varies = results[0] != results[1]
    sizes, most = np.abs(multipliers[varies]), np.abs(subtracted[varies]).max(initial=0)
    # Sums that float32 does not hold may saturate, whatever they are rounded to.
    saturate = most <= _HELD // 4 and sizes.min(initial=1) >= _SATURATING
    in_float32 = bool(most <= _HELD and (stored <= _HELD or saturate))
    least, greatest = (each[varies] for each in (np.maximum(np.maximum(low, -high), 0), np.maximum(-low, high)))
    reach = max(map(abs, limits))
    if _are_hopeless(sizes, least, greatest, reach, _LEAST_AROUND_THE_MIDDLE).any():
        return None
    turns = limits[0] % 2 == 1 and _have_ties(sizes, np.maximum(np.abs(low), np.abs(high))[varies], reach).any()

    def found(at_once: bool) -> Found | None:
        odd = at_once and limits[0] % 2 == 1
        first, second = (np.zeros(multipliers.size, np.float32) for _ in range(2))
        shifted, middle = np.where(varies, subtracted, 0).astype(np.float64), np.where(varies, 0, results[0])
        first[varies], second[varies], left = _factors(multipliers[varies], least, greatest, reach, odd, _FEW_TRIALS)
        # The smallest first: if one has no factors, the others need none.
        for at in np.flatnonzero(varies)[left[np.argsort(sizes[left])]]:
            held = abs(shifted[at]) if in_float32 else None
            one = _around_the_middle(multipliers[at].item(), (low[at], high[at]), limits, held, at_once)
            if one is None:
                some, end = slice(at, at + 1), max(abs(low[at]), abs(high[at]))
                first[some], second[some], none = _factors(multipliers[some], 0, end, reach, odd, _TRIALS)
                if none.size:
                    return None
            else:
                first[at], second[at], shift, middle[at] = one
                shifted[at] += shift
        return Found(first, second, shifted.astype(np.float32 if in_float32 else np.int32), middle, at_once)

    return next((by for by in map(found, _ways(turns)) if by), None)


def _have_ties(sizes: np.ndarray, greatest: Any, reach: int) -> Any:
    """Say which multipliers have a sum up to ``greatest`` whose product is an integer plus 1/2, which float64 holds."""
    halves = HALVES[: reach + 1]
    sums = np.rint(halves / sizes[:, None])
    return ((sums * sizes[:, None] == halves) & (sums <= np.asarray(greatest)[..., None])).any(-1)


def _factors(
    multipliers: np.ndarray, least: Any, greatest: Any, reach: int, odd: bool, trials: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return two factors of each multiplier, and the places of those for which none are found.

    They are proved for an addition that rounds and adds an ``odd`` offset, or an even one.
    """
    sizes = np.abs(multipliers)
    halves = HALVES[: reach + 1]
    sums, nearest = _decisive(sizes, least, greatest, halves)
    unit = np.exp2(np.floor(np.log2(sizes)))
    first, second = sizes.astype(np.float32), np.ones(sizes.size, np.float32)
    hopeless = _are_hopeless(sizes, least, greatest, reach, _LEAST)
    left = np.flatnonzero(~hopeless)
    for tried in _candidates(trials):
        if not left.size:
            break
        trial = (unit[left, None] * tried).astype(np.float32)
        other = (sizes[left, None] / trial).astype(np.float32)
        once = sums[left, None].astype(np.float32) * trial[..., None]
        right = _are_right(once, other, nearest[left, None], odd, (0, reach + 1))
        found, which = right.any(-1), right.argmax(-1)
        first[left[found]], second[left[found]] = (x[found, which[found]] for x in (trial, other))
        left = left[~found]
    signed = np.copysign(first, multipliers).astype(np.float32)
    return signed, second, np.sort(np.concatenate([left, np.flatnonzero(hopeless)]))


def _are_right(
    once: np.ndarray, second: np.ndarray, wanted: np.ndarray, odd: Any, limits: tuple[Any, Any]
) -> np.ndarray:
    """Say which second factors are right for all numbers along the last dimension of ``once``.

    A device may round the last product to float32, or not, since an addition that rounds it may be one operation with
    it. Both must be right, with an ``odd`` offset in that addition, or an even one. Results are clamped to ``limits``.
    """

    def results(products: np.ndarray, offset: Any, low: Any, high: Any) -> np.ndarray:
        whole: np.ndarray = np.rint(products + offset if np.any(offset) else products) - offset
        return np.clip(whole, low, high)

    given = odd, *limits
    right: np.ndarray = (results((once * second[..., None]).astype(np.float64), *given) == wanted).all(-1)
    products = once[right].astype(np.float64) * second[right][:, None]
    some = [np.broadcast_to(x, once.shape)[right] for x in (wanted, *given)]
    right[right] = (results(products, *some[1:]) == some[0]).all(-1)
    return right


def _are_hopeless(sizes: np.ndarray, least: Any, greatest: Any, reach: int, bound: float) -> Any:
    """Say which multipliers hardly any factors serve: they are below the bound, and products reach many halves."""
    return (sizes < bound) & (np.clip((greatest - least) * sizes, 0, reach) > _MOST_HALVES)


def _candidates(trials: int) -> Iterator[np.ndarray]:
    """Return so many first factors in units of a power of two, first few at once, since mostly one of those serves."""
    of_bits = (1 + np.arange(1, 1 << bits, 2) / (1 << bits) for bits in range(1, _BITS + 1))
    few = np.concatenate([np.ones(1), *of_bits])
    random, at_once, given = np.random.default_rng(0), _LEAST_AT_ONCE, 0
    while given < trials:
        drawn = random.uniform(1, 2, at_once)
        yield few[given : given + at_once] if given < few.size else drawn
        given, at_once = given + at_once, min(2 * at_once, _AT_ONCE)


def _decisive(sizes: np.ndarray, least: Any, greatest: Any, halves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each multiplier the sums that may be rounded wrongly, and what their products are rounded to.

    These are neighbours of halves, and the least and the greatest sum. 0 stands for those that others have more.
    """
    low, high = (np.broadcast_to(np.asarray(end, np.float64)[..., None], (sizes.size, 1)) for end in (least, greatest))
    sums = np.concatenate([*_beside(halves, sizes[:, None]), low, high], -1)
    between = np.concatenate([*[halves] * _NEIGHBOURS, [0.0, 0.0]])
    near = (np.abs(sums * sizes[:, None] - between) <= _NEAR * between) & (sums >= low) & (sums <= high)
    near[:, -2:] = True
    count = int(near.sum(-1).max(initial=0))
    order = np.argsort(~near, -1, kind="stable")[:, :count]
    kept = np.where(np.take_along_axis(near, order, -1), np.take_along_axis(sums, order, -1), 0)
    return kept, np.minimum(np.rint(kept * sizes[:, None]), halves[-1] + 0.5)


def _beside(halves: np.ndarray, sizes: Any) -> list[np.ndarray]:
    """Return the sums on both sides of each half. The quotient may be rounded to an integer, and there is one more."""
    below = np.floor(halves / sizes)
    return [below + place for place in range(-1, _NEIGHBOURS - 1)]


def _around_the_middle(
    multiplier: float, ends: tuple[int, int], limits: tuple[int, int], subtracted: int | None, at_once: bool
) -> tuple[np.float32, np.float32, float, float] | None:
    """Return two factors, a shift and a middle, or None if none are found.

    float32 is the finest around 0. So results are computed less an integer in the middle between their limits, and sums
    less what has this product. That should be an integer, or a multiple of a small power of two: the middle is one of
    those for which it is, nearly.

    Args:
      multiplier: which rounds every sum correctly.
      ends: the least and the greatest sum.
      limits: the least and the greatest result; others saturate.
      subtracted: the magnitude of what is subtracted from sums in float32, or None if it is an int32.
      at_once: whether the addition of the offset rounds.
    """
    # A negative multiplier, which no model has, is not served.
    centre = sum(limits) / 2
    greatest = (abs(centre) + _AROUND) / multiplier + (subtracted or 0)
    too_great = greatest > 1 << MANTISSA_BITS or max(map(abs, ends)) + greatest >= 1 << 31
    if multiplier < _LEAST_AROUND_THE_MIDDLE or too_great:
        return None
    middle = np.ceil(centre - _AROUND) + np.arange(2 * _AROUND)
    unit = 1.0 if subtracted is None else 2.0 ** -min(_MOST_BITS, MANTISSA_BITS - math.ceil(math.log2(greatest)))
    shift = np.rint(middle / multiplier / unit) * unit
    error = np.abs(shift * multiplier - middle)
    order = np.argsort(error, kind="stable")[:_MIDDLES]
    halves = np.arange(*limits) + 0.5
    sums, between = np.concatenate(_beside(halves, multiplier)), np.tile(halves, _NEIGHBOURS)
    most = _NEAR * (np.abs(between - centre) + _AROUND) + error[order].max()
    near = (np.abs(sums * multiplier - between) <= most) & (sums >= ends[0]) & (sums <= ends[1])
    sums = np.concatenate([sums[near], ends])
    wanted = np.clip(np.rint(sums * multiplier), *limits)
    power = 2.0 ** np.floor(np.log2(multiplier))
    moved = middle[order, None, None]
    odd = (limits[0] + moved) % 2 if at_once else np.zeros(1)
    for tried in _candidates(_TRIALS_AROUND_THE_MIDDLE):
        first = (power * tried).astype(np.float32)
        second = np.broadcast_to((multiplier / first).astype(np.float32), (order.size, first.size))
        once = (sums - shift[order, None, None]).astype(np.float32) * first[:, None]
        right = _are_right(once, second, wanted - moved, odd, (limits[0] - moved, limits[1] - moved))
        if right.any():
            place, which = np.argwhere(right)[0]
            return first[which], second[place, which], shift[order[place]], middle[order[place]]
    return None

"""Prove on the host, of scales that are known beforehand, that one float64 product rounds every accumulator correctly.

``float64(acc) * m`` with m near ``a_scale * b_scale / output_scale`` never decreases as acc grows, and nor does its
rounding. So every accumulator is rounded correctly if those on both sides of each half, an integer plus 1/2, are.
Halves beyond 256 do not matter, since results saturate there. What rounds to negative numbers mirrors the rest, so 256
halves are left for each multiplier.

Write the scales as integers ma, mb, mo of 24 bits times powers of two. Then the half ``k + 1/2`` is reached at an
accumulator of ``(2 * k + 1) * mo * 2**s / (ma * mb)``. The remainder of that division tells exactly how far the two
accumulators next to it are from the half. If the remainder is 0, the accumulator itself is a tie, and its product must
be the half in float64 too.

``m`` is stored as the sum of two float32 numbers (``float64_rounding`` says why). It has a relative error of less than
2**-48, and the product one of 2**-53. A product of up to 256 is thus wrong by less than ``2**-39``; a distance of
``MARGIN`` suffices.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import jax
import numpy as np

from jaxdml._arithmetic.signedness import stored_zero
from jaxdml._kernels.requantization.digit_products import enough
from jaxdml._kernels.requantization.float32_pair import Pair, proved_pair

MARGIN = 2.0**-39
"""How far products of accumulators must be from a half for float64 to be on the same side."""

CLEAR = 2.0**-31
"""Sums that are at least this far from a half need two limbs of integers."""

HALVES = np.arange(256) + 0.5

STEP = 2.0**-40
"""Sums of up to 2**11 in magnitude, some of which are halves, are rounded to multiples of this first."""

_LEAST, _GREATEST = 2.0**-80, 2.0**80
"""Between these, the upper part of a multiplier is a normal number. The lower one is, wherever a sum reaches a half."""

_DIGIT = 14
"""So many bits more than those of ``ma * mb`` fit int64."""


@partial(jax.tree_util.register_dataclass, data_fields=["high", "low", "chain"], meta_fields=["fits", "digits"])
@dataclass(frozen=True, eq=False)
class Multiplier:
    """Hold ``a_scale * b_scale / output_scale``, which is proved to round sums correctly; a pytree of operands.

    Attributes:
      high: float32 that broadcasts against the sums.
      low: float32 of the same shape; in float64 ``high + low`` is the multiplier.
      fits: whether the product of every int32 and the multiplier fits int32. Static.
      digits: how many suffice for ``round_digits``, or 0 if that is not proved. Static.
      chain: what ``round_chain`` takes, a ``Chain`` that was made when weights were packed, or ``()``.
    """

    high: Any
    low: Any
    fits: bool
    digits: int
    chain: Any = ()


def proved(scales: Sequence[np.ndarray], greatest: int, count: np.ndarray | int = 1) -> Multiplier | None:
    """Return the multiplier of sums up to ``greatest`` in magnitude, or None if some sum might be rounded wrongly.

    Args:
      scales: of ``a``, of ``b`` and of the output: float32 that broadcast against each other and against the sums.
      greatest: no sum is greater than this in magnitude.
      count: what sums are divided by too, from 1 to 2**16; it broadcasts against the scales.
    """
    shape = np.broadcast_shapes(*(scale.shape for scale in scales), np.shape(count))
    if greatest >= 2**31 or math.prod(shape) > _MOST_MULTIPLIERS or np.max(count, initial=1) > 2**16:
        return None
    return _proved_of(
        tuple((scale.tobytes(), scale.shape) for scale in (*scales, np.asarray(count, np.int64))), greatest
    )


_MOST_MULTIPLIERS = 2**16
"""More are data: they are not proved."""


@lru_cache(2**10)
def _proved_of(scales: tuple[tuple[bytes, tuple[int, ...]], ...], greatest: int) -> Multiplier | None:
    *factors, count = (
        np.frombuffer(raw, dtype).reshape(shape)
        for (raw, shape), dtype in zip(scales, (*[np.float32] * 3, np.int64), strict=True)
    )
    if not all(np.isfinite(scale).all() and scale.all() for scale in factors):
        return None
    a, b, output, count = np.broadcast_arrays(*factors, count)
    quotients = a.astype(np.float64) * b / (output.astype(np.float64) * count)
    if not ((np.abs(quotients) > _LEAST) & (np.abs(quotients) < _GREATEST)).all():
        return None
    high = quotients.astype(np.float32)
    low = (quotients - high).astype(np.float32)
    multipliers = (high.astype(np.float64) + low).reshape(-1)
    size = np.abs(multipliers)[:, None]
    below = np.floor(HALVES / size)
    # float64 itself tells of nearly all accumulators that they are far from a half.
    distance = np.minimum(HALVES - below * size, (below + 1) * size - HALVES)
    unreached = (greatest + 2.0) * size < HALVES
    settled = (distance > 2 * MARGIN) | unreached
    left = np.flatnonzero(~settled.all(-1))
    a, b, output, count = (x.reshape(-1)[left] for x in (a, b, output, count))
    if not _proved(a, b, output, count, multipliers[left]):
        return None
    nearest = np.where(unreached, HALVES - greatest * size, distance).min(-1) - 2 * MARGIN
    digits = enough(high.reshape(-1), nearest, greatest)
    return Multiplier(high, low, bool(size.max(initial=0) < 1), digits)


def _proved(
    a_scale: np.ndarray, b_scale: np.ndarray, output_scale: np.ndarray, count: np.ndarray, multipliers: np.ndarray
) -> bool:
    """Tell from remainders whether all accumulators next to halves are rounded correctly."""
    (ma, ea), (mb, eb), (mo, eo) = map(_parts, (a_scale, b_scale, output_scale))
    divisor, shift = ma * mb, eo - ea - eb - 1
    # Below 0 every accumulator but 0 saturates, if the count does not make up for it; beyond 62 all are rounded to 0.
    rest, more = mo * count % divisor, np.clip(shift, 0, 62)
    while more.any():
        step = np.minimum(more, _DIGIT)
        rest, more = (rest << step) % divisor, more - step
    divisor, size = divisor[:, None], np.abs(multipliers)[:, None]
    remainder = rest[:, None] * (2 * HALVES).astype(np.int64) % divisor
    nearest = np.minimum(remainder, divisor - remainder) / divisor
    is_half = np.rint(HALVES / size) * size == HALVES
    right = np.where(remainder == 0, is_half, nearest * size > MARGIN)
    saturates = shift + np.ceil(np.log2(count)) < 0
    return bool((right & (shift >= 0)[:, None] | (saturates | (shift > 62))[:, None]).all())


def _parts(scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the magnitudes of float32 numbers as int64 of 24 bits, the top one set, times powers of two."""
    mantissa, exponent = np.frexp(np.abs(scale).astype(np.float64))
    return (mantissa * 2.0**24).astype(np.int64), exponent.astype(np.int64) - 24


@partial(
    jax.tree_util.register_dataclass, data_fields=["factors"], meta_fields=["with_halves", "fits", "clear", "pair"]
)
@dataclass(frozen=True, eq=False)
class Addends:
    """Hold two numbers that integers are multiplied by before they are added; ``proved_sum`` makes it.

    Attributes:
      factors: the bits of two float64 numbers, uint32 ``[2, 2]``.
      with_halves: whether some sums are halves. Static.
      fits: whether int32 holds all sums. Static.
      clear: whether all sums are below 2**10 in magnitude and are halves or further from one than ``CLEAR``. Static.
      pair: what does the same in float32, for integers as they are stored, or None. Static.
    """

    factors: Any
    with_halves: bool
    fits: bool
    clear: bool
    pair: Pair | None = None


def proved_sum(scales: Sequence[float], zero_points: Sequence[int], dtypes: Sequence[np.dtype[Any]]) -> Addends | None:
    """Return the scales of a and of b over the output's in float64, or None if some sum might be rounded wrongly.

    Each sum ``p * A + q * B`` must be a half, or further from one than its error in float64 and ``STEP``, to whose
    multiples ``round_sums`` rounds first. So what should be a half becomes one, also if a device contracts a product
    and the sum.

    Args:
      scales: of a, of b and of the output, float32 numbers.
      zero_points: of a and of b.
      dtypes: of a and of b, int8 or uint8.
    """
    return _proved_sum(tuple(map(float, scales)), tuple(map(int, zero_points)), tuple(map(np.dtype, dtypes)))


@lru_cache(2**10)
def _proved_sum(
    scales: tuple[float, ...], zero_points: tuple[int, ...], dtypes: tuple[np.dtype[Any], ...]
) -> Addends | None:
    if not all(math.isfinite(scale) and scale for scale in scales):
        return None
    p, q = (
        np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1) - zero
        for dtype, zero in zip(dtypes, zero_points, strict=True)
    )
    factors = np.asarray(scales[:2]) / scales[2]
    greatest = 255.0 * np.abs(factors).sum()
    total = p[:, None] * factors[0] + q * factors[1]
    distance = np.abs(total - np.floor(total) - 0.5)
    doubtful = np.argwhere((distance <= 4 * STEP + greatest * 2.0**-50) & (np.abs(total) <= 257))
    near = np.count_nonzero((distance <= CLEAR) & (np.abs(total) <= 257))
    clear = bool(greatest < 2.0**10 and near == len(doubtful))
    stored = [stored_zero(zero, dtype) for zero, dtype in zip(zero_points, dtypes, strict=True)]
    pair = proved_pair(factors, stored, np.rint(total / STEP) * STEP if doubtful.size else total, distance)
    addends = Addends(factors.view(np.uint32).reshape(2, 2), bool(doubtful.size), bool(greatest < 2.0**31), clear, pair)
    if not addends.with_halves:
        return addends
    first, second = (Fraction(scale) / Fraction(scales[2]) for scale in scales[:2])
    unit = math.lcm(first.denominator, second.denominator)
    exact = p[doubtful[:, 0]].astype(object) * int(first * unit) + q[doubtful[:, 1]].astype(object) * int(second * unit)
    are_halves = ((2 * exact - unit) % (2 * unit) == 0).all()
    no_error = unit & (unit - 1) == 0 and unit <= 1 / STEP and unit * greatest < 2**53
    return addends if are_halves and (no_error or greatest * 2.0**-51 < STEP / 2) else None

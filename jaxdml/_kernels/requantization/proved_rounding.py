"""Round accumulators with scales that are known beforehand, after a proof on the host that this is always right.

``float64(acc) * m`` with m near ``a_scale * b_scale / output_scale`` never decreases as acc grows, and nor does its
rounding. So every accumulator is rounded correctly if those on both sides of each half, an integer plus 1/2, are.
Halves beyond 256 do not matter, since results saturate there. What rounds to negative numbers mirrors the rest, so 256
halves are left for each multiplier.

Write the scales as integers ma, mb, mo of 24 bits times powers of two. Then the half ``k + 1/2`` is reached at an
accumulator of ``(2 * k + 1) * mo * 2**s / (ma * mb)``. The remainder of that division tells exactly how far the two
accumulators next to it are from the half. If the remainder is 0, the accumulator itself is a tie, and its product must
be the half in float64 too.

On a CPU a float64 product costs no more than to load the accumulator and to store the result, with one condition: the
loop must not load float64, since LLVM chooses the number of elements in a vector by the widest type that is loaded or
stored. So ``m`` is the sum of two float32 numbers. It has a relative error of less than 2**-48, and the product one of
2**-53. A product of up to 256 is thus wrong by less than ``2**-39``; a distance of ``MARGIN`` suffices.

float32 alone would leave doubts with most scales: among the 512 accumulators next to halves some are nearer than its
error. int32 words need two limbs, which are more operations. An H200 rounds this way in the time that it takes to read
and write; other GPUs may have slower float64. TPUs have one that is not IEEE 754's.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

MARGIN = 2.0**-39
"""How far products of accumulators must be from a half for float64 to be on the same side."""

_HALVES = np.arange(256) + 0.5

_TO_INTEGER = 1.5 * 2.0**52
"""Adding this to a float64 below 2**31 in magnitude rounds it, ties to even, and leaves it in the lower bits."""

_STEP = 2.0**-40
"""Sums of up to 2**11 in magnitude, some of which are halves, are rounded to multiples of this first."""

_LEAST, _GREATEST = 2.0**-80, 2.0**80
"""Between these, both parts of a multiplier are normal numbers."""

_DIGIT = 14
"""So many bits more than those of ``ma * mb`` fit int64."""


def proved_multipliers(a_scale: Any, b_scale: Any, output_scale: Any, greatest: int) -> np.ndarray | None:
    """Return ``a_scale * b_scale / output_scale``, or None if some accumulator might be rounded wrongly.

    Args:
      a_scale: float32, as the other scales; NumPy arrays that broadcast against each other.
      b_scale: that of b.
      output_scale: that of the result.
      greatest: no accumulator is greater than this in magnitude.

    Returns:
      float32 ``[2, n]``, whose sums in float64 are the n multipliers.
    """
    scales = [np.asarray(scale, np.float32).reshape(-1) for scale in (a_scale, b_scale, output_scale)]
    if greatest >= 2**31 or not all(np.isfinite(scale).all() and scale.all() for scale in scales):
        return None
    quotients = scales[0].astype(np.float64) * scales[1] / scales[2]
    if not ((np.abs(quotients) > _LEAST) & (np.abs(quotients) < _GREATEST)).all():
        return None
    high = quotients.astype(np.float32)
    low = (quotients - high).astype(np.float32)
    multipliers = high.astype(np.float64) + low
    size = np.abs(multipliers)[:, None]
    below = np.floor(_HALVES / size)
    # float64 itself tells of nearly all accumulators that they are far from a half.
    distance = np.minimum(_HALVES - below * size, (below + 1) * size - _HALVES)
    settled = (distance > 2 * MARGIN) | ((greatest + 2.0) * size < _HALVES)
    left = np.flatnonzero(~settled.all(-1))
    a, b, output = (np.broadcast_to(scale, multipliers.shape)[left] for scale in scales)
    return np.stack([high, low]) if _proved(a, b, output, multipliers[left]) else None


def _proved(a_scale: np.ndarray, b_scale: np.ndarray, output_scale: np.ndarray, multipliers: np.ndarray) -> bool:
    """Tell from remainders whether all accumulators next to halves are rounded correctly."""
    (ma, ea), (mb, eb), (mo, eo) = map(_parts, (a_scale, b_scale, output_scale))
    divisor, shift = ma * mb, eo - ea - eb - 1
    # Below 0 every accumulator but 0 saturates; beyond 62 every one is rounded to 0.
    rest, more = mo % divisor, np.clip(shift, 0, 62)
    while more.any():
        step = np.minimum(more, _DIGIT)
        rest, more = (rest << step) % divisor, more - step
    divisor, size = divisor[:, None], np.abs(multipliers)[:, None]
    remainder = rest[:, None] * (2 * _HALVES).astype(np.int64) % divisor
    nearest = np.minimum(remainder, divisor - remainder) / divisor
    is_half = np.rint(_HALVES / size) * size == _HALVES
    right = np.where(remainder == 0, is_half, nearest * size > MARGIN)
    return bool((right | ((shift < 0) | (shift > 62))[:, None]).all())


def _parts(scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the magnitudes of float32 numbers as int64 of 24 bits, the top one set, times powers of two."""
    mantissa, exponent = np.frexp(np.abs(scale).astype(np.float64))
    return (mantissa * 2.0**24).astype(np.int64), exponent.astype(np.int64) - 24


class Addends(NamedTuple):
    """Two numbers that integers are multiplied by before they are added; ``proved_addends`` makes it."""

    factors: tuple[float, float]

    with_halves: bool
    """Whether some sums are halves."""


def proved_addends(a_scale: Any, b_scale: Any, output_scale: Any, p: np.ndarray, q: np.ndarray) -> Addends | None:
    """Return the scales of a and of b over the output's in float64, or None if some sum might be rounded wrongly.

    Each sum ``p * A + q * B`` must be a half, or further from one than its error in float64 and ``_STEP``, to whose
    multiples ``round_sums`` rounds first. So what should be a half becomes one, also if a device contracts a product
    and the sum.

    Args:
      a_scale: float32, one value, as the other scales.
      b_scale: that of b.
      output_scale: that of the result.
      p: int64, all differences of an integer and its zero point, at most 255 in magnitude.
      q: those of b.
    """
    scales = [float(np.asarray(scale).reshape(())) for scale in (a_scale, b_scale, output_scale)]
    if not all(math.isfinite(scale) and scale for scale in scales):
        return None
    factors = np.asarray(scales[:2]) / scales[2]
    greatest = 255.0 * np.abs(factors).sum()
    total = p[:, None] * factors[0] + q * factors[1]
    distance = np.abs(total - np.floor(total) - 0.5)
    doubtful = np.argwhere((distance <= 4 * _STEP + greatest * 2.0**-50) & (np.abs(total) <= 257))
    addends = Addends((float(factors[0]), float(factors[1])), bool(doubtful.size))
    if not addends.with_halves:
        return addends
    first, second = (Fraction(scale) / Fraction(scales[2]) for scale in scales[:2])
    unit = math.lcm(first.denominator, second.denominator)
    exact = p[doubtful[:, 0]].astype(object) * int(first * unit) + q[doubtful[:, 1]].astype(object) * int(second * unit)
    are_halves = ((2 * exact - unit) % (2 * unit) == 0).all()
    no_error = unit & (unit - 1) == 0 and unit <= 1 / _STEP and unit * greatest < 2**53
    return addends if are_halves and (no_error or greatest * 2.0**-51 < _STEP / 2) else None


class Arithmetic(NamedTuple):
    """How a platform multiplies and rounds float64 numbers."""

    multiplier: Callable[[jax.Array, jax.Array], jax.Array]
    """Returns the sum of two float32 arrays in float64."""

    rounded: Callable[[jax.Array, int, int, bool], jax.Array]
    """Takes float64 numbers, two limits at most 2**9 in magnitude, and whether int32 holds all numbers. Returns the
    lowest 8 bits of the nearest integers between the limits, ties to even, as int8."""


def sum_when_used(high: jax.Array, low: jax.Array) -> jax.Array:
    """Return the sum of two float32 arrays in float64, added where it is read: LLVM makes short vectors of float64."""
    # Without the barrier XLA would add the two parts, and load float64.
    return _sum(*lax.optimization_barrier((high, low)))  # type: ignore[no-untyped-call]


def _sum(high: jax.Array, low: jax.Array) -> jax.Array:
    return high.astype(jnp.float64) + low.astype(jnp.float64)


def _by_addition(value: jax.Array, low: int, high: int, fits: bool) -> jax.Array:
    del fits
    # The clamp also keeps XLA from contracting a product and the sum.
    shifted = _clamped(value, low, high) + np.float64(_TO_INTEGER)
    return lax.bitcast_convert_type(shifted, jnp.int64).astype(jnp.int8)


def _by_conversion(value: jax.Array, low: int, high: int, fits: bool) -> jax.Array:
    # A GPU compares int32 faster than float64. XLA for CUDA mistakes a bitcast to int64 that is converted next for a
    # conversion of the float.
    nearest = lax.round(value if fits else _clamped(value, low, high), lax.RoundingMethod.TO_NEAREST_EVEN)
    return lax.clamp(np.int32(low), nearest.astype(jnp.int32), np.int32(high)).astype(jnp.int8)


def _clamped(value: jax.Array, low: int, high: int) -> jax.Array:
    return lax.clamp(np.float64(low), value, np.float64(high))


ON_CPU = Arithmetic(sum_when_used, _by_addition)
ON_CUDA = Arithmetic(_sum, _by_conversion)


def round_sums(on: Arithmetic, p: jax.Array, q: jax.Array, by: Addends, zero_point: int, dtype: Any) -> jax.Array:
    """Return ``clamp(round(p * by.factors[0] + q * by.factors[1]) + zero_point)``, with what is proved.

    Args:
      on: of the platform.
      p: int32 of at most 255 in magnitude; ``q`` alike. They broadcast.
      q: int32.
      by: what ``proved_addends`` returns.
      zero_point: of the result.
      dtype: int8 or uint8 that the result stands for; it is int8 as ``shifted_by_128`` makes it.
    """
    greatest = 255 * sum(map(abs, by.factors))
    with jax.enable_x64(True):
        first, second = (
            x.astype(jnp.float64) * np.float64(factor) for x, factor in zip((p, q), by.factors, strict=True)
        )
        total = first + second
        if by.with_halves:
            total = lax.round(total / _STEP, lax.RoundingMethod.TO_NEAREST_EVEN) * _STEP
        return _rounded(on, total, greatest, zero_point, dtype)


def round_products(on: Arithmetic, total: jax.Array, multipliers: np.ndarray, zero_point: int, dtype: Any) -> jax.Array:
    """Return ``clamp(round(total * multipliers) + zero_point)``, with multipliers that are proved.

    Args:
      on: of the platform.
      total: int32.
      multipliers: float32 ``[2, n]``, whose sums broadcast against ``total``.
      zero_point: of the result.
      dtype: int8 or uint8 that the result stands for; it is int8 as ``shifted_by_128`` makes it.
    """
    greatest = 2.0**31 * np.abs(multipliers.sum(0, dtype=np.float64)).max()
    high, low = map(jnp.asarray, multipliers)
    with jax.enable_x64(True):
        return _rounded(on, total.astype(jnp.float64) * on.multiplier(high, low), greatest, zero_point, dtype)


def _rounded(on: Arithmetic, value: jax.Array, greatest: float, zero_point: int, dtype: Any) -> jax.Array:
    """Round numbers of at most ``greatest`` in magnitude."""
    limits = np.iinfo(dtype)
    nearest = on.rounded(value, int(limits.min) - zero_point, int(limits.max) - zero_point, greatest < 2.0**31)
    # The zero point is added afterwards: it may be odd, and would turn the ties.
    return nearest + np.uint8(zero_point - (128 if dtype == np.uint8 else 0) & 255).view(np.int8)


def shifted_by_128(x: jax.Array, dtype: Any) -> jax.Array:
    """Turn int8 into uint8, each 128 more, or uint8 into int8, each 128 less; ``dtype`` is the new one.

    XLA sees that two of these cancel, so it stores the int8 that one operator makes and another reads.
    """
    if x.dtype == dtype:
        return x
    if dtype == jnp.int8:
        return lax.bitcast_convert_type(x + np.uint8(128), jnp.int8)
    return lax.bitcast_convert_type(x, jnp.uint8) + np.uint8(128)

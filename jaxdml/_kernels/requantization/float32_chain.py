"""Round sums in a chain of int32 and float32 operations, by factors that are proved to round them correctly.

XLA for CUDA takes what follows a product into its kernel, so that the int32 sums are never stored, if it is a chain: a
vector that is subtracted, a conversion, vectors that are multiplied, a rounding, a clamp. float64, shifts, and whatever
reads a number twice end the chain. So do vectors that are constants of the program or computed in it: they must be
ready before.

``float32(sum) * first * second`` never decreases as the sum grows, and nor does its rounding. So it is right for every
sum if it is on both sides of each half, an integer plus 1/2, and for the least and the greatest sum. Only sums whose
product is within a relative ``_NEAR`` of a half can be wrong. Whether one is depends on the last bits of the factors as
if by chance, and mostly there are few. So other factors of the same product are tried until all are right. A small
multiplier has many; but the sums of a filter that is nearly zero may reach no half at all. Shifted sums have fewer that
are so near, since results near 0 keep more bits: 255 has 16 bits after the point, 15 has 20.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

from jaxdml._arithmetic.bits import with_flipped_sign
from jaxdml._arithmetic.float_parts import MANTISSA_BITS
from jaxdml._kernels.requantization.float32_terms import Terms
from jaxdml._kernels.requantization.proofs import HALVES

_NEAR = 1.01 * 2.0**-22
"""Four roundings to float32 have a smaller relative error: of the sum, of the second factor and of two products."""

_LEAST, _MOST_HALVES = 2.0**-13, 2**4
"""For a smaller multiplier, whose products reach more halves, no factors are sought but for shifted sums."""

_BEYOND = np.float32(2.0**64)
"""A greater product of a sum and a first factor saturates, as this does: a second one is more than a half."""

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


@partial(jax.tree_util.register_dataclass, data_fields=["subtracted", "first", "second", "offset"], meta_fields=["of"])
@dataclass(frozen=True, eq=False)
class Chain:
    """Hold the vectors with which sums are rounded, one number for each column; a pytree of operands.

    A number of the program would make a kernel of each layer, which XLA compiles and times anew. So all are operands.

    Attributes:
      subtracted: from the sums of products of int8 numbers: the terms of the zero point, less the bias, and a shift,
        which may be a multiple of 1/16. float32 if that holds these numbers, and all sums that do not saturate; else
        int32. () if the chain is for complete sums, by one number each.
      first: float32, which the difference is multiplied by.
      second: float32, which that is multiplied by.
      offset: float32, the zero point of the output, less 128 if that is uint8, and ``Found.middle``; it is added to
        what is rounded. A column with a single result has it here, and factors of 0.
      of: a digest of the parameters that all of it is computed from. Static.
    """

    subtracted: Any
    first: Any
    second: Any
    offset: Any
    of: str

    @property
    def of_complete_sums(self) -> bool:
        """Whether nothing is subtracted."""
        return isinstance(self.subtracted, tuple)


export.register_pytree_node_serialization(
    Chain,
    serialized_name="jaxdml.Chain",
    serialize_auxdata=lambda static: static[0].encode(),
    deserialize_auxdata=lambda text: (text.decode(),),
)


class Found(NamedTuple):
    """Hold what rounds sums, one number for each multiplier."""

    first: np.ndarray
    second: np.ndarray
    subtracted: np.ndarray
    """float32 or int32, from the sums."""
    middle: np.ndarray
    """The integer that is added to what is rounded."""


def factors(multipliers: np.ndarray, greatest: Any, reach: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return two float32 factors of each multiplier that round every sum correctly, or None if none are found.

    Args:
      multipliers: float64 ``[N]``, which round every sum correctly.
      greatest: no sum is greater in magnitude.
      reach: results beyond this magnitude saturate, at most 255.
    """
    first, second, left = _factors(multipliers, 0, greatest, reach, _TRIALS)
    return None if left.size else (first, second)


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
    first, second = (np.zeros(multipliers.size, np.float32) for _ in range(2))
    shifted, middle = np.where(varies, subtracted, 0).astype(np.float64), np.where(varies, 0, results[0])
    sizes, most = np.abs(multipliers[varies]), np.abs(shifted).max(initial=0)
    # Sums that float32 does not hold may saturate, whatever they are rounded to.
    saturate = most <= _HELD // 4 and sizes.min(initial=1) >= _SATURATING
    in_float32 = bool(most <= _HELD and (stored <= _HELD or saturate))
    least, greatest = (each[varies] for each in (np.maximum(np.maximum(low, -high), 0), np.maximum(-low, high)))
    reach = max(map(abs, limits))
    if _are_hopeless(sizes, least, greatest, reach, _LEAST_AROUND_THE_MIDDLE).any():
        return None
    first[varies], second[varies], left = _factors(multipliers[varies], least, greatest, reach, _FEW_TRIALS)
    # The smallest first: if one has no factors, the others need none.
    for at in np.flatnonzero(varies)[left[np.argsort(sizes[left])]]:
        one = _around_the_middle(
            multipliers[at].item(), (low[at], high[at]), limits, abs(shifted[at]) if in_float32 else None
        )
        if one is None:
            some, end = slice(at, at + 1), max(abs(low[at]), abs(high[at]))
            first[some], second[some], none = _factors(multipliers[some], 0, end, reach, _TRIALS)
            if none.size:
                return None
        else:
            first[at], second[at], shift, middle[at] = one
            shifted[at] += shift
    return Found(first, second, shifted.astype(np.float32 if in_float32 else np.int32), middle)


def _factors(
    multipliers: np.ndarray, least: Any, greatest: Any, reach: int, trials: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return two factors of each multiplier, and the places of those for which none are found."""
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
        products = sums[left, None].astype(np.float32) * trial[..., None] * other[..., None]
        right = (np.minimum(np.rint(products), reach + 1) == nearest[left, None]).all(-1)
        found, which = right.any(-1), right.argmax(-1)
        first[left[found]], second[left[found]] = (x[found, which[found]] for x in (trial, other))
        left = left[~found]
    signed = np.copysign(first, multipliers).astype(np.float32)
    return signed, second, np.sort(np.concatenate([left, np.flatnonzero(hopeless)]))


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
    multiplier: float, ends: tuple[int, int], limits: tuple[int, int], subtracted: int | None
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
    wanted = np.clip(np.rint(sums * multiplier), *limits)[:, None]
    power = 2.0 ** np.floor(np.log2(multiplier))
    for tried in _candidates(_TRIALS_AROUND_THE_MIDDLE):
        first = (power * tried).astype(np.float32)
        second = (multiplier / first).astype(np.float32)
        for place in order:
            rounded = np.rint((sums - shift[place]).astype(np.float32)[:, None] * first * second) + middle[place]
            right = (np.clip(rounded, *limits) == wanted).all(0)
            if right.any():
                which = right.argmax()
                return first[which], second[which], shift[place], middle[place]
    return None


def round_chain(total: jax.Array, by: Chain, dtype: jnp.dtype) -> jax.Array:
    """Return ``clamp(round((total - subtracted) * first * second) + offset)`` as int8, or 128 more as uint8.

    Args:
      total: int32 or float32, the sums of products as stored, or complete sums.
      by: what it is rounded with, broadcast against ``total``.
      dtype: int8 or uint8.
    """
    return _as_integers(_rounded(total, by), dtype)


def round_chain_and_sum(total: jax.Array, by: Chain, terms: Terms, offset: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """Round a second time: return ``clamp(round(y * factor + terms) + offset)`` of what ``round_chain`` stores as int8.

    Between the two all stays float32. XLA ends the kernel of a product where it makes integers of 8 bits wider.

    Args:
      total: int32 or float32, the sums of products as stored.
      by: what ``y`` is rounded with.
      terms: what ``proved_terms`` returns for ``y`` as it is stored, vectors that broadcast against ``total``.
      offset: float32, the zero point of the sum, less 128 if that is uint8.
      dtype: int8 or uint8, that of the sum.
    """
    return _as_integers(_whole(_rounded(total, by) * terms.factor + terms.terms, offset), dtype)


def _rounded(total: jax.Array, by: Chain) -> jax.Array:
    """Return the integers that are stored as int8, as float32."""
    first, second, offset = by.first, by.second, by.offset
    if by.of_complete_sums:
        # Behind a barrier, numbers that are known are operands of the kernel. XLA takes such scalars, and no arrays.
        scalars = tuple(jnp.reshape(each, ()) for each in (first, second, offset))
        first, second, offset = lax.optimization_barrier(scalars)  # type: ignore[no-untyped-call]
    # Rounded once if float32 holds both numbers, as int32 and a conversion do; a greater sum saturates either way.
    difference = total if by.of_complete_sums else total.astype(by.subtracted.dtype) - by.subtracted
    # XLA would join factors that are constants, and a vector of one number is such a constant, too. So a limit stands
    # between them.
    once = jnp.maximum(difference.astype(jnp.float32) * first, -_BEYOND)
    return _whole(once * second, offset)


def _whole(x: jax.Array, offset: jax.Array) -> jax.Array:
    """Return ``clamp(round(x) + offset)`` as float32. Where that does not hold the sum of the two, it saturates."""
    return jnp.clip(lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN) + offset, -128, 127)


def _as_integers(whole: jax.Array, dtype: jnp.dtype) -> jax.Array:
    # A conversion to uint8 would end the chain, and so would a bitcast of a float.
    stored = whole.astype(jnp.int32).astype(jnp.int8)
    return stored if dtype == jnp.int8 else with_flipped_sign(stored, dtype)

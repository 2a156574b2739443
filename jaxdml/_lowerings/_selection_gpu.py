"""Select on GPUs: in rounds so short that launching the kernels is most of each, and as few rounds as that allows.

``python -m benchmarks.constants`` times the constants at several values.
"""

import math
from typing import NamedTuple

import jax

from jaxdml._algorithms.selection.packed_keys import among_packed, by_ranks, by_sorting
from jaxdml._algorithms.selection.tournament import by_tournament
from jaxdml._base.axis_direction import AxisDirection
from jaxdml._lowerings import _selection_default
from jaxdml._lowerings._selection_default import LAX_TOP_K_LIMIT


class Constants(NamedTuple):
    """What a round of a tournament may cost on a GPU."""

    max_pairs_for_ranks: int
    """Up to so many pairs, over all rows, comparing each number with each other beats sorting."""

    short_round: int
    """Up to so many numbers in a row, a round takes hardly longer the more it has."""

    small_round: int
    """Up to so many numbers in all rows, a round takes hardly longer the more it has."""

    max_parts: int
    """The most parts that a kept chunk is cut into. In rows of 2**24 and 2**28, 64 took longer, 128 much longer."""

    long_round: int
    """Rounds of so many numbers in a row, for a very large k, have not been tried."""

    few_rows: int
    """On fewer rows, rounds that need a sort leave most of a GPU idle; one sort of longer rows does not."""

    reread_share: int
    """Store the maxima of chunks so short that reading k of them again takes less than this part of the row."""

    max_stored: int
    """With longer chunks there are few blocks to read a single row."""


GPU = Constants(
    max_pairs_for_ranks=2**24,
    short_round=2**10,
    small_round=2**18,
    max_parts=2**5,
    long_round=2**14,
    few_rows=2**4,
    reread_share=12,
    max_stored=2**10,
)


def _rows(x: jax.Array) -> int:
    return math.prod(x.shape[:-1])


def _take(numbers: jax.Array, k: int) -> jax.Array:
    pairs = _rows(numbers) * numbers.shape[-1] ** 2
    return (by_ranks if pairs <= GPU.max_pairs_for_ranks else by_sorting)(numbers, k)


def _parts(rows: int, k: int) -> int:
    """Choose into how many parts to cut a kept chunk, a power of two: many make few rounds, few make short ones."""
    rows = max(rows, 1)
    of_row = max(GPU.short_round, math.isqrt(GPU.max_pairs_for_ranks // rows))
    limit = min(GPU.max_parts, of_row // k, GPU.small_round // (rows * k))
    least = 4 if 2 * rows * k <= GPU.small_round else 2
    return max(least, 1 << max(limit, 1).bit_length() - 1)


def tournament(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Select in rounds, whether it pays or not."""
    rows, n = _rows(x), x.shape[-1]
    parts = _parts(rows, k)
    lengths = [1]
    while -(-n // lengths[-1]) > k * parts:
        lengths.append(lengths[-1] * parts)
    longest_stored = max(1, min(GPU.max_stored, n // (GPU.reread_share * k)))
    stored = max(length for length in lengths if length <= longest_stored)
    return by_tournament(x, k, direction, lengths=lengths, stored=stored, among=among_packed(_take))


def _pays(rows: int, n: int, k: int) -> bool:
    longest = min(n, k * _parts(rows, k))
    return longest < GPU.long_round and (rows >= GPU.few_rows or rows * longest**2 <= GPU.max_pairs_for_ranks)


def pruned(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Prune by chunk maxima, whether it pays or not."""
    return _selection_default.pruned(x, k, direction, lambda places: ~_take(~places, k))


def best(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Select by the method that is best at this size."""
    rows, n = _rows(x), x.shape[-1]
    if x.dtype.itemsize <= 4 and n <= LAX_TOP_K_LIMIT and _pays(rows, n, k):
        return tournament(x, k, direction)
    return _selection_default.best(x, k, direction, pruned)

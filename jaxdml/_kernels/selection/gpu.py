"""Select on GPUs, in few rounds, each so short that launching its GPU kernels takes most of its time.

``python -m benchmarks constants`` times the constants at several values.
"""

import math
from functools import partial
from typing import NamedTuple

import jax

from jaxdml._base.axis_direction import AxisDirection
from jaxdml._base.shapes import is_static
from jaxdml._kernels.selection import default as _selection_default
from jaxdml._kernels.selection.chunk_maxima import among_in_order
from jaxdml._kernels.selection.default import LAX_TOP_K_LIMIT
from jaxdml._kernels.selection.packed_keys import among_packed, by_ranks, by_sorting
from jaxdml._kernels.selection.segments import Merging, by_indexing, with_keys
from jaxdml._kernels.selection.tournament import by_tournament
from jaxdml._kernels.selection.whole_axis import Select


class Constants(NamedTuple):
    """Hold the sizes that keep a round of a tournament short on a GPU, and those where a tournament does not pay."""

    max_pairs_for_ranks: int
    """Up to so many pairs, in all rows together, comparing each number with each other beats sorting."""

    short_round: int
    """Up to so many numbers per row, the time of a round hardly depends on their count."""

    small_round: int
    """Up to so many numbers in all rows together, the time of a round hardly depends on their count."""

    max_arity: int
    """The greatest arity. For rows of 2**24 and 2**28 elements, 64 took longer, 128 much longer."""

    long_round: int
    """Rounds have fewer numbers per row than this. Longer ones, for a very large k, have not been tried."""

    few_rows: int
    """On fewer rows, avoid rounds that sort: their sorts leave most of a GPU idle; one sort of longer rows does not."""

    reread_divisor: int
    """Store the maxima of chunks so short that k of them have at most ``1 / reread_divisor`` of the row's elements."""

    max_stored: int
    """The longest chunk whose maxima are stored. With longer ones, few thread blocks would read a single row."""


GPU = Constants(
    max_pairs_for_ranks=2**24,
    short_round=2**10,
    small_round=2**18,
    max_arity=2**5,
    long_round=2**14,
    few_rows=2**4,
    reread_divisor=12,
    max_stored=2**10,
)


def _rows(x: jax.Array) -> int:
    return math.prod(x.shape[:-1])


def _take(numbers: jax.Array, k: int) -> jax.Array:
    pairs = _rows(numbers) * numbers.shape[-1] ** 2
    return (by_ranks if pairs <= GPU.max_pairs_for_ranks else by_sorting)(numbers, k)


def _arity(rows: int, k: int) -> int:
    """Choose the arity, a power of two: the number of parts that a kept chunk is split into.

    A large arity needs few rounds. A small one makes the rounds short.
    """
    rows = max(rows, 1)
    of_row = max(GPU.short_round, math.isqrt(GPU.max_pairs_for_ranks // rows))
    limit = min(GPU.max_arity, of_row // k, GPU.small_round // (rows * k))
    least = 4 if 2 * rows * k <= GPU.small_round else 2
    return max(least, 1 << max(limit, 1).bit_length() - 1)


def tournament(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Select in rounds, whether it pays or not."""
    rows, n = _rows(x), x.shape[-1]
    arity = _arity(rows, k)
    lengths = [1]
    while -(-n // lengths[-1]) > k * arity:
        lengths.append(lengths[-1] * arity)
    longest_stored = max(1, min(GPU.max_stored, n // (GPU.reread_divisor * k)))
    stored = max(length for length in lengths if length <= longest_stored)
    return by_tournament(x, k, direction, lengths=lengths, stored=stored, among=among_packed(_take))


def _pays(rows: int, n: int, k: int) -> bool:
    longest = min(n, k * _arity(rows, k))
    return longest < GPU.long_round and (rows >= GPU.few_rows or rows * longest**2 <= GPU.max_pairs_for_ranks)


def pruned(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Prune by chunk maxima, whether it pays or not."""
    return _selection_default.pruned(x, k, direction, ascending=lambda places: ~_take(~places, k))


def best(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Select by the method that is best at this size."""
    return _best(x, k, direction, partial(_selection_default.best, pruned=pruned))


def _otherwise_partitioned(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    return _selection_default.best_partitioned(x, k, direction, pruning=_selection_default.PRUNING)[1]


def _best_partitioned(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Select by the best method whose batch XLA can partition."""
    # The rounds of a tournament depend on the sizes. One that is symbolic takes the form without rounds.
    select = partial(_best, otherwise=_otherwise_partitioned) if is_static(*x.shape) else _otherwise_partitioned
    return select(x, k, direction)


def _best(x: jax.Array, k: int, direction: AxisDirection, otherwise: Select) -> jax.Array:
    rows, n = _rows(x), x.shape[-1]
    if x.dtype.itemsize <= 4 and n <= LAX_TOP_K_LIMIT and _pays(rows, n, k):
        return tournament(x, k, direction)
    return otherwise(x, k, direction)


best_partitioned = partial(with_keys, select=_best_partitioned)

MERGING = Merging(by_indexing, among_in_order(_best_partitioned))

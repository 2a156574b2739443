"""Choose the method that selects on GPUs: rounds so short that a launch is most of each, and as few as that allows.

``python -m benchmarks.constants`` times the constants at several values.
"""

import math

import jax

from jaxdml._algorithms.packed import among_packed, by_ranks, by_sorting
from jaxdml._algorithms.tournament import by_tournament
from jaxdml._base.axis_direction import AxisDirection
from jaxdml._lowerings import top_k_elsewhere
from jaxdml._lowerings.top_k_elsewhere import LAX_TOP_K_LIMIT

MAX_PAIRS_FOR_RANKS = 2**24
"""Up to so many pairs of numbers, in all rows, each is compared with each sooner than they are sorted."""

SHORT_ROUND = 2**10
"""Up to here a round takes hardly longer the more numbers of a row it has."""

SMALL_ROUND = 2**18
"""Up to here it takes hardly longer the more numbers of all rows it has."""

MAX_FAN = 2**5
"""In rows of 2**24 and of 2**28 elements 64 parts took longer, and 128 much longer."""

LONG_ROUND = 2**14
"""Rounds of so many numbers of a row, for a very large k, have not been tried."""

FEW_ROWS = 2**4
"""On fewer rows a round that needs a sort leaves most of a GPU idle, and one sort of longer rows does not."""

REREAD_PART = 12
"""Maxima are stored of chunks so short that reading k of them again takes less than such a part of the row."""

MAX_STORED = 2**10
"""Longer chunks leave few blocks to read a single row."""


def _take(numbers: jax.Array, k: int) -> jax.Array:
    rows, m = numbers.shape
    return (by_ranks if rows * m * m <= MAX_PAIRS_FOR_RANKS else by_sorting)(numbers, k)


def _fan(rows: int, k: int) -> int:
    """Choose into how many parts to cut what stays, a power of two: many make few rounds, few make them short."""
    rows = max(rows, 1)
    of_row = max(SHORT_ROUND, math.isqrt(MAX_PAIRS_FOR_RANKS // rows))
    limit = min(MAX_FAN, of_row // k, SMALL_ROUND // (rows * k))
    least = 4 if 2 * rows * k <= SMALL_ROUND else 2
    return max(least, 1 << max(limit, 1).bit_length() - 1)


def by_rounds(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Hold a tournament, whether it pays or not."""
    rows, n = x.shape
    fan = _fan(rows, k)
    lengths = [1]
    while -(-n // lengths[-1]) > k * fan:
        lengths.append(lengths[-1] * fan)
    longest_stored = max(1, min(MAX_STORED, n // (REREAD_PART * k)))
    stored = max(length for length in lengths if length <= longest_stored)
    return by_tournament(x, k, direction, lengths=lengths, stored=stored, among=among_packed(_take))


def _pays(rows: int, n: int, k: int) -> bool:
    longest = min(n, k * _fan(rows, k))
    return longest < LONG_ROUND and (rows >= FEW_ROWS or rows * longest**2 <= MAX_PAIRS_FOR_RANKS)


def by_chunk_maxima(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Prune, whether it pays or not."""
    return top_k_elsewhere.by_chunk_maxima(x, k, direction, lambda places: ~_take(~places, k))


def choose(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Select by the method that is best here."""
    rows, n = x.shape
    if x.dtype.itemsize <= 4 and n <= LAX_TOP_K_LIMIT and _pays(rows, n, k):
        return by_rounds(x, k, direction)
    return top_k_elsewhere.choose(x, k, direction, by_chunk_maxima)

"""Select by the value of the k-th key: find it by halving its range, mark what reaches it, and gather the marked.

The work does not depend on k until the k that are left get sorted. Every step is one that a vector unit does:
comparing and counting, as often at most as a key has bits, or bits of words of 32 marks.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._algorithms.order_keys import order_keys
from jaxdml._algorithms.packed import among_packed, by_sorting
from jaxdml._base.axis_direction import AxisDirection

_WORD = 32
_BLOCK = _WORD * 32
"""Rows are filled up to whole blocks, whose columns are counted side by side."""


def by_threshold(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Keep the first ``k`` of every row by their threshold and sort those; keys are of at most 32 bits."""
    keys = order_keys(x, direction)
    places = kept_by_threshold(keys, k)
    kept = jnp.take_along_axis(keys, places, axis=1, mode="promise_in_bounds")
    return among_packed(by_sorting)(kept, places, k, x.shape[1])


def kept_by_threshold(keys: jax.Array, k: int) -> jax.Array:
    """Return the places of the ``k`` greatest of every row, in ascending order; of equal ones the first are kept.

    Args:
      keys: unsigned integers, ``[b, m]``.
      k: how many to keep.
    """
    # Zeros reach no threshold but 0, and there they come after everything real.
    filled = lax.pad(keys, keys.dtype.type(0), ((0, 0, 0), (0, -keys.shape[1] % _BLOCK, 0)))
    threshold = _kth(filled, k, _least(keys, k))
    above, equal = _words(filled > threshold), _words(filled == threshold)
    missing = k - lax.population_count(above).sum(axis=1, keepdims=True, dtype=jnp.uint32)
    earlier = _exclusive_cumsum(lax.population_count(equal))
    room = jnp.where(missing > earlier, missing - earlier, jnp.uint32(0))
    return _places(above | _lowest_bits(equal, room), k)


def _least(keys: jax.Array, k: int) -> jax.Array:
    """Find a number that at least ``k`` keys reach, ``[b, 1]``, often near the k-th: the least maximum of k groups."""
    rows, m = keys.shape
    blocks = -(-k // _WORD)
    members = m // (blocks * _WORD)
    if not members:
        return jnp.zeros((rows, 1), keys.dtype)
    grouped = lax.slice_in_dim(keys, 0, blocks * members * _WORD, axis=1).reshape(rows, blocks, members, _WORD)
    maxima = lax.optimization_barrier(grouped.max(axis=2))  # type: ignore[no-untyped-call]
    return maxima.min(axis=(1, 2))[:, None]


def _kth(filled: jax.Array, k: int, least: jax.Array) -> jax.Array:
    """Find the k-th greatest key of every row, ``[b, 1]``: the greatest number that ``k`` keys reach.

    The range in which it lies, from ``least`` to the greatest key, is halved by each count.
    """
    one = filled.dtype.type(1)

    def halve(bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bounds
        middle = high - (high - low >> one)
        reached = _count(filled >= middle) >= k
        return jnp.where(reached, middle, low), jnp.where(reached, high, middle - one)

    greatest = _reduced(filled, jnp.max)
    return lax.while_loop(lambda bounds: (bounds[0] < bounds[1]).any(), halve, (least, greatest))[0]


def _count(marks: jax.Array) -> jax.Array:
    """Count the marks of every row, ``[b, 1]``."""
    return _reduced(marks, partial(jnp.sum, dtype=jnp.uint32))


def _reduced(values: jax.Array, reduce: Callable[..., jax.Array]) -> jax.Array:
    """Reduce every row, ``[b, 1]``, in two steps: XLA's CPU backend vectorizes what goes across columns.

    The barrier keeps it from merging the steps again.
    """
    rows, m = values.shape
    columns = reduce(values.reshape(rows, m // _BLOCK, _BLOCK // _WORD, _WORD), axis=2)
    columns = lax.optimization_barrier(columns)  # type: ignore[no-untyped-call]
    return reduce(columns, axis=(1, 2))[:, None]


def _words(marks: jax.Array) -> jax.Array:
    """Gather each 32 marks into the bits of a word, the first one lowest."""
    rows, m = marks.shape
    bits = marks.reshape(rows, m // _WORD, _WORD).astype(jnp.uint32)
    return (bits << lax.broadcasted_iota(jnp.uint32, bits.shape, 2)).sum(axis=-1, dtype=jnp.uint32)


def _bit_place(words: jax.Array, number: jax.Array) -> jax.Array:
    """Return the place of the set bit with this number, from 0 for the lowest: a binary search by counting."""
    place = jnp.zeros_like(words)
    for half in (16, 8, 4, 2, 1):
        below = lax.population_count(words >> place & np.uint32((1 << half) - 1))
        beyond = number >= below
        number = jnp.where(beyond, number - below, number)
        place = jnp.where(beyond, place + np.uint32(half), place)
    return place


def _lowest_bits(words: jax.Array, count: jax.Array) -> jax.Array:
    """Keep the ``count`` lowest set bits of every word."""
    lower = (jnp.uint32(1) << _bit_place(words, count)) - jnp.uint32(1)
    return jnp.where(count >= lax.population_count(words), words, words & lower)


def _exclusive_cumsum(counts: jax.Array) -> jax.Array:
    return jnp.cumsum(counts, axis=1) - counts


def _places(words: jax.Array, k: int) -> jax.Array:
    """List the places of the ``k`` bits that are set in each row of words."""
    first = _exclusive_cumsum(lax.population_count(words))
    # Where a word's bits begin in the list gets one mark a word; how many marks there are so far tells the word.
    starts = jax.vmap(lambda row: jnp.zeros(k, jnp.uint32).at[row].add(jnp.uint32(1), mode="drop"))(first)
    word = jnp.cumsum(starts, axis=1) - jnp.uint32(1)
    of_word, first_of_word = (
        jnp.take_along_axis(part, word, axis=1, mode="promise_in_bounds") for part in (words, first)
    )
    number = lax.broadcasted_iota(jnp.uint32, (1, k), 1) - first_of_word
    return word * jnp.uint32(_WORD) + _bit_place(of_word, number)

"""Select without reading single elements: whole tiles are read, and elements go along with their order.

A TPU reads memory in tiles, of which a row of 128 lanes is the least that one index reads well. So a sequence is pruned
by the maxima of chunks of that length, and the chunks that stay are read whole, in their order. What is left is small.
There each element, its position and its order are two words (``ranked_pairs``). The first k are taken two at a time,
each two by one reduction of these, or all by one sort. No two pairs of words are equal, so the order in which a device
reduces does not matter, and a sort need not be stable. Only integers are compared, added and moved.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.bits import bits_of
from jaxdml._arithmetic.order_keys import order_keys
from jaxdml._arithmetic.tiles import LANES, read_chunks, tiles_of
from jaxdml._base.axis_direction import AxisDirection
from jaxdml._kernels.selection.ranked_pairs import ranked, unranked

MIN_LENGTH, MIN_CHUNKS_PER_K = 2**13, 4
"""The shortest sequence to prune by chunks, and how many chunks there must be at least for each that stays."""

MAX_K_OF_REDUCTIONS = 16
"""Up to so many are taken by reductions. Each reads all that is left; a sort reads and writes all of both words."""

_LAST = np.uint32(2**32 - 1)

Words = tuple[jax.Array, ...]
"""Each is uint32. The first word decides, and of equal ones the next."""


def select_carried(x: jax.Array, k: int, direction: AxisDirection) -> tuple[jax.Array, jax.Array]:
    """Return the first ``k`` elements of each sequence, bit for bit, and their indices, uint32; both ``[rows, k]``.

    Args:
      x: ``[rows, n]``, of at most 32 bits each, ``n`` at least 1 and less than 2**31.
      k: how many to take, at least 1.
      direction: whether the largest or the smallest come first.
    """
    n = x.shape[1]
    if n < MIN_LENGTH or n // LANES < MIN_CHUNKS_PER_K * k:
        return _all_by_order(x, k, direction)
    candidates, chunks = _left_by_chunks(x, k, direction)
    elements, places = _all_by_order(candidates, k, direction)
    return elements, _looked_up(chunks, places // LANES) * np.uint32(LANES) + places % LANES


def _all_by_order(x: jax.Array, k: int, direction: AxisDirection) -> tuple[jax.Array, jax.Array]:
    first = _first(ranked(x, lax.broadcasted_iota(jnp.uint32, x.shape, 1), direction), k)
    # Else XLA computes elements and positions each from the whole of what it sorts.
    return unranked(lax.optimization_barrier(first), x.dtype, direction)  # type: ignore[no-untyped-call]


def _left_by_chunks(x: jax.Array, k: int, direction: AxisDirection) -> tuple[jax.Array, jax.Array]:
    """Return the ``k`` chunks of 128 neighbours that have the best elements, and what fills no chunk, in their order.

    ``by_chunk_maxima`` says why the first k are among these. Also return the numbers of the chunks, uint32, of which
    the last stands for what fills no chunk.
    """
    rows, n = x.shape
    tiles = tiles_of(x)
    _, count, sublanes, _ = tiles.shape
    if sublanes == 1:
        # Else XLA computes the keys before it reduces them, and stores them.
        tiles = lax.optimization_barrier(tiles)  # type: ignore[no-untyped-call]
    best = (~order_keys(tiles, direction)).min(axis=-1).swapaxes(1, 2).reshape(rows, count)
    kept = lax.sort(_first_places(best, k), dimension=1, is_stable=False)
    read = read_chunks(tiles, kept).reshape(rows, k * LANES)
    if count * LANES < n:
        rest = lax.slice_in_dim(x, count * LANES, n, axis=1)
        read = lax.bitcast_convert_type(jnp.concatenate([bits_of(read), bits_of(rest)], axis=1), x.dtype)
    else:
        # Else XLA changes the order in memory of both words, not of the elements.
        read = lax.optimization_barrier(read)  # type: ignore[no-untyped-call]
    return read, jnp.concatenate([kept, jnp.full((rows, 1), count, jnp.uint32)], axis=1)


def _first_places(order: jax.Array, k: int) -> jax.Array:
    """Return where the first ``k`` of each row stand, in any order; of equal ones those at the lowest places."""
    places = lax.broadcasted_iota(jnp.uint32, order.shape, 1)
    if order.dtype.itemsize < 4 and order.shape[1] < 2**16:
        return _first(((order.astype(jnp.uint32) << 16) | places,), k)[0] & np.uint32(2**16 - 1)
    return _first((order.astype(jnp.uint32), places), k)[1]


def _looked_up(table: jax.Array, places: jax.Array) -> jax.Array:
    """Return the entries of ``table: [rows, n]`` at ``places: [rows, k]``, by sums in which one term is not 0."""
    own = places[..., None] == lax.broadcasted_iota(jnp.uint32, (1, 1, table.shape[1]), 2)
    return jnp.where(own, table[:, None, :], np.uint32(0)).sum(axis=-1, dtype=jnp.uint32)


def _first(words: Words, k: int) -> Words:
    """Return the first ``k`` of every row of words, in order."""
    if k <= MAX_K_OF_REDUCTIONS:
        return _by_reductions(words, k)
    in_order = lax.sort(words, dimension=1, num_keys=len(words), is_stable=False)
    return tuple(word[:, :k] for word in in_order)


def _by_reductions(words: Words, k: int) -> Words:
    """Take the first two again and again, each time of those that come after the last."""
    taken: list[Words] = []
    left = words
    while len(taken) < k:
        taken += _first_two(left)
        after = _before(tuple(word[:, None] for word in taken[-1]), words)
        left = tuple(jnp.where(after, word, _LAST) for word in words)
    return tuple(jnp.stack(word, axis=1) for word in zip(*taken[:k], strict=True))


def _first_two(words: Words) -> tuple[Words, Words]:
    """Reduce each row to its first two, by a reduction of pairs of which one is there from the start."""
    width = len(words)

    def merged(one: Words, other: Words) -> Words:
        first, loser = _in_order(one[:width], other[:width])
        second, _ = _in_order(loser, _in_order(one[width:], other[width:])[0])
        return *first, *second

    none = jnp.full(words[0].shape, _LAST)
    best: Words = lax.reduce((*words, *[none] * width), (_LAST,) * (2 * width), merged, (1,))
    return best[:width], best[width:]


def _in_order(one: Words, other: Words) -> tuple[Words, Words]:
    before = _before(one, other)
    pairs = list(zip(one, other, strict=True))
    return tuple(jnp.where(before, a, b) for a, b in pairs), tuple(jnp.where(before, b, a) for a, b in pairs)


def _before(one: Words, other: Words) -> jax.Array:
    """Tell whether the words of ``one`` come before those of ``other``."""
    *_, before = (a < b for a, b in zip(one, other, strict=True))
    return before if len(one) == 1 else (one[0] < other[0]) | ((one[0] == other[0]) & before)

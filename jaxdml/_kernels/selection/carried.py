"""Select without reading single elements: whole tiles are read, and elements go along with their keys.

A TPU reads memory in tiles, of which a row of 128 lanes is the least that one index reads well. So a sequence is pruned
by the maxima of chunks of that length, and the chunks that stay are read whole. What is left is small. There the first
k are taken one after another, each by a reduction of triples, or all by a sort of triples. A triple is a key, a
position and the bits of the element. No two have the same key and position, so the order in which a device reduces does
not matter, and a sort need not be stable. Only integers are compared, added and moved.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.bits import bits_of
from jaxdml._arithmetic.order_keys import order_keys
from jaxdml._arithmetic.tiles import LANES, read_chunks, tiles_of
from jaxdml._base.axis_direction import AxisDirection

MIN_LENGTH, MIN_CHUNKS_PER_K = 2**13, 4
"""The shortest sequence to prune by chunks, and how many chunks there must be at least for each that stays."""

MAX_K_OF_COLUMNS, MIN_LENGTH_PER_K = 32, 16
"""Up to this k, and from this length per k on, what is left is pruned once more, by columns. Each column that stays is
compared with all columns, so the work grows with k; ``python -m benchmarks estimates`` shows what it saves."""

MIN_LENGTH_OF_COLUMNS = 2**11
"""The shortest sequence to prune by columns."""

MAX_ROUNDS = 16
"""Up to so many are taken one after another. Each is one reduction, which reads all that is left."""

_NO_POSITION = np.uint32(2**32 - 1)


class _Triples(NamedTuple):
    """Hold what is compared and what goes along, all uint32 of one shape."""

    keys: jax.Array
    positions: jax.Array
    bits: jax.Array


def select_carried(x: jax.Array, k: int, direction: AxisDirection) -> tuple[jax.Array, jax.Array]:
    """Return the first ``k`` elements of each sequence, bit for bit, and their indices, uint32; both ``[rows, k]``.

    Args:
      x: ``[rows, n]``, of at most 32 bits each, ``n`` at least 1 and less than 2**32 - 1.
      k: how many to take, at least 1.
      direction: whether the largest or the smallest come first.
    """
    rows, n = x.shape
    if n >= MIN_LENGTH and n // LANES >= MIN_CHUNKS_PER_K * k:
        found = _first(_left_by_chunks(x, k, direction), k)
    elif _has_columns(n, k):
        columns = _columns(n, k)
        whole = n // columns * columns
        x3 = lax.slice_in_dim(x, 0, whole, axis=1).reshape(rows, whole // columns, columns)
        starts = lax.broadcasted_iota(jnp.uint32, (1, whole // columns), 1) * np.uint32(columns)
        found = _first(_and_rest(_left_by_columns(x3, starts, k, direction), x, whole, direction), k)
    else:
        found = _first(_triples(x, lax.broadcasted_iota(jnp.uint32, x.shape, 1), direction), k)
    return _elements(found.bits, x.dtype), found.positions


def _has_columns(n: int, k: int) -> bool:
    return k <= MAX_K_OF_COLUMNS and n >= max(MIN_LENGTH_PER_K * k, MIN_LENGTH_OF_COLUMNS)


def _columns(n: int, k: int) -> int:
    """Return a power of two near ``sqrt(n * k) / 2``: it balances the columns with the elements of k of them.

    There are at least the lanes of a tile, and at least 8 elements in a column.
    """
    return max(LANES, min(1 << (math.isqrt(n * k // 4).bit_length() - 1), n // 8))


def _triples(x: jax.Array, positions: jax.Array, direction: AxisDirection) -> _Triples:
    return _Triples(order_keys(x, direction).astype(jnp.uint32), positions, bits_of(x).astype(jnp.uint32))


def _elements(bits: jax.Array, dtype: jnp.dtype) -> jax.Array:
    return lax.bitcast_convert_type(bits.astype(f"uint{8 * dtype.itemsize}"), dtype)


def _first(triples: _Triples, k: int) -> _Triples:
    """Return the first ``k`` of every row of triples, in order."""
    return (_by_rounds if k <= MAX_ROUNDS else _by_sort)(triples, k)


def _better(one: tuple[jax.Array, ...], other: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    """Return the tuple with the greater key; of equal keys, that with the lower position."""
    wins = (one[0] > other[0]) | ((one[0] == other[0]) & (one[1] < other[1]))
    return tuple(jnp.where(wins, a, b) for a, b in zip(one, other, strict=True))


def _best(parts: tuple[jax.Array, ...], axis: int) -> tuple[jax.Array, ...]:
    """Reduce tuples along an axis to the best one."""
    none = (np.uint32(0), _NO_POSITION, *[np.uint32(0)] * (len(parts) - 2))
    best: tuple[jax.Array, ...] = lax.reduce(parts, none, _better, (axis,))
    return best


def _by_rounds(triples: _Triples, k: int) -> _Triples:
    """Take the best one k times, each time among those that come after the last."""
    taken: list[tuple[jax.Array, ...]] = []
    for _ in range(k):
        left: tuple[jax.Array, ...] = tuple(triples)
        if taken:
            key, position, _ = (part[:, None] for part in taken[-1])
            after = (triples.keys < key) | ((triples.keys == key) & (triples.positions > position))
            left = (
                jnp.where(after, triples.keys, np.uint32(0)),
                jnp.where(after, triples.positions, _NO_POSITION),
                triples.bits,
            )
        taken.append(_best(left, 1))
    return _Triples(*(jnp.stack(part, axis=1) for part in zip(*taken, strict=True)))


def _by_sort(triples: _Triples, k: int) -> _Triples:
    keys, positions, bits = lax.sort(
        (~triples.keys, triples.positions, triples.bits), dimension=1, num_keys=2, is_stable=False
    )
    return _Triples(~keys[:, :k], positions[:, :k], bits[:, :k])


def _and_rest(triples: _Triples, x: jax.Array, whole: int, direction: AxisDirection) -> _Triples:
    """Add the elements of ``x`` from position ``whole`` on."""
    rest = lax.slice_in_dim(x, whole, x.shape[1], axis=1)
    if not rest.size:
        return triples
    more = _triples(rest, lax.broadcasted_iota(jnp.uint32, rest.shape, 1) + np.uint32(whole), direction)
    return _Triples(*(jnp.concatenate(part, axis=1) for part in zip(triples, more, strict=True)))


def _left_by_chunks(x: jax.Array, k: int, direction: AxisDirection) -> _Triples:
    """Keep the ``k`` chunks of 128 neighbours that have the best elements, and what fills no chunk.

    ``by_chunk_maxima`` says why that is exact. The chunks are compared with their places, so which of equal ones stay
    is known. In which order they stay does not matter, because triples hold positions.
    """
    rows, _ = x.shape
    tiles = tiles_of(x)
    _, chunks, sublanes, _ = tiles.shape
    if sublanes == 1:
        # Else XLA computes the keys before it reduces them, and stores them.
        tiles = lax.optimization_barrier(tiles)  # type: ignore[no-untyped-call]
    maxima = order_keys(tiles, direction).max(axis=-1).swapaxes(1, 2).reshape(rows, chunks).astype(jnp.uint32)
    places = lax.broadcasted_iota(jnp.uint32, maxima.shape, 1)
    kept = _first(_Triples(maxima, places, places), k).positions
    read = read_chunks(tiles, kept)
    starts = kept * np.uint32(LANES)
    if _has_columns(k * LANES, k):
        left = _left_by_columns(read, starts, k, direction)
    else:
        positions = starts[..., None] + lax.broadcasted_iota(jnp.uint32, read.shape, 2)
        left = _triples(read.reshape(rows, -1), positions.reshape(rows, -1), direction)
    return _and_rest(left, x, chunks * LANES, direction)


def _left_by_columns(x: jax.Array, starts: jax.Array, k: int, direction: AxisDirection) -> _Triples:
    """Keep the ``k`` columns that have the best elements.

    A column is a chunk as ``by_chunk_maxima`` has it, but for its order: of two equal elements the one at the lower
    position is better, whichever column has it. So the best of each column is compared with its position.

    Args:
      x: ``[rows, c, columns]``.
      starts: ``[rows, c]`` or ``[1, c]``, the position of the first column.
      k: how many to keep.
      direction: whether the largest or the smallest come first.
    """
    rows, c, columns = x.shape
    column = lax.broadcasted_iota(jnp.uint32, x.shape, 2)
    keys = order_keys(x, direction).astype(jnp.uint32)
    key, position = _best((keys, starts[..., None] + column), 1)
    kept = _first(_Triples(key, position, lax.broadcasted_iota(jnp.uint32, (rows, columns), 1)), k).bits
    # What is kept is read by comparing and adding zeros, because an index would read a whole tile for each element.
    own = kept[:, None, :, None] == lax.broadcasted_iota(jnp.uint32, (1, 1, 1, columns), 3)
    bits = jnp.where(own, bits_of(x).astype(jnp.uint32)[:, :, None, :], np.uint32(0)).max(axis=-1).reshape(rows, c * k)
    positions = jnp.broadcast_to(starts[..., None] + kept[:, None, :], (rows, c, k)).reshape(rows, c * k)
    return _triples(_elements(bits, x.dtype), positions, direction)

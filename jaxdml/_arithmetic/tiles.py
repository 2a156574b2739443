"""See the rows of a matrix as a TPU's memory has them, in tiles, and read rows of tiles.

A tile has 8 rows of 128 lanes. Reading a single element by an index reads a whole tile, and so does reading 128.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

LANES = 128
"""The length of the rows of a tile, on every TPU."""

_SUBLANES = 8
"""How many rows a tile has."""

_READ_AT_ONCE, _MAX_PARTS = 2**10, 16
"""How many rows of 16 or 32 bits one operation reads, and how many such operations there are at most.

For a v6e, XLA has the whole operand copied first where one operation reads more, and of 16 bits for a v5e too.
``python -m benchmarks estimates`` shows what that costs, with any value here.
"""


def tiles_of(x: jax.Array) -> jax.Array:
    """Return ``x: [rows, n]`` as ``[rows of tiles, chunks, rows of a tile, 128]``; what fills no chunk is left out.

    No element moves, and the compiler sees that.
    """
    rows, n = x.shape
    whole, sublanes = n // LANES * LANES, math.gcd(rows, _SUBLANES)
    chunks = lax.slice_in_dim(x, 0, whole, axis=1).reshape(rows // sublanes, sublanes, whole // LANES, LANES)
    return chunks.swapaxes(1, 2)


def read_chunks(tiles: jax.Array, numbers: jax.Array) -> jax.Array:
    """Return the chunks ``numbers: uint32[rows, k]`` of each row of what ``tiles_of`` returned, ``[rows, k, 128]``.

    They are read as they are: what moves whole rows of tiles keeps their bits.
    """
    _, chunks, sublanes, lanes = tiles.shape
    row = lax.broadcasted_iota(jnp.uint32, numbers.shape, 0)
    of_tile = np.uint32(sublanes)
    places = (((row // of_tile) * np.uint32(chunks) + numbers) * of_tile + row % of_tile).reshape(-1)
    in_parts = tiles.dtype.itemsize > 1 and places.size <= _MAX_PARTS * _READ_AT_ONCE
    rows, size = tiles.reshape(-1, lanes), max(1, places.size)  # Of a batch without sequences nothing is read, once.
    starts = range(0, size, _READ_AT_ONCE if in_parts else size)
    read = [rows.at[places[start : start + starts.step]].get(mode="promise_in_bounds") for start in starts]
    return jnp.concatenate(read).reshape(*numbers.shape, lanes)

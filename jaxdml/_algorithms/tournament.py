"""Select by a tournament: keep k chunks, then k of their parts, then k of the parts of those, down to k elements.

Each round is as exact, and as stable, as ``by_chunk_maxima``: what is left out is beaten by k chunks that stay, each
by an element of its own. No round sees more than k times a fan of numbers, however long the row, and the row itself
is read once, but for what little of it is kept.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._algorithms.order_keys import greater_of_pairs, order_keys
from jaxdml._algorithms.selection import Among
from jaxdml._base.axis_direction import AxisDirection


def by_tournament(
    x: jax.Array, k: int, direction: AxisDirection, *, lengths: Sequence[int], stored: int, among: Among
) -> jax.Array:
    """Return the indices of the first ``k`` of every row.

    Args:
      x: rows, ``[b, n]``, with n below 2**31.
      k: how many to take, no more than there are of the longest chunks.
      direction: which end comes first.
      lengths: of chunks, round by round from the last, ascending from 1; each divides the next.
      stored: the one of them whose maxima are stored. Longer chunks are compared by these, and shorter ones read again.
      among: the method that selects in each round; the candidates stand in no order.
    """
    rows = x.shape[0]

    def keys_of(elements: jax.Array) -> jax.Array:
        return order_keys(elements, direction)

    maxima = _maxima_of_elements(x, stored, direction)
    longest = lengths[-1]
    chunks = _maxima(maxima, longest // stored)
    count = chunks.shape[1]
    kept = among(chunks, lax.broadcasted_iota(jnp.uint32, chunks.shape, 1), k, count)
    for length, part in pairwise(reversed(lengths)):
        fan = length // part
        if part < stored:
            keys = _within(x, kept, length, keys_of)
            keys = keys.reshape(rows, k * fan, part).max(axis=2)
        else:
            keys = _within(maxima, kept, length // stored, lambda keys: keys)
            keys = keys.reshape(rows, k * fan, part // stored).max(axis=2)
        parts = kept[:, :, None] * np.uint32(fan) + lax.broadcasted_iota(jnp.uint32, (1, 1, fan), 2)
        kept = among(keys, parts.reshape(rows, k * fan), k, count * (longest // part))
    return kept


def _maxima_of_elements(x: jax.Array, length: int, direction: AxisDirection) -> jax.Array:
    halves = jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize == 2
    if halves and x.shape[1] % 2 == 0 == length % 2:
        return (_maxima(greater_of_pairs(x, direction), length // 2) >> 16).astype(jnp.uint16)
    return _maxima(order_keys(x, direction), length)


def _maxima(keys: jax.Array, length: int) -> jax.Array:
    """Take the maxima of chunks; the last one is filled up with zeros, the least key."""
    rows, n = keys.shape
    filled = lax.pad(keys, keys.dtype.type(0), ((0, 0, 0), (0, -n % length, 0)))
    return filled.reshape(rows, -(-n // length), length).max(axis=2)


def _within(source: jax.Array, kept: jax.Array, length: int, keys_of: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """Return the keys of the kept chunks, ``[b, k, length]``.

    What lies beyond the end has the least key and the greatest positions, so anything real comes before it. As each
    kept chunk holds something real, there is always enough of that.
    """
    rows, n = source.shape
    places = kept[:, :, None] * np.uint32(length) + lax.broadcasted_iota(jnp.uint32, (1, 1, length), 2)
    inside = jnp.minimum(places, np.uint32(n - 1)).reshape(rows, kept.shape[1] * length)
    keys = keys_of(jnp.take_along_axis(source, inside, axis=1, mode="promise_in_bounds")).reshape(places.shape)
    return keys if n % length == 0 else jnp.where(places < n, keys, keys.dtype.type(0))

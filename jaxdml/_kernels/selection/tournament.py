"""Select in rounds: keep k chunks, then k of their parts, then k of the parts of those, down to k elements.

Each round is as exact, and as stable, as ``by_chunk_maxima``: whatever it drops comes after k elements that stay, one
from each kept chunk. A round splits each kept chunk into a fixed number of parts, the arity. It compares k times the
arity candidates, however long the sequence is. The sequence itself is read once, except for the few chunks that are
kept.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.order_keys import greater_key_of_pairs, order_keys
from jaxdml._base.axis_direction import AxisDirection
from jaxdml._kernels.selection.chunk_maxima import Among


def by_tournament(
    x: jax.Array, k: int, direction: AxisDirection, *, lengths: Sequence[int], stored: int, among: Among
) -> jax.Array:
    """Return the indices of the first ``k`` of every sequence.

    Args:
      x: ``[..., n]``, n below 2**31.
      k: how many to take, at most the number of chunks of the greatest length.
      direction: whether the largest or the smallest come first.
      lengths: the chunk lengths of the rounds, last round first: ascending from 1, each a multiple of the one before.
      stored: one of ``lengths``, the one whose maxima are stored. The maxima of longer chunks are computed from the
        stored ones, those of shorter chunks from the elements, read again.
      among: the method that selects in each round, among candidates in no particular order.
    """
    *batch, _ = x.shape

    def keys_of(elements: jax.Array) -> jax.Array:
        return order_keys(elements, direction)

    maxima = _maxima_of_elements(x, stored, direction)
    longest = lengths[-1]
    chunks = _maxima(maxima, longest // stored)
    count = chunks.shape[-1]
    kept = among(chunks, lax.broadcasted_iota(jnp.uint32, chunks.shape, chunks.ndim - 1), k, count)
    for length, part in pairwise(reversed(lengths)):
        arity = length // part
        if part < stored:
            keys = _within(x, kept, length, keys_of)
            keys = keys.reshape(*batch, k * arity, part).max(axis=-1)
        else:
            keys = _within(maxima, kept, length // stored, lambda keys: keys)
            keys = keys.reshape(*batch, k * arity, part // stored).max(axis=-1)
        parts = kept[..., None] * np.uint32(arity) + _iota_along_last(kept.ndim, arity)
        kept = among(keys, parts.reshape(*batch, k * arity), k, count * (longest // part))
    return kept


def _iota_along_last(batch_rank: int, size: int) -> jax.Array:
    return lax.broadcasted_iota(jnp.uint32, (1,) * batch_rank + (size,), batch_rank)


def _maxima_of_elements(x: jax.Array, length: int, direction: AxisDirection) -> jax.Array:
    has_two_bytes = jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize == 2
    if has_two_bytes and x.shape[-1] % 2 == 0 == length % 2:
        return (_maxima(greater_key_of_pairs(x, direction), length // 2) >> 16).astype(jnp.uint16)
    return _maxima(order_keys(x, direction), length)


def _maxima(keys: jax.Array, length: int) -> jax.Array:
    """Take the maxima of chunks; the last chunk is padded with zeros, the least key."""
    *batch, n = keys.shape
    padded = lax.pad(keys, keys.dtype.type(0), [(0, 0, 0)] * len(batch) + [(0, -n % length, 0)])
    return padded.reshape(*batch, -(-n // length), length).max(axis=-1)


def _within(source: jax.Array, kept: jax.Array, length: int, keys_of: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """Return the keys of the kept chunks, ``[..., k, length]``.

    The places that the last chunk has beyond the end of ``source`` get the least key. Their positions are the greatest,
    so every real element comes before them. Each kept chunk holds a real element, so at least k candidates are real.
    """
    *batch, n = source.shape
    places = kept[..., None] * np.uint32(length) + _iota_along_last(kept.ndim, length)
    inside = jnp.minimum(places, np.uint32(n - 1)).reshape(*batch, kept.shape[-1] * length)
    keys = keys_of(jnp.take_along_axis(source, inside, axis=-1, mode="promise_in_bounds")).reshape(places.shape)
    return keys if n % length == 0 else jnp.where(places < n, keys, keys.dtype.type(0))

"""Find the first k of every row in the order of selection, ties by ascending index.

Every method here takes rows ``x: [b, n]`` and returns their indices ``[b, k]``, in order. The values follow by
one exact gather, so no method ever has to carry them.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._algorithms.order_keys import as_float32, order_keys
from jaxdml._base.axis_direction import AxisDirection

Select = Callable[[jax.Array, int, AxisDirection], jax.Array]
Keep = Callable[[jax.Array, int], jax.Array]
"""Takes keys ``[b, m]`` and returns the places of the k first of every row, in ascending order of place."""

Maxima = Callable[[jax.Array], jax.Array]
"""The maximum along the last axis of keys ``[b, chunks, chunk]``."""


def by_sort(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Sort the whole row, stably, with its indices."""
    # lax.sort puts small keys first, so it gets the keys of the opposite direction.
    keys = order_keys(x, AxisDirection(1 - direction))
    index_dtype = jnp.uint32 if x.shape[1] <= np.iinfo(jnp.uint32).max else jnp.uint64
    positions = lax.broadcasted_iota(index_dtype, x.shape, 1)
    _, order = lax.sort((keys, positions), dimension=1, is_stable=True, num_keys=1)
    return order[:, :k]


def by_integer_top_k(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Let ``lax.top_k`` select among the integer keys."""
    return lax.top_k(order_keys(x, direction), k)[1].astype(jnp.uint32)


def by_float_top_k(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Let ``lax.top_k`` select among the keys written as float32, where those are ordered by their bits."""
    return lax.top_k(as_float32(order_keys(x, direction)), k)[1].astype(jnp.uint32)


def maxima(keys: jax.Array) -> jax.Array:
    """Take the maxima at once."""
    return keys.max(axis=-1)


def maxima_in_two_steps(keys: jax.Array) -> jax.Array:
    """Take the maxima across lanes, then within: XLA's CPU backend does the first step with vectors.

    The second it unrolls for 8 lanes, and does one by one, for few chunks, for 32. The barrier keeps it from merging
    the steps again, into a loop that it does not vectorize.
    """
    chunk = keys.shape[-1]
    if chunk <= 8:
        return maxima(keys)
    lanes = 8 if chunk < 64 else 32
    across = keys.reshape(*keys.shape[:-1], chunk // lanes, lanes).max(axis=-2)
    return maxima(lax.optimization_barrier(across))  # type: ignore[no-untyped-call]


def keep_selected(select: Select) -> Keep:
    """Keep what a method selects."""
    return lambda keys, k: lax.sort(select(keys, k, AxisDirection.DECREASING), dimension=1, is_stable=False)


def by_chunk_maxima(
    x: jax.Array,
    k: int,
    direction: AxisDirection,
    *,
    chunk: int,
    keep: Keep,
    select: Select,
    maxima_of: Maxima = maxima,
) -> jax.Array:
    """Keep the k chunks with the greatest maxima and select within those.

    Exact, and stable. Order the chunks by their maximum, ties by position, and let chunk c not be among the
    first k. Each of the k chunks before it holds an element that beats everything in c: its maximum is greater,
    or it is equal and stands in an earlier chunk, at a smaller index. So k elements come before any of c, and c
    can be dropped. The kept chunks stay in ascending position, so ties among the candidates keep their order.
    Elements that fill no chunk at the end stay candidates.

    Args:
      x: rows, ``[b, n]``.
      k: how many to take, no more than there are chunks.
      direction: which end comes first.
      chunk: the length of a chunk, a power of two.
      keep: the method that keeps chunks by their maxima.
      select: the method that selects among the candidates, by decreasing keys.
      maxima_of: the method that takes the maxima.
    """
    rows, n = x.shape
    chunks, tail = divmod(n, chunk)
    whole = chunks * chunk
    grid = lax.slice_in_dim(x, 0, whole, axis=1).reshape(rows, chunks, chunk)
    kept = keep(maxima_of(order_keys(grid, direction)), k)
    candidates = jax.vmap(lambda row, numbers: row.at[numbers].get(mode="promise_in_bounds"))(grid, kept)
    # What is left at the end is no chunk: all of it is a candidate, and stands last as it did.
    rest = lax.slice_in_dim(x, whole, n, axis=1)
    keys = order_keys(jnp.concatenate([candidates.reshape(rows, k * chunk), rest], axis=1), direction)
    places = select(keys, k, AxisDirection.DECREASING)
    index_dtype = jnp.uint32 if n <= np.iinfo(jnp.uint32).max else jnp.uint64
    from_tail = places >= k * chunk
    numbers = jnp.take_along_axis(kept, jnp.where(from_tail, 0, places // chunk), axis=1, mode="promise_in_bounds")
    from_chunks = numbers.astype(index_dtype) * chunk + (places % chunk).astype(index_dtype)
    if not tail:
        return from_chunks
    return jnp.where(from_tail, (places - k * chunk).astype(index_dtype) + index_dtype(whole), from_chunks)

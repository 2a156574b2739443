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
"""Takes keys ``[b, m]`` and returns the places of the k first of every row."""

Among = Callable[[jax.Array, jax.Array, int, int], jax.Array]
"""Takes keys ``[b, m]``, their positions in a row of n, k and n; returns the positions of the k first, in order."""

Maxima = Callable[[jax.Array, AxisDirection], jax.Array]
"""The greatest key along the last axis of elements ``[b, chunks, chunk]``."""


def by_sort(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Sort the whole row, stably, with its indices."""
    # lax.sort puts small keys first, so it gets the keys of the opposite direction.
    keys = order_keys(x, AxisDirection(1 - direction))
    index_dtype = jnp.uint32 if x.shape[1] - 1 <= np.iinfo(jnp.uint32).max else jnp.uint64
    positions = lax.broadcasted_iota(index_dtype, x.shape, 1)
    _, order = lax.sort((keys, positions), dimension=1, is_stable=True, num_keys=1)
    return order[:, :k]


def by_integer_top_k(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Let ``lax.top_k`` select among the integer keys."""
    return lax.top_k(order_keys(x, direction), k)[1].astype(jnp.uint32)


def by_float_top_k(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Let ``lax.top_k`` select among the keys written as float32, where those are ordered by their bits."""
    return lax.top_k(as_float32(order_keys(x, direction)), k)[1].astype(jnp.uint32)


def maxima(grid: jax.Array, direction: AxisDirection) -> jax.Array:
    """Take the maxima of the keys at once."""
    return order_keys(grid, direction).max(axis=-1)


def maxima_of_integers(grid: jax.Array, direction: AxisDirection) -> jax.Array:
    """Take the extreme integers and make keys of those alone: XLA's CPU backend has a kernel for bytes as they are."""
    extremes = grid.max(axis=-1) if direction == AxisDirection.DECREASING else grid.min(axis=-1)
    return order_keys(extremes, direction)


def maxima_in_two_steps(grid: jax.Array, direction: AxisDirection) -> jax.Array:
    """Take the maxima of the keys across lanes, then within: XLA's CPU backend does the first step with vectors.

    The second it unrolls for 8 lanes, and does one by one, for few chunks, for 32. The barrier keeps it from merging
    the steps again, into a loop that it does not vectorize.
    """
    chunk = grid.shape[-1]
    if chunk <= 8:
        return maxima(grid, direction)
    lanes = 8 if chunk < 64 else 32
    keys = order_keys(grid.reshape(*grid.shape[:-1], chunk // lanes, lanes), direction)
    return lax.optimization_barrier(keys.max(axis=-2)).max(axis=-1)  # type: ignore[no-untyped-call]


def keep_as_selected(select: Select) -> Keep:
    """Keep what a method selects."""
    return lambda keys, k: select(keys, k, AxisDirection.DECREASING)


def ascending(places: jax.Array) -> jax.Array:
    """Sort the places of every row, which are all different."""
    return lax.sort(places, dimension=1, is_stable=False)


def keep_in_order(select: Select, ascending: Callable[[jax.Array], jax.Array] = ascending) -> Keep:
    """Keep what a method selects, by ascending place."""
    kept = keep_as_selected(select)
    return lambda keys, k: ascending(kept(keys, k))


def among_in_order(select: Select) -> Among:
    """Select by place among candidates whose positions ascend."""

    def among(keys: jax.Array, positions: jax.Array, k: int, n: int) -> jax.Array:
        del n
        places = select(keys, k, AxisDirection.DECREASING)
        return jnp.take_along_axis(positions, places, axis=1, mode="promise_in_bounds")

    return among


def by_chunk_maxima(
    x: jax.Array,
    k: int,
    direction: AxisDirection,
    *,
    chunk: int,
    keep: Keep,
    among: Among,
    maxima_of: Maxima = maxima,
) -> jax.Array:
    """Keep the k chunks with the greatest maxima and select within those.

    Exact, and stable. Order the chunks by their maximum, ties by position, and let chunk c not be among the
    first k. Each of the k chunks before it holds an element that beats everything in c: its maximum is greater,
    or it is equal and stands in an earlier chunk, at a smaller index. So k elements come before any of c, and c
    can be dropped. Elements that fill no chunk at the end stay candidates.

    Args:
      x: rows, ``[b, n]``.
      k: how many to take, no more than there are chunks.
      direction: which end comes first.
      chunk: the length of a chunk, a power of two.
      keep: the method that keeps chunks by their maxima.
      among: the method that selects among the candidates; they stand in the order of what ``keep`` returns.
      maxima_of: the method that takes the maxima.
    """
    rows, n = x.shape
    whole = n // chunk * chunk
    index_dtype = jnp.uint32 if n - 1 <= np.iinfo(jnp.uint32).max else jnp.uint64
    grid = lax.slice_in_dim(x, 0, whole, axis=1).reshape(rows, whole // chunk, chunk)
    kept = keep(maxima_of(grid, direction), k)
    candidates = jax.vmap(lambda row, numbers: row.at[numbers].get(mode="promise_in_bounds"))(grid, kept)
    within = lax.broadcasted_iota(index_dtype, candidates.shape, 2)
    positions = kept.astype(index_dtype)[:, :, None] * index_dtype(chunk) + within
    # What is left at the end is no chunk: all of it is a candidate, and stands last as it did.
    rest = lax.slice_in_dim(x, whole, n, axis=1)
    positions_of_rest = index_dtype(min(whole, n - 1)) + lax.broadcasted_iota(index_dtype, rest.shape, 1)
    keys = order_keys(jnp.concatenate([candidates.reshape(rows, k * chunk), rest], axis=1), direction)
    return among(keys, jnp.concatenate([positions.reshape(rows, k * chunk), positions_of_rest], axis=1), k, n)

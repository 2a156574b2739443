"""Prune a sequence by the maxima of its chunks, then select among what is left.

A position counts along the sequence. A place counts along an array of keys, such as those of candidates.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.exact_gather import over_batch
from jaxdml._arithmetic.order_keys import order_keys
from jaxdml._arithmetic.sizes import index_dtype
from jaxdml._base.axis_direction import AxisDirection
from jaxdml._kernels.selection.whole_axis import Select

Keep = Callable[[jax.Array, int], jax.Array]
"""Takes keys ``[..., m]`` and ``k``; returns the places ``[..., k]`` of the first ``k``."""

Among = Callable[[jax.Array, jax.Array, int, int], jax.Array]
"""Takes keys ``[..., m]``, their positions in a sequence, k and its length n; returns the positions of the first k."""

Maxima = Callable[[jax.Array, AxisDirection], jax.Array]
"""Takes elements ``[..., chunks, chunk]``; returns the greatest key of each chunk, ``[..., chunks]``."""


def maxima(chunks: jax.Array, direction: AxisDirection) -> jax.Array:
    """Reduce the keys of each chunk in one step."""
    return order_keys(chunks, direction).max(axis=-1)


def maxima_of_integers(chunks: jax.Array, direction: AxisDirection) -> jax.Array:
    """Reduce the integers themselves and compute keys of the results: CPUs may have a fast maximum of bytes."""
    extremes = chunks.max(axis=-1) if direction == AxisDirection.DECREASING else chunks.min(axis=-1)
    return order_keys(extremes, direction)


def maxima_in_two_steps(chunks: jax.Array, direction: AxisDirection) -> jax.Array:
    """Reduce each chunk to one maximum per vector lane, then those: XLA's CPU backend vectorizes the first step.

    It unrolls the second step for 8 lanes. The barrier keeps XLA from merging the two steps into one loop that it does
    not vectorize.
    """
    chunk = chunks.shape[-1]
    if chunk <= 8:
        return maxima(chunks, direction)
    lanes = 8 if chunk < 64 else 32
    keys = order_keys(chunks.reshape(*chunks.shape[:-1], chunk // lanes, lanes), direction)
    return lax.optimization_barrier(keys.max(axis=-2)).max(axis=-1)  # type: ignore[no-untyped-call]


def keep_as_selected(select: Select) -> Keep:
    """Keep the chunks that ``select`` selects, in the order in which it returns them."""
    return lambda keys, k: select(keys, k, AxisDirection.DECREASING)


def ascending(places: jax.Array) -> jax.Array:
    """Sort the places, which are all distinct."""
    return lax.sort(places, dimension=places.ndim - 1, is_stable=False)


def keep_in_order(select: Select, ascending: Callable[[jax.Array], jax.Array] = ascending) -> Keep:
    """Keep the chunks that ``select`` selects, sorted by their places."""
    kept = keep_as_selected(select)
    return lambda keys, k: ascending(kept(keys, k))


def among_in_order(select: Select) -> Among:
    """Select among candidates whose positions ascend, so that equal keys come out lowest position first."""

    def among(keys: jax.Array, positions: jax.Array, k: int, n: int) -> jax.Array:
        del n
        places = select(keys, k, AxisDirection.DECREASING)
        return jnp.take_along_axis(positions, places, axis=-1, mode="promise_in_bounds")

    return among


def among_by_sort(keys: jax.Array, positions: jax.Array, k: int, n: int) -> jax.Array:
    """Sort candidates whose positions ascend, together with their positions."""
    del n
    return lax.sort((~keys, positions), dimension=keys.ndim - 1, is_stable=True, num_keys=1)[1][..., :k]


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
    """Keep the ``k`` chunks with the greatest maxima and select within those.

    Exact, and stable. Order the chunks by their maximum, ties by position, and let chunk c not be among the first k.
    Each of the k chunks before it holds an element that comes before all of c: its maximum is greater, or it is equal
    and stands in an earlier chunk, at a smaller index. So k elements come before any of c, and c can be dropped.
    Elements at the end that fill no chunk stay candidates.

    Args:
      x: ``[..., n]``.
      k: how many to take, at most the number of chunks.
      direction: whether the largest or the smallest come first.
      chunk: the length of a chunk, a power of two.
      keep: the method that keeps chunks by their maxima.
      among: the method that selects among the candidates, which come in the order of what ``keep`` returns.
      maxima_of: the method that takes the maxima.
    """
    *batch, n = x.shape
    whole = n // chunk * chunk
    dtype = index_dtype(n)
    chunks = lax.slice_in_dim(x, 0, whole, axis=-1).reshape(*batch, whole // chunk, chunk)
    kept = keep(maxima_of(chunks, direction), k)
    take = over_batch(lambda row, numbers: row.at[numbers].get(mode="promise_in_bounds"), len(batch))
    candidates = take(chunks, kept)
    within = lax.broadcasted_iota(dtype, candidates.shape, candidates.ndim - 1)
    positions = kept.astype(dtype)[..., None] * dtype.type(chunk) + within
    # The elements after the last whole chunk are all candidates. They come last, as they do in x.
    rest = lax.slice_in_dim(x, whole, n, axis=-1)
    positions_of_rest = dtype.type(min(whole, n - 1)) + lax.broadcasted_iota(dtype, rest.shape, rest.ndim - 1)
    keys = order_keys(jnp.concatenate([candidates.reshape(*batch, k * chunk), rest], axis=-1), direction)
    return among(keys, jnp.concatenate([positions.reshape(*batch, k * chunk), positions_of_rest], axis=-1), k, n)

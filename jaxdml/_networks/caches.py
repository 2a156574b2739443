"""Caches: arrays of keys or values, one row of the batch after the other, of which some are replaced."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._base.shapes import is_static
from jaxdml._placement.layout import on_explicit_axes

MOST_BYTES = 2**20
"""A cache of at most so many bytes is written whole on CUDA where one place of each row is new. On an H100 a step of
attention of one query took 0.67 to 0.87 of the time so. Larger caches, of one row, gained too, up to 8 MiB; but a batch
of those, as under ``jax.vmap``, would be many bytes for one place."""


def tensor_scatter(cache: Any, update: Any, starts: Any, *, axis: int, circular: bool = False) -> Any:
    """Write an update from a start on, one for each row of the batch; what is out of range is not written."""
    places = starts[:, None] + jnp.arange(update.shape[axis])[None]
    if circular:
        places = places % cache.shape[axis]
    by_scatter, by_selection = (partial(form, axis=axis) for form in (_by_scatter, _by_selection))
    small = is_static(*cache.shape, update.shape[axis]) and update.shape[axis] == 1 and cache.nbytes <= MOST_BYTES
    if not small or on_explicit_axes(cache, places, update):
        return by_scatter(cache, places, update)
    return lax.platform_dependent(cache, places, update, cuda=by_selection, default=by_scatter)


def _by_scatter(cache: Any, places: Any, update: Any, *, axis: int) -> Any:
    """Write in place.

    For one row XLA for CUDA writes a slice. It reads what is there before, since the place may be out of range: that is
    four kernels for keys and values.
    """

    def of_one(cache: Any, places: Any, update: Any) -> Any:
        return cache.at[(*[slice(None)] * (axis - 1), places)].set(update, mode="drop")

    return jax.vmap(of_one)(cache, *(on_shards_of_rows(cache, x) for x in (places, update)))


def _by_selection(cache: Any, place: Any, update: Any, *, axis: int) -> Any:
    """Write each element anew: in one place of each row that of the update."""
    size = cache.shape[axis]
    chosen = jnp.arange(size)[None] == jnp.where(place < 0, place + size, place)
    others = [dimension for dimension in range(1, cache.ndim) if dimension != axis]
    return jnp.where(jnp.expand_dims(chosen, others), update.astype(cache.dtype), cache)


def on_shards_of_rows(cache: Any, x: Any) -> Any:
    """Return an array whose dimension 0 is sharded as that of a cache is, where the types of arrays say so."""
    wanted, own = (jax.typeof(each).sharding for each in (cache, x))
    if wanted.spec[:1] == own.spec[:1]:
        return x
    spec = jax.P(wanted.spec[0], *own.spec[1:])  # type: ignore[no-untyped-call]
    resharded: jax.Array = jax.sharding.reshard(x, jax.NamedSharding(wanted.mesh, spec))  # type: ignore[no-untyped-call]
    return resharded

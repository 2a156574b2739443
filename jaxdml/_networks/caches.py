"""Caches: arrays of keys or values, one row of the batch after the other, of which some are replaced."""

from typing import Any

import jax
import jax.numpy as jnp


def tensor_scatter(cache: Any, update: Any, starts: Any, *, axis: int, circular: bool = False) -> Any:
    """Write an update from a start on, one for each row of the batch; what is out of range is not written."""
    places = starts[:, None] + jnp.arange(update.shape[axis])[None]
    if circular:
        places = places % cache.shape[axis]

    def of_one(cache: Any, places: Any, update: Any) -> Any:
        return cache.at[(*[slice(None)] * (axis - 1), places)].set(update, mode="drop")

    return jax.vmap(of_one)(cache, *(on_shards_of_rows(cache, x) for x in (places, update)))


def on_shards_of_rows(cache: Any, x: Any) -> Any:
    """Return an array whose dimension 0 is sharded as that of a cache is, where the types of arrays say so."""
    wanted, own = (jax.typeof(each).sharding for each in (cache, x))
    if wanted.spec[:1] == own.spec[:1]:
        return x
    spec = jax.P(wanted.spec[0], *own.spec[1:])  # type: ignore[no-untyped-call]
    resharded: jax.Array = jax.sharding.reshard(x, jax.NamedSharding(wanted.mesh, spec))  # type: ignore[no-untyped-call]
    return resharded

"""Repeat values that belong to blocks of an array."""

import jax
from jax import lax


def repeated(x: jax.Array, axis: int, block: int, length: int) -> jax.Array:
    """Return ``x`` with each element repeated ``block`` times along ``axis``, cut to ``length`` elements."""
    count = x.shape[axis]
    each = (*x.shape[: axis + 1], block, *x.shape[axis + 1 :])
    kept = [d if d <= axis else d + 1 for d in range(x.ndim)]
    whole = (*x.shape[:axis], count * block, *x.shape[axis + 1 :])
    spread = lax.broadcast_in_dim(x, each, kept).reshape(whole)
    return lax.slice_in_dim(spread, 0, length, axis=axis)

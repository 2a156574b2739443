"""Bring indices into canonical form: int32 where the sizes allow, negative ones counted from the end."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_INT32_MAX = np.iinfo(np.int32).max


def narrow(indices: Any, sizes: tuple[int, ...]) -> Any:
    """Convert indices of any integer dtype to int32, or to int64 if a dimension is too long for int32.

    An index in range keeps its value. One that is too low or too high stays too low or too high. NumPy arrays are
    clipped by NumPy, because JAX would first cut 64-bit indices to 32 bits.

    Args:
      indices: integers, ``[..., t]``.
      sizes: the ``t`` sizes of the dimensions that they index.
    """
    if max(sizes) > _INT32_MAX:
        return indices.astype(np.int64)
    xp = np if isinstance(indices, np.ndarray) else jnp
    bounds = np.iinfo(indices.dtype)
    if bounds.max > _INT32_MAX:
        limits = _along_last(sizes, indices.ndim)
        lowest = np.maximum(-limits - 1, int(bounds.min))
        indices = xp.clip(indices, lowest.astype(indices.dtype), limits.astype(indices.dtype))
    return indices.astype(np.int32)


def _along_last(sizes: tuple[int, ...], rank: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the sizes along the last of ``rank`` axes."""
    return np.asarray(sizes, np.int64).reshape((1,) * (rank - 1) + (-1,))


def wrap(indices: jax.Array, sizes: tuple[int, ...], mode: str) -> jax.Array:
    """Count negative indices from the end. In mode ``"drop"``, one that is still negative becomes its dimension's size.

    The size is out of range, so such an update is dropped. A negative index would be out of range too, but some
    backends have been seen to wrap it around to a real element.
    """
    limit = _along_last(sizes, indices.ndim).astype(indices.dtype)
    indices = jnp.where(indices < 0, indices + limit, indices)
    return jnp.where(indices < 0, limit, indices) if mode == "drop" else indices


def in_block(
    indices: jax.Array, sizes: tuple[int, ...], starts: jax.Array, block_sizes: tuple[int, ...], mode: str
) -> jax.Array:
    """Count the results of ``wrap`` from the start of a block; one outside of the block becomes the block's size.

    Args:
      indices: integers ``[..., t]``, the results of ``wrap``.
      sizes: the ``t`` sizes of the whole dimensions.
      starts: ``[t]``, where the block begins, of the dtype of ``indices``.
      block_sizes: the ``t`` sizes of the block.
      mode: ``"clip"`` moves an index that is out of range of the whole dimension to the nearest valid one.
    """
    if mode == "clip":
        indices = jnp.clip(indices, 0, (_along_last(sizes, indices.ndim) - 1).astype(indices.dtype))
    local = indices - jnp.expand_dims(starts, range(indices.ndim - 1))
    limit = _along_last(block_sizes, indices.ndim).astype(indices.dtype)
    return jnp.where((local < 0) | (local > limit), limit, local)

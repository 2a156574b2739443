"""Bring indices into canonical form: int32 where the sizes allow, negative ones counted from the end."""

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._arithmetic.sizes import at_most
from jaxdml._base.shapes import is_static

_INT32_MAX = np.iinfo(np.int32).max


def longest(sizes: Iterable[int]) -> int:
    """Return the longest size, 0 if there is none. Symbolic sizes count as the longest that int32 can index."""
    return max(sizes, key=_as_number, default=0)


def fits_int32(size: int) -> bool:
    """Tell whether int32 can index a dimension. A symbolic size is taken to fit unless its bounds exclude it."""
    return at_most(size, _INT32_MAX) is not False


def _as_number(size: int) -> int:
    return size if is_static(size) else _INT32_MAX + (not fits_int32(size))


def narrow(indices: Any, sizes: tuple[int, ...]) -> Any:
    """Convert indices of any integer dtype to int32, or to int64 if a dimension is too long for int32.

    An index in range keeps its value. One that is too low or too high stays too low or too high. NumPy arrays are
    clipped by NumPy, because JAX would first cut 64-bit indices to 32 bits.

    Args:
      indices: integers, ``[..., t]``.
      sizes: the ``t`` sizes of the dimensions that they index.
    """
    if not all(map(fits_int32, sizes)):
        return indices.astype(np.int64)
    xp = np if isinstance(indices, np.ndarray) else jnp
    bounds = np.iinfo(indices.dtype)
    if bounds.max > _INT32_MAX:
        limits = limits_along_last([_as_number(size) for size in sizes], indices.ndim, np.dtype(np.int64))
        lowest = np.maximum(-limits - 1, int(bounds.min))
        indices = xp.clip(indices, lowest.astype(indices.dtype), limits.astype(indices.dtype))
    return indices.astype(np.int32)


def limits_along_last(sizes: Sequence[int], rank: int, dtype: jnp.dtype) -> Any:
    """Return the sizes along the last of ``rank`` axes: a NumPy array if all of them are numbers."""
    if is_static(*sizes):
        return np.asarray(sizes, np.int64).astype(dtype).reshape((1,) * (rank - 1) + (-1,))
    return jnp.stack([jnp.asarray(size, dtype) for size in sizes]).reshape((1,) * (rank - 1) + (-1,))


def wrap(indices: jax.Array, sizes: tuple[int, ...], mode: str) -> jax.Array:
    """Count negative indices from the end. In mode ``"drop"``, one that is still negative becomes its dimension's size.

    The size is out of range, so such an update is dropped. A negative index would be out of range too, but some
    backends have been seen to wrap it around to a real element.
    """
    limit = limits_along_last(sizes, indices.ndim, indices.dtype)
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
        indices = jnp.clip(indices, 0, limits_along_last(sizes, indices.ndim, indices.dtype) - 1)
    local = indices - jnp.expand_dims(starts, range(indices.ndim - 1))
    limit = limits_along_last(block_sizes, indices.ndim, indices.dtype)
    return jnp.where((local < 0) | (local > limit), limit, local)

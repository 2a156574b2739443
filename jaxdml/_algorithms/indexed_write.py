"""Write slices at indexed places with ``lax.scatter``, with one rule for duplicates on every device."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._algorithms.order_keys import bits_of

_INT32_MAX = np.iinfo(np.int32).max


def narrow(indices: Any, sizes: tuple[int, ...]) -> Any:
    """Bring indices of any integer dtype to int32, each one still in range, too low or too high as it was.

    NumPy arrays stay with NumPy, so that 64-bit ones are judged before JAX could cut them. Only where a
    dimension is too long for int32 does the result keep 64 bits.

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
    """Lay the sizes along the last of ``rank`` axes."""
    return np.asarray(sizes, np.int64).reshape((1,) * (rank - 1) + (-1,))


def wrap(indices: jax.Array, sizes: tuple[int, ...], mode: str) -> jax.Array:
    """Count negative indices from the end; an index still negative is out of range and, dropped, goes high."""
    limit = _along_last(sizes, indices.ndim).astype(indices.dtype)
    indices = jnp.where(indices < 0, indices + limit, indices)
    # A positive sentinel: some backends have been seen to wrap a negative one around to a real element.
    return jnp.where(indices < 0, limit, indices) if mode == "drop" else indices


def linear(along: jax.Array, shape: tuple[int, ...], axis: int, mode: str) -> jax.Array:
    """Turn indices along one axis, each at its own place off that axis, into indices of the flattened array.

    One coordinate is less to compute, hold and check than one per dimension. An index out of range points beyond
    the end of the whole array, or in mode ``"clip"`` to the nearest element of its own sequence.
    """
    size = shape[axis]
    if mode == "clip":
        along = jnp.clip(along, 0, size - 1)
    places = along * math.prod(shape[axis + 1 :])
    for dimension in range(len(shape)):
        if dimension != axis:
            stride = math.prod(shape[dimension + 1 :])
            places += stride * lax.broadcasted_iota(along.dtype, along.shape, dimension)
    return jnp.where((along >= 0) & (along < size), places, math.prod(shape))


def write(
    x: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    mode: str,
    duplicates: str,
    word: int = 0,
    by_place: bool = False,
) -> jax.Array:
    """Return ``x`` with ``updates[i]`` at ``x[indices[i]]``.

    Args:
      x: ``[d_1, ..., d_r]``.
      indices: ``[n, t]`` with ``t >= 1``, from :func:`wrap`.
      updates: ``[n, d_(t+1), ..., d_r]``, of the dtype of ``x``.
      mode: ``"drop"``, ``"clip"`` or ``"promise_in_bounds"``.
      duplicates: ``"unspecified"``, ``"last"`` or ``"unique"``.
      word: 0 to move the elements as they are. Otherwise they move as integers, so many together as have ``word`` bytes
        where a slice is a multiple of that, and one by one where it is not. A device that widens narrow floats to
        move them quiets signalling NaNs unless they are integers, and one that has no store of few bytes takes many
        steps for it. But some take a pass over all of ``x`` to make integers of it, in place or not.
      by_place: whether each place is to take the value of its last update, instead of each update to go to its place;
        only for single elements, ``t == r``, and with ``duplicates="last"``. All of ``x`` is read and written for it.
    """
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return _write_floats(x, indices, updates, mode, duplicates, word, by_place)
    return _write(x, indices, updates, mode, duplicates, word, by_place)


def _dimension_numbers(rank: int, t: int) -> lax.ScatterDimensionNumbers:
    leading = tuple(range(t))
    return lax.ScatterDimensionNumbers(
        update_window_dims=tuple(range(1, 1 + rank - t)),
        inserted_window_dims=leading,
        scatter_dims_to_operand_dims=leading,
    )


def _write(
    x: jax.Array, indices: jax.Array, updates: jax.Array, mode: str, duplicates: str, word: int, by_place: bool
) -> jax.Array:
    moved, moved_updates = x, updates
    if word:
        together = word // x.dtype.itemsize
        if not together or math.prod(updates.shape[1:]) % together:
            together = 1
        moved, moved_updates = _words(x, indices.shape[1], together), _words(updates, 1, together)
    if by_place:
        ordinals = _ordinals(x.shape, indices, mode)
        written_there = moved_updates.at[jnp.maximum(ordinals, 1) - 1].get(mode="promise_in_bounds")
        written = jnp.where(ordinals > 0, written_there, moved)
    else:
        if duplicates == "last":
            writers = _last_writers(x.shape, indices, mode)
            # Every update of one element now carries the last one's value, so their order cannot matter.
            moved_updates = moved_updates.at[writers].get(mode="promise_in_bounds")
        written = _scatter(moved, indices, moved_updates, mode, duplicates)
    return lax.bitcast_convert_type(written, x.dtype).reshape(x.shape) if word else written


def _words(x: jax.Array, leading: int, together: int) -> jax.Array:
    """Make integers of so many elements each; if of several, the dimensions after the ``leading`` ones become one."""
    bits = bits_of(x)
    if together == 1:
        return bits
    count = math.prod(x.shape[leading:]) // together
    rows = bits.reshape(*x.shape[:leading], count, together)
    return lax.bitcast_convert_type(rows, f"uint{8 * together * x.dtype.itemsize}")


def _scatter(x: jax.Array, indices: jax.Array, updates: jax.Array, mode: str, duplicates: str) -> jax.Array:
    numbers = _dimension_numbers(x.ndim, indices.shape[1])
    scatter_mode = lax.GatherScatterMode.from_any(mode)
    unique = duplicates == "unique"
    return lax.scatter(x, indices, updates, numbers, unique_indices=unique, mode=scatter_mode)


def _ordinals(shape: tuple[int, ...], indices: jax.Array, mode: str) -> jax.Array:
    """Number the updates from 1 and leave at every place the number of the last one that writes there, or 0."""
    n, t = indices.shape
    return lax.scatter_max(
        jnp.zeros(shape[:t], jnp.uint32),
        indices,
        1 + lax.iota(jnp.uint32, n),
        _dimension_numbers(t, t),
        mode=lax.GatherScatterMode.from_any(mode),
    )


def _at(ordinals: jax.Array, indices: jax.Array, mode: str) -> jax.Array:
    """Read ``ordinals`` where each update writes, and 0 where it is dropped."""
    read = "fill" if mode == "drop" else mode
    leading = tuple(range(ordinals.ndim))
    numbers = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=leading, start_index_map=leading)
    return lax.gather(ordinals, indices, numbers, (1,) * ordinals.ndim, mode=read, fill_value=0)


def _last_writers(shape: tuple[int, ...], indices: jax.Array, mode: str) -> jax.Array:
    """For each update, say which one is the last to write its place; itself, if it is dropped."""
    ordinals = _at(_ordinals(shape, indices, mode), indices, mode)
    own = lax.iota(jnp.uint32, indices.shape[0])
    return jnp.where(ordinals == 0, own, ordinals - 1)


@partial(jax.custom_jvp, nondiff_argnums=(3, 4, 5, 6))
def _write_floats(
    x: jax.Array, indices: jax.Array, updates: jax.Array, mode: str, duplicates: str, word: int, by_place: bool
) -> jax.Array:
    return _write(x, indices, updates, mode, duplicates, word, by_place)


@_write_floats.defjvp
def _write_floats_jvp(
    mode: str,
    duplicates: str,
    word: int,
    by_place: bool,
    primals: tuple[jax.Array, ...],
    tangents: tuple[jax.Array, ...],
) -> tuple[jax.Array, jax.Array]:
    x, indices, updates = primals
    # Where the winner is free, the derivative needs a known one, and the value has to be of the same.
    settled = "last" if duplicates == "unspecified" else duplicates
    written = _write_floats(x, indices, updates, mode, settled, word, by_place)
    if duplicates == "unique":
        return written, _scatter(tangents[0], indices, tangents[2], mode, duplicates)
    # As a masked sum, not a scatter, so that it transposes: each element gets one tangent and otherwise zeros.
    ordinals = _ordinals(x.shape, indices, mode)
    last = _at(ordinals, indices, mode) == 1 + lax.iota(jnp.uint32, indices.shape[0])
    kept = jnp.where(_trailing(ordinals, x.ndim) == 0, tangents[0], 0)
    added = jnp.where(_trailing(last, updates.ndim), tangents[2], 0)
    numbers = _dimension_numbers(x.ndim, indices.shape[1])
    tangent = lax.scatter_add(kept, indices, added, numbers, mode=lax.GatherScatterMode.from_any(mode))
    return written, tangent


def _trailing(mask: jax.Array, rank: int) -> jax.Array:
    """Give ``mask`` trailing axes of size 1 up to ``rank``."""
    return jnp.expand_dims(mask, tuple(range(mask.ndim, rank)))

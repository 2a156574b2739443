"""Write slices at indexed positions with ``lax.scatter``, with one rule for duplicates on every device."""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._algorithms.bits import bits_of


class Writing(NamedTuple):
    """How to write: the caller's rules, and the form in which the elements move. Static."""

    mode: str
    """What an index out of range does: ``"drop"``, ``"clip"`` or ``"promise_in_bounds"``."""

    duplicates: str
    """What two updates of one element do: ``"unspecified"``, ``"last"`` or ``"unique"``."""

    word: int = 0
    """0 to move the elements as they are, otherwise the bytes of the unsigned integers as which they move.

    Several elements share an integer where the size of a slice is a multiple of ``word`` bytes; otherwise each becomes
    an integer of its own width. A device that widens narrow floats to move them would quiet signalling NaNs. A device
    that cannot store so few bytes needs many operations for it. But on some devices the conversion is a pass over all
    of ``x``.
    """

    by_position: bool = False
    """Read the last update for each position that ``t`` coordinates address, instead of scattering the updates.

    The last update wins, whatever ``duplicates`` says. All of ``x`` is read and written.
    """


def write(x: jax.Array, indices: jax.Array, updates: jax.Array, how: Writing) -> jax.Array:
    """Return ``x`` with ``updates[i]`` at ``x[indices[i]]``.

    Args:
      x: ``[d_1, ..., d_r]``.
      indices: ``[n, t]``, ``t >= 1``, narrowed and wrapped.
      updates: ``[n, d_(t+1), ..., d_r]``, of the dtype of ``x``.
      how: the rules and the form. Static.
    """
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return _write_floats(x, indices, updates, how)
    return _write(x, indices, updates, how)


def _dimension_numbers(rank: int, t: int) -> lax.ScatterDimensionNumbers:
    leading = tuple(range(t))
    return lax.ScatterDimensionNumbers(
        update_window_dims=tuple(range(1, 1 + rank - t)),
        inserted_window_dims=leading,
        scatter_dims_to_operand_dims=leading,
    )


def _write(x: jax.Array, indices: jax.Array, updates: jax.Array, how: Writing) -> jax.Array:
    moved, moved_updates = x, updates
    if how.word:
        together = how.word // x.dtype.itemsize
        if not together or math.prod(updates.shape[1:]) % together:
            together = 1
        moved, moved_updates = _words(x, indices.shape[1], together), _words(updates, 1, together)
    if how.by_position:
        ordinals = _ordinals(x.shape, indices, how.mode)
        written_there = moved_updates.at[jnp.maximum(ordinals, 1) - 1].get(mode="promise_in_bounds")
        written = jnp.where(_trailing(ordinals > 0, moved.ndim), written_there, moved)
    else:
        if how.duplicates == "last":
            writers = _last_writers(x.shape, indices, how.mode)
            # Every update of one element now carries the last one's value, so their order cannot matter.
            moved_updates = moved_updates.at[writers].get(mode="promise_in_bounds")
        written = _scatter(moved, indices, moved_updates, how)
    return lax.bitcast_convert_type(written, x.dtype).reshape(x.shape) if how.word else written


def _words(x: jax.Array, leading: int, together: int) -> jax.Array:
    """Make one integer of each ``together`` elements; unless that is 1, merge the dimensions after ``leading``."""
    bits = bits_of(x)
    if together == 1:
        return bits
    count = math.prod(x.shape[leading:]) // together
    rows = bits.reshape(*x.shape[:leading], count, together)
    return lax.bitcast_convert_type(rows, f"uint{8 * together * x.dtype.itemsize}")


def _scatter(x: jax.Array, indices: jax.Array, updates: jax.Array, how: Writing) -> jax.Array:
    numbers = _dimension_numbers(x.ndim, indices.shape[1])
    mode = lax.GatherScatterMode.from_any(how.mode)
    return lax.scatter(x, indices, updates, numbers, unique_indices=how.duplicates == "unique", mode=mode)


def _ordinals(shape: tuple[int, ...], indices: jax.Array, mode: str, written: jax.Array | None = None) -> jax.Array:
    """Number the updates from 1. Return for every position the number of the last update that writes it, or 0.

    Only updates that are ``written`` count; None means all.
    """
    n, t = indices.shape
    numbers = 1 + lax.iota(jnp.uint32, n)
    return lax.scatter_max(
        jnp.zeros(shape[:t], jnp.uint32),
        indices,
        numbers if written is None else jnp.where(written, numbers, jnp.uint32(0)),
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
    """Return for each update which update is the last to write its position; for a dropped one, any."""
    written = None
    if indices.shape[1] < len(shape):
        # Otherwise ``checkify`` would report an index out of range as one of the ordinals, which have fewer dimensions
        # than x. So the indices are moved into range here, and the scatter into x reports them.
        limits = np.array([shape[: indices.shape[1]]]) - 1
        inside = jnp.clip(indices, 0, limits.astype(indices.dtype))
        written = None if mode == "clip" else (inside == indices).all(axis=1)
        indices, mode = inside, "promise_in_bounds"
    last = _at(_ordinals(shape, indices, mode, written), indices, mode)
    return jnp.maximum(last, 1) - 1


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def _write_floats(x: jax.Array, indices: jax.Array, updates: jax.Array, how: Writing) -> jax.Array:
    return _write(x, indices, updates, how)


@_write_floats.defjvp
def _write_floats_jvp(
    how: Writing, primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]
) -> tuple[jax.Array, jax.Array]:
    x, indices, updates = primals
    # Where the winner is free the derivative needs a known one, and the value has to come from the same.
    settled = how._replace(duplicates="last") if how.duplicates == "unspecified" else how
    written = _write_floats(x, indices, updates, settled)
    if how.duplicates == "unique":
        return written, _scatter(tangents[0], indices, tangents[2], how)
    # A masked sum, because that transposes: each element gets one tangent, and otherwise negative zeros, which keep the
    # sign of a tangent that is a zero itself.
    nothing = -np.zeros((), x.dtype)
    ordinals = _ordinals(x.shape, indices, how.mode)
    last = _at(ordinals, indices, how.mode) == 1 + lax.iota(jnp.uint32, indices.shape[0])
    kept = jnp.where(_trailing(ordinals, x.ndim) == 0, tangents[0], nothing)
    added = jnp.where(_trailing(last, updates.ndim), tangents[2], nothing)
    numbers = _dimension_numbers(x.ndim, indices.shape[1])
    tangent = lax.scatter_add(kept, indices, added, numbers, mode=lax.GatherScatterMode.from_any(how.mode))
    return written, tangent


def _trailing(mask: jax.Array, rank: int) -> jax.Array:
    """Give ``mask`` trailing axes of size 1 up to ``rank``."""
    return jnp.expand_dims(mask, tuple(range(mask.ndim, rank)))

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
    """Say how to write: the caller's rules, and how elements are moved. Static."""

    mode: str
    """What happens to an update whose index is out of range: ``"drop"``, ``"clip"`` or ``"promise_in_bounds"``."""

    duplicates: str
    """Which of several updates of one element wins: ``"unspecified"``, ``"last"`` or ``"unique"``."""

    word: int = 0
    """0 to move the elements as they are, or the number of bytes of the unsigned integers to move instead.

    If the size of a slice is a multiple of ``word`` bytes, ``word // itemsize`` elements share an integer. Otherwise
    each element becomes an integer of its own width. There are two reasons to move integers. A device that widens
    narrow floats to move them would quiet signalling NaNs. A device that cannot store one or two bytes needs many
    operations to write so few. One reason is against it: on some devices the conversion is a pass over all of ``x``.
    """

    by_position: bool = False
    """Whether to read the last update of each indexed position of ``x``, instead of scattering the updates.

    The last update wins, whatever ``duplicates`` says. All of ``x`` is read and written.
    """


def write(x: jax.Array, indices: jax.Array, updates: jax.Array, how: Writing) -> jax.Array:
    """Return ``x`` with ``updates[i]`` at ``x[indices[i]]``.

    Args:
      x: ``[d_1, ..., d_r]``.
      indices: ``[n, t]``, ``t >= 1``, the results of ``narrow`` and ``wrap``.
      updates: ``[n, d_(t+1), ..., d_r]``, of the dtype of ``x``.
      how: the rules, and how elements are moved. Static.
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
        per_word = how.word // x.dtype.itemsize
        if not per_word or math.prod(updates.shape[1:]) % per_word:
            per_word = 1
        moved, moved_updates = _words(x, indices.shape[1], per_word), _words(updates, 1, per_word)
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


def _words(x: jax.Array, leading: int, per_word: int) -> jax.Array:
    """Make one integer of every ``per_word`` elements.

    If ``per_word`` is 1 the shape stays. Otherwise the dimensions after the first ``leading`` ones are merged.
    """
    bits = bits_of(x)
    if per_word == 1:
        return bits
    count = math.prod(x.shape[leading:]) // per_word
    rows = bits.reshape(*x.shape[:leading], count, per_word)
    return lax.bitcast_convert_type(rows, f"uint{8 * per_word * x.dtype.itemsize}")


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
    """Read ``ordinals`` at the position that each update writes; return 0 for an update that is dropped."""
    read = "fill" if mode == "drop" else mode
    leading = tuple(range(ordinals.ndim))
    numbers = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=leading, start_index_map=leading)
    return lax.gather(ordinals, indices, numbers, (1,) * ordinals.ndim, mode=read, fill_value=0)


def _last_writers(shape: tuple[int, ...], indices: jax.Array, mode: str) -> jax.Array:
    """Return for each update which update is the last to write its position; for a dropped one, any."""
    written = None
    if indices.shape[1] < len(shape):
        # Clip the indices. Otherwise ``checkify`` would report one out of range here, as one of the ordinals, which
        # have fewer dimensions than x, and not where x is written.
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
    # The derivative has to know which update wins, and the value has to come from that same update.
    settled = how._replace(duplicates="last") if how.duplicates == "unspecified" else how
    written = _write_floats(x, indices, updates, settled)
    if how.duplicates == "unique":
        return written, _scatter(tangents[0], indices, tangents[2], how)
    # Scatter by adding, because JAX transposes lax.scatter only for unique indices. Each element gets one tangent, and
    # all else added to it is -0.0, which changes no number, not even the sign of a zero.
    negative_zero = -np.zeros((), x.dtype)
    ordinals = _ordinals(x.shape, indices, how.mode)
    last = _at(ordinals, indices, how.mode) == 1 + lax.iota(jnp.uint32, indices.shape[0])
    kept = jnp.where(_trailing(ordinals, x.ndim) == 0, tangents[0], negative_zero)
    added = jnp.where(_trailing(last, updates.ndim), tangents[2], negative_zero)
    numbers = _dimension_numbers(x.ndim, indices.shape[1])
    tangent = lax.scatter_add(kept, indices, added, numbers, mode=lax.GatherScatterMode.from_any(how.mode))
    return written, tangent


def _trailing(mask: jax.Array, rank: int) -> jax.Array:
    """Give ``mask`` trailing axes of size 1 up to ``rank``."""
    return jnp.expand_dims(mask, tuple(range(mask.ndim, rank)))

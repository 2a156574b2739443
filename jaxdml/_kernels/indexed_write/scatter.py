"""Write slices at indexed positions with ``lax.scatter``, with one rule for duplicates on every device."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.bits import bits_of, by_bits
from jaxdml._arithmetic.canonical_indices import limits_along_last
from jaxdml._base.shapes import is_static


class Places(NamedTuple):
    """Say which elements of ``x`` the updates address. Static.

    Updates are numbered along one of their dimensions.
    """

    numbered: int
    """The dimension of ``updates``, and of ``indices``, along which the updates are numbered."""

    indexed: tuple[int, ...]
    """The dimensions of ``x`` that indices address."""

    batch: tuple[int, ...]
    """The dimensions that ``x``, ``indices`` and ``updates`` have in common, each at the same place in all three."""


def of_slices(t: int) -> Places:
    """Return the places of slices: ``indices: [n, t]`` address the first ``t`` dimensions of ``x``."""
    return Places(numbered=0, indexed=tuple(range(t)), batch=())


def of_elements(rank: int, axis: int) -> Places:
    """Return the places of single elements along ``axis``, where the other dimensions of ``x`` are those of indices."""
    return Places(numbered=axis, indexed=(axis,), batch=tuple(d for d in range(rank) if d != axis))


class Writing(NamedTuple):
    """Say how to write: the caller's rules, and how elements are moved. Static."""

    places: Places

    mode: str
    """What happens to an update whose index is out of range: ``"drop"``, ``"clip"`` or ``"promise_in_bounds"``."""

    duplicates: str
    """Which of several updates of one element wins: ``"unspecified"``, ``"last"`` or ``"unique"``."""

    word: int = 0
    """0 to move the elements as they are, or the number of bytes of the unsigned integers to move instead.

    If the size of a slice is a multiple of ``word`` bytes, ``word // itemsize`` elements share an integer. Otherwise,
    or if any size is symbolic, each element becomes an integer of its own width. There are two reasons to move
    integers. A device that widens narrow floats to move them would quiet signalling NaNs. A device that cannot store
    one or two bytes needs many operations to write so few. One reason is against it: on some devices the conversion is
    a pass over all of ``x``.
    """

    by_position: bool = False
    """Whether to read the last update of each indexed position of ``x``, instead of scattering the updates.

    The last update wins, whatever ``duplicates`` says. All of ``x`` is read and written.
    """

    by_sort: bool = False
    """Whether to find out by sorting the indices which updates are the last of their position, and drop the others.

    The last update wins, whatever ``duplicates`` says. Nothing of the size of ``x`` is read or written for it.
    """


def write(x: jax.Array, indices: jax.Array, updates: jax.Array, writing: Writing) -> jax.Array:
    """Return ``x`` with every update at its place; to differentiate it, use ``tangent``.

    Args:
      x: ``[d_1, ..., d_r]``.
      indices: the results of ``narrow`` and ``wrap``, as ``writing.places`` says: ``[n, t]`` with ``t >= 1`` for
        slices, ``[..., n, ..., 1]`` for elements along an axis.
      updates: ``[n, d_(t+1), ..., d_r]`` for slices, ``[..., n, ...]`` for elements; of the dtype of ``x``.
      writing: the rules, and how elements are moved. Static.
    """
    moved, moved_updates = x, updates
    if writing.word:
        per_word = writing.word // x.dtype.itemsize
        leading = indices.shape[-1] + len(writing.places.batch)
        # An exported program that joins or splits elements of an array of symbolic size fails at the call.
        joins = is_static(*x.shape, *updates.shape) and per_word > 0 and math.prod(x.shape[leading:]) % per_word == 0
        per_word = per_word if joins else 1
        moved, moved_updates = _words(x, leading, per_word), _words(updates, indices.ndim - 1, per_word)
    if writing.by_position:
        ordinals = _ordinals(x.shape, indices, writing)
        written_there = _numbered(moved_updates, jnp.maximum(ordinals, 1) - 1, writing.places)
        written = jnp.where(_trailing(ordinals > 0, moved.ndim), written_there, moved)
    elif writing.by_sort:
        written = _scatter(
            moved, _without_losers(x.shape, indices, writing), moved_updates, writing._replace(mode="drop")
        )
    else:
        if writing.duplicates == "last":
            # Every update of one element now has the last one's value, so their order cannot matter.
            moved_updates = _numbered(moved_updates, _last_writers(x.shape, indices, writing), writing.places)
        written = _scatter(moved, indices, moved_updates, writing)
    return lax.bitcast_convert_type(written, x.dtype).reshape(x.shape) if writing.word else written


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


def _scatter_numbers(places: Places, rank: int, updates_rank: int) -> lax.ScatterDimensionNumbers:
    """Return the dimension numbers of a scatter into an array of ``rank`` dimensions."""
    windows = rank - len(places.indexed) - len(places.batch)
    return lax.ScatterDimensionNumbers(
        update_window_dims=tuple(range(updates_rank - windows, updates_rank)),
        inserted_window_dims=places.indexed,
        scatter_dims_to_operand_dims=places.indexed,
        operand_batching_dims=places.batch,
        scatter_indices_batching_dims=places.batch,
    )


def _scatter(x: jax.Array, indices: jax.Array, updates: jax.Array, writing: Writing) -> jax.Array:
    numbers = _scatter_numbers(writing.places, x.ndim, updates.ndim)
    mode = lax.GatherScatterMode.from_any(writing.mode)
    return lax.scatter(x, indices, updates, numbers, unique_indices=writing.duplicates == "unique", mode=mode)


def _gather(
    x: jax.Array, indices: jax.Array, places: Places, indexed: tuple[int, ...], mode: str = "promise_in_bounds"
) -> jax.Array:
    """Take slices of ``x`` at ``indices``, which address the dimensions ``indexed``; out of range 0 in mode "fill"."""
    windows = x.ndim - len(indexed) - len(places.batch)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(range(indices.ndim - 1, indices.ndim - 1 + windows)),
        collapsed_slice_dims=indexed,
        start_index_map=indexed,
        operand_batching_dims=places.batch,
        start_indices_batching_dims=places.batch,
    )
    sizes = tuple(1 if d in indexed or d in places.batch else size for d, size in enumerate(x.shape))
    return lax.gather(x, indices, numbers, sizes, mode=mode, fill_value=0)


def _numbered(updates: jax.Array, numbers: jax.Array, places: Places) -> jax.Array:
    """Take the updates with these numbers, counted from 0."""
    return by_bits(lambda moved: _gather(moved, numbers[..., None], places, (places.numbered,)), updates)


def _ordinals(shape: tuple[int, ...], indices: jax.Array, writing: Writing) -> jax.Array:
    """Number the updates from 1. Return for every position the number of the last update that writes it, or 0."""
    places = writing.places
    numbers = _numbers(indices, places)
    return lax.scatter_max(
        jnp.zeros([size for d, size in enumerate(shape) if d in places.indexed + places.batch], jnp.uint32),
        indices,
        numbers,
        _scatter_numbers(places, len(places.indexed + places.batch), numbers.ndim),
        mode=lax.GatherScatterMode.from_any(writing.mode),
    )


def _numbers(indices: jax.Array, places: Places) -> jax.Array:
    return 1 + lax.broadcasted_iota(jnp.uint32, indices.shape[:-1], places.numbered)


def _without_losers(shape: tuple[int, ...], indices: jax.Array, writing: Writing) -> jax.Array:
    """Return the indices, out of range for each update that is not the last one of its position."""
    axis = writing.places.numbered
    limits = limits_along_last([shape[d] for d in writing.places.indexed], indices.ndim, indices.dtype)
    if writing.mode == "clip":
        indices = jnp.clip(indices, 0, limits - 1)
    parts = [indices[..., i] for i in range(indices.shape[-1])]
    operands = *parts, _numbers(indices, writing.places)
    *ordered, order = lax.sort(operands, dimension=axis, num_keys=len(operands), is_stable=False)
    n = order.shape[axis]
    same = jnp.stack(
        [lax.slice_in_dim(p, 0, n - 1, axis=axis) == lax.slice_in_dim(p, 1, n, axis=axis) for p in ordered]
    )
    loses = jnp.concatenate(
        [same.all(axis=0), jnp.zeros_like(lax.slice_in_dim(order, 0, 1, axis=axis), bool)], axis=axis
    )
    _, loses = lax.sort((order, loses.astype(jnp.uint32)), dimension=axis, num_keys=1, is_stable=False)
    return jnp.where(loses[..., None] > 0, limits, indices)


def _at(ordinals: jax.Array, indices: jax.Array, writing: Writing) -> jax.Array:
    """Read ``ordinals`` at the position that each update writes; return 0 for an update that is dropped."""
    return _gather(
        ordinals, indices, writing.places, writing.places.indexed, "fill" if writing.mode == "drop" else writing.mode
    )


def _last_writers(shape: tuple[int, ...], indices: jax.Array, writing: Writing) -> jax.Array:
    """Return for each update which update is the last to write its position; for a dropped one, any."""
    last = _at(_ordinals(shape, indices, writing), indices, writing)
    return jnp.maximum(last, 1) - 1


def winners(shape: tuple[int, ...], indices: jax.Array, writing: Writing) -> tuple[jax.Array, jax.Array]:
    """Return which updates are the last to write their position, and which positions of ``x`` no update writes."""
    ordinals = _ordinals(shape, indices, writing)
    return _at(ordinals, indices, writing) == _numbers(indices, writing.places), ordinals == 0


def tangent(
    x: jax.Array, indices: jax.Array, updates: jax.Array, won: tuple[jax.Array, jax.Array], writing: Writing
) -> jax.Array:
    """Return the tangent of what ``write`` returns, from the tangents of ``x`` and of ``updates``.

    Args:
      x: as for ``write``.
      indices: as for ``write``.
      updates: as for ``write``.
      won: what ``winners`` returns; not used for unique indices.
      writing: as for ``write``.
    """
    places = writing.places
    if places.batch:
        # Address every dimension: ``checkify`` cannot look at a scatter with batch dimensions.
        dimensions = range(x.ndim)
        iotas = [lax.broadcasted_iota(indices.dtype, updates.shape, d) for d in dimensions]
        indices = jnp.stack([indices[..., 0] if d in places.indexed else iotas[d] for d in dimensions], axis=-1)
        writing = writing._replace(places=places._replace(indexed=tuple(dimensions), batch=()))
    if writing.duplicates == "unique":
        return _scatter(x, indices, updates, writing)
    # Scatter by adding, because JAX transposes lax.scatter only for unique indices. Each element gets one tangent, and
    # all else added to it is -0.0, which changes no number, not even the sign of a zero.
    last, untouched = won
    negative_zero = -np.zeros((), x.dtype)
    kept = jnp.where(_trailing(untouched, x.ndim), x, negative_zero)
    added = jnp.where(_trailing(last, updates.ndim), updates, negative_zero)
    inside = jnp.where(last[..., None], indices, 0)
    numbers = _scatter_numbers(writing.places, x.ndim, updates.ndim)
    mode = writing.mode if writing.mode == "clip" else "promise_in_bounds"
    return lax.scatter_add(kept, inside, added, numbers, mode=lax.GatherScatterMode.from_any(mode))


def _trailing(mask: jax.Array, rank: int) -> jax.Array:
    """Give ``mask`` trailing axes of size 1 up to ``rank``."""
    return jnp.expand_dims(mask, tuple(range(mask.ndim, rank)))

"""Write at indexed positions: bring indices into canonical form, and choose a method and the integers to move."""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType

from jaxdml._arithmetic.canonical_indices import in_block, longest, narrow, wrap
from jaxdml._arithmetic.exact_gather import on_all_devices
from jaxdml._base.shapes import is_static
from jaxdml._kernels.indexed_write.scatter import Places, Writing, of_elements, of_slices, tangent, winners, write
from jaxdml._placement.lowering import Form, Target, at_lowering

GPU_WORD = 4
"""The narrowest integer, in bytes, that a GPU stores directly: for anything narrower XLA compares and swaps in a loop.

Words of 8 bytes took longer, although there are fewer of them.
"""

MAX_ELEMENTS_PER_UPDATE = 16
"""On a GPU, up to this ratio, reading the last update for each element beats scattering the updates."""

MIN_BYTES_PER_SLICE = 8
"""On a CPU, from slices of this size on, reading the last update for each slice of bfloat16 or float8 beats a scatter.

The scatter would convert all of ``x`` to integers and back, in new memory even if ``x`` is donated.
"""

METHODS = ("scatter",)


class Block(NamedTuple):
    """Say that ``x`` is a block of a larger array, whose elements the indices count."""

    sizes: tuple[int, ...]
    """The sizes of the larger array. Static."""

    starts: tuple[Any, ...]
    """Where the block begins in each dimension."""


def write_slices(
    x: jax.Array, indices: jax.Array, updates: jax.Array, mode: str, duplicates: str, block: Block | None = None
) -> jax.Array:
    """Return ``x`` with ``updates[i...]`` at ``x[indices[i...]]``.

    Args:
      x: ``[d_1, ..., d_r]``.
      indices: integers ``[..., t]``, any values.
      updates: ``[..., d_(t+1), ..., d_r]``, of the dtype of ``x``.
      mode: ``"drop"``, ``"clip"`` or ``"promise_in_bounds"``.
      duplicates: ``"unspecified"``, ``"last"`` or ``"unique"``.
      block: None, or where ``x`` lies in a larger array. What is written outside of ``x`` is left out.
    """
    *leading, t = indices.shape
    n = math.prod(leading)
    if t == 0:
        # Every update replaces the whole of x. Give x a leading axis of size 1, and index it with 0.
        writing = Writing(of_slices(1), mode, duplicates)
        return _write(x[None], jnp.zeros((n, 1), jnp.int32), updates.reshape(n, *x.shape), writing)[0]
    where = of_slices(t)
    places, mode = _canonical(x, indices.reshape(n, t), where, mode, duplicates, block)
    return _write(x, places, updates.reshape(n, *x.shape[t:]), Writing(where, mode, duplicates))


def write_elements(
    x: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    axis: int,
    mode: str,
    duplicates: str,
    block: Block | None = None,
) -> jax.Array:
    """Return ``x`` with ``updates[i]`` at ``x[..., indices[i] at axis, ...]``.

    Args:
      x: ``[d_1, ..., d_r]``.
      indices: integers of rank r, any values; no larger than ``x`` except along ``axis``.
      updates: of the dtype of ``x`` and the shape of ``indices``.
      axis: the axis that ``indices`` index, counted from 0.
      mode: as in ``write_slices``.
      duplicates: as in ``write_slices``.
      block: as in ``write_slices``.
    """
    if all(indices.shape[d] == x.shape[d] for d in range(x.ndim) if d != axis):
        where = of_elements(x.ndim, axis)
        places, mode = _canonical(x, indices[..., None], where, mode, duplicates, block)
        return _write(x, places, updates, Writing(where, mode, duplicates))
    # Where indices are smaller, only coordinates can tell which elements of x have updates. Narrow for the longest
    # dimension, because one dtype has to hold every coordinate.
    narrowed = narrow(indices, (longest(block.sizes if block else x.shape),))
    # XLA would move the coordinates, which are one for each dimension.
    along = _on_all_devices(narrowed, *range(x.ndim))
    coordinates = [along if d == axis else lax.broadcasted_iota(along.dtype, along.shape, d) for d in range(x.ndim)]
    stacked = jnp.stack(coordinates, axis=-1).reshape(-1, x.ndim)
    where = of_slices(x.ndim)
    places, mode = _canonical(x, stacked, where, mode, duplicates, block)
    return _write(x, places, updates.reshape(-1), Writing(where, mode, duplicates))


def _canonical(
    x: jax.Array, indices: jax.Array, where: Places, mode: str, duplicates: str, block: Block | None
) -> tuple[jax.Array, str]:
    """Return the indices ``[..., t]`` in canonical form, and the mode to write with."""
    whole = block.sizes if block else x.shape
    sizes = tuple(whole[d] for d in where.indexed)
    places = reported(wrap(narrow(indices, sizes), sizes, mode), where.indexed, whole)
    if duplicates == "last":
        places = _on_all_devices(places, where.numbered)
    if block is None:
        return places, mode
    starts = jnp.stack([jnp.asarray(block.starts[d], places.dtype) for d in where.indexed])
    return in_block(places, sizes, starts, tuple(x.shape[d] for d in where.indexed), mode), "drop"


def reported(indices: jax.Array, indexed: tuple[int, ...], shape: tuple[int, ...]) -> jax.Array:
    """Return ``indices``, after an operation in which ``checkify`` sees those that are out of range.

    They address the dimensions ``indexed`` of an array of this ``shape``. ``checkify`` cannot see the operations of
    ``at_lowering``. In other operations the indices may count along a block, or along words. XLA drops the added
    operation, because it changes nothing. Where ``jax.vmap`` has left a batch sharded over Explicit axes, none is
    added: JAX cannot check inside such a program.
    """
    if AxisType.Explicit in jax.sharding.get_abstract_mesh().axis_types:
        return indices
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(), collapsed_slice_dims=tuple(range(len(shape))), start_index_map=indexed
    )
    whole = jnp.broadcast_to(jnp.zeros((), indices.dtype), shape)
    seen = lax.gather(whole, indices, numbers, (1,) * len(shape), mode="clip")
    return indices + (seen & 0)[..., None]


def _on_all_devices(indices: jax.Array, *dimensions: int) -> jax.Array:
    """Return ``indices``; if XLA partitions the program, have it put these dimensions whole on every device.

    If updates are numbered by sharded indices, XLA numbers those of each device, and then merges as many numbers as
    ``x`` has positions.
    """
    placed: jax.Array = at_lowering(
        lambda target: _as_it_is if target.devices == 1 else _placed_whole, indices, dimensions=dimensions
    )
    return placed


def _as_it_is(indices: jax.Array, *, dimensions: tuple[int, ...]) -> jax.Array:
    del dimensions
    return indices


def _placed_whole(indices: jax.Array, *, dimensions: tuple[int, ...]) -> jax.Array:
    for dimension in dimensions:
        indices = on_all_devices(indices, dimension)
    return indices


def _write(x: jax.Array, indices: jax.Array, updates: jax.Array, writing: Writing) -> jax.Array:
    """Write for indices in canonical form."""
    t = indices.shape[-1]
    if not writing.places.batch and x.ndim > t and math.prod(x.shape[t:]) == 1:
        # A slice of one element is an element.
        return _write(x.reshape(x.shape[:t]), indices, updates.reshape(-1), writing).reshape(x.shape)
    write = _write_floats if jnp.issubdtype(x.dtype, jnp.inexact) else _write_once
    return write(x, indices, updates, writing)


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def _write_floats(x: jax.Array, indices: jax.Array, updates: jax.Array, writing: Writing) -> jax.Array:
    return _write_once(x, indices, updates, writing)


@_write_floats.defjvp
def _write_floats_jvp(
    writing: Writing, primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]
) -> tuple[jax.Array, jax.Array]:
    x, indices, updates = primals
    # The derivative has to know which update wins, and the value has to come from that same update.
    settled = writing
    if writing.duplicates == "unspecified":
        settled, indices = writing._replace(duplicates="last"), _on_all_devices(indices, writing.places.numbered)
    won = at_lowering(lambda target: partial(winners, x.shape), indices, writing=writing)
    return _write_floats(x, indices, updates, settled), tangent(tangents[0], indices, tangents[2], won, writing)


def _write_once(x: jax.Array, indices: jax.Array, updates: jax.Array, writing: Writing) -> jax.Array:
    windows = x.shape[indices.shape[-1] :] if not writing.places.batch else ()
    choose = partial(form, writing=writing, dtype=x.dtype, x=x.shape, updates=updates.shape, windows=windows)
    written: jax.Array = at_lowering(choose, x, indices, updates)
    return written


def form(
    target: Target,
    writing: Writing,
    dtype: jnp.dtype,
    x: tuple[int, ...],
    updates: tuple[int, ...],
    windows: tuple[int, ...],
) -> Form:
    """Say how elements are moved where a program is lowered for ``target``, given the shapes.

    XLA's CPU backend widens narrow floats to move them, except for float16. A TPU moves them as they are.
    """
    few_bits, static = _has_few_bits(dtype), is_static(*x, *updates)
    last = writing.duplicates == "last" and static
    as_integer = dtype.itemsize if few_bits and jnp.issubdtype(dtype, jnp.floating) else 0
    if target.platform == "cpu":
        word = 0 if dtype == jnp.float16 else as_integer
        large = word > 0 and is_static(*windows) and math.prod(windows) * word >= MIN_BYTES_PER_SLICE
        how = writing._replace(word=word, by_position=large)
    elif target.is_gpu:
        few = last and math.prod(x) <= MAX_ELEMENTS_PER_UPDATE * math.prod(updates)
        how = writing._replace(word=GPU_WORD if few_bits else 0, by_position=few and not windows)
    elif target.platform == "tpu":
        how = writing._replace(by_sort=last and math.prod(updates) > 0)
    else:
        how = writing._replace(word=as_integer)
    return partial(write, writing=how)


def _has_few_bits(dtype: jnp.dtype) -> bool:
    """Tell whether elements have 8 or 16 bits; those of int4, which are stored in a byte, have fewer."""
    for kind, info in ((jnp.floating, jnp.finfo), (jnp.integer, jnp.iinfo)):
        if jnp.issubdtype(dtype, kind):
            return info(dtype).bits == 8 * dtype.itemsize < 32
    return False

"""Write at indexed positions: bring indices into canonical form, and choose a method and the integers to move."""

import math

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._algorithms.indexing.canonical_indices import narrow, wrap
from jaxdml._algorithms.indexing.scatter import Writing
from jaxdml._algorithms.indexing.scatter import write as write_canonical
from jaxdml._lowerings._platform import Form, Kernel, run

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

__all__ = ["METHODS", "narrow", "write_elements", "write_slices"]


def write_slices(x: jax.Array, indices: jax.Array, updates: jax.Array, mode: str, duplicates: str) -> jax.Array:
    """Return ``x`` with ``updates[i...]`` at ``x[indices[i...]]``.

    Args:
      x: ``[d_1, ..., d_r]``.
      indices: integers ``[..., t]``, any values.
      updates: ``[..., d_(t+1), ..., d_r]``, of the dtype of ``x``.
      mode: ``"drop"``, ``"clip"`` or ``"promise_in_bounds"``.
      duplicates: ``"unspecified"``, ``"last"`` or ``"unique"``.
    """
    *leading, t = indices.shape
    n = math.prod(leading)
    if t == 0:
        # Every update replaces the whole of x. Give x a leading axis of size 1, and index it with 0.
        zeros = jnp.zeros((n, 1), jnp.int32)
        return _write(x[None], zeros, updates.reshape(n, *x.shape), mode, duplicates)[0]
    updates = updates.reshape(n, *x.shape[t:])
    places = wrap(narrow(indices.reshape(n, t), x.shape[:t]), x.shape[:t], mode)
    return _write(x, places, updates, mode, duplicates)


def write_elements(
    x: jax.Array, indices: jax.Array, updates: jax.Array, axis: int, mode: str, duplicates: str
) -> jax.Array:
    """Return ``x`` with ``updates[i]`` at ``x[..., indices[i] at axis, ...]``.

    Args:
      x: ``[d_1, ..., d_r]``.
      indices: integers of rank r, any values; no larger than ``x`` except along ``axis``.
      updates: of the dtype of ``x`` and the shape of ``indices``.
      axis: the axis that ``indices`` index, counted from 0.
      mode: as in ``write_slices``.
      duplicates: as in ``write_slices``.
    """
    # Narrow for the longest dimension, because one dtype has to hold every coordinate.
    along = wrap(narrow(indices, (max(x.shape),)), x.shape[axis : axis + 1], mode)
    coordinates = [along if d == axis else lax.broadcasted_iota(along.dtype, along.shape, d) for d in range(x.ndim)]
    places = jnp.stack(coordinates, axis=-1).reshape(-1, x.ndim)
    return _write(x, places, updates.reshape(-1), mode, duplicates)


def _write(x: jax.Array, indices: jax.Array, updates: jax.Array, mode: str, duplicates: str) -> jax.Array:
    """Write for indices ``[n, t]`` in canonical form."""
    t = indices.shape[1]
    if x.ndim > t and math.prod(x.shape[t:]) == 1:
        # A slice of one element is an element.
        return _write(x.reshape(x.shape[:t]), indices, updates.reshape(-1), mode, duplicates).reshape(x.shape)

    def form(word: int, by_position: bool = False) -> Form:
        how = Writing(mode, duplicates, word, by_position)
        return lambda x, indices, updates: write_canonical(x, indices, updates, how)

    few_bits = _has_few_bits(x.dtype)
    by_position = duplicates == "last" and t == x.ndim and x.size <= MAX_ELEMENTS_PER_UPDATE * len(updates)
    if not few_bits and not by_position:
        return form(0)(x, indices, updates)
    as_integer = x.dtype.itemsize if few_bits and jnp.issubdtype(x.dtype, jnp.floating) else 0
    # XLA's CPU backend widens narrow floats to move them, except for float16.
    on_cpu = 0 if x.dtype == jnp.float16 else as_integer
    cpu = form(on_cpu, on_cpu > 0 and math.prod(x.shape[t:]) * on_cpu >= MIN_BYTES_PER_SLICE)
    return run(Kernel(form(as_integer), cpu, form(GPU_WORD if few_bits else 0, by_position)), x, indices, updates)


def _has_few_bits(dtype: jnp.dtype) -> bool:
    """Tell whether elements have 8 or 16 bits; those of int4, which are stored in a byte, have fewer."""
    for kind, info in ((jnp.floating, jnp.finfo), (jnp.integer, jnp.iinfo)):
        if jnp.issubdtype(dtype, kind):
            return info(dtype).bits == 8 * dtype.itemsize < 32
    return False

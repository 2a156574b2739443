"""Read at indexed positions: bring indices into canonical form, and gather."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.bits import by_bits
from jaxdml._arithmetic.canonical_indices import in_block, limits_along_last, narrow, wrap
from jaxdml._arithmetic.exact_gather import gather, gather_bits, gather_then_bits
from jaxdml._base.shapes import is_static
from jaxdml._kernels.indexed_write import Block, reported
from jaxdml._placement.lowering import Form, Target, at_lowering


class Reading(NamedTuple):
    """Say which slices of ``x`` the indices address, and what is read if they address none. Static."""

    numbers: lax.GatherDimensionNumbers
    """What the indices ``[..., t]`` address. A slice has one index of each dimension that they address."""

    mode: str
    """What an index out of range reads: ``"clip"``, ``"fill"`` or ``"promise_in_bounds"``."""

    fill: bytes
    """The bytes of the element that an index out of range reads in mode ``"fill"``."""


def read(x: jax.Array, indices: jax.Array, how: Reading) -> jax.Array:
    """Return the slices of ``x`` at ``indices``, bit for bit.

    Args:
      x: ``[d_1, ..., d_r]``. Of its batch dimensions the first elements are used, as many as ``indices`` have.
      indices: integers ``[..., t]``, any values.
      how: what they address. Static.
    """
    x = _with_batch(x, indices, how.numbers)
    addressed = how.numbers.start_index_map
    sizes = tuple(x.shape[d] for d in addressed)
    places = _canonical(indices, sizes, how.mode)
    if 0 in sizes:
        # ``lax.gather`` refuses to take a slice from there.
        single = how.numbers.collapsed_slice_dims + how.numbers.operand_batching_dims
        shape = list(indices.shape[:-1])
        for d, size in zip(
            how.numbers.offset_dims, (x.shape[d] for d in range(x.ndim) if d not in single), strict=True
        ):
            shape.insert(d, size)
        return by_bits(lambda moved: jnp.full(shape, np.frombuffer(how.fill, moved.dtype)[0], moved.dtype), x)
    if jnp.issubdtype(x.dtype, jnp.floating) and is_static(*x.shape) and x.size:
        places = reported(places, addressed, x.shape)  # ``checkify`` cannot see the operations of ``_take``.
    return gather(x, places, *how, take=_take)


def _take(x: jax.Array, indices: jax.Array, numbers: lax.GatherDimensionNumbers, mode: str, fill: bytes) -> jax.Array:
    """Take slices of floats by the platform, and keep their bits."""
    fills_bytes = jnp.finfo(x.dtype).bits == 8 * x.dtype.itemsize  # Not of float4, which no integer is as wide as.
    choose = partial(form, itemsize=x.dtype.itemsize if fills_bytes else 0)
    taken: jax.Array = at_lowering(choose, x, indices, numbers=numbers, mode=mode, fill=fill)
    return taken


def form(target: Target, itemsize: int) -> Form:
    """Say who takes slices of floats of this width where a program is lowered for ``target``.

    A CPU widens narrow floats to move them. Others it moves as they are: a conversion of all of ``x``, even one that is
    not computed, counts as work, and JAX would hand a small program to another thread, which takes longer than it.
    """
    as_they_are = {"cpu": itemsize >= 4, "tpu": itemsize > 0}.get(target.platform, False)
    return gather_then_bits if target.alone and as_they_are else gather_bits


def read_block(x: jax.Array, indices: jax.Array, how: Reading, block: Block) -> tuple[jax.Array, jax.Array]:
    """Return the slices of a block of a larger array, and which of their elements the block has.

    Args:
      x: ``[d_1, ..., d_r]``, no indexed dimension of size 0.
      indices: as for ``read``, counted along the larger array.
      how: as for ``read``.
      block: where ``x`` lies in the larger array.
    """
    addressed, offsets = how.numbers.start_index_map, how.numbers.offset_dims
    whole, own = (tuple(sizes[d] for d in addressed) for sizes in (block.sizes, x.shape))
    # ``checkify`` has to see the indices of the larger array, and none that is out of range of the block alone.
    places = reported(_canonical(indices, whole, how.mode), tuple(range(len(whole))), whole)
    starts = jnp.stack([jnp.asarray(block.starts[d], places.dtype) for d in addressed])
    local = in_block(places, whole, starts, own, how.mode)
    limits = limits_along_last(own, local.ndim, local.dtype)
    inside = jnp.expand_dims((local < limits).all(axis=-1), offsets)
    return gather(_with_batch(x, indices, how.numbers), jnp.minimum(local, limits - 1), how.numbers), inside


def _with_batch(x: jax.Array, indices: jax.Array, numbers: lax.GatherDimensionNumbers) -> jax.Array:
    """Cut the batch dimensions of ``x`` to the sizes of those of ``indices``."""
    sizes = list(x.shape)
    for d, of_indices in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True):
        sizes[d] = indices.shape[of_indices]
    return x if x.shape == tuple(sizes) else lax.slice(x, (0,) * x.ndim, sizes)


def _canonical(indices: jax.Array, sizes: tuple[int, ...], mode: str) -> jax.Array:
    return wrap(narrow(indices, sizes), sizes, "drop" if mode == "fill" else mode)

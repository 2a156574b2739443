"""Read a tensor from a buffer by its strides, and write one into a buffer."""

import math
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml import gather, scatter_nd
from jaxdml.directml._tensors import BufferTensorDesc, buffer_length


def elements_of(buffer: Any, tensor: BufferTensorDesc) -> Any:
    """Return the tensor in a 1-D buffer, bit for bit. Of a NumPy array it is a view."""
    assert tensor.strides is not None
    if isinstance(buffer, np.ndarray):
        steps = [stride * step for stride in tensor.strides for step in buffer.strides]
        return np.lib.stride_tricks.as_strided(buffer, tensor.sizes, steps, writeable=False)
    return _read(buffer, tensor.sizes, tensor.strides)


@partial(jax.jit, static_argnums=(1, 2), inline=True)
def _read(buffer: jax.Array, sizes: tuple[int, ...], strides: tuple[int, ...]) -> jax.Array:
    # Read an element that a stride of 0 repeats only once.
    stored = tuple(size if stride else 1 for size, stride in zip(sizes, strides, strict=True))
    grid = _grid(stored, strides)
    if grid is None:
        taken = gather(buffer, _places(stored, strides), mode="promise_in_bounds")
    else:
        whole = resized(buffer, math.prod(grid.extents)).reshape(grid.extents)
        taken = lax.slice(whole, [0] * whole.ndim, grid.sizes).reshape(grid.sizes[:-1])
        taken = taken.transpose(np.argsort(grid.order)).reshape(stored)
    return jnp.broadcast_to(taken, sizes)


@partial(jax.jit, static_argnums=1, inline=True)
def buffer_of(values: jax.Array, tensor: BufferTensorDesc) -> jax.Array:
    """Return a 1-D buffer of the described size with the values at their places and zeros elsewhere."""
    assert tensor.strides is not None
    length = buffer_length(tensor)
    grid = _grid(tensor.sizes, tensor.strides)
    if grid is None:
        places = _places(tensor.sizes, tensor.strides).reshape(-1, 1)
        empty = jnp.zeros(length, values.dtype)
        return scatter_nd(empty, places, values.reshape(-1), mode="promise_in_bounds", duplicates="unique")
    stored = values.reshape([tensor.sizes[dimension] for dimension in grid.dimensions])
    gaps = [(0, extent - size, 0) for extent, size in zip(grid.extents, grid.sizes, strict=True)]
    whole = lax.pad(stored.transpose(grid.order)[..., None], values.dtype.type(0), gaps)
    return resized(whole.reshape(-1), length)


class _Grid(NamedTuple):
    """A reshape of the buffer in which the tensor is a leading block: a slice that starts at 0 in every dimension.

    Attributes:
      dimensions: the tensor's dimensions of more than one element.
      order: the permutation of ``dimensions`` that sorts them by stride, the largest first.
      extents: the shape of the reshaped buffer. One dimension is added at the end: its length is the smallest stride.
      sizes: the shape of the block in it. It is 1 in the added dimension.
    """

    dimensions: tuple[int, ...]
    order: tuple[int, ...]
    extents: tuple[int, ...]
    sizes: tuple[int, ...]


def _grid(sizes: tuple[int, ...], strides: tuple[int, ...]) -> _Grid | None:
    """Find the reshape; None if a stride is not a multiple of the next smaller one, or lies within its span."""
    dimensions = tuple(dimension for dimension, size in enumerate(sizes) if size > 1)
    order = sorted(range(len(dimensions)), key=lambda place: -strides[dimensions[place]])
    stored = [sizes[dimensions[place]] for place in order]
    steps = [stored[0] * strides[dimensions[order[0]]] if order else 1]
    steps += [strides[dimensions[place]] for place in order]
    if any(wide % narrow for wide, narrow in pairwise(steps)):
        return None
    extents = [wide // narrow for wide, narrow in pairwise(steps)]
    if any(extent < size for extent, size in zip(extents, stored, strict=True)):
        return None
    return _Grid(dimensions, tuple(order), (*extents, steps[-1]), (*stored, 1))


def resized(buffer: jax.Array, length: int) -> jax.Array:
    """Truncate a buffer, or pad it with zeros."""
    missing = length - len(buffer)
    return lax.pad(buffer, buffer.dtype.type(0), [(0, missing, 0)]) if missing else buffer


def _places(sizes: tuple[int, ...], strides: tuple[int, ...]) -> jax.Array:
    """Return the position in the buffer of every element of the tensor."""
    places = jnp.zeros(sizes, jnp.uint32)
    for dimension, stride in enumerate(strides):
        places += np.uint32(stride) * lax.broadcasted_iota(jnp.uint32, sizes, dimension)
    return places

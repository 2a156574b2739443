"""Read a tensor out of a buffer by its strides, and write one into a buffer."""

import math
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._algorithms.indexing.exact_gather import take_along_last
from jaxdml._operators.scatter_nd import scatter_nd
from jaxdml.directml._tensors import BufferTensorDesc


def elements_of(buffer: Any, tensor: BufferTensorDesc) -> Any:
    """Return the tensor that lies in a 1-D buffer by its strides, bit for bit; one of NumPy as a view of it."""
    assert tensor.strides is not None
    if isinstance(buffer, np.ndarray):
        steps = [stride * step for stride in tensor.strides for step in buffer.strides]
        return np.lib.stride_tricks.as_strided(buffer, tensor.sizes, steps, writeable=False)
    return _read(buffer, tensor.sizes, tensor.strides)


@partial(jax.jit, static_argnums=(1, 2), inline=True)
def _read(buffer: jax.Array, sizes: tuple[int, ...], strides: tuple[int, ...]) -> jax.Array:
    # What a stride of 0 repeats is read once.
    held = tuple(size if stride else 1 for size, stride in zip(sizes, strides, strict=True))
    grid = _grid(held, strides)
    if grid is None:
        taken = take_along_last(buffer[None], _places(held, strides).reshape(1, -1)).reshape(held)
    else:
        whole = _resized(buffer, math.prod(grid.extents)).reshape(grid.extents)
        taken = lax.slice(whole, [0] * whole.ndim, grid.sizes).reshape(grid.sizes[:-1])
        taken = taken.transpose(np.argsort(grid.order)).reshape(held)
    return jnp.broadcast_to(taken, sizes)


@partial(jax.jit, static_argnums=1, inline=True)
def buffer_of(values: jax.Array, tensor: BufferTensorDesc) -> jax.Array:
    """Return a 1-D buffer of the size described, with the values at their places and zeros between them."""
    assert tensor.strides is not None
    length = -(-tensor.size_in_bytes // values.dtype.itemsize)
    grid = _grid(tensor.sizes, tensor.strides)
    if grid is None:
        places = _places(tensor.sizes, tensor.strides).reshape(-1, 1)
        empty = jnp.zeros(length, values.dtype)
        return scatter_nd(empty, places, values.reshape(-1), mode="promise_in_bounds", duplicates="unique")
    held = values.reshape([tensor.sizes[dimension] for dimension in grid.dimensions])
    gaps = [(0, extent - size, 0) for extent, size in zip(grid.extents, grid.sizes, strict=True)]
    whole = lax.pad(held.transpose(grid.order)[..., None], values.dtype.type(0), gaps)
    return _resized(whole.reshape(-1), length)


class _Grid(NamedTuple):
    """A buffer as an array of its own, in which a tensor is the first elements of every dimension.

    Attributes:
      dimensions: of the tensor, those of more than one element.
      order: in which those lie in the buffer, the farthest apart first.
      extents: of the array; the last one is what separates neighbours in the buffer.
      sizes: how much of each extent the tensor has, 1 of the last one.
    """

    dimensions: tuple[int, ...]
    order: tuple[int, ...]
    extents: tuple[int, ...]
    sizes: tuple[int, ...]


def _grid(sizes: tuple[int, ...], strides: tuple[int, ...]) -> _Grid | None:
    """See a buffer as a grid; None where one stride is no multiple of the next, or steps over less than that spans."""
    dimensions = tuple(dimension for dimension, size in enumerate(sizes) if size > 1)
    order = sorted(range(len(dimensions)), key=lambda place: -strides[dimensions[place]])
    held = [sizes[dimensions[place]] for place in order]
    steps = [held[0] * strides[dimensions[order[0]]] if order else 1]
    steps += [strides[dimensions[place]] for place in order]
    if any(wide % narrow for wide, narrow in pairwise(steps)):
        return None
    extents = [wide // narrow for wide, narrow in pairwise(steps)]
    if any(extent < size for extent, size in zip(extents, held, strict=True)):
        return None
    return _Grid(dimensions, tuple(order), (*extents, steps[-1]), (*held, 1))


def _resized(buffer: jax.Array, length: int) -> jax.Array:
    """Cut a buffer, or fill it up with zeros."""
    missing = length - len(buffer)
    return lax.pad(buffer, buffer.dtype.type(0), [(0, missing, 0)]) if missing else buffer


def _places(sizes: tuple[int, ...], strides: tuple[int, ...]) -> jax.Array:
    """Return for every element where it lies, in elements from the first one."""
    places = jnp.zeros(sizes, jnp.uint32)
    for dimension, stride in enumerate(strides):
        places += np.uint32(stride) * lax.broadcasted_iota(jnp.uint32, sizes, dimension)
    return places

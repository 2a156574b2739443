"""Read a tensor out of a buffer by its strides, and write one into a buffer."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._algorithms.exact_gather import take_from_rows
from jaxdml._operators.scatter_nd import scatter_nd
from jaxdml.directml._tensors import BufferTensorDesc


def elements_of(buffer: Any, tensor: BufferTensorDesc) -> Any:
    """Return the tensor that lies in a 1-D buffer by its strides, bit for bit; one of NumPy as a view of it."""
    assert tensor.strides is not None
    if isinstance(buffer, np.ndarray):
        steps = [stride * step for stride in tensor.strides for step in buffer.strides]
        return np.lib.stride_tricks.as_strided(buffer, tensor.sizes, steps, writeable=False)
    return _gathered(buffer, tensor.sizes, tensor.strides)


@partial(jax.jit, static_argnums=(1, 2), inline=True)
def _gathered(buffer: jax.Array, sizes: tuple[int, ...], strides: tuple[int, ...]) -> jax.Array:
    # What a stride of 0 repeats is read once.
    held = tuple(size if stride else 1 for size, stride in zip(sizes, strides, strict=True))
    taken = take_from_rows(buffer[None], _places(held, strides).reshape(1, -1)).reshape(held)
    return jnp.broadcast_to(taken, sizes)


@partial(jax.jit, static_argnums=1, inline=True)
def buffer_of(values: jax.Array, tensor: BufferTensorDesc) -> jax.Array:
    """Return a 1-D buffer of the size described, with the values at their places and zeros between them."""
    assert tensor.strides is not None
    empty = jnp.zeros(buffer_length(tensor), values.dtype)
    places = _places(tensor.sizes, tensor.strides).reshape(-1, 1)
    return scatter_nd(empty, places, values.reshape(-1), mode="promise_in_bounds", duplicates="unique")


def buffer_length(tensor: BufferTensorDesc) -> int:
    """Return how many whole elements the buffer holds."""
    return tensor.total_tensor_size_in_bytes * 8 // tensor.data_type.bits


def _places(sizes: tuple[int, ...], strides: tuple[int, ...]) -> jax.Array:
    """Return for every element where it lies, in elements from the first one."""
    places = jnp.zeros(sizes, jnp.uint32)
    for dimension, stride in enumerate(strides):
        places += np.uint32(stride) * lax.broadcasted_iota(jnp.uint32, sizes, dimension)
    return places

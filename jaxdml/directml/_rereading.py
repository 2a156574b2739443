"""See the bytes of a tensor as another description does."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml.directml._buffers import buffer_of, elements_of, resized
from jaxdml.directml._tensors import BufferTensorDesc, buffer_length


def same_view(held: BufferTensorDesc, wanted: BufferTensorDesc) -> bool:
    """Tell whether two descriptions see the same tensor in the same bytes."""
    return (held.data_type, held.sizes, held.strides) == (wanted.data_type, wanted.sizes, wanted.strides)


def reread(values: Any, held: BufferTensorDesc, wanted: BufferTensorDesc) -> Any:
    """Return the tensor that a description sees in the buffer of another.

    Args:
      values: an array of the sizes of ``held``.
      held: its description.
      wanted: the description of the result, with as large a buffer.

    Returns:
      An array of the sizes of ``wanted``. Gaps between strides, and what rounds a size up, are zeros.
    """
    if same_view(held, wanted):
        return values
    same_type = held.data_type == wanted.data_type
    packed = held.strides is None and wanted.strides is None
    if same_type and packed and math.prod(held.sizes) == math.prod(wanted.sizes):
        return values.reshape(wanted.sizes)
    buffer = jnp.asarray(values).reshape(-1) if held.strides is None else buffer_of(values, held)
    if not same_type:
        buffer = _retyped(resized(buffer, buffer_length(held)), wanted.data_type.dtype)
    return _elements(resized(buffer, buffer_length(wanted)), wanted)


def constant(data: bytes, wanted: BufferTensorDesc) -> np.ndarray[Any, Any]:
    """Return the tensor that a description sees in data, as a NumPy array. What rounds the size up may be missing."""
    whole = data.ljust(wanted.size_in_bytes, b"\0")
    return _elements(np.frombuffer(whole, wanted.data_type.dtype), wanted)


def _elements(buffer: Any, tensor: BufferTensorDesc) -> Any:
    if tensor.strides is None:
        return buffer[: math.prod(tensor.sizes)].reshape(tensor.sizes)
    return elements_of(buffer, tensor)


def _retyped(buffer: Any, dtype: np.dtype[Any]) -> Any:
    """Return the bits of a buffer of whole words of 4 bytes as elements of another type."""
    ratio = dtype.itemsize // buffer.dtype.itemsize
    # The size is a multiple of 4 bytes, which a type of 8 bytes may need more of.
    grouped = resized(buffer, -(-len(buffer) // ratio) * ratio).reshape(-1, ratio) if ratio > 1 else buffer
    return lax.bitcast_convert_type(grouped, dtype).reshape(-1)

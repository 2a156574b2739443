"""Tensors of a model as NumPy arrays, if their bytes are as many as their shapes say."""

import math

import numpy as np
import onnx
from onnx import numpy_helper

from jaxdml.onnx._errors import unsupported
from jaxdml.onnx.reading.external import Folder

MOST_DIMENSIONS = 64
"""NumPy has no arrays of more."""

MOST_BYTES = 2**48
"""More than any machine holds."""

_BITS = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2, "FLOAT6E2M3": 6, "FLOAT6E3M2": 6}
"""How many bits an element takes in the file, where it is less than a byte."""


def dtype_of(number: int, what: str) -> np.dtype:
    """Return the NumPy or ml_dtypes dtype that a number of ONNX means.

    Args:
      number: of ``onnx.TensorProto.DataType``.
      what: has the dtype, for errors.
    """
    if number not in onnx.TensorProto.DataType.values():
        raise unsupported(f"{what} has dtype number {number}, which ONNX does not have.", "The file may be broken.")
    if number in (onnx.TensorProto.STRING, onnx.TensorProto.UNDEFINED):
        name = "strings" if number == onnx.TensorProto.STRING else "no dtype"
        raise unsupported(f"{what} has {name}, which is not supported.")
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))


def array(tensor: onnx.TensorProto, folder: Folder, what: str) -> np.ndarray:
    """Return a tensor's values.

    Args:
      tensor: from a file that may say anything.
      folder: where its data may lie.
      what: its name for errors.
    """
    dtype = dtype_of(tensor.data_type, what)
    shape = tuple(tensor.dims)
    count = math.prod(shape)
    # A size of 0 must not hide others that no array can have.
    if len(shape) > MOST_DIMENSIONS or min(shape, default=0) < 0 or _bytes(shape, dtype) > MOST_BYTES:
        raise unsupported(f"{what} has shape {_written(shape)}, which no array can have.", "The file may be broken.")
    if tensor.HasField("segment"):
        raise unsupported(f"{what} is a segment of a tensor, which is not supported.", "Store it whole.")
    kind = onnx.TensorProto.DataType.Name(tensor.data_type)
    stored = -(-count * _BITS.get(kind, 8 * dtype.itemsize) // 8)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        data = folder.read(tensor, what, stored)
        if kind not in _BITS:
            return _plain(data.view(dtype).reshape(shape))
        inside = onnx.TensorProto(data_type=tensor.data_type, dims=shape, raw_data=data.tobytes())
        return numpy_helper.to_array(inside)
    if tensor.HasField("raw_data"):
        found, wanted, unit = len(tensor.raw_data), stored, "bytes"
    else:
        field = onnx.helper.tensor_dtype_to_field(tensor.data_type)
        found, wanted, unit = len(getattr(tensor, field)), _entries(count, kind, dtype), f"values in {field}"
    if found != wanted:
        rule = f"{what} has {found} {unit}; its shape {_written(shape)} and dtype {dtype} need {wanted}."
        raise unsupported(rule, "The file may be broken, or of an unknown layout.")
    return _plain(numpy_helper.to_array(tensor))


def dense(tensor: onnx.SparseTensorProto, folder: Folder, what: str) -> np.ndarray:
    """Return the values of a sparse tensor, with zeros elsewhere.

    Args:
      tensor: from a file that may say anything.
      folder: where its data may lie.
      what: its name for errors.
    """
    values = array(tensor.values, folder, f"the values of {what}")
    indices = array(tensor.indices, folder, f"the indices of {what}")
    shape = tuple(tensor.dims)
    if (
        values.ndim != 1
        or indices.dtype != np.int64
        or indices.shape not in ((values.size,), (values.size, len(shape)))
    ):
        rule = f"{what} has values {values.dtype}{list(values.shape)} and indices {indices.dtype}{list(indices.shape)}."
        advice = f"It needs values [N], and int64 indices [N] or [N, {len(shape)}]."
        raise unsupported(rule, advice, "The file may be broken.")
    if len(shape) > MOST_DIMENSIONS or min(shape, default=0) < 0 or _bytes(shape, values.dtype) > MOST_BYTES:
        raise unsupported(f"{what} has shape {_written(shape)}, which no array can have.", "The file may be broken.")
    limits = np.asarray([math.prod(shape)] if indices.ndim == 1 else shape, np.int64)
    indices = indices.reshape(values.size, limits.size)
    if (indices < 0).any() or (indices >= limits).any():
        raise unsupported(f"{what} has an index out of its shape {_written(shape)}.", "The file may be broken.")
    places = np.zeros(values.size, np.int64)
    for size, index in zip(limits.tolist(), indices.T, strict=True):
        places = places * size + index
    if np.unique(places).size < places.size:
        raise unsupported(f"{what} has two values at one index.", "The file may be broken.")
    folder.fill(math.prod(shape) * values.itemsize, what)
    result = np.zeros(math.prod(shape), values.dtype)
    result[places] = values
    return result.reshape(shape)


def _bytes(shape: tuple[int, ...], dtype: np.dtype) -> int:
    return math.prod(size for size in shape if size) * dtype.itemsize


def _entries(count: int, kind: str, dtype: np.dtype) -> int:
    """Return how many values a field holds that does not store plain bytes."""
    if dtype.kind == "c":
        return 2 * count
    bits = _BITS.get(kind, 8)
    return count if bits in (6, 8) else -(-count * bits // 8)


def _plain(values: np.ndarray) -> np.ndarray:
    """Return an array in which every True is the same byte."""
    return values.view(np.uint8).astype(np.bool_) if values.dtype == np.bool_ else values


def _written(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape[:8]))}{', ...' if len(shape) > 8 else ''}]"

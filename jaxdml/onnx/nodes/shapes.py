"""Operators that make tensors from shapes and numbers."""

import math
from typing import Any

import numpy as np
from onnx.helper import tensor_dtype_to_np_dtype

from jaxdml._base.shapes import is_static
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.nodes._sizes import axis_of, namespace, numbers, placed, refusal
from jaxdml.onnx.values.kinds import known


def _shape(call: NodeCall, x: Any, *, start: int = 0, end: int | None = None) -> np.ndarray:
    sizes = tuple(x.shape)[start:end]
    return known(np.fromiter(sizes, object, len(sizes)))


def _size(call: NodeCall, x: Any) -> np.ndarray:
    return known(math.prod(x.shape))


def _constant_of_shape(call: NodeCall, shape: np.ndarray, *, value: np.ndarray | None = None) -> Any:
    sizes = numbers(shape)
    element = np.zeros((), np.float32) if value is None else value.reshape(())
    xp = namespace(call.xp, sizes, element.dtype)
    return xp.full(sizes, placed(xp, element))


def _range(call: NodeCall, start: np.ndarray, limit: np.ndarray, delta: np.ndarray, *, stash_type: int = 1) -> Any:
    (first,), (end,), (step,) = map(numbers, (start, limit, delta))
    if step == 0:
        raise refusal("the delta of a Range is 0.")
    dtype = np.result_type(start, limit, delta)
    integral = dtype.kind in "iuO"  # Symbolic sizes are objects.
    count = -((first - end) // step) if integral else math.ceil((end - first) / step)
    if is_static(count):
        count = max(count, 0)
    xp = namespace(call.xp, (count,), dtype)
    wide = dtype if integral or dtype.itemsize >= 4 else tensor_dtype_to_np_dtype(stash_type)
    start, delta = (placed(xp, operand.reshape(()).astype(wide)) for operand in (start, delta))
    places = xp.arange(count)
    elements = start + (places if integral else places.astype(start.dtype)) * delta
    return elements.astype(placed(xp, np.zeros((), np.int64 if dtype.hasobject else dtype)).dtype)


def _eye_like(call: NodeCall, x: Any, *, dtype: int | None = None, k: int = 0) -> Any:
    rows, columns = x.shape
    one = np.ones((), x.dtype if dtype is None else tensor_dtype_to_np_dtype(dtype))
    xp = namespace(np, x.shape, one.dtype)
    one = placed(xp, one)
    return xp.where(xp.arange(columns) - xp.arange(rows)[:, None] == k, one, xp.zeros_like(one))


def _trilu(call: NodeCall, x: Any, k: Any = None, *, upper: int = 1) -> Any:
    xp = call.xp
    offset = xp.arange(x.shape[-1]) - xp.arange(x.shape[-2])[:, None]
    k = 0 if k is None else k.reshape(())
    return xp.where(offset >= k if upper else offset <= k, x, xp.zeros((), x.dtype))


def _one_hot(call: NodeCall, indices: Any, depth: np.ndarray, values: Any, *, axis: int = -1) -> Any:
    (size,) = numbers(depth)
    size = int(size) if isinstance(size, float) else size
    if is_static(size) and size < 0:
        raise refusal(f"the depth of a OneHot is {size}.")
    axis = axis_of(axis, indices.ndim + 1)
    xp = namespace(call.xp, (*indices.shape, size), values.dtype)
    indices, values = placed(xp, indices), placed(xp, values)
    places = xp.arange(size).reshape(-1, *(1,) * (indices.ndim - axis))
    if xp.issubdtype(indices.dtype, xp.floating):
        indices = indices.astype(places.dtype)
    indices = xp.expand_dims(indices, axis)
    # Unsigned indices may turn negative when JAX compares them with int32.
    hit = indices == places
    if not xp.issubdtype(indices.dtype, xp.unsignedinteger):
        hit = hit | (indices == places - size)
    return xp.where(hit, values[1], values[0])


TABLE: Table = {
    "Shape": (Handler(1, _shape, raw=True, shape_only="x"),),
    "Size": (Handler(1, _size, raw=True, shape_only="x"),),
    "ConstantOfShape": (Handler(9, _constant_of_shape, static="shape", host=True),),
    "Range": (Handler(11, _range, static="start limit delta", host=True),),
    "EyeLike": (Handler(9, _eye_like, raw=True, shape_only="x"),),
    "Trilu": (Handler(14, _trilu, host=True),),
    "OneHot": (Handler(9, _one_hot, static="depth", host=True),),
}

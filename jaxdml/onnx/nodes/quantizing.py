"""Quantize, dequantize, and products of integers."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

import jaxdml
from jaxdml.onnx import _integers, _known_scales
from jaxdml.onnx._graph import Node
from jaxdml.onnx._values import (
    ChannelsLast,
    Dequantized,
    IntegerProduct,
    Pending,
    Quantization,
    channels_first,
    computed,
    on_device,
    stored,
    stored_axis,
)
from jaxdml.onnx.nodes._handler import Call, Handler, Table
from jaxdml.onnx.nodes._windows import windows

_NARROW = {"int4": np.int8, "uint4": np.uint8, "int2": np.int8, "uint2": np.uint8}
"""Integers of fewer than 8 bits, and what they are computed in."""

_ELEMENT_TYPES = {
    0: None,
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    21: "uint4",
    22: "int4",
    25: "uint2",
    26: "int2",
}
"""ONNX's numbers of the dtypes that QuantizeLinear may return; 0 is none."""


def quantization(scale: Any, zero_point: Any, axis: int, block_size: int, rank: int) -> Quantization:
    """Return how integers of a rank stand for real numbers; any scale of one element serves all."""
    if zero_point is not None and str(zero_point.dtype) in _NARROW:
        zero_point = zero_point.astype(_NARROW[str(zero_point.dtype)])
    if np.prod(scale.shape) == 1 and not block_size:
        return Quantization(scale.reshape(()), None if zero_point is None else zero_point.reshape(()))
    return Quantization(scale, zero_point, axis % max(rank, 1), block_size)


def dequantize_linear(
    call: Call,
    x: Any,
    x_scale: Any,
    x_zero_point: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Any:
    """Return integers with what they mean; floats only where a node wants floats."""
    x_scale, x_zero_point = channels_first(x_scale), none_or_array(x_zero_point)
    if str(x.dtype) in _NARROW:
        x = x.astype(_NARROW[str(x.dtype)])
    dtype = {0: x_scale.dtype, 1: np.float32, 10: np.float16, 16: jnp.bfloat16}[output_dtype]
    result = Dequantized(x, quantization(x_scale, x_zero_point, axis, block_size, x.ndim), np.dtype(dtype))
    return result if call.exact else result.floats()


def quantize_linear(
    call: Call,
    x: Any,
    y_scale: Any,
    y_zero_point: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Any:
    """Round real numbers once: by the integer operator that they are pending for, or as floats."""
    y_scale, y_zero_point = channels_first(y_scale), none_or_array(y_zero_point)
    wanted = y_zero_point.dtype if y_zero_point is not None else _ELEMENT_TYPES[output_dtype] or "uint8"
    narrow = _NARROW.get(str(wanted))
    dtype = np.dtype(narrow or wanted)
    out = quantization(y_scale, y_zero_point, axis, block_size, x.ndim)
    if call.exact and out.whole and narrow is None and str(dtype) in _integers.EIGHT_BITS:
        result = _rounded_once(call, x, out, dtype)
        if result is not None:
            return result
    data, wrap = stored(computed(x))
    if precision == 10 or str(y_scale.dtype) != "float32":
        data, y_scale = data.astype(jnp.float32), on_device(y_scale).astype(jnp.float32)

    def quantize(data: Any) -> Any:
        return jaxdml.quantize_linear(
            data,
            y_scale if not out.whole else out.scale.astype(np.float32),
            out.zero_point,
            axis=stored_axis(x, out.axis),
            block_size=block_size or None,
            output_dtype=dtype,
        )

    known = isinstance(y_scale, np.ndarray) and isinstance(y_zero_point, np.ndarray | None)
    apart = known and narrow is None and not isinstance(x, ChannelsLast) and str(dtype) in _integers.EIGHT_BITS
    result = _known_scales.quantized(quantize, data) if apart else quantize(data)
    if narrow is None:
        return wrap(result)
    limits = jnp.iinfo(wanted)
    return wrap(jnp.clip(result, int(limits.min), int(limits.max)).astype(wanted))


def none_or_array(value: Any) -> Any:
    """Return an optional input as an array."""
    return None if value is None else channels_first(value)


def _rounded_once(call: Call, x: Any, out: Quantization, dtype: Any) -> Any:
    """Return the integers that a value means, or None where it is floats."""
    if isinstance(x, Dequantized) and _integers.is_simple(x):
        return _integers.mapped(x, out, dtype)
    if not isinstance(x, Pending):
        return None
    result = x.quantized(out, dtype)
    if isinstance(result, str):
        call.note(x.nodes, f"float: {result}")
        return None
    return result


def dynamic_quantize_linear(call: Call, x: Any) -> tuple[Any, ...]:
    """Quantize with a range that covers the values."""
    data, wrap = stored(computed(x))
    result = jaxdml.dynamic_quantize_linear(data)
    return wrap(result.output), result.scale, result.zero_point


def matrix_multiply_integer(call: Call, a: Any, b: Any, a_zero_point: Any = None, b_zero_point: Any = None) -> Any:
    """Multiply matrices of integers."""
    left, right = (on_device(channels_first(x)) for x in (a, b))
    za, zb = none_or_array(a_zero_point), none_or_array(b_zero_point)
    if left.ndim < 2 or right.ndim < 2:
        rows, columns = (
            left.reshape((1, -1)) if left.ndim < 2 else left,
            right.reshape((-1, 1)) if right.ndim < 2 else right,
        )
        result = jaxdml.matrix_multiply_integer(rows, za, columns, zb)
        return result.reshape(np.matmul(np.empty(left.shape), np.empty(right.shape)).shape)
    if not call.exact:
        return jaxdml.matrix_multiply_integer(left, za, right, zb)
    shape = (*jnp.broadcast_shapes(left.shape[:-2], right.shape[:-2]), left.shape[-2], right.shape[-1])

    def scaled(scale: Any, bias: Any) -> Any:
        call.note((call.node.name,), "matrix_multiply_integer_to_float")
        return jaxdml.matrix_multiply_integer_to_float(left, np.float32(1), za, right, scale, zb, bias)

    return IntegerProduct(shape, lambda: jaxdml.matrix_multiply_integer(left, za, right, zb), scaled, (call.node.name,))


def convolution_integer(
    call: Call,
    x: Any,
    w: Any,
    x_zero_point: Any = None,
    w_zero_point: Any = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Any = (),
    group: int = 1,
    kernel_shape: Any = (),
    pads: Any = (),
    strides: Any = (),
) -> Any:
    """Convolve integers."""
    where = windows(
        x.shape[2:], kernel_shape or w.shape[2:], strides=strides, dilations=dilations, pads=pads, auto_pad=auto_pad
    )
    options = _integers.windows(where) | {"group_count": group}
    zeros = (none_or_array(x_zero_point), none_or_array(w_zero_point))
    result = jaxdml.convolution_integer(
        _integers.channels_last(x),
        zeros[0],
        on_device(channels_first(w)),
        zeros[1],
        dimension_numbers=_integers.orders(x.ndim),
        **options,
    )
    return ChannelsLast(result)


def quantized_linear_matrix_multiply(
    call: Call,
    a: Any,
    a_scale: Any,
    a_zero_point: Any,
    b: Any,
    b_scale: Any,
    b_zero_point: Any,
    y_scale: Any,
    y_zero_point: Any,
) -> Any:
    """Multiply quantized matrices."""
    arrays = [on_device(channels_first(x)) for x in (a, b)]
    left, right = arrays
    shape = (
        np.matmul(np.empty(left.shape, bool), np.empty(right.shape, bool)).shape
        if min(left.ndim, right.ndim) < 2
        else None
    )
    left, right = left.reshape(1, -1) if left.ndim < 2 else left, right.reshape(-1, 1) if right.ndim < 2 else right
    scales = [
        np.float32(1) * channels_first(scale) if str(scale.dtype) != "float32" else channels_first(scale)
        for scale in (a_scale, b_scale, y_scale)
    ]
    zeros = [channels_first(zero) for zero in (a_zero_point, b_zero_point, y_zero_point)]
    first, second = (
        Dequantized(x, Quantization(scale, zero), np.float32)
        for x, scale, zero in zip((left, right), scales[:2], zeros[:2], strict=True)
    )
    result = _integers.matrix_multiply(first, second, Quantization(scales[2], zeros[2]), zeros[2].dtype)
    return result if shape is None else result.reshape(shape)


def quantized_linear_convolution(
    call: Call,
    x: Any,
    x_scale: Any,
    x_zero_point: Any,
    w: Any,
    w_scale: Any,
    w_zero_point: Any,
    y_scale: Any,
    y_zero_point: Any,
    B: Any = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Any = (),
    group: int = 1,
    kernel_shape: Any = (),
    pads: Any = (),
    strides: Any = (),
) -> Any:
    """Convolve quantized images."""
    where = windows(
        x.shape[2:], kernel_shape or w.shape[2:], strides=strides, dilations=dilations, pads=pads, auto_pad=auto_pad
    )
    options = _integers.windows(where) | {"group_count": group}
    inputs = Dequantized(x, Quantization(channels_first(x_scale), channels_first(x_zero_point)), np.float32)
    weights = Dequantized(w, Quantization(channels_first(w_scale), channels_first(w_zero_point)), np.float32)
    out = Quantization(channels_first(y_scale), channels_first(y_zero_point))
    bias = None if B is None else channels_first(B)
    return _integers.convolution(inputs, weights, bias, out, out.zero_point.dtype, options)


_INTEGERS = frozenset({"int8", "uint8", "int16", "uint16", "int32", *_NARROW})


def refuses_quantize(node: Node, dtypes: Mapping[str, Any]) -> str | None:
    """Refuse to quantize to floats."""
    dtype = dtypes.get(node.inputs[2]) if len(node.inputs) > 2 else None
    asked = node.attributes.get("output_dtype", 0)
    if (dtype is not None and str(dtype) not in _INTEGERS) or asked not in _ELEMENT_TYPES:
        return f"it quantizes to {asked if dtype is None else dtype}, which is no integer of 2 to 16 bits"
    return None


def refuses_dequantize(node: Node, dtypes: Mapping[str, Any]) -> str | None:
    """Refuse to dequantize floats."""
    known = (dtypes[name] for position, name in enumerate(node.inputs) if position != 1 and name in dtypes)
    wrong = next((dtype for dtype in known if str(dtype) not in _INTEGERS), None)
    return f"it dequantizes {wrong}, which is no integer of 2 to 32 bits" if wrong else None


TABLE: Table = {
    "QuantizeLinear": (Handler(10, quantize_linear, raw=True, constant=(1, 2), refuses=refuses_quantize),),
    "DequantizeLinear": (Handler(10, dequantize_linear, raw=True, constant=(1, 2), refuses=refuses_dequantize),),
    "DynamicQuantizeLinear": (Handler(11, dynamic_quantize_linear, raw=True),),
    "MatMulInteger": (Handler(10, matrix_multiply_integer, raw=True, constant=(2, 3)),),
    "ConvInteger": (Handler(10, convolution_integer, raw=True, constant=(2, 3)),),
    "QLinearMatMul": (Handler(10, quantized_linear_matrix_multiply, raw=True, constant=(1, 2, 4, 5, 6, 7)),),
    "QLinearConv": (Handler(10, quantized_linear_convolution, raw=True, constant=(1, 2, 4, 5, 6, 7)),),
}

"""Products and convolutions of integers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxdml
from jaxdml.onnx.integers import rounded_once
from jaxdml.onnx.nodes._handler import SCALING, Handler, NodeCall, Table
from jaxdml.onnx.nodes._windows import windows_of_filters
from jaxdml.onnx.nodes.quantizing import as_float32
from jaxdml.onnx.values.kinds import (
    Dequantized,
    IntegerProduct,
    Quantization,
    channels_first,
    channels_last,
    right_matrix,
)
from jaxdml.onnx.values.stored import ChannelsLast, on_device


def _matrices(a: Any, b: Any) -> tuple[Any, Any, tuple[int, ...] | None]:
    """Return operands of a product as matrices, and the shape of the result, or None where it is that of these."""
    left, right = on_device(channels_first(a)), right_matrix(b)
    if min(left.ndim, right.ndim) > 1:
        return left, right, None
    empty = [jax.ShapeDtypeStruct(x.shape, np.int8) for x in (left, right)]  # type: ignore[no-untyped-call]
    shape = jax.eval_shape(jnp.matmul, *empty).shape
    rows = left.reshape(1, -1) if left.ndim < 2 else left
    # What is packed is no vector.
    return rows, right.reshape(-1, 1) if isinstance(right, jax.Array) and right.ndim < 2 else right, shape


def matrix_multiply_integer(call: NodeCall, a: Any, b: Any, a_zero_point: Any = None, b_zero_point: Any = None) -> Any:
    """Multiply matrices of integers."""
    left, right, given = _matrices(a, b)
    za, zb = channels_first(a_zero_point), channels_first(b_zero_point)
    if given is not None or not call.exact:
        result = jaxdml.matrix_multiply_integer(left, za, right, zb)
        return result if given is None else result.reshape(given)
    shape = (*jnp.broadcast_shapes(left.shape[:-2], right.shape[:-2]), left.shape[-2], right.shape[-1])

    def scaled(scale: Any, bias: Any) -> Any:
        call.note((call.node.name,), "matrix_multiply_integer_to_float")
        return jaxdml.matrix_multiply_integer_to_float(left, np.float32(1), za, right, scale, zb, bias)

    return IntegerProduct(shape, lambda: jaxdml.matrix_multiply_integer(left, za, right, zb), scaled, (call.node.name,))


def convolution_integer(
    call: NodeCall,
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
    where = windows_of_filters(
        call, x.shape, w.shape, kernel_shape, strides=strides, dilations=dilations, pads=pads, auto_pad=auto_pad
    )
    options = where.options | {"group_count": group}
    zeros = (channels_first(x_zero_point), channels_first(w_zero_point))
    result = jaxdml.convolution_integer(
        channels_last(x),
        zeros[0],
        rounded_once.filters(w),
        zeros[1],
        dimension_numbers=rounded_once.orders(x.ndim),
        **options,
    )
    return ChannelsLast(result)


def quantized_linear_matrix_multiply(
    call: NodeCall,
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
    left, right, shape = (a, b, None) if min(a.ndim, b.ndim) > 1 else _matrices(a, b)
    first, second = (
        Dequantized(x, Quantization(as_float32(channels_first(scale)), channels_first(zero)), np.dtype(np.float32))
        for x, scale, zero in ((left, a_scale, a_zero_point), (right, b_scale, b_zero_point))
    )
    out = Quantization(as_float32(channels_first(y_scale)), channels_first(y_zero_point))
    result = rounded_once.matrix_multiply(first, second, out, out.zero_point.dtype)
    return result if shape is None else result.reshape(shape)


def quantized_linear_convolution(
    call: NodeCall,
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
    where = windows_of_filters(
        call, x.shape, w.shape, kernel_shape, strides=strides, dilations=dilations, pads=pads, auto_pad=auto_pad
    )
    options = where.options | {"group_count": group}
    inputs = Dequantized(x, Quantization(channels_first(x_scale), channels_first(x_zero_point)), np.float32)
    weights = Dequantized(w, Quantization(channels_first(w_scale), channels_first(w_zero_point)), np.float32)
    out = Quantization(channels_first(y_scale), channels_first(y_zero_point))
    bias = None if B is None else channels_first(B)
    return rounded_once.convolution(inputs, weights, bias, out, out.zero_point.dtype, options)


TABLE: Table = {
    "MatMulInteger": (Handler(10, matrix_multiply_integer, raw=True, constant=SCALING, matrices="b"),),
    "ConvInteger": (Handler(10, convolution_integer, raw=True, constant=SCALING, filters="w"),),
    "QLinearMatMul": (Handler(10, quantized_linear_matrix_multiply, raw=True, constant=SCALING, matrices="b"),),
    "QLinearConv": (Handler(10, quantized_linear_convolution, raw=True, constant=SCALING, filters="w"),),
}

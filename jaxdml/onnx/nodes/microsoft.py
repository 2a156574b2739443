"""Operators of com.microsoft on quantized arrays, as onnxruntime's quantizers write them.

Each means real numbers that are rounded once; then the zero point is added. onnxruntime rounds after the zero point in
some, and so differs where a result lies half-way between two integers.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

import jaxdml
from jaxdml.onnx._errors import unsupported
from jaxdml.onnx.integers import rounded_once
from jaxdml.onnx.nodes import _groups_of_products, _real_functions, integer_products, quantizing
from jaxdml.onnx.nodes._handler import SCALING, Handler, NodeCall, Table
from jaxdml.onnx.nodes._sizes import axis_of
from jaxdml.onnx.nodes._windows import windows
from jaxdml.onnx.values.kinds import Dequantized, Quantization, alike, channels_first, right_matrix
from jaxdml.onnx.values.stored import ChannelsLast, on_device

_FLOAT = np.dtype(np.float32)


def value(integers: Any, scale: Any, zero_point: Any) -> Dequantized:
    """Return integers with one scale and zero point, of one element each."""
    return Dequantized(integers, one(scale, zero_point), _FLOAT)


def one(scale: Any, zero_point: Any) -> Quantization:
    """Return what a scale and a zero point of one element each mean."""
    return quantizing.quantization(channels_first(scale), channels_first(zero_point), 0, 0, 0)


def _matrix(integers: Any, scale: Any, zero_point: Any, axis: int) -> Dequantized:
    """Return integers that may have a scale for each position of an axis."""
    parts = channels_first(scale), channels_first(zero_point)
    return Dequantized(integers, quantizing.quantization(*parts, axis, 0, integers.ndim), _FLOAT)


def add(call: NodeCall, A: Any, sa: Any, za: Any, B: Any, sb: Any, zb: Any, sc: Any, zc: Any = None) -> Any:
    """Add."""
    return rounded_once.add(value(A, sa, za), value(B, sb, zb), one(sc, zc), A.dtype)


def multiply(call: NodeCall, A: Any, sa: Any, za: Any, B: Any, sb: Any, zb: Any, sc: Any, zc: Any = None) -> Any:
    """Multiply."""
    return rounded_once.multiply(value(A, sa, za), value(B, sb, zb), one(sc, zc), A.dtype)


def concatenate(call: NodeCall, y_scale: Any, y_zero_point: Any, *operands: Any, axis: int) -> Any:
    """Requantize arrays and join them."""
    values = [value(*operands[first : first + 3]) for first in range(0, len(operands), 3)]
    out = one(y_scale, y_zero_point)
    return _known(call, rounded_once.concatenate(values, axis, out, out.zero_point.dtype))


def _known(call: NodeCall, result: Any) -> Any:
    if result is None:
        raise unsupported(f"{call.node} has a scale or zero point that is not known while tracing.")
    return result


def average_pool(
    call: NodeCall,
    X: Any,
    sx: Any,
    zx: Any,
    sy: Any,
    zy: Any = None,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    channels_last: int = 0,
    count_include_pad: int = 0,
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> Any:
    """Average windows."""
    x, given = images(value(X, sx, zx), channels_last)
    where = windows(
        x.shape[2:],
        kernel_shape,
        strides=strides,
        dilations=dilations,
        pads=pads,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
    )
    options = where.options_of_mean(bool(count_include_pad))
    if options is None:
        raise unsupported(f"{call.node} counts padding, and its last windows overhang that.")
    return given(rounded_once.average_pooling(x, one(sy, zy), X.dtype, options))


def global_average_pool(
    call: NodeCall, X: Any, sx: Any, zx: Any, sy: Any, zy: Any = None, *, channels_last: int = 0
) -> Any:
    """Average all spatial dimensions."""
    x, given = images(value(X, sx, zx), channels_last)
    return given(rounded_once.average_pooling(x, one(sy, zy), X.dtype, {"window": x.shape[2:]}))


def images(x: Dequantized, last: int) -> tuple[Dequantized, Any]:
    """Return images that the node has with channels last as such, and what turns the result into what it returns."""
    if not last:
        return x, lambda result: result
    stored_last = ChannelsLast(on_device(channels_first(x.integers)))
    return Dequantized(stored_last, x.quantization, x.dtype), lambda result: result.array


def convolution(
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
    channels_last: int = 0,
    dilations: Sequence[int] = (),
    group: int = 1,
    kernel_shape: Sequence[int] = (),
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> Any:
    """Convolve quantized images."""
    image, given = images(Dequantized(x, Quantization(None, None), _FLOAT), channels_last)
    operands = (image.integers, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B)
    where: dict[str, Any] = {"auto_pad": auto_pad, "dilations": dilations, "kernel_shape": kernel_shape, "pads": pads}
    return given(integer_products.quantized_linear_convolution(call, *operands, **where, group=group, strides=strides))


def gemm(
    call: NodeCall,
    A: Any,
    a_scale: Any,
    a_zero_point: Any,
    B: Any,
    b_scale: Any,
    b_zero_point: Any,
    C: Any = None,
    y_scale: Any = None,
    y_zero_point: Any = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Any:
    """Multiply matrices and add an int32 bias; ``alpha`` scales both: its float32 product with ``a_scale`` is meant."""
    left = jnp.swapaxes(on_device(channels_first(A)), 0, 1) if transA else A
    a = value(left, np.float32(alpha) * channels_first(a_scale) if alpha != 1 else a_scale, a_zero_point)
    b = _matrix(B, b_scale, b_zero_point, 1 - transB)
    bias = None if C is None else channels_first(C)
    if bias is not None and not _groups_of_products.is_row(bias, b.shape[1 - transB]):
        raise unsupported(f"{call.node} has a bias of more than one row.")
    right = replace(b, integers=rounded_once.transposed(b.integers, bool(transB)))
    bias = bias if bias is None else bias.reshape(-1)
    if y_scale is not None:
        out = one(y_scale, y_zero_point)
        dtype = A.dtype if y_zero_point is None else out.zero_point.dtype
        return rounded_once.matrix_multiply(a, right, out, dtype, bias)
    sums = jaxdml.matrix_multiply_integer(
        on_device(channels_first(left)),
        a.quantization.zero_point,
        right_matrix(right.integers),
        b.quantization.zero_point,
    )
    sums = sums if bias is None else sums + on_device(bias)
    scale = on_device(a.quantization.scale) * on_device(b.quantization.scale)
    return jaxdml.dequantize_linear(sums, scale, axis=1 if scale.ndim else None)


def softmax(call: NodeCall, X: Any, sx: Any, zx: Any, sy: Any, zy: Any, *, opset: int, axis: int = -1) -> Any:
    """Normalize exponentials."""
    axes = tuple(range(axis_of(axis, X.ndim), X.ndim)) if opset < 13 else (axis,)
    return _known(call, rounded_once.softmax(value(X, sx, zx), axes, one(sy, zy), X.dtype))


def _table(kind: str) -> Any:
    """Return the handler of a function of one operand."""

    def unary(call: NodeCall, X: Any, sx: Any, zx: Any, sy: Any, zy: Any = None, **attributes: Any) -> Any:
        real = _real_functions.REAL[kind](**attributes)
        return _known(call, rounded_once.mapped(value(X, sx, zx), one(sy, zy), X.dtype, real))

    return unary


def leaky_relu(call: NodeCall, X: Any, sx: Any, zx: Any, sy: Any, zy: Any = None, *, alpha: float = 0.01) -> Any:
    """Scale negative numbers."""
    return _table("LeakyRelu")(call, X, sx, zx, sy, zy, alpha=alpha)


def sigmoid(call: NodeCall, X: Any, sx: Any, zx: Any, sy: Any, zy: Any = None) -> Any:
    """Apply the logistic function."""
    return _table("Sigmoid")(call, X, sx, zx, sy, zy)


def where(
    call: NodeCall, condition: Any, X: Any, sx: Any, zx: Any, Y: Any, sy: Any, zy: Any, z_scale: Any, z_zero_point: Any
) -> Any:
    """Choose between two arrays, each requantized."""
    out = one(z_scale, z_zero_point)
    parts = [_known(call, rounded_once.mapped(value(*x), out, x[0].dtype)) for x in ((X, sx, zx), (Y, sy, zy))]
    (chosen, first, second), wrap = alike(condition, *parts)
    return wrap(jnp.where(chosen, first, second))


def dynamic_quantize_matrix_multiply(
    call: NodeCall, A: Any, B: Any, b_scale: Any, b_zero_point: Any = None, bias: Any = None
) -> Any:
    """Quantize A with a range that covers it, and multiply to float32."""
    a = jaxdml.dynamic_quantize_linear(on_device(channels_first(A)))
    b = _matrix(B, b_scale, b_zero_point, B.ndim - 1)
    return rounded_once.matrix_multiply_to_float(value(*a), b, channels_first(bias))


def matrix_multiply_integer_to_float(
    call: NodeCall,
    A: Any,
    B: Any,
    a_scale: Any,
    b_scale: Any,
    a_zero_point: Any = None,
    b_zero_point: Any = None,
    bias: Any = None,
) -> Any:
    """Multiply quantized matrices to float32."""
    a, b = _matrix(A, a_scale, a_zero_point, A.ndim - 2), _matrix(B, b_scale, b_zero_point, B.ndim - 1)
    return rounded_once.matrix_multiply_to_float(a, b, channels_first(bias))


def _raw(run: Any, constant: str = f"{SCALING} s? z?", **facts: Any) -> tuple[Handler, ...]:
    return (Handler(1, run, raw=True, constant=constant, **facts),)


TABLE: Table = {
    "DequantizeLinear": _raw(quantizing.dequantize_linear),
    "DynamicQuantizeMatMul": _raw(dynamic_quantize_matrix_multiply, matrices="B"),
    "MatMulIntegerToFloat": _raw(matrix_multiply_integer_to_float, matrices="B"),
    "QGemm": _raw(gemm, matrices="B"),
    "QLinearAdd": _raw(add, optional="za zb"),
    "QLinearAveragePool": _raw(average_pool, optional="zx"),
    "QLinearConcat": _raw(concatenate, "y_scale y_zero_point operands[1::3] operands[2::3]"),
    "QLinearConv": _raw(convolution, filters="w"),
    "QLinearGlobalAveragePool": _raw(global_average_pool),
    "QLinearLeakyRelu": _raw(leaky_relu, optional="zx"),
    "QLinearMul": _raw(multiply, optional="za zb"),
    "QLinearSigmoid": _raw(sigmoid, optional="zx"),
    "QLinearSoftmax": _raw(softmax, optional="zx"),
    "QLinearWhere": _raw(where),
    "QuantizeLinear": _raw(quantizing.quantize_linear),
}

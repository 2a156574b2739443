"""Convolutions and products of dequantized operands, as groups of nodes; ``groups`` says what they return."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxdml
from jaxdml.onnx.integers import rounded_once
from jaxdml.onnx.nodes._handler import NodeCall
from jaxdml.onnx.nodes._pending import UNKNOWN, Floats, pending
from jaxdml.onnx.nodes._windows import windows_of_filters
from jaxdml.onnx.values.kinds import Blocks, Dequantized, Quantization, channels_first, is_host
from jaxdml.onnx.values.stored import ChannelsLast, on_device


def convolution(
    call: NodeCall,
    x: Any,
    w: Any,
    b: Any = None,
    *,
    floats: Floats,
    group: int = 1,
    kernel_shape: Any = (),
    **places: Any,
) -> Any:
    """Convolve dequantized images with dequantized filters."""
    if not (rounded_once.is_simple(x) and rounded_once.has_8_bits(w)):
        return "its image and filters are not both dequantized from 8 bits"
    if w.quantization.axis not in (None, 0):
        return "its filters have scales along another axis than output channels"
    if not 3 <= x.ndim <= 5:
        return "it has more than three spatial dimensions"
    bias, scale = _bias(b, x, w), _product_of_scales(x, w)
    where = windows_of_filters(call, x.shape, w.shape, kernel_shape, **places)
    options = where.options | {"group_count": group}
    shape = (x.shape[0], w.shape[0], *where.counts)
    in_float32 = scale is not None and x.dtype == np.float32
    if isinstance(bias, str):
        if not in_float32:
            return bias
        call.note((call.node.name,), f"convolution_integer, scaled to float: {bias}")
        scaled = rounded_once.convolution_to_float(x, w, None, scale, options)
        return ChannelsLast(scaled.array + on_device(channels_first(b)))

    def to_floats() -> Any:
        if not in_float32:
            return floats()
        call.note((call.node.name,), "convolution_integer, scaled to float")
        return rounded_once.convolution_to_float(x, w, bias, scale, options)

    def quantized(out: Quantization, dtype: Any) -> Any:
        return rounded_once.convolution(x, w, bias, out, dtype, options)

    return pending(call, x, shape, "quantized_linear_convolution", quantized, to_floats)


def _product_of_scales(x: Dequantized, w: Dequantized) -> Any:
    scales = x.quantization.scale, w.quantization.scale
    if not all(isinstance(scale, np.ndarray) for scale in scales):
        return None
    return scales[0].reshape(()) * scales[1]


def _bias(b: Any, x: Dequantized, w: Dequantized) -> Any:
    """Return a bias as int32 in units of both scales, None, or a text: why it is none."""
    if b is None:
        return None
    if not (isinstance(b, Dequantized) and b.integers.dtype == np.int32):
        return "its bias is not dequantized from int32"
    scale, units = b.quantization.scale, _product_of_scales(x, w)
    zero = b.quantization.zero_point
    if units is None or not isinstance(scale, np.ndarray) or not (zero is None or is_host(zero)):
        return UNKNOWN
    if zero is not None and zero.any():
        return "its bias has a zero point"
    if b.quantization.block_size or not (scale.reshape(-1) == units.reshape(-1).astype(b.dtype)).all():
        return "the scale of its bias is not that of image and filters"
    return channels_first(b.integers)


def matrix_multiply(call: NodeCall, a: Any, b: Any, *, floats: Floats) -> Any:
    """Multiply dequantized matrices, or floats by packed blocks."""
    if isinstance(b, Blocks) and not b.transposed and a.ndim:
        return _with_blocks(call, a, b)
    if reason := _why_not_multiplied(a, b, b.ndim - 1):
        return reason
    shape = (*jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])

    def to_floats() -> Any:
        if a.dtype != np.float32:
            return floats()
        call.note((call.node.name,), "matrix_multiply_integer_to_float")
        return rounded_once.matrix_multiply_to_float(a, b)

    def quantized(out: Quantization, dtype: Any) -> Any:
        return rounded_once.matrix_multiply(a, b, out, dtype)

    return pending(call, a, shape, "quantized_linear_matrix_multiply", quantized, to_floats)


def _why_not_multiplied(a: Any, b: Any, columns: int) -> str:
    """Return why operands are not multiplied as integers, if they are not; ``columns`` is that dimension of ``b``."""
    if not (rounded_once.is_simple(a) and rounded_once.has_8_bits(b)):
        return "its operands are not both dequantized from 8 bits"
    if a.ndim < 2 or b.ndim < 2:
        return "an operand is a vector"
    return (
        ""
        if b.quantization.axis in (None, columns)
        else "its second operand has scales along another axis than columns"
    )


def _with_blocks(call: NodeCall, a: Any, b: Blocks) -> jax.Array:
    """Multiply floats by a matrix that stays packed."""
    call.note((call.node.name,), f"matrix_multiply_block_quantized, {b.packed.bits} bits")
    return jaxdml.matrix_multiply_block_quantized(on_device(channels_first(a)), b.packed)


def is_row(bias: Any, columns: int) -> bool:
    """Whether a bias has one number, or one for each column."""
    return bias.size in (1, columns) and (bias.ndim < 2 or bias.shape[0] == 1)


def gemm(
    call: NodeCall,
    a: Any,
    b: Any,
    c: Any = None,
    *,
    floats: Floats,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Any:
    """Multiply dequantized matrices, or floats by packed blocks, and add a bias."""
    if isinstance(b, Blocks) and b.transposed == bool(transB) and alpha == beta == 1 and not transA:
        product = _with_blocks(call, a, b)
        return product if c is None else product + on_device(channels_first(c))
    reason = "it has alpha, beta or transA"
    if alpha == 1 and (c is None or beta == 1) and not transA:
        reason = _why_not_multiplied(a, b, 1 - transB)
    if reason:
        return reason
    columns = b.shape[1 - transB]
    bias = _bias(c, a, b)
    if not (bias is None or isinstance(bias, str) or is_row(bias, columns)):
        bias = "its bias has more than one row"
    right = replace(b, integers=rounded_once.transposed(b.integers, bool(transB)))

    def to_floats(why: str = "") -> Any:
        if a.dtype != np.float32:
            return floats()
        call.note((call.node.name,), f"matrix_multiply_integer_to_float{why}")
        product = rounded_once.matrix_multiply_to_float(a, right)
        return product if c is None else product + on_device(channels_first(c))

    if isinstance(bias, str):
        return to_floats(f": {bias}") if a.dtype == np.float32 else bias

    def quantized(out: Quantization, dtype: Any) -> Any:
        return rounded_once.matrix_multiply(a, right, out, dtype, bias if bias is None else bias.reshape(-1))

    return pending(call, a, (a.shape[0], columns), "quantized_linear_matrix_multiply with a bias", quantized, to_floats)

"""Nodes on dequantized values: which integer operator each means, or why it has none.

Every function here takes the call, the operands as they are, ``floats``, which computes the node in floats, and the
node's attributes. It returns
- ``Dequantized``, where the node only moves, selects or orders elements;
- ``Pending``, where QuantizeLinear, if one follows, rounds the result once;
- a text: why the node is computed in floats;
- None where nothing is to be said.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._base.shapes import is_static
from jaxdml.onnx.integers import rounded_once, tables
from jaxdml.onnx.nodes._groups_along_axes import layer_normalization, softmax
from jaxdml.onnx.nodes._groups_of_products import convolution, gemm, matrix_multiply
from jaxdml.onnx.nodes._handler import Handler, NodeCall
from jaxdml.onnx.nodes._pending import Floats, Group, pending
from jaxdml.onnx.nodes._real_functions import REAL
from jaxdml.onnx.nodes._sizes import axis_of
from jaxdml.onnx.nodes._windows import windows
from jaxdml.onnx.values.kinds import (
    Blocks,
    Dequantized,
    IntegerProduct,
    Pending,
    Projected,
    Quantization,
    channels_first,
    is_host,
    shape_of,
)
from jaxdml.onnx.values.stored import HeadsFirst, on_device, stored


def _after_pending(call: NodeCall, x: Pending, bounds: tuple[Fraction | None, Fraction | None], floats: Floats) -> Any:
    """Clamp what is pending: rounding keeps the order, so the rounded bounds clamp the rounded result."""

    def quantized(out: Quantization, dtype: Any) -> Any:
        if not tables.known(out):
            return None
        whole = x.quantized(out, dtype)
        if isinstance(whole, str):
            return whole
        limits = np.iinfo(dtype)
        ends = [int(limits.min), int(limits.max)]
        for side, bound in enumerate(bounds):
            if bound is not None:
                rounded = tables.rounded(bound / tables.fraction(out.scale)) + tables.integer(out.zero_point)
                ends[side] = min(max(rounded, int(limits.min)), int(limits.max))
        if ends == [limits.min, limits.max]:
            return whole
        data, wrap = stored(whole)
        return wrap(jnp.clip(data, np.asarray(ends[0], dtype), np.asarray(ends[1], dtype)))

    return pending(call, x, x.shape, "a clamp", quantized, floats)


_BEYOND = 2**200
"""More than any float32 over any other."""


def _bound(value: Any) -> Any:
    """Return a bound of Clip as a rational number, None, or a text."""
    if value is None:
        return None
    if not is_host(value):
        return "its bounds are not known while tracing"
    number = float(value.reshape(()))
    if math.isnan(number):
        return "a bound is NaN"
    return Fraction(number) if math.isfinite(number) else Fraction(int(math.copysign(_BEYOND, number)))


def clip(
    call: NodeCall, x: Any, low: Any = None, high: Any = None, *, floats: Floats, min: Any = None, max: Any = None
) -> Any:
    """Clip, by inputs or by attributes."""
    given = [np.asarray(value, np.float32) if value is not None else None for value in (min, max)]
    bounds = [
        _bound(value if value is not None else attribute) for value, attribute in zip((low, high), given, strict=True)
    ]
    if text := next((bound for bound in bounds if isinstance(bound, str)), None):
        return text
    return _clamped(call, x, (bounds[0], bounds[1]), floats)


def relu(call: NodeCall, x: Any, *, floats: Floats) -> Any:
    """Replace negative numbers by 0."""
    return _clamped(call, x, (Fraction(0), None), floats)


def _clamped(call: NodeCall, x: Any, bounds: tuple[Fraction | None, Fraction | None], floats: Floats) -> Any:
    if isinstance(x, Pending):
        return _after_pending(call, x, bounds, floats)

    def real(value: Fraction) -> Fraction:
        low, high = bounds
        value = value if low is None or value > low else low
        return value if high is None or value < high else high

    return _by_table(call, x, real, floats)


def _by_table(call: NodeCall, x: Any, real: tables.Real, floats: Floats) -> Any:
    if not rounded_once.is_simple(x):
        return None
    return pending(call, x, x.shape, "a table", lambda out, dtype: rounded_once.mapped(x, out, dtype, real), floats)


def _unary(make: Callable[..., tables.Real]) -> Group:
    """Return the group of a function of one operand; ``make`` takes its attributes and returns the real function."""

    def group(call: NodeCall, x: Any, *, floats: Floats, **attributes: Any) -> Any:
        return _by_table(call, x, make(**attributes), floats)

    return group


def add(call: NodeCall, a: Any, b: Any, *, floats: Floats) -> Any:
    """Add two dequantized arrays, or a bias to a product of integers."""
    if isinstance(a, IntegerProduct) or isinstance(b, IntegerProduct):
        return _biased(call, a, b)
    return _binary(call, a, b, "quantized_linear_add", rounded_once.add, floats)


def subtract(call: NodeCall, a: Any, b: Any, *, floats: Floats) -> Any:
    """Subtract: add with the opposite scale."""
    return _binary(call, a, b, "quantized_linear_add", _difference, floats)


def _difference(a: Dequantized, b: Dequantized, out: Quantization, dtype: Any) -> Any:
    negative = b.quantization._replace(scale=-b.quantization.scale)
    return rounded_once.add(a, replace(b, quantization=negative), out, dtype)


def multiply(call: NodeCall, a: Any, b: Any, *, floats: Floats) -> Any:
    """Multiply two dequantized arrays, or scale a product of integers."""
    if isinstance(a, IntegerProduct) or isinstance(b, IntegerProduct):
        return _scaled(call, a, b)
    return _binary(call, a, b, "an integer product, requantized", rounded_once.multiply, floats)


def _binary(call: NodeCall, a: Any, b: Any, operator: str, run: Callable[..., Any], floats: Floats) -> Any:
    if not (rounded_once.is_simple(a) and rounded_once.is_simple(b)):
        return "its operands are not both dequantized with one scale"
    shape = jnp.broadcast_shapes(shape_of(a), shape_of(b))
    return pending(call, a, shape, operator, lambda out, dtype: run(a, b, out, dtype), floats)


def _scaled(call: NodeCall, a: Any, b: Any) -> Any:
    product, scale = (a, b) if isinstance(a, IntegerProduct) else (b, a)
    if isinstance(scale, IntegerProduct) or product.scale is not None or product.dtype != np.float32:
        return None
    if not _is_by_column(scale, product):
        return None
    return replace(product, scale=channels_first(scale), nodes=(*product.nodes, call.node.name))


def _is_by_column(value: Any, product: IntegerProduct) -> bool:
    """Whether there is one number, or one for each column of a product."""
    return value.ndim == 0 or (value.ndim == 1 and value.shape[0] in (1, product.shape[-1]))


def _biased(call: NodeCall, a: Any, b: Any) -> Any:
    product, bias = (a, b) if isinstance(a, IntegerProduct) else (b, a)
    if isinstance(bias, IntegerProduct) or product.scale is None or not _is_by_column(bias, product):
        return None
    call.note((*product.nodes, call.node.name), "matrix_multiply_integer_to_float")
    return product.scaled(product.scale, on_device(channels_first(bias)))


def cast(call: NodeCall, x: Any, *, floats: Floats, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    """Cast the int32 result of a product to float32, which it is scaled in."""
    if isinstance(x, IntegerProduct) and to == 1 and x.dtype == np.int32:
        return replace(x, dtype=np.dtype(np.float32), nodes=(*x.nodes, call.node.name))
    return None


def average_pool(
    call: NodeCall, x: Any, *, floats: Floats, kernel_shape: Any, count_include_pad: int = 0, **places: Any
) -> Any:
    """Average the windows of a dequantized array."""
    if not (rounded_once.is_simple(x) and 3 <= x.ndim <= 5):
        return None
    where = windows(x.shape[2:], kernel_shape, **places)
    options = where.options_of_mean(bool(count_include_pad))
    if options is None:
        return "its last windows overhang the padding that they count"
    return pending(
        call,
        x,
        (*x.shape[:2], *where.counts),
        "quantized_linear_average_pooling",
        lambda out, dtype: rounded_once.average_pooling(x, out, dtype, options),
        floats,
    )


def global_average_pool(call: NodeCall, x: Any, *, floats: Floats) -> Any:
    """Average all spatial dimensions of a dequantized array."""
    return _spatial_mean(call, x, floats, keepdims=True)


def reduce_mean(
    call: NodeCall, x: Any, axes: Any = None, *, floats: Floats, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Any:
    """Average all spatial dimensions, which is how PyTorch's exporter writes a global average."""
    if axes is None or {axis_of(int(axis), x.ndim) for axis in axes} != set(range(2, x.ndim)):
        return "it averages other dimensions than the spatial ones"
    return _spatial_mean(call, x, floats, keepdims=bool(keepdims))


def _spatial_mean(call: NodeCall, x: Any, floats: Floats, *, keepdims: bool) -> Any:
    if not (rounded_once.is_simple(x) and 3 <= x.ndim <= 5):
        return None

    def averaged(out: Quantization, dtype: Any) -> Any:
        result = rounded_once.average_pooling(x, out, dtype, {"window": x.shape[2:]})
        return result if keepdims or result is None else on_device(channels_first(result)).reshape(x.shape[:2])

    shape = (*x.shape[:2], *(1,) * (x.ndim - 2)) if keepdims else x.shape[:2]
    return pending(call, x, shape, "quantized_linear_average_pooling", averaged, floats)


def concatenate(call: NodeCall, *operands: Any, floats: Floats, axis: int) -> Any:
    """Join dequantized arrays."""
    if not all(map(rounded_once.is_simple, operands)):
        return "its operands are not all dequantized with one scale"
    shape = list(operands[0].shape)
    shape[axis] = sum(operand.shape[axis] for operand in operands)
    joined = lambda out, dtype: rounded_once.concatenate(operands, axis, out, dtype)  # noqa: E731
    return pending(call, operands[0], shape, "tables, joined", joined, floats)


def reshape(call: NodeCall, x: Any, shape: Any, *, floats: Floats, **attributes: Any) -> Any:
    """Split the columns of a projection into heads."""
    if not isinstance(x, Projected) or x.heads or not is_host(shape) or not is_static(*x.shape):
        return None
    given = jax.ShapeDtypeStruct(x.shape, x.dtype)  # type: ignore[no-untyped-call]
    sizes = jax.eval_shape(lambda y: call.handler.run(call, y, shape, **attributes), given).shape
    return replace(x, heads=sizes[-2]) if len(sizes) > 2 and sizes[:-2] == x.shape[:-1] else None


def transpose(call: NodeCall, x: Any, *, floats: Floats, perm: tuple[int, ...] | None = None) -> Any:
    """Bring the heads of a projection before its rows, or transpose a matrix that stays packed."""
    if isinstance(x, Projected) and x.ndim == 4 and x.heads and perm in ((0, 2, 1, 3), (0, 2, 3, 1)):
        call.note((call.node.name,), "heads first")
        by_heads = x.heads_first()
        return by_heads if perm[-1] == 3 else HeadsFirst(jnp.swapaxes(by_heads.array, -1, -2))
    if not isinstance(x, Blocks):
        return None
    call.note((call.node.name,), "packed")
    return replace(x, transposed=x.transposed != (tuple(perm or (1, 0)) == (1, 0)))


GROUPS: Mapping[str, Group] = {
    **{kind: _unary(make) for kind, make in REAL.items()},
    "Add": add,
    "AveragePool": average_pool,
    "Cast": cast,
    "Clip": clip,
    "Concat": concatenate,
    "Conv": convolution,
    "Gemm": gemm,
    "GlobalAveragePool": global_average_pool,
    "LayerNormalization": layer_normalization,
    "MatMul": matrix_multiply,
    "Mul": multiply,
    "ReduceMean": reduce_mean,
    "Relu": relu,
    "Reshape": reshape,
    "Softmax": softmax,
    "Sub": subtract,
    "Transpose": transpose,
}
"""Operators that mean one on integers."""


def moves(handler: Handler, quantization: Quantization) -> bool:
    """Whether an operator means the same on the integers."""
    has_order = not handler.orders or tables.positive(quantization.scale)
    return handler.moves > 0 and quantization.per_tensor and has_order

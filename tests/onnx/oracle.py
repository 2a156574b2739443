"""Run a model in NumPy by the definitions of its operators: the judge of ``jaxdml.onnx``, without JAX or its code.

Every node computes what ONNX writes, in float32, except groups: where QuantizeLinear takes what an operator made of
dequantized integers, the group means real numbers, rounded once.

With ``given``, the values that another program computed for some tensors, each node computes from those. So it is
judged alone: a float that differs in its last bit upstream is no excuse downstream, and none is needed.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.onnx import microsoft, plain
from tests.onnx.exact import Real, Term, along, of_terms, rationals, rounded

Array = np.ndarray


@dataclass
class Run:
    """What came of a model.

    Attributes:
      outputs: by name.
      computed: what each node computed, by the names of its outputs; no floats within groups.
      integers: names of the results of quantized operators and groups: these are defined to the last bit.
      roots: names of the floats that are quantized where no integers are known to be behind them.
    """

    outputs: dict[str, Array] = field(default_factory=dict)
    computed: dict[str, Array] = field(default_factory=dict)
    integers: list[str] = field(default_factory=list)
    roots: list[str] = field(default_factory=list)

    @property
    def observed(self) -> list[str]:
        """The tensors by which another program can be judged."""
        return list(dict.fromkeys([*self.roots, *self.integers]))


def run(model: onnx.ModelProto, inputs: Mapping[str, Array], given: Mapping[str, Array] | None = None) -> Run:
    """Compute a model's outputs; ``given``: values that take the place of what is computed."""
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    values: dict[str, Any] = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    constant = set(values)
    values |= dict(inputs)
    result = Run()
    for node in model.graph.node:
        operands = [values[name] if name else None for name in node.input]
        results = _of_node(node, operands, opsets.get(node.domain, opsets.get("", 1)))
        for name, value in zip(node.output, results, strict=False):
            values[name] = value
            if value is not None and not isinstance(value, Real):
                result.computed[name] = value
                if given is not None and name in given:
                    values[name] = np.asarray(given[name]).astype(value.dtype).reshape(value.shape)
        if constant.issuperset(filter(None, node.input)):
            constant |= set(node.output)
            continue
        if node.op_type == "QuantizeLinear" and not isinstance(operands[0], Real):
            result.roots.append(node.input[0])
        if node.op_type == "DynamicQuantizeLinear":
            result.roots.append(node.input[0])
            result.integers += node.output
        result.integers += [n for n in node.output if _is_integer(values[n]) and n not in result.integers]
    present = set(inputs) | constant
    result.roots = [name for name in result.roots if name not in present]
    result.outputs = {value.name: _floats(values[value.name]) for value in model.graph.output}
    return result


def _is_integer(value: Any) -> bool:
    return isinstance(value, Array) and value.dtype.kind in "iu" and value.dtype.itemsize < 8


def _floats(value: Any) -> Any:
    return value.floats() if isinstance(value, Real) else value


def _of_node(node: onnx.NodeProto, operands: list[Any], opset: int) -> tuple[Any, ...]:
    attributes = {a.name: _attribute(a) for a in node.attribute}
    if node.op_type == "Constant":
        return (np.asarray(next(iter(attributes.values()))),)
    if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
        return ((quantize if node.op_type[0] == "Q" else dequantize)(*operands, **attributes),)
    function = microsoft.MICROSOFT.get(node.op_type) or plain.PLAIN[node.op_type]
    asked = _parameters(function)
    extra = {"opset": opset, "outputs": len(node.output)}
    attributes = {k: v for k, v in extra.items() if k in asked} | attributes

    def literal() -> Any:
        with np.errstate(all="ignore"):
            made = function(*map(_floats, operands), **attributes)
        return made

    group = GROUPS.get(node.op_type) if any(isinstance(operand, Real) for operand in operands) else None
    made = group(literal, *operands, **attributes) if group else None
    made = literal() if made is None else made
    return made if isinstance(made, tuple) else (made if isinstance(made, Real) else np.asarray(made),)


def _parameters(function: Callable[..., Any]) -> Any:
    try:
        return inspect.signature(function).parameters
    except ValueError:  # Some functions of NumPy have none.
        return {}


def _attribute(proto: onnx.AttributeProto) -> Any:
    value = helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode()
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


# The edges of groups


def dequantize(x: Array, scale: Array, zero: Array | None = None, *, axis: int = 1) -> Real:
    values, factors = microsoft.term(x, scale, zero, axis)
    literal = lambda: values.astype(np.float32) * along(scale, x.ndim, axis)  # noqa: E731
    return of_terms([(values, factors)], literal, stored=True)


def quantize(x: Any, scale: Array, zero: Array | None = None, *, axis: int = 1) -> Array:
    zero = np.uint8(0) if zero is None else zero
    rank = _floats(x).ndim
    zeros = along(zero, rank, axis)
    if isinstance(x, Real):
        return x.quantized(along(rationals(scale), rank, axis), zeros, zero.dtype)
    bounds = np.iinfo(zero.dtype)
    return np.clip(np.rint(x / along(scale, rank, axis)) + zeros, bounds.min, bounds.max).astype(zero.dtype)


# Groups: what an operator makes of real numbers, or None where that has no exact meaning


def _combined(operator: Callable[..., Array], literal: Any, *operands: Any, **attributes: Any) -> Real:
    """Apply to integers what only selects and moves: every operand is quantized first, floats among them."""

    def quantized(scale: Array, zero: Array, dtype: Any) -> Array:
        parts = [_quantized(operand, scale, zero, dtype) for operand in operands]
        return operator(*parts, **attributes)

    return Real(quantized, literal)


def _quantized(operand: Any, scale: Array, zero: Array, dtype: Any) -> Any:
    if isinstance(operand, Real):
        return operand.quantized(scale, zero, dtype)
    if isinstance(operand, Array) and operand.dtype == np.float32:
        return rounded([(rationals(operand), np.asarray(Fraction(1)))], scale, zero, dtype)
    return operand


def _moved(operator: Callable[..., Any], literal: Any, x: Any, *rest: Any, **attributes: Any) -> Any:
    """Move integers, and with them scales that differ."""
    if not isinstance(x, Real) or any(isinstance(operand, Real) for operand in rest):
        return None
    if x.stored is None:
        made = operator(x.floats(), *rest, **attributes)
        if isinstance(made, tuple):
            return None
        return Real(lambda *q: operator(x.quantized(*q), *rest, **attributes), literal)
    values, factors = x.stored
    moved = operator(values, *rest, **attributes)
    spread = np.broadcast_to(factors, values.shape) if factors.size > 1 else None
    scales = factors if spread is None else operator(spread, *rest, **attributes)
    if not isinstance(moved, tuple):
        return of_terms([(moved, scales)], literal, stored=True)
    return tuple(
        of_terms([(part, scales if spread is None else scales[i])], lambda i=i: literal()[i], stored=True)
        for i, part in enumerate(moved)
    )


def _sum(sign: int, literal: Any, a: Any, b: Any) -> Real | None:
    if not (_is_stored(a) and _is_stored(b)):
        return None
    (x, of_x), (y, of_y) = a.stored, b.stored
    rank = max(x.ndim, y.ndim)
    return of_terms(
        [(_to_rank(x, rank), _to_rank(of_x, rank)), (_to_rank(sign * y, rank), _to_rank(of_y, rank))], literal
    )


def _to_rank(array: Array, rank: int) -> Array:
    return array if array.size == 1 and array.ndim == 0 else array.reshape((1,) * (rank - array.ndim) + array.shape)


def _product(literal: Any, a: Any, b: Any) -> Real | None:
    if not (_is_stored(a) and _is_stored(b)):
        return None
    (x, of_x), (y, of_y) = a.stored, b.stored
    return of_terms([(x * y, np.asarray(of_x * of_y, object))], literal)


def _is_stored(value: Any) -> bool:
    return isinstance(value, Real) and value.stored is not None


def _conv(literal: Any, x: Any, w: Any, b: Any = None, **options: Any) -> Real | None:
    if not (_is_stored(x) and x.by_one_scale and _is_stored(w)):
        return None
    (xs, of_x), (ws, of_w) = x.stored, w.stored
    if of_w.size != len(ws) and of_w.size != 1:
        return None
    channels = lambda array: array.reshape(-1, *[1] * (xs.ndim - 2)) if array.size > 1 else array.reshape(())  # noqa: E731
    factor = np.asarray(of_x.reshape(()) * channels(of_w), object)
    return _with_bias(plain.convolve(xs, ws, **options), factor, b, channels, literal)


def _with_bias(acc: Array, factor: Array, b: Any, shaped: Callable[[Array], Array], literal: Any) -> Real | None:
    if b is None:
        return of_terms([(acc, factor)], literal)
    if not isinstance(b, Real):
        return of_terms([(acc, factor), (shaped(rationals(b)), np.asarray(Fraction(1)))], literal)
    if b.stored is None:
        return None
    integers, scale = b.stored
    # Quantizers write fl(sx * sw) as the scale of a bias, and mean the product itself.
    written = _spread(shaped(scale.astype(np.float32)), shaped(integers).shape)
    if (written == _spread(_in_float32(factor), shaped(integers).shape)).all():
        return of_terms([(acc + shaped(integers), factor)], literal)
    return of_terms([(acc, factor), (shaped(integers), shaped(scale))], literal)


def _spread(array: Array, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(array, shape)


def _in_float32(factor: Array) -> Array:
    # A product of two float32 numbers is exact in float64, so this rounds once.
    return factor.astype(np.float64).astype(np.float32)


def _matrices(literal: Any, a: Any, b: Any) -> Real | None:
    if not (_is_stored(a) and a.by_one_scale and _is_stored(b)):
        return None
    (left, of_a), (right, of_b) = a.stored, b.stored
    if of_b.size != 1 and of_b.size != right.shape[-1]:
        return None
    of_b = of_b.reshape(-1) if of_b.size > 1 else of_b.reshape(())
    factor = np.asarray(of_a.reshape(()) * of_b, object)
    acc = plain.integer_product(left, right)

    def floats() -> Array:
        return acc.astype(np.float32) * _in_float32(factor)

    return of_terms([(acc, factor)], floats)


def _gemm(literal, a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0) -> Real | None:  # noqa: N803
    if not (_is_stored(a) and a.by_one_scale and _is_stored(b)) or (alpha, beta) != (1, 1):
        return None
    (left, of_a), (right, of_b) = a.stored, b.stored
    left, (right, of_b) = (left.T if transA else left), ((right.T, of_b.T) if transB else (right, of_b))
    if of_b.size != 1 and of_b.size != right.shape[-1]:
        return None
    factor = np.asarray(of_a.reshape(()) * (of_b.reshape(-1) if of_b.size > 1 else of_b.reshape(())), object)
    return _with_bias(plain.integer_product(left, right), factor, c, lambda array: array, literal)


def _clipped(low: Any, high: Any, literal: Any, x: Real) -> Real:
    """Clamp after rounding: rounding keeps the order."""

    def quantized(scale: Array, zero: Array, dtype: Any) -> Array:
        bounds = [None if b is None else _quantized(np.asarray(b, np.float32), scale, zero, dtype) for b in (low, high)]
        return plain.clip(x.quantized(scale, zero, dtype), *bounds)

    return Real(quantized, literal)


def _clip(literal: Any, x: Any, low: Any = None, high: Any = None) -> Real | None:
    if not isinstance(x, Real):
        return None
    return _clipped(*(_floats(bound) for bound in (low, high)), literal, x)


def _leaky_relu(literal: Any, x: Any, *, alpha: float = 0.01) -> Real | None:
    return of_terms(microsoft.leaky_terms(*x.stored, alpha), literal) if _is_stored(x) else None


def _by_table(function: Callable[[Array], Array], literal: Any, x: Any, **attributes: Any) -> Real | None:
    """Apply a function in float64 to what one scale makes of integers: 256 cases."""
    if not (_is_stored(x) and x.by_one_scale):
        return None
    values, factors = x.stored
    made = function(values * np.float64(factors.reshape(())[()]), **attributes)

    def quantized(scale: Array, zero: Array, dtype: Any) -> Array:
        bounds = np.iinfo(dtype)
        return np.clip(np.rint(made / scale.astype(np.float64)) + zero, bounds.min, bounds.max).astype(dtype)

    return Real(quantized, literal)


def _greatest(operator: Callable[..., Array], literal: Any, x: Any, *rest: Any, **attributes: Any) -> Real | None:
    if not (_is_stored(x) and x.by_one_scale):
        return None
    return of_terms([(operator(x.stored[0], *rest, **attributes), x.stored[1])], literal, stored=True)


def _average(literal: Any, x: Any, **options: Any) -> Real | None:
    if not (_is_stored(x) and x.by_one_scale):
        return None
    return of_terms([microsoft.mean_term(*x.stored, **options)], literal)


def _mean(literal: Any, x: Any, given: Any = None, *, axes: Any = None, keepdims: int = 1, **_: Any) -> Real | None:
    if not (_is_stored(x) and x.by_one_scale):
        return None
    values, factors = x.stored
    axes = axes if given is None else given
    over = tuple(range(values.ndim)) if axes is None else tuple(int(axis) for axis in axes)
    count = math.prod(values.shape[axis] for axis in over)
    return of_terms([(values.sum(over, keepdims=bool(keepdims)), np.asarray(factors / count, object))], literal)


def _global_mean(literal: Any, x: Real) -> Real | None:
    return _mean(literal, x, axes=plain.spatial(x.floats()))


MOVES = (
    "Identity",
    "Reshape",
    "Flatten",
    "Transpose",
    "Unsqueeze",
    "Squeeze",
    "Split",
    "Slice",
    "Gather",
    "Expand",
    "Tile",
    "Dropout",
)

GROUPS: dict[str, Callable[..., Any]] = {
    **{name: partial(_moved, plain.PLAIN[name]) for name in MOVES},
    "Conv": _conv,
    "MatMul": _matrices,
    "Gemm": _gemm,
    "Add": partial(_sum, 1),
    "Sub": partial(_sum, -1),
    "Mul": _product,
    "Relu": lambda literal, x: _clipped(0, None, literal, x),
    "Clip": _clip,
    "LeakyRelu": _leaky_relu,
    "Sigmoid": partial(_by_table, plain.sigmoid),
    "Tanh": partial(_by_table, np.tanh),
    "Erf": partial(_by_table, plain.erf),
    "MaxPool": partial(_greatest, plain.max_pool),
    "ReduceMax": partial(_greatest, plain.PLAIN["ReduceMax"]),
    "AveragePool": _average,
    "GlobalAveragePool": _global_mean,
    "ReduceMean": _mean,
    "Concat": partial(_combined, plain.PLAIN["Concat"]),
    "Where": partial(_combined, np.where),
}
"""By operator: ``group(literal, *operands, **attributes)`` gives real numbers, or None."""

EXACT = frozenset(GROUPS)
"""Operators between DequantizeLinear and QuantizeLinear that are exact."""

__all__ = ["EXACT", "Run", "Term", "run"]

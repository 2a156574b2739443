"""Nodes on dequantized values that normalize along axes."""

from typing import Any

from jaxdml.onnx.integers import rounded_once
from jaxdml.onnx.nodes._handler import NodeCall
from jaxdml.onnx.nodes._pending import Floats, pending
from jaxdml.onnx.nodes._sizes import axis_of
from jaxdml.onnx.nodes.normalization import parameter
from jaxdml.onnx.values.kinds import Quantization

_OUT_OF_RANGE = "its scales or sizes are not known while tracing, or out of range"


def softmax(call: NodeCall, x: Any, *, floats: Floats, axis: int | None = None, counts: Any = None) -> Any:
    """Normalize exponentials of a dequantized array; ``counts`` is for ``rounded_once.softmax``."""
    if not rounded_once.is_simple(x):
        return None
    old = call.node.opset < 13
    axis = (1 if old else -1) if axis is None else axis
    axes = tuple(range(axis_of(axis, x.ndim), x.ndim)) if old else (axis,)

    def normalized(out: Quantization, dtype: Any) -> Any:
        return rounded_once.softmax(x, axes, out, dtype, counts)

    return pending(call, x, x.shape, "exponentials from a table", normalized, floats, _OUT_OF_RANGE)


def layer_normalization(
    call: NodeCall,
    X: Any,
    Scale: Any,
    B: Any = None,
    *,
    floats: Floats,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Any:
    """Normalize a dequantized array. It is computed in float32, and the result is rounded from that."""
    if not rounded_once.is_simple(X) or any(call.outputs[1:]):
        return None
    axes = tuple(range(axis_of(axis, X.ndim), X.ndim))
    scale, bias = parameter(Scale), None if B is None else parameter(B)

    def normalized(out: Quantization, dtype: Any) -> Any:
        return rounded_once.layer_normalization(X, axes, epsilon, scale, bias, out, dtype)

    return pending(call, X, X.shape, "float: normalized in float32 and rounded", normalized, floats, _OUT_OF_RANGE)

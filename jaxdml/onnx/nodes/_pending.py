"""What groups of nodes share: results that wait for QuantizeLinear."""

from collections.abc import Callable
from typing import Any

from jaxdml.onnx.nodes._handler import NodeCall
from jaxdml.onnx.values.kinds import Pending, Quantization

Floats = Callable[[], Any]
Group = Callable[..., Any]

UNKNOWN = "a scale or zero point is not known while tracing"


def pending(
    call: NodeCall, x: Any, shape: Any, operator: str, quantized: Callable[[Quantization, Any], Any], floats: Floats
) -> Pending:
    name = (call.node.name,)

    def noted(out: Quantization, dtype: Any) -> Any:
        result = quantized(out, dtype)
        if result is None:
            return UNKNOWN
        call.note(name, operator)
        return result

    return Pending(tuple(shape), x.dtype, noted, floats, name)

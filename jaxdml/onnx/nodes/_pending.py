"""What groups of nodes share: results that wait for QuantizeLinear."""

from collections.abc import Callable
from typing import Any

from jaxdml.onnx.nodes._handler import NodeCall
from jaxdml.onnx.values.kinds import Pending, Quantization

Floats = Callable[[], Any]
Group = Callable[..., Any]

UNKNOWN = "a scale or zero point is not known while tracing"


def pending(
    call: NodeCall,
    x: Any,
    shape: Any,
    operator: str,
    quantized: Callable[[Quantization, Any], Any],
    floats: Floats,
    why_not: str = UNKNOWN,
) -> Pending:
    """Return a result that ``quantized`` rounds, or that is computed in ``floats``: ``why_not`` says why.

    Args:
      call: the node.
      x: an operand: the floats have its dtype.
      shape: of the result.
      operator: what the report calls the node if it is rounded.
      quantized: as in ``Pending``; it may return None.
      floats: computes the node in floats.
      why_not: the text where ``quantized`` returns None.
    """
    name = (call.node.name,)

    def noted(out: Quantization, dtype: Any) -> Any:
        result = quantized(out, dtype)
        if result is None:
            return why_not
        call.note(name, operator)
        return result

    return Pending(tuple(shape), x.dtype, noted, floats, name)

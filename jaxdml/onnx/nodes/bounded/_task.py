"""What a rule about arrays with lengths gets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jaxdml.onnx.nodes._handler import NodeCall
from jaxdml.onnx.nodes._sizes import axis_of
from jaxdml.onnx.values.bounded import inner
from jaxdml.onnx.values.kinds import Value, channels_first
from jaxdml.onnx.values.stored import on_device


@dataclass(frozen=True)
class Task:
    """A node, some of whose operands have lengths.

    Attributes:
      call: the node.
      run: computes a node on a list of operands without lengths, and returns a tuple of results.
    """

    call: NodeCall
    run: Callable[[NodeCall, list[Value]], tuple[Value, ...]]

    def compute(self, *operands: Value, **attributes: Any) -> tuple[Value, ...]:
        """Compute the node on operands without lengths, some of its attributes perhaps replaced."""
        node = self.call.node
        changed = replace(node, attributes={**node.attributes, **attributes}) if attributes else node
        return self.run(replace(self.call, node=changed), list(operands))

    def attribute(self, name: str) -> Any:
        """Return an attribute, or what it is by default."""
        return self.call.node.attributes.get(name, self.call.handler.defaults[name])

    def takes(self, name: str) -> bool:
        """Whether the operator has an attribute; in some versions it is an input."""
        return name in self.call.handler.defaults

    def axis(self, rank: int) -> int:
        """Return the attribute ``axis``, counted from the front."""
        return axis_of(self.attribute("axis"), rank)


Rule = Callable[..., tuple[Value, ...]]
"""``rule(task, *operands)`` returns the results."""

Rules = Mapping[str, Rule]
"""By operator."""


def array(value: Value) -> Any:
    """Return a value, or what a bounded one has in it, as a JAX array."""
    return on_device(channels_first(inner(value)))

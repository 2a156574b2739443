"""Which values a graph must know while tracing."""

from collections.abc import Collection, Iterable

from jaxdml.onnx import nodes
from jaxdml.onnx._graph import Graph, Node


def must_be_known(graph: Graph, data: Collection[str] = (), outputs: Iterable[str] = ()) -> frozenset[str]:
    """Return the names of values that must be known while tracing: what shapes depend on, and what makes these.

    Args:
      graph: a model's, or a body.
      data: values that programs compute. They are waited for, so what makes them need not be known.
      outputs: names of those outputs that must be known, because of what is around a body.
    """
    wanted: set[str] = set(outputs)
    for node in reversed(graph.needed):
        wanted |= required(node)
        if wanted & set(node.outputs) and not any(name in data for name in node.outputs):
            wanted |= read_by_value(node)
    return frozenset(wanted)


def read_by_value(node: Node) -> frozenset[str]:
    """Return the names of which a node reads more than the shape."""
    shape_only = nodes.runner(node).at.shape_only
    return frozenset(name for position, name in enumerate(node.reads) if name and position not in shape_only)


def required(node: Node) -> frozenset[str]:
    """Return the names that a node must know, those that its graphs capture among them."""
    static = nodes.runner(node).at.static
    names = {name for position, name in enumerate(node.inputs) if name and position in static}
    for body in node.graphs:
        inside = _inside(node, body)
        names |= inside & body.captured()
        names |= {name for name, value in zip(node.inputs, body.inputs, strict=False) if value.name in inside}
        if node.op_type == "Loop" and any(value.name in inside for value in body.outputs[:1]):
            names |= set(node.inputs[:2])
    return frozenset(names - {""})


def _inside(node: Node, body: Graph) -> frozenset[str]:
    """Return what must be known within a body.

    In a Loop what a turn must know has to be known after the turn before it, and also whether there is another turn.
    """
    if node.op_type != "Loop":
        return must_be_known(body)
    goes_on = {value.name for value in body.outputs[:1]}
    wanted = goes_on if node.decided else set[str]()
    while True:
        inside = must_be_known(body, outputs=wanted)
        read = [value.name in inside for value in body.inputs]
        more = {value.name for value, known in zip(body.outputs, read[1:], strict=False) if known}
        more |= goes_on if any(read) else set()
        if more <= wanted:
            return inside
        wanted = wanted | more

"""What a graph needs: which nodes, and which values while tracing."""

from collections.abc import Collection, Iterable

from jaxdml.onnx import nodes
from jaxdml.onnx._graph import Graph, Node, reads


def needed(graph: Graph) -> tuple[Node, ...]:
    """Return the nodes that the outputs depend on."""
    wanted = {output.name for output in graph.outputs}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if wanted & set(node.outputs):
            kept.append(node)
            wanted |= set(reads(node))
    return tuple(reversed(kept))


def must_be_known(graph: Graph, data: Collection[str] = (), outputs: Iterable[str] = ()) -> frozenset[str]:
    """Return the names of values that must be known while tracing: what shapes depend on, and what makes these.

    Args:
      graph: a model's, or a body.
      data: values that programs compute. They are waited for, so what makes them need not be known.
      outputs: names of those outputs that must be known, because of what is around a body.
    """
    wanted: set[str] = set(outputs)
    for node in reversed(needed(graph)):
        wanted |= required(node)
        if wanted & set(node.outputs) and not any(name in data for name in node.outputs):
            shape_only = nodes.runner(node).shape_only
            wanted |= {name for position, name in enumerate(reads(node)) if name and position not in shape_only}
    return frozenset(wanted)


def required(node: Node) -> frozenset[str]:
    """Return the names that a node must know, those that its graphs capture among them."""
    handler = nodes.runner(node)
    names = {name for position, name in enumerate(node.inputs) if name and handler.must_be_known(position)}
    for body in node.graphs():
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

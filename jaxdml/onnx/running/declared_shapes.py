"""Operands of a wrong shape that a model's declarations and constants show, before anything runs."""

from collections.abc import Iterator, Mapping
from typing import Any

from jaxdml.onnx import nodes
from jaxdml.onnx._errors import unsupported
from jaxdml.onnx._graph import Graph, Node
from jaxdml.onnx.nodes.operands import objection


def refuse_wrong_shapes(graph: Graph) -> None:
    """Raise an error that names a node with an operand of a wrong shape, if there is one."""
    declared = {value.name: value for value in graph.inputs if value.shape is not None and not value.within}
    for node, known in _nodes(graph, graph.constants, declared):
        try:
            wrong = objection(node, nodes.runner(node), [known.get(name) for name in node.inputs])
        except (ArithmeticError, LookupError, TypeError, ValueError):
            continue  # An attribute, or a value, makes no sense. It is said when the node is computed.
        if wrong:
            raise unsupported(*wrong)


def _nodes(
    graph: Graph, constants: Mapping[str, Any], declared: Mapping[str, Any]
) -> Iterator[tuple[Node, Mapping[str, Any]]]:
    """Yield nodes and what is known of values. Of a body that is constants: another branch may fit an input."""
    known = {**declared, **constants}
    for node in graph.needed:
        yield node, known
        for inner in node.graphs:
            yield from _nodes(inner, {**constants, **inner.constants}, {})

"""Initializers that one operator reads together become one parameter, and so do the numbers among its attributes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from jaxdml.onnx import nodes
from jaxdml.onnx._errors import NodeError, unsupported
from jaxdml.onnx._graph import Graph, Node
from jaxdml.onnx.nodes._handler import Handler


def packed_together(graph: Graph) -> tuple[Graph, dict[str, Any]]:
    """Return a graph whose operators read what is packed, without what they read before, and what is packed, by name.

    Operators that read the same initializers share what is packed: the table of tokens is often the last matrix too.
    """
    read_as = _read_as(graph)
    made: dict[tuple[str, ...], Any] = {}

    def rewritten(node: Node) -> Node:
        handler = nodes.runner(node)
        names = () if handler.packs is None else _initializers(node, handler, read_as)
        # All attributes of these operators are integers; others are an error when the node is computed.
        if handler.packs is None or not names or not all(isinstance(value, int) for value in node.attributes.values()):
            return node
        origins = tuple(read_as[name].origin if name else "" for name in names)
        if origins not in made:
            arrays = [read_as[name].array if name else None for name in names]
            parameter = handler.packs(*arrays, **node.attributes)
            if parameter is None:
                return node
            made[origins] = parameter
        return replace(node, inputs=_inputs(node, handler, _name(origins)))

    changed = replace(graph, nodes=tuple(rewritten(node) for node in graph.nodes))
    packed = frozenset(name for origins in made for name in origins)
    parameters = {_name(origins): parameter for origins, parameter in made.items()}
    return (_without(changed, graph, packed), parameters) if made else (graph, {})


def prepared(graph: Graph, dtypes: Mapping[str, Any]) -> tuple[Graph, dict[str, Any]]:
    """Return a graph without the attributes that become parameters, and these by name.

    Args:
      graph: a model's, or a body.
      dtypes: of the values that are known when a model is loaded, by name.
    """
    made: dict[str, Any] = {}

    def rewritten(node: Node) -> Node:
        inner = {name: prepared(body, dtypes) for name, body in node.attributes.items() if isinstance(body, Graph)}
        for _, found in inner.values():
            made.update(found)
        attributes = {**node.attributes, **{name: body for name, (body, _) in inner.items()}}
        handler = nodes.runner(node)
        if handler.prepares is None:
            return replace(node, attributes=attributes) if inner else node
        own = {name: value for name, value in attributes.items() if name in handler.prepared}
        try:
            made[_name((node.name,))] = handler.prepares(dtypes.get(node.inputs[0]), **own)
        except NodeError as error:
            rule = f"{node}, domain '{node.domain}', opset {node.opset}: {error}."
            raise unsupported(rule, "The file may be broken.") from None
        kept = {name: value for name, value in attributes.items() if name in handler.defaults}
        return replace(node, inputs=(*node.inputs, _name((node.name,))), attributes=kept)

    changed = replace(graph, nodes=tuple(rewritten(node) for node in graph.nodes))
    return (changed, made) if made else (graph, {})


class _Read(NamedTuple):
    """An initializer as an operator reads it."""

    origin: str
    array: np.ndarray


def _read_as(graph: Graph) -> Mapping[str, _Read]:
    """Return the values that are initializers, perhaps in another shape, by name."""
    overridable = {value.name for value in graph.optional}
    found = {name: _Read(name, array) for name, array in graph.constants.items() if name not in overridable}
    for node in graph.nodes:
        if node.kind == "Reshape" and all(name in found for name in node.inputs) and not node.attributes:
            data, shape = (found[name] for name in node.inputs)
            if not (shape.array == 0).any():
                found[node.outputs[0]] = _Read(data.origin, data.array.reshape(shape.array))
    return found


def _initializers(node: Node, handler: Handler, read_as: Mapping[str, _Read]) -> tuple[str, ...]:
    """Return what a node may have packed, "" for what is left out; nothing if not all are initializers."""
    names = tuple(node.inputs[position] if position < len(node.inputs) else "" for position in handler.packed_at)
    # The first two are integers and scales, which no sound node leaves out.
    return names if all(names[:2]) and all(not name or name in read_as for name in names) else ()


def _name(origins: tuple[str, ...]) -> str:
    return f"{origins[0]} packed"


def _inputs(node: Node, handler: Handler, name: str) -> tuple[str, ...]:
    first, *others = handler.packed_at
    return tuple(
        name if position == first else "" if position in others else given for position, given in enumerate(node.inputs)
    )


def _without(graph: Graph, before: Graph, packed: frozenset[str]) -> Graph:
    """Return a graph without what only those read that read what is packed now: nodes and initializers."""
    kept = graph.needed
    unread = {node.name for node in before.needed} - {node.name for node in kept}
    read = {name for node in kept for name in node.reads} | {output.name for output in graph.outputs}
    constants = {name: array for name, array in graph.constants.items() if name in read or name not in packed}
    return replace(graph, constants=constants, nodes=tuple(n for n in graph.nodes if n.name not in unread))

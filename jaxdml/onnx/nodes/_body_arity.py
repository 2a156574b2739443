"""How many values the graphs among a node's attributes take and return: said when a model is loaded."""

from collections.abc import Mapping
from typing import Any

from jaxdml.onnx._graph import Graph, Node


def of_if(node: Node, dtypes: Mapping[str, Any]) -> str | None:
    """Say what is wrong with the branches of an If, or None."""
    return _first(_counts(node, name, 0, len(node.outputs)) for name in ("then_branch", "else_branch"))


def of_loop(node: Node, dtypes: Mapping[str, Any]) -> str | None:
    """Say what is wrong with the body of a Loop, which gets a number and a condition before the states."""
    states = len(node.inputs[2:])
    return _states(node, states) or _counts(node, "body", 2 + states, 1 + len(node.outputs))


def of_scan(node: Node, dtypes: Mapping[str, Any]) -> str | None:
    """Say what is wrong with the body of a Scan, or with how it is to read and write."""
    given, read = len(node.inputs), node.attributes["num_scan_inputs"]
    if not 1 <= read <= given:
        return f"num_scan_inputs is {read}, and must be between 1 and {given}, the number of its inputs"
    written = len(node.outputs) - (given - read)
    wrong = _states(node, given - read) or _counts(node, "body", given, len(node.outputs))
    return wrong or _first(_each(node, kind, count) for kind, count in (("input", read), ("output", written)))


def of_map(node: Node, dtypes: Mapping[str, Any]) -> str | None:
    """Say what is wrong with the body of a SequenceMap, or None."""
    return _counts(node, "body", len(node.inputs), len(node.outputs))


def of_functions(node: Node, dtypes: Mapping[str, Any]) -> str | None:
    """Say what is wrong with graphs that change one array, or None."""
    return _first(_counts(node, name, 1, 1) for name, graph in node.attributes.items() if isinstance(graph, Graph))


def _first(reasons: Any) -> str | None:
    return next(filter(None, reasons), None)


def _counts(node: Node, name: str, inputs: int, outputs: int) -> str | None:
    """Say that a graph takes or returns other numbers of values than the node gives and wants."""
    graph: Graph = node.attributes[name]
    if len(graph.inputs) != inputs:
        return f"{name} takes {len(graph.inputs)} inputs that are no initializers; the node gives it {inputs}"
    if len(graph.outputs) != outputs:
        return f"{name} returns {len(graph.outputs)} values; by the node's outputs it must be {outputs}"
    return None


def _states(node: Node, count: int) -> str | None:
    """Say that the node returns fewer values than it has states, or leaves one out."""
    if len(node.outputs) < count:
        return f"it has {count} states and {len(node.outputs)} outputs"
    left = node.inputs[len(node.inputs) - count :] if node.op_type == "Loop" else node.inputs
    return "a state is left out" if "" in left else None


def _each(node: Node, kind: str, count: int) -> str | None:
    """Say that a Scan has an axis or a direction too few or too many, or one that is none."""
    for what in ("axes", "directions"):
        name = f"scan_{kind}_{what}"
        values = node.attributes.get(name, ())
        if values and len(values) != count:
            return f"{name} has {len(values)} numbers for {count} {kind}s"
        if what == "directions" and not set(values) <= {0, 1}:
            return f"{name} is {list(values)}; 0 is forward, 1 is backward"
    return None

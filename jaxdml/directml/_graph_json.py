"""Write graphs as JSON, in a layout of our own, for functions that are exported with one."""

from dataclasses import astuple
from typing import Any

from jaxdml.directml._graph import ConstantNode, Graph, InputEdge, IntermediateEdge, OperatorNode, OutputEdge
from jaxdml.directml._json import from_json, to_json

_EDGES = {"input_edges": InputEdge, "output_edges": OutputEdge, "intermediate_edges": IntermediateEdge}


def graph_to_json(graph: Graph) -> dict[str, Any]:
    """Return a graph as lists, dicts, numbers and strings."""
    nodes = [
        [node.name, to_json(node.desc) if isinstance(node, OperatorNode) else node.data.hex()] for node in graph.nodes
    ]
    edges = {kind: list(map(astuple, getattr(graph, kind))) for kind in _EDGES}
    return {"input_count": graph.input_count, "output_count": graph.output_count, "nodes": nodes, **edges}


def graph_from_json(written: dict[str, Any]) -> Graph:
    """Return the graph that ``graph_to_json`` has written."""
    nodes = [
        ConstantNode(bytes.fromhex(what), name) if isinstance(what, str) else OperatorNode(from_json(what), name)
        for name, what in written["nodes"]
    ]
    edges = {kind: [edge(*values) for values in written[kind]] for kind, edge in _EDGES.items()}
    return Graph(**written | {"nodes": nodes} | edges)

"""What of an If or a Loop must be known while tracing, by what its graphs declare."""

from collections.abc import Sequence
from typing import Any

from jaxdml.onnx._graph import Node


def counted(node: Node) -> bool:
    """Whether how often a Loop runs must be known: it is a size of scan outputs or of sequences, or tracing said so."""
    return node.decided or any(
        len(body.outputs) - 1 > len(body.inputs) - 2 or any(value.within for value in body.inputs)
        for body in node.graphs
    )


def chosen(node: Node) -> bool:
    """Whether the condition of an If must be known: its branches return other shapes, or tracing said so.

    Sequences may have other lengths. Names of dimensions say nothing: exporters give each branch its own.
    """
    outputs = [graph.outputs for graph in node.graphs]
    if node.decided or any(value.within for values in outputs for value in values):
        return True
    shapes = [[value.shape for value in values] for values in outputs]
    return any(
        None not in each and any(_differ(each[0], other) for other in each) for each in zip(*shapes, strict=False)
    )


def _differ(one: Sequence[Any], other: Sequence[Any]) -> bool:
    pairs = zip(one, other, strict=False)
    return len(one) != len(other) or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)

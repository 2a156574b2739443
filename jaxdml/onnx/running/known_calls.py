"""Find what the only operator that reads some weights computes with them, where a model says so when it is loaded.

``jaxdml.prepack`` takes such parameters, and a GPU then rounds in the kernel of the product.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxdml._base.dtypes import QUANTIZED
from jaxdml.onnx._graph import Graph, Node

_FACTORS = {"Conv": ("x", "w"), "MatMul": ("a", "b"), "Gemm": ("a", "b")}
"""Operators on floats that mean integers between other nodes, and what ``jaxdml.prepack`` calls their factors."""

_OF_A = "a a_scale a_zero_point weights b_scale b_zero_point"
_INPUTS = {
    "QLinearConv": "x x_scale x_zero_point weights w_scale w_zero_point output_scale output_zero_point bias",
    "QLinearMatMul": f"{_OF_A} output_scale output_zero_point",
    "com.microsoft.QGemm": f"{_OF_A} bias output_scale output_zero_point",
}
"""Operators on integers, and what ``jaxdml.prepack`` calls their inputs."""

_CLAMPS = "Relu", "Clip"
"""What may stand before QuantizeLinear: it clamps the rounded integers."""


def known_calls(graph: Graph) -> dict[str, dict[str, Any]]:
    """Return the parameters of the only operator that reads some weights, by the weights' name, if all are known."""
    users = Counter([*(name for node in graph.walk() for name in node.inputs), *(each.name for each in graph.outputs)])
    groups = _groups(graph)
    found = {}
    for node in graph.nodes:
        if node.kind in _INPUTS:
            read = dict(zip(_INPUTS[node.kind].split(), node.inputs, strict=False))
        elif node.kind in _FACTORS:
            read = _of_group(node, groups, users)
        else:
            continue
        weights = read.pop("weights", "")
        given = {name: value for name, value in read.items() if value and name not in ("x", "a")}
        if users[weights] == 1 and graph.constants.keys() >= {*given.values()}:
            known = {name: graph.constants[value] for name, value in given.items()}
            if _have_8_bits(known):
                found[weights] = known | _strides(node)
    return found


def _strides(node: Node) -> dict[str, Any]:
    """Return the strides of a convolution without groups and dilations, which may then take two windows at once."""
    given = node.attributes
    if node.kind not in ("QLinearConv", "Conv") or given.get("group", 1) > 1 or {*given.get("dilations", ())} - {1}:
        return {}
    return {"strides": given.get("strides") or 1}


def _have_8_bits(known: Mapping[str, np.ndarray]) -> bool:
    """Whether an input and an output have 8 bits: their zero points say which dtypes they have."""
    inputs = [known.get(f"{name}_zero_point") for name in ("x", "a") if f"{name}_scale" in known]
    return all(zero is not None and str(zero.dtype) in QUANTIZED for zero in (*inputs, known.get("output_zero_point")))


class _Groups(NamedTuple):
    """Hold what stands around operators on floats that mean integers."""

    dequantizing: Mapping[str, Node]
    """DequantizeLinear by its output."""

    quantizing: Mapping[str, Node]
    """QuantizeLinear by its input."""

    clamped: Mapping[str, str]
    """What is clamped by what it was."""


def _groups(graph: Graph) -> _Groups:
    scaled = [node for node in graph.nodes if len(node.inputs) > 1]
    return _Groups(
        {node.outputs[0]: node for node in scaled if node.op_type == "DequantizeLinear"},
        {node.inputs[0]: node for node in scaled if node.op_type == "QuantizeLinear"},
        {node.inputs[0]: node.outputs[0] for node in graph.nodes if node.kind in _CLAMPS},
    )


def _of_group(node: Node, groups: _Groups, users: Mapping[str, int]) -> dict[str, str]:
    """Return the names of values by those of parameters, or nothing if the operator does not mean integers.

    Args:
      node: the operator.
      groups: what may stand around it.
      users: how many read a value, by name.
    """
    read, result = [*filter(None, node.inputs)], node.outputs[0]
    while users[result] == 1 and result in groups.clamped:
        result = groups.clamped[result]
    means_integers = groups.dequantizing.keys() >= {*read} and result in groups.quantizing
    if not means_integers or len(read) < 2 or users[read[1]] > 1:
        return {}
    before = [groups.dequantizing[name] for name in read]
    names = dict(zip(("weights", "bias"), (each.inputs[0] for each in before[1:]), strict=False))
    scaled = zip((*_FACTORS[node.kind], "output"), (*before[:2], groups.quantizing[result]), strict=True)
    for what, by in scaled:
        names |= dict(zip((f"{what}_scale", f"{what}_zero_point"), by.inputs[1:], strict=False))
    return names

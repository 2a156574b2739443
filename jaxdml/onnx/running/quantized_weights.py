"""Quantize weights when a model is loaded, where the model has them as floats and quantizes them in every call.

Tools that train with quantization in mind write such models: each weight has a QuantizeLinear of its own.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from jaxdml._base.dtypes import QUANTIZED
from jaxdml.onnx._graph import Graph, Node
from jaxdml.onnx.nodes.quantizing import ELEMENT_TYPES


def with_quantized_weights(graph: Graph) -> Graph:
    """Return a graph with what QuantizeLinear makes of initializers alone, and without these nodes.

    It makes integers of 8 bits of finite numbers, with one scale or one along an axis; other nodes stay.
    """
    overridable = {value.name for value in graph.optional}
    constants, kept = dict(graph.constants), []
    for node in graph.nodes:
        quantizes = node.op_type == "QuantizeLinear" and constants.keys() - overridable >= {*filter(None, node.inputs)}
        made = _quantized(node, constants) if quantizes else None
        if made is None:
            kept.append(node)
        else:
            constants[node.outputs[0]] = made
    if len(kept) == len(graph.nodes):
        return graph
    changed = replace(graph, nodes=tuple(kept))
    read = {name for node in changed.walk() for name in node.reads} | {output.name for output in graph.outputs}
    unread = {name for node in graph.nodes for name in node.inputs} - read
    return replace(changed, constants={name: array for name, array in constants.items() if name not in unread})


def _quantized(node: Node, constants: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Return what a node makes of initializers, with the bits of ``jaxdml.quantize_linear``, or None if it stays."""
    x, scale, *others = (constants[name] for name in node.inputs if name)
    wanted = str(others[0].dtype) if others else ELEMENT_TYPES[node.attributes.get("output_dtype", 0)] or "uint8"
    if wanted not in QUANTIZED or node.attributes.get("block_size"):
        return None
    zero = others[0] if others else np.zeros((), wanted)
    numbers, factors = x.astype(np.float32), scale.astype(np.float32)
    if not (np.isfinite(numbers).all() and np.isfinite(factors).all() and factors.all()):
        return None
    axis, limits = node.attributes.get("axis", 1), np.iinfo(zero.dtype)
    with np.errstate(over="ignore"):
        whole = np.rint(numbers / _along(axis, factors, x.ndim)) + _along(axis, zero.astype(np.float32), x.ndim)
    return np.clip(whole, limits.min, limits.max).astype(zero.dtype)


def _along(axis: int, parameter: Any, rank: int) -> Any:
    """Return a scale or a zero point so that it broadcasts: one number, or one for each position of an axis."""
    if parameter.size == 1:
        return parameter.reshape(())
    return np.expand_dims(parameter, [d for d in range(rank) if d != axis % rank])

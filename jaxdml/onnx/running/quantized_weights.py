"""Quantize weights when a model is loaded, where the model has them as floats and quantizes them in every call.

Tools that train with quantization in mind write such models: each weight has a QuantizeLinear of its own.
"""

from dataclasses import replace

import numpy as np

from jaxdml._base.dtypes import QUANTIZED
from jaxdml.onnx._graph import Graph, Node, TensorType
from jaxdml.onnx.running.interpreter import Report, run
from jaxdml.onnx.running.randomness import randomness
from jaxdml.onnx.values.kinds import channels_first
from jaxdml.onnx.values.stored import on_device


def with_quantized_weights(graph: Graph) -> Graph:
    """Return a graph with what QuantizeLinear makes of initializers alone, and without these nodes."""
    overridable = {value.name for value in graph.optional}
    constants, kept = dict(graph.constants), []
    for node in graph.nodes:
        quantizes = node.op_type == "QuantizeLinear" and constants.keys() - overridable >= {*filter(None, node.inputs)}
        made = _made(node, graph) if quantizes else None
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


def _made(node: Node, graph: Graph) -> np.ndarray | None:
    """Return what a node makes of initializers, if it has 8 bits."""
    alone = Graph((), (TensorType(node.outputs[0], None, None),), graph.constants, (node,))
    (result,) = run(alone, {}, exact=False, report=Report(), random=randomness(alone, None))
    array = np.asarray(on_device(channels_first(result)))
    return array if str(array.dtype) in QUANTIZED else None

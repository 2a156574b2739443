"""What must be known while tracing, and which initializers are parameters instead."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

import jaxdml
from jaxdml._base.dtypes import QUANTIZED
from jaxdml.onnx import nodes
from jaxdml.onnx._graph import Graph, Node
from jaxdml.onnx._interpreter import needed
from jaxdml.onnx._stored import Filters, as_jax, packed_filters

Parameter = jax.Array | Filters | jaxdml.PackedMatrix

_READERS: Mapping[str, Mapping[str, int]] = {
    "filters": {"Conv": 1, "ConvInteger": 1, "Gemm": 1, "QGemm": 3, "QLinearConv": 3},
    "matrix": {
        "DynamicQuantizeMatMul": 1,
        "MatMul": 1,
        "MatMulInteger": 1,
        "MatMulIntegerToFloat": 1,
        "QAttention": 1,
        "QLinearMatMul": 3,
    },
}
"""By kind of packing: the input of each operator that reads it. The rows of a matrix are filters if ``transB`` is 1."""


def must_be_known(graph: Graph) -> frozenset[str]:
    """Return the names of values that must be known while tracing: what shapes depend on, and what makes these."""
    wanted: set[str] = set()
    for node in reversed(needed(graph)):
        handler = nodes.runner(node)
        all_known = bool(wanted & set(node.outputs))
        for position, name in enumerate(node.inputs):
            if handler.must_be_known(position) or (all_known and position not in handler.shape_only):
                wanted.add(name)
        for inner in node.graphs():
            known = must_be_known(inner)
            wanted |= known & inner.captured()
            wanted |= {name for name, value in zip(node.inputs, inner.inputs, strict=False) if value.name in known}
            if all_known:
                wanted |= inner.captured()
    return frozenset(wanted)


def parameters(graph: Graph, *, exact: bool) -> tuple[Graph, dict[str, Parameter]]:
    """Return a graph without its weights, and the weights as its operators read them.

    Args:
      graph: a model's graph with all constants.
      exact: whether integers are read as integers.
    """
    constants = dict(graph.constants)
    packings = {kind: _read_only_as(graph, positions) for kind, positions in _READERS.items()}
    packings["matrix"] = packings["matrix"] if exact else frozenset()
    # Popped one by one, so that of a large model there are never more than two copies.
    weights = {name: _parameter(constants.pop(name), name, packings) for name in sorted(_weights(graph))}
    return Graph(graph.inputs, graph.outputs, constants, graph.nodes, graph.optional), weights


def _weights(graph: Graph) -> frozenset[str]:
    """Return the names of the initializers that are weights: float or 8-bit, and not needed while tracing."""
    kept = set(must_be_known(graph))
    for node in graph.walk():
        constant = nodes.runner(node).constant
        kept |= {node.inputs[position] for position in constant if position < len(node.inputs)}
    return frozenset(
        name
        for name, array in graph.constants.items()
        if name not in kept
        and array.ndim
        and (jnp.issubdtype(array.dtype, jnp.floating) or array.dtype.itemsize == 1)
        and array.dtype != np.bool_
    )


def _read_only_as(graph: Graph, positions: Mapping[str, int]) -> frozenset[str]:
    """Return the names of initializers that nothing reads but these operators, at these inputs."""
    captured = {name for node in graph.nodes for inner in node.graphs() for name in inner.captured()}
    names = {name for node in graph.nodes for name in node.inputs} - captured - {value.name for value in graph.outputs}
    users: dict[str, list[tuple[Node, int]]] = {name: [] for name in names}
    for node in graph.nodes:
        for position, name in enumerate(node.inputs):
            if name in users:
                users[name].append((node, position))

    def only(name: str) -> bool:
        return name in users and all(
            (positions.get(node.op_type) == position and (node.op_type[-4:] != "Gemm" or node.attributes.get("transB")))
            or (node.op_type == "DequantizeLinear" and position == 0 and only(node.outputs[0]))
            for node, position in users[name]
        )

    return frozenset(name for name, array in graph.constants.items() if array.ndim > 1 and only(name))


def _parameter(array: np.ndarray, name: str, packings: Mapping[str, frozenset[str]]) -> Parameter:
    """Return an initializer as a parameter of the model."""
    eight_bits = str(array.dtype) in QUANTIZED
    if name in packings["filters"] and (eight_bits or (array.ndim > 2 and str(array.dtype) in ("float32", "float16"))):
        return packed_filters(array)
    return jaxdml.prepack(array) if name in packings["matrix"] and eight_bits else as_jax(array)

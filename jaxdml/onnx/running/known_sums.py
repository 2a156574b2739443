"""Find the vectors that a model adds to products before it splits these into heads, or computes a function of them.

If the vector is packed with the matrix, a GPU multiplies, adds and splits in one kernel, or adds and looks up in one.
"""

from collections.abc import Mapping
from typing import NamedTuple

from jaxdml._networks.packed_projections import Sum
from jaxdml.onnx._graph import Graph, Node
from jaxdml.onnx.nodes._real_functions import REAL

_PRODUCTS = {"QLinearMatMul": 3, "MatMul": 1}
"""Products, and where they read the right matrix."""

_SCALES = "QuantizeLinear", "DequantizeLinear"

_HEADS_BEFORE_ROWS = (0, 2, 1, 3), (0, 2, 3, 1)


class _Edges(NamedTuple):
    """Hold who makes a value, and who reads it, by its name."""

    makers: Mapping[str, Node]
    readers: Mapping[str, list[Node]]


class KnownSum(NamedTuple):
    """Hold the sum after a product by a matrix."""

    added: Sum
    """Its parameters; those that are not known are None."""

    rows: tuple[str, ...]
    """The names of what the matrix multiplies if the sum is split into heads, and nothing if a function is computed."""


def known_sums(graph: Graph) -> dict[str, KnownSum]:
    """Return such sums by the name of the matrix."""
    edges = _edges(graph)
    found = {}
    for node in graph.nodes:
        adding = _next(node, edges) if node.op_type in _PRODUCTS else None
        if not adding or adding.op_type not in ("QLinearAdd", "Add"):
            continue
        if (splits := _is_split(adding, edges)) or _is_mapped(adding, edges):
            product, added, out = _quantized(adding, edges)
            if added[0] not in graph.constants:
                product, added = added, product
            constants = (graph.constants.get(name) for name in (*product[1:], *added, *out[1:]))
            matrix = _stored(node.inputs[_PRODUCTS[node.op_type]], edges)
            found[matrix] = KnownSum(Sum(*constants), _rows(node, edges) if splits else ())
    return found


def _rows(product: Node, edges: _Edges) -> tuple[str, ...]:
    """Return the names of the integers that a product multiplies, and of their scale and zero point."""
    place = _PRODUCTS[product.op_type]
    maker = edges.makers.get(product.inputs[0])
    return maker.inputs if place == 1 and maker and maker.op_type in _SCALES else product.inputs[:place]


def _stored(matrix: str, edges: _Edges) -> str:
    """Return the name of the integers of a matrix that may be dequantized."""
    maker = edges.makers.get(matrix)
    return maker.inputs[0] if maker and maker.op_type in _SCALES else matrix


def _edges(graph: Graph) -> _Edges:
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.reads:
            readers.setdefault(name, []).append(node)
    for output in graph.outputs:
        readers.pop(output.name, None)  # Whoever runs the model reads it, too.
    return _Edges({name: node for node in graph.nodes for name in node.outputs}, readers)


def _is_split(adding: Node, edges: _Edges) -> bool:
    """Whether a sum is split into heads, and heads are brought before rows."""
    splitting = _next(adding, edges)
    moving = _next(splitting, edges) if splitting and splitting.op_type == "Reshape" else None
    return bool(moving and moving.op_type == "Transpose" and moving.attributes.get("perm") in _HEADS_BEFORE_ROWS)


def _is_mapped(adding: Node, edges: _Edges) -> bool:
    """Whether a function is computed of a sum, for which there is a table."""
    mapping = _next(adding, edges)
    return bool(mapping and mapping.op_type.removeprefix("QLinear") in REAL)


def _next(node: Node, edges: _Edges) -> Node | None:
    """Return the only reader of what a node makes, after others that quantize and dequantize it."""
    readers = edges.readers.get(node.outputs[0], [])
    if len(readers) != 1:
        return None
    return _next(readers[0], edges) if readers[0].op_type in _SCALES else readers[0]


def _quantized(adding: Node, edges: _Edges) -> list[tuple[str, ...]]:
    """Return the names of integers, scale and zero point of both operands of a sum, and of the sum; "" for unknown."""
    if adding.op_type == "QLinearAdd":
        names = (*adding.inputs, "", "")[:8]
        return [names[:3], names[3:6], ("", *names[6:])]
    (reader,) = edges.readers[adding.outputs[0]]
    around = [edges.makers.get(name) for name in adding.inputs] + [reader]
    return [(*each.inputs, "", "", "")[:3] if each and each.op_type in _SCALES else ("", "", "") for each in around]

"""What must be known while tracing, and which initializers are parameters instead."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxdml
from jaxdml._base.dtypes import QUANTIZED
from jaxdml._networks.packed_projections import Projection, Projections, joined, likeness, with_sum
from jaxdml.onnx import nodes
from jaxdml.onnx._graph import Graph, Node
from jaxdml.onnx.nodes._handler import Reads
from jaxdml.onnx.running.known_calls import known_calls
from jaxdml.onnx.running.known_sums import KnownSum, known_sums
from jaxdml.onnx.running.needs import must_be_known, read_by_value
from jaxdml.onnx.running.packing import packed_together, prepared
from jaxdml.onnx.running.quantized_weights import with_quantized_weights
from jaxdml.onnx.values.stored import Transposed, as_jax, from_host

Parameter = (
    jax.Array | Transposed | Projection | Projections | jaxdml.PackedFilters | jaxdml.PackedMatrix | jaxdml.PackedBlocks
)


def constant_inputs(graph: Graph) -> frozenset[str]:
    """Return the inputs that become constants of a program: those that say a shape.

    They must be known, and are integers of at most one dimension. Others, such as images, are data. What a shape and
    data are computed from together is waited for, so it makes no input a constant.
    """
    declared = (*graph.inputs, *graph.optional)
    data = {v.name for v in declared if v.dtype is not None and (v.dtype.kind not in "iub" or len(v.shape or ()) > 1)}
    return must_be_known(graph, computed_from(graph, data)) & {value.name for value in declared} - data


def computed_from(graph: Graph, names: Iterable[str]) -> frozenset[str]:
    """Return the values that depend on others, these among them; shapes do not."""
    found = set(names)
    for node in graph.needed:
        if not found.isdisjoint(read_by_value(node)):
            found.update(filter(None, node.outputs))
    return frozenset(found)


def parameters(graph: Graph, *, exact: bool) -> tuple[Graph, dict[str, Parameter]]:
    """Return a graph without its weights, and the weights as its operators read them.

    Args:
      graph: a model's graph with all constants.
      exact: whether integers are read as integers.
    """
    graph = with_quantized_weights(graph)
    graph, packed = prepared(graph, dict(graph.dtypes()))
    if exact:
        graph, together = packed_together(graph)
        packed |= together
    constants = dict(graph.constants)
    readings = _readings(graph)
    # Popped one by one, so that of a large model there are never more than two copies.
    names = sorted(_weights(graph))
    filters = frozenset(name for name in names if _is_filters(constants[name], readings.get(name)))
    calls, sums = (known_calls(graph), known_sums(graph)) if exact else ({}, {})
    weights = {
        name: _parameter(
            constants.pop(name), readings.get(name), exact, name in filters, calls.get(name), sums.get(name)
        )
        for name in names
    }
    if exact:
        weights = _together(weights, sums)
    weights = _with_few_runs(graph, weights)
    return replace(graph, constants=constants, filters=filters), weights | packed


_PART_OF_RUNS, _ALWAYS_FOR_RUNS = 16, 2**17
"""Runs of windows, which are stored beside filters, take one part in so many of the bytes of weights, or so many
bytes if that is more."""


def _with_few_runs(graph: Graph, weights: dict[str, Parameter]) -> dict[str, Parameter]:
    """Return weights without the runs of windows that would take too many bytes.

    The first convolutions of a network have the largest images, and runs are for these. Some networks have many small
    convolutions with as many bytes of runs as of weights.
    """
    filters = {name: each for name, each in weights.items() if isinstance(each, jaxdml.PackedFilters) and each.runs}
    names = dict.fromkeys(name for node in graph.walk() for name in node.inputs if name in filters)
    plain = {name: replace(each, runs=()) for name, each in filters.items()}
    left = max(_bytes(weights | plain) // _PART_OF_RUNS, _ALWAYS_FOR_RUNS)
    # The short runs of all before longer ones, which are for many images only.
    for place in range(max((len(each.runs) for each in filters.values()), default=0)):
        for name in names:
            for run in filters[name].runs[place : place + 1]:
                if len(plain[name].runs) == place and _bytes(run) <= left:
                    left -= _bytes(run)
                    plain[name] = replace(plain[name], runs=(*plain[name].runs, run))
    return weights | plain


def _bytes(arrays: Any) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(arrays))


def _together(weights: dict[str, Parameter], sums: Mapping[str, KnownSum]) -> dict[str, Parameter]:
    """Return weights, of which projections that are alike and multiply the same rows are one, named as the first."""
    alike: dict[Hashable, dict[str, Projection]] = {}
    for name, known in sums.items():
        if known.rows and isinstance(each := weights.get(name), Projection):
            alike.setdefault((known.rows, likeness(each)), {})[name] = each
    groups = [several for several in alike.values() if len(several) > 1]
    found = {name: each for name, each in weights.items() if not any(name in several for several in groups)}
    return found | {next(iter(several)): joined(several) for several in groups}


def _weights(graph: Graph) -> frozenset[str]:
    """Return the names of the initializers that are weights: float or 8-bit, and not needed while tracing.

    Other scalars are constants, for which XLA simplifies what reads them, and so are short vectors of 8 bits, such as a
    bias: what follows from them is computed once.
    """
    data = computed_from(graph, {value.name for value in graph.inputs} - constant_inputs(graph))
    kept = set(must_be_known(graph, data))
    for node in graph.walk():
        constant = nodes.runner(node).at.constant
        kept |= {name for position, name in enumerate(node.inputs) if position in constant}
    scales = _scales_of_weights(graph)
    return frozenset(
        name
        for name, array in graph.constants.items()
        if name not in kept
        and (array.ndim or name in scales)
        and (jnp.issubdtype(array.dtype, jnp.floating) or (array.dtype.itemsize == 1 and not _is_short_vector(array)))
        and array.dtype != np.bool_
    )


def _is_short_vector(array: np.ndarray) -> bool:
    return array.ndim == 1 and array.size <= _MOST_OF_VECTOR


_MOST_OF_VECTOR = 2**14
"""More numbers are weights."""


def _scales_of_weights(graph: Graph) -> frozenset[str]:
    """Return the names of all that only multiplies scales of matrices by ``DynamicQuantizeLinear``: scales of weights.

    As constants they would be in the code of what scales each product, and XLA compiles equal code once. Convolutions
    of a network differ anyway.
    """
    matrices = {node.inputs[0] for node in graph.nodes if node.kind == "MatMulInteger"}
    quantizing = [node for node in graph.nodes if node.kind == "DynamicQuantizeLinear"]
    of_range = {node.outputs[1] for node in quantizing if node.outputs[0] in matrices}
    multiplied, others = set[str](), {output.name for output in graph.outputs}
    for node in graph.nodes:
        names = set(node.reads)
        (multiplied if node.kind == "Mul" and names & of_range else others).update(names)
    return frozenset(multiplied - others)


def _readings(graph: Graph) -> dict[str, Reads]:
    """Return how initializers are read, by name: those that all readers read as filters, or as a right matrix."""
    captured = {name for node in graph.nodes for inner in node.graphs for name in inner.captured()}
    names = {name for node in graph.nodes for name in node.inputs} - captured - {value.name for value in graph.outputs}
    users: dict[str, list[tuple[Node, int]]] = {name: [] for name in names}
    for node in graph.nodes:
        for position, name in enumerate(node.inputs):
            if name in users:
                users[name].append((node, position))

    def reading(name: str) -> Reads | None:
        found = {one_reading(node, position) for node, position in users.get(name, ())}
        return found.pop() if len(found) == 1 else None

    def one_reading(node: Node, position: int) -> Reads | None:
        if node.op_type == "DequantizeLinear" and position == 0:
            return reading(node.outputs[0])
        return nodes.runner(node).weights(node, position)

    found = {name: reading(name) for name, array in graph.constants.items() if array.ndim > 1}
    return {name: how for name, how in found.items() if how is not None}


def _is_filters(array: np.ndarray, reads: Reads | None) -> bool:
    return reads == Reads.FILTERS and array.ndim > 2 and str(array.dtype) in ("float32", "float16")


def _parameter(
    array: np.ndarray,
    reads: Reads | None,
    exact: bool,
    spatial_first: bool,
    known: dict[str, Any] | None,
    added: KnownSum | None,
) -> Parameter:
    """Return an initializer as a parameter of the model.

    Args:
      array: the initializer.
      reads: how operators read it.
      exact: whether integers are read as integers.
      spatial_first: whether it is filters of floats.
      known: the parameters of its only reader.
      added: what is then added.
    """
    eight_bits = str(array.dtype) in QUANTIZED
    if spatial_first:
        return from_host(np.transpose(array, (*range(2, array.ndim), 1, 0)))
    if eight_bits and reads == Reads.FILTERS and array.ndim > 2:
        return jaxdml.prepack_filters(array, parameters=known)
    if exact and eight_bits and reads == Reads.MATRIX:
        matrix = jaxdml.prepack(array, parameters=known)
        return matrix if added is None or array.ndim > 2 else with_sum(matrix, added.added, by_heads=bool(added.rows))
    if exact and eight_bits and reads == Reads.TRANSPOSED and array.ndim == 2:
        return Transposed(jaxdml.prepack(array, transposed=True, parameters=known))
    return as_jax(array)

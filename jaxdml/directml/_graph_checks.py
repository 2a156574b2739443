"""Find every rule that a graph breaks."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from jaxdml.directml._c import c_field, c_name
from jaxdml.directml._constraints import violations
from jaxdml.directml._enums import FeatureLevel, TensorFlags
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._graph import ConstantNode, Graph, InputEdge, IntermediateEdge, OperatorNode, Slot, slots
from jaxdml.directml._graph_plan import needs
from jaxdml.directml._tensors import is_owned, payload_in_bytes


def graph_violations(graph: Graph, level: FeatureLevel) -> Violations:
    """Check every node by itself, then where edges begin and end, then what they join."""
    for index, node in enumerate(graph.nodes):
        if isinstance(node, OperatorNode):
            for one in violations(node.desc, level):
                yield one._replace(field=f"{_node(graph, index)}.{one.field}")
    ends = _Ends(graph)
    wrong = [*_of_indices(graph, ends)]
    yield from wrong
    # More can be said only of edges that lead from somewhere to somewhere.
    if not wrong:
        yield from _of_inputs(graph, ends)
        yield from _of_outputs(graph, ends)
        yield from _of_graph_inputs(graph, ends)
        yield from _of_intermediate(graph, ends)
        try:
            TopologicalSorter(needs(graph)).prepare()
        except CycleError as error:
            round_trip = " -> ".join(_node(graph, index) for index in reversed(error.args[1]))
            yield Violation("IntermediateEdges", "must have no cycle", round_trip)


class _Ends:
    """Where edges may begin and end: the inputs and the outputs of every node. A constant has one output, None."""

    def __init__(self, graph: Graph) -> None:
        described = [node.desc if isinstance(node, OperatorNode) else None for node in graph.nodes]
        self.inputs = [slots(desc, output=False) if desc else [] for desc in described]
        self.outputs: list[Sequence[Slot | None]] = [slots(desc, output=True) if desc else [None] for desc in described]

    def into(self, edge: InputEdge | IntermediateEdge) -> Slot:
        """Return the input at which an edge ends."""
        return self.inputs[edge.to_node_index][edge.to_node_input_index]


def _node(graph: Graph, index: int) -> str:
    """Return how errors name a node: ``Nodes[3] 'conv1'``."""
    name = graph.nodes[index].name
    return f"Nodes[{index}]" + (f" {name!r}" if name else "")


def _named(graph: Graph, kind: str) -> Iterator[tuple[str, Any]]:
    """Go through the edges of a kind, each with its name in errors."""
    return ((f"{c_field(kind)}[{place}]", edge) for place, edge in enumerate(getattr(graph, kind)))


def _of_indices(graph: Graph, ends: _Ends) -> Violations:
    for label, edge in _named(graph, "input_edges"):
        yield from _less(f"{label}.GraphInputIndex", edge.graph_input_index, graph.input_count, "InputCount")
        yield from _of_end(graph, f"{label}.ToNode", edge.to_node_index, edge.to_node_input_index, ends.inputs)
    for label, edge in _named(graph, "output_edges"):
        yield from _of_end(graph, f"{label}.FromNode", edge.from_node_index, edge.from_node_output_index, ends.outputs)
        yield from _less(f"{label}.GraphOutputIndex", edge.graph_output_index, graph.output_count, "OutputCount")
    for label, edge in _named(graph, "intermediate_edges"):
        yield from _of_end(graph, f"{label}.FromNode", edge.from_node_index, edge.from_node_output_index, ends.outputs)
        yield from _of_end(graph, f"{label}.ToNode", edge.to_node_index, edge.to_node_input_index, ends.inputs)


def _of_end(graph: Graph, label: str, node: int, place: int, found: Sequence[Sequence[Any]]) -> Violations:
    """Require an end of an edge to be among the inputs or outputs of a node."""
    wrong = [*_less(f"{label}Index", node, len(graph.nodes), "NodeCount")]
    yield from wrong
    if not wrong:
        what = "Input" if label.endswith("ToNode") else "Output"
        of = f"the number of {what.lower()}s of {_node(graph, node)}"
        yield from _less(f"{label}{what}Index", place, len(found[node]), of)


def _less(field: str, value: int, count: int, of: str) -> Violations:
    if value >= count:
        yield Violation(field, f"must be less than {count}, {of}", value)


def _of_inputs(graph: Graph, ends: _Ends) -> Violations:
    """Require one edge into each described input of a node, and none into the others."""
    edges = defaultdict(list)
    for kind in ("input_edges", "intermediate_edges"):
        for label, edge in _named(graph, kind):
            edges[edge.to_node_index, edge.to_node_input_index].append(label)
    for index, inputs in enumerate(ends.inputs):
        for place, slot in enumerate(inputs):
            wanted, found = int(slot.tensor is not None), edges[index, place]
            if len(found) != wanted:
                field = f"{_node(graph, index)}.{c_field(slot.label)}"
                rule = "must have one edge that leads to it" if wanted else "is nullptr, so no edge must lead to it"
                yield Violation(field, rule, ", ".join(found) or "none")


def _of_outputs(graph: Graph, ends: _Ends) -> Violations:
    """Require edges to begin at described outputs, and one edge into each output of the graph, from an operator."""
    for kind in ("output_edges", "intermediate_edges"):
        for label, edge in _named(graph, kind):
            slot = ends.outputs[edge.from_node_index][edge.from_node_output_index]
            if slot is not None and slot.tensor is None:
                where = f"{_node(graph, edge.from_node_index)}.{c_field(slot.label)}"
                yield Violation(label, "must begin at an output that is described", where)
    edges = defaultdict(list)
    for label, edge in _named(graph, "output_edges"):
        edges[edge.graph_output_index].append(label)
        if isinstance(graph.nodes[edge.from_node_index], ConstantNode):
            where = _node(graph, edge.from_node_index)
            yield Violation(f"{label}.FromNodeIndex", "must be that of an operator", f"the constant {where}")
    for index in range(graph.output_count):
        if len(edges[index]) != 1:
            yield Violation(
                f"Outputs[{index}]", "must have one edge that leads to it", ", ".join(edges[index]) or "none"
            )


def _of_graph_inputs(graph: Graph, ends: _Ends) -> Violations:
    """Require all edges of one input to agree in the size of the buffer, and whether it is OWNED_BY_DML."""
    first: dict[int, tuple[str, Slot]] = {}
    for label, edge in _named(graph, "input_edges"):
        slot = ends.into(edge)
        before, other = first.setdefault(edge.graph_input_index, (label, slot))
        if slot.tensor is None or other.tensor is None:
            continue
        where = f"{_node(graph, edge.to_node_index)}.{c_field(slot.label)}"
        if slot.tensor.size_in_bytes != other.tensor.size_in_bytes:
            rule = f"must lead to {other.tensor.size_in_bytes} bytes, as {before}, which begins at the same input"
            yield Violation(label, rule, f"{slot.tensor.size_in_bytes} bytes of {where}")
        if is_owned(slot.tensor) != is_owned(other.tensor):
            rule = f"must agree in {c_name(TensorFlags.OWNED_BY_DML)} with {before}, which begins at the same input"
            yield Violation(label, rule, f"{c_name(slot.tensor.flags)} of {where}")


def _of_intermediate(graph: Graph, ends: _Ends) -> Violations:
    """Require the bytes at both ends of an edge to be as many, and the second end not to be OWNED_BY_DML."""
    for label, edge in _named(graph, "intermediate_edges"):
        slot, begin = ends.into(edge), ends.outputs[edge.from_node_index][edge.from_node_output_index]
        if slot.tensor is None:
            continue
        where = f"{_node(graph, edge.to_node_index)}.{c_field(slot.label)}"
        least, most = slot.tensor.size_in_bytes, slot.tensor.size_in_bytes
        node = graph.nodes[edge.from_node_index]
        if isinstance(node, ConstantNode):
            # Its data may lack the bytes that round the size of a tensor up.
            size, least = len(node.data), min(least, payload_in_bytes(slot.tensor))
        elif begin is None or begin.tensor is None:
            continue
        else:
            size = begin.tensor.size_in_bytes
        if not least <= size <= most:
            yield Violation(label, f"must begin at {most} bytes, as many as {where} has", f"{size} bytes")
        if is_owned(slot.tensor):
            rule = f"must not lead to a tensor with {c_name(TensorFlags.OWNED_BY_DML)}, which comes from an input"
            yield Violation(label, rule, where)

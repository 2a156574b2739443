"""Put the nodes that a graph's outputs need into an order, and say where each of their inputs comes from."""

from collections.abc import Iterable, Iterator, Mapping
from graphlib import TopologicalSorter
from typing import Any, NamedTuple

from jaxdml.directml._c import c_field
from jaxdml.directml._descs import OperatorDesc
from jaxdml.directml._graph import ConstantNode, Graph, OperatorNode, Slot, slots
from jaxdml.directml._tensors import is_owned


class FromInput(NamedTuple):
    """An input of a node that is an input of the graph."""

    input: int


class FromConstant(NamedTuple):
    """An input of a node that is constant."""

    data: bytes


class FromNode(NamedTuple):
    """An input of a node, or an output of the graph, that is an output of a node."""

    node: int
    place: int


class Read(NamedTuple):
    """What a node reads.

    Attributes:
      name: the input, as errors name it: ``Nodes[3].BTensor``.
      slot: the input.
      source: where it comes from; None if it is left out.
    """

    name: str
    slot: Slot
    source: FromInput | FromConstant | FromNode | None


class Step(NamedTuple):
    """The computation of a node.

    Attributes:
      node: its place in the graph.
      desc: its description.
      reads: its inputs.
      outputs: its outputs.
    """

    node: int
    desc: OperatorDesc
    reads: tuple[Read, ...]
    outputs: tuple[Slot, ...]


class Plan(NamedTuple):
    """What a graph computes.

    Attributes:
      inputs: for each input of the graph the slot to which its first edge leads, None if there is no edge.
      owned: the inputs that are OWNED_BY_DML, by their indices.
      steps: the computations, in an order in which they can follow one another.
      outputs: where each output of the graph comes from, and its slot.
      bound: what nodes read of the inputs that are OWNED_BY_DML: the node, what it reads, the input.
      wide: the tensors of 64 bits, by their names in errors, but indices that NumPy arrays may hold.
    """

    inputs: tuple[Any, ...]
    owned: tuple[int, ...]
    steps: tuple[Step, ...]
    outputs: tuple[tuple[FromNode, Slot], ...]
    bound: tuple[tuple[Step, Read, int], ...]
    wide: Mapping[str, Slot]


def plan(graph: Graph) -> Plan:
    """Return the plan of a valid graph."""
    sources = _sources(graph)
    first: dict[int, Slot] = {}
    for edge in graph.input_edges:
        inputs = slots(_desc(graph, edge.to_node_index), output=False)
        first.setdefault(edge.graph_input_index, inputs[edge.to_node_input_index])
    ends = {
        edge.graph_output_index: FromNode(edge.from_node_index, edge.from_node_output_index)
        for edge in graph.output_edges
    }
    before = needs(graph)
    needed = _reached([end.node for end in ends.values()], before)
    steps = [
        _step(index, _desc(graph, index), sources)
        for index in TopologicalSorter(before).static_order()
        if index in needed and isinstance(graph.nodes[index], OperatorNode)
    ]
    owned = tuple(index for index, slot in sorted(first.items()) if is_owned(slot.tensor))
    return Plan(
        inputs=tuple(map(first.get, range(graph.input_count))),
        owned=owned,
        steps=tuple(steps),
        outputs=tuple((ends[index], _begin(graph, ends[index])) for index in range(graph.output_count)),
        bound=tuple(
            (step, read, read.source.input)
            for step in steps
            for read in step.reads
            if isinstance(read.source, FromInput) and read.source.input in owned
        ),
        wide=dict(_wide(steps)),
    )


def _step(index: int, desc: OperatorDesc, sources: Mapping[tuple[int, int], Any]) -> Step:
    reads = (
        Read(_name(index, slot), slot, sources.get((index, place)))
        for place, slot in enumerate(slots(desc, output=False))
    )
    return Step(index, desc, tuple(reads), tuple(slots(desc, output=True)))


def _wide(steps: Iterable[Step]) -> Iterator[tuple[str, Slot]]:
    for step in steps:
        named = [
            (read.name, read.slot)
            for read in step.reads
            if isinstance(read.source, FromNode) or not read.slot.role.indices
        ]
        named += [(_name(step.node, slot), slot) for slot in step.outputs]
        yield from ((name, slot) for name, slot in named if slot.tensor and slot.tensor.data_type.bits > 32)


def _name(index: int, slot: Slot) -> str:
    return f"Nodes[{index}].{c_field(slot.label)}"


def needs(graph: Graph) -> Mapping[int, set[int]]:
    """Return for each node those from which edges lead to it."""
    found: dict[int, set[int]] = {index: set() for index in range(len(graph.nodes))}
    for edge in graph.intermediate_edges:
        found[edge.to_node_index].add(edge.from_node_index)
    return found


def _reached(ends: list[int], before: Mapping[int, set[int]]) -> set[int]:
    """Return these nodes, and all that they need."""
    found, waiting = set[int](), ends
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += before[node]
    return found


def _sources(graph: Graph) -> Mapping[tuple[int, int], FromInput | FromConstant | FromNode]:
    """Return where the inputs of nodes come from, by the node and the input."""
    found: dict[tuple[int, int], FromInput | FromConstant | FromNode] = {
        (edge.to_node_index, edge.to_node_input_index): FromInput(edge.graph_input_index) for edge in graph.input_edges
    }
    for edge in graph.intermediate_edges:
        node = graph.nodes[edge.from_node_index]
        found[edge.to_node_index, edge.to_node_input_index] = (
            FromConstant(node.data)
            if isinstance(node, ConstantNode)
            else FromNode(edge.from_node_index, edge.from_node_output_index)
        )
    return found


def _desc(graph: Graph, index: int) -> Any:
    """Return the description of a node that is an operator."""
    return graph.nodes[index].desc  # type: ignore[union-attr]  # The checks have found it to be one.


def _begin(graph: Graph, end: FromNode) -> Slot:
    return slots(_desc(graph, end.node), output=True)[end.place]

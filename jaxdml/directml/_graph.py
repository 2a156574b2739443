"""Graphs as values: nodes of operators and constants, and three kinds of edges."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from jaxdml._base.errors import compose
from jaxdml.directml._c import c_field
from jaxdml.directml._converting import FieldConverter
from jaxdml.directml._descs import OperatorDesc
from jaxdml.directml._fields import Role


@dataclass(frozen=True)
class OperatorNode:
    """A node that computes an operator, as ``DML_OPERATOR_GRAPH_NODE_DESC`` has it.

    Args:
      desc: the description of the operator.
      name: shown in errors.
    """

    desc: OperatorDesc
    name: str | None = None

    def __post_init__(self) -> None:
        """Check the types."""
        if not isinstance(self.desc, OperatorDesc):
            raise TypeError(_must_be("OperatorNode", "desc", "the description of an operator", self.desc))


@dataclass(frozen=True)
class ConstantNode:
    """A node that holds data, as ``DML_CONSTANT_DATA_GRAPH_NODE_DESC`` does.

    It is known when the graph is compiled, so a scale or a zero point takes the fast ways of known ones.

    Args:
      data: ``bytes``, or a NumPy array of which the bytes are taken in row-major order.
      name: shown in errors.
    """

    data: bytes
    name: str | None = None

    def __post_init__(self) -> None:
        """Take the bytes."""
        if not isinstance(self.data, bytes | bytearray | memoryview | np.ndarray | np.generic):
            raise TypeError(_must_be("ConstantNode", "data", "bytes or a NumPy array", self.data))
        object.__setattr__(self, "data", bytes(np.ascontiguousarray(self.data).tobytes()))


class _Edge:
    """An edge: unsigned integers, and a name."""

    def __post_init__(self) -> None:
        """Convert the indices."""
        given = FieldConverter(type(self).__name__)
        for one in fields(self):  # type: ignore[arg-type]  # Every edge is a dataclass.
            if one.name != "name":
                value = given.unsigned(c_field(one.name), getattr(self, one.name))
                object.__setattr__(self, one.name, value)
        given.check()


@dataclass(frozen=True)
class InputEdge(_Edge):
    """An edge from an input of the graph to a node, as ``DML_INPUT_GRAPH_EDGE_DESC`` has it.

    Args:
      graph_input_index: the input of the graph.
      to_node_index: the node.
      to_node_input_index: which of its tensors: inputs are counted in the order of the struct, also those that are left
        out, and each one in an array of tensors.
      name: not used.
    """

    graph_input_index: int
    to_node_index: int
    to_node_input_index: int
    name: str | None = None


@dataclass(frozen=True)
class OutputEdge(_Edge):
    """An edge from a node to an output of the graph, as ``DML_OUTPUT_GRAPH_EDGE_DESC`` has it.

    Args:
      from_node_index: the node.
      from_node_output_index: which of its outputs, counted as inputs are.
      graph_output_index: the output of the graph.
      name: not used.
    """

    from_node_index: int
    from_node_output_index: int
    graph_output_index: int
    name: str | None = None


@dataclass(frozen=True)
class IntermediateEdge(_Edge):
    """An edge from a node to another, as ``DML_INTERMEDIATE_GRAPH_EDGE_DESC`` has it.

    Args:
      from_node_index: the node that computes. A constant has one output.
      from_node_output_index: which of its outputs.
      to_node_index: the node that reads.
      to_node_input_index: which of its inputs.
      name: not used.
    """

    from_node_index: int
    from_node_output_index: int
    to_node_index: int
    to_node_input_index: int
    name: str | None = None


Node = OperatorNode | ConstantNode


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A graph of operators, as ``DML_GRAPH_DESC`` describes it.

    The two ends of an edge may have another data type, other sizes and strides: the second end rereads the bytes of the
    first. ``compile_graph`` checks the graph.

    Args:
      input_count: how many inputs the graph has.
      output_count: how many outputs.
      nodes: ``OperatorNode`` and ``ConstantNode``, in any order.
      input_edges: ``InputEdge``. An input may go to several nodes.
      output_edges: ``OutputEdge``, one for each output.
      intermediate_edges: ``IntermediateEdge``.

    Raises:
      TypeError: an argument has the wrong type.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_GRAPH_DESC.
    """

    input_count: int
    output_count: int
    nodes: tuple[Node, ...]
    input_edges: tuple[InputEdge, ...] = ()
    output_edges: tuple[OutputEdge, ...] = ()
    intermediate_edges: tuple[IntermediateEdge, ...] = ()

    def __post_init__(self) -> None:
        """Convert the counts, and the sequences to tuples."""
        given = FieldConverter("Graph")
        for name in ("input_count", "output_count"):
            object.__setattr__(self, name, given.unsigned(c_field(name), getattr(self, name)))
        given.check()
        for name, kinds in _PARTS.items():
            value = getattr(self, name)
            if isinstance(value, str) or not isinstance(value, Iterable):
                raise TypeError(_must_be("Graph", name, "a sequence", value))
            parts = tuple(value)
            for place, part in enumerate(parts):
                if not isinstance(part, kinds):
                    wanted = " or ".join(f"an {kind.__name__}".replace("an C", "a C") for kind in kinds)
                    raise TypeError(_must_be("Graph", f"{name}[{place}]", wanted, part))
            object.__setattr__(self, name, parts)


_PARTS: dict[str, tuple[type, ...]] = {
    "nodes": (OperatorNode, ConstantNode),
    "input_edges": (InputEdge,),
    "output_edges": (OutputEdge,),
    "intermediate_edges": (IntermediateEdge,),
}


def _must_be(what: str, name: str, wanted: str, got: Any) -> str:
    return compose(f"directml.{what}", f"{name} must be {wanted}; got {got!r}.")


class Slot(NamedTuple):
    """A place for a tensor in a node: a field, or an entry of an array of tensors.

    Attributes:
      field: the field.
      label: the field, or ``field[0]`` and so on.
      role: what the field holds.
      tensor: its ``BufferTensorDesc``, or None.
    """

    field: str
    label: str
    role: Role
    tensor: Any


def slots(desc: OperatorDesc, *, output: bool) -> list[Slot]:
    """Return the slots of a node's inputs, or of its outputs, in the order in which edges count them."""
    found = []
    for name, role in desc.roles().items():
        if role.output == output:
            value = getattr(desc, name)
            if role.several:
                found += [Slot(name, f"{name}[{place}]", role, tensor) for place, tensor in enumerate(value)]
            else:
                found.append(Slot(name, name, role, value))
    return found

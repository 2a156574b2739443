"""Models as records: what a graph reads, computes and returns, with no protobuf left."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np


def domain_named(name: str) -> str:
    """Return what records call a domain: the standard one has two names in files."""
    return "" if name == "ai.onnx" else name


@dataclass(frozen=True)
class TensorType:
    """What a graph declares of an input or an output.

    Attributes:
      name: its name in the file.
      dtype: a NumPy or ml_dtypes dtype; None where none is declared.
      shape: a tuple of numbers, names of dimensions and None for unknown dimensions; None where none is declared.
      within: what the tensor is an element of: "optional", "sequence", both in this order, or nothing.
    """

    name: str
    dtype: np.dtype[Any] | None
    shape: tuple[int | str | None, ...] | None
    within: tuple[str, ...] = ()

    def __str__(self) -> str:
        shape = "" if self.shape is None else f"[{', '.join('?' if d is None else str(d) for d in self.shape)}]"
        return f"{self.name}: {''.join(f'{each} of ' for each in self.within)}{self.dtype or 'any'}{shape}"

    def element(self) -> "TensorType":
        """Return what an optional or a sequence has within."""
        return replace(self, within=self.within[1:])


@dataclass(frozen=True)
class Node:
    """One node of a graph.

    Attributes:
      op_type: the operator's name.
      domain: its domain; "" is ai.onnx.
      opset: the version of its domain that the model imports.
      name: unique in the model; made from its first output where the file has none.
      inputs: names of values; "" for an input that is left out.
      outputs: names of values; "" for an output that nothing wants.
      attributes: numbers, texts, NumPy arrays, graphs or tuples of them, by name.
      decided: whether what decides between the branches of an If, or when a Loop ends, must be known while tracing.
    """

    op_type: str
    domain: str
    opset: int
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    decided: bool = False

    @property
    def kind(self) -> str:
        """The operator with its domain."""
        return f"{self.domain}.{self.op_type}" if self.domain else self.op_type

    @cached_property
    def graphs(self) -> tuple["Graph", ...]:
        """The graphs among the attributes."""
        return tuple(value for value in self.attributes.values() if isinstance(value, Graph))

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """All names that it reads: its inputs, and what its graphs capture."""
        return (*self.inputs, *(name for graph in self.graphs for name in sorted(graph.captured())))

    def __str__(self) -> str:
        return f"{self.kind} '{self.name}'"


@dataclass(frozen=True)
class Graph:
    """One graph: the model's, or a body of If, Loop or Scan.

    Attributes:
      inputs: what the caller gives. Initializers that a caller may override are not among them.
      outputs: what the graph returns.
      constants: initializers, by name.
      nodes: in an order in which each reads only what stands before it.
      optional: initializers that a caller may override.
      filters: names of parameters that only Conv reads, stored as ``[*spatial, I, O]``; of a model's graph only.
      symbols: sizes that are declared for values that nodes make, by name; of a model's graph only.
      remarks: what the file leaves open and how it is read, as sentences; of a model's graph only.
    """

    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    constants: Mapping[str, np.ndarray]
    nodes: tuple[Node, ...]
    optional: tuple[TensorType, ...] = ()
    remarks: tuple[str, ...] = ()
    filters: frozenset[str] = frozenset()
    symbols: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def every(self) -> Iterator["Graph"]:
        """Yield this graph and all that are in it."""
        yield self
        for node in self.nodes:
            for graph in node.graphs:
                yield from graph.every()

    def walk(self) -> Iterator[Node]:
        """Yield every node, those of inner graphs after the node that holds them."""
        for node in self.nodes:
            yield node
            for graph in node.graphs:
                yield from graph.walk()

    def dtypes(self) -> Iterator[tuple[str, Any]]:
        """Yield names and dtypes of inputs and constants, those of inner graphs among them."""
        for graph in self.every():
            yield from ((value.name, value.dtype) for value in graph.inputs if value.dtype is not None)
            yield from ((name, array.dtype) for name, array in graph.constants.items())

    @cached_property
    def needed(self) -> tuple[Node, ...]:
        """The nodes that the outputs depend on."""
        wanted = {output.name for output in self.outputs}
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if not wanted.isdisjoint(node.outputs):
                kept.append(node)
                wanted.update(node.reads)
        return tuple(reversed(kept))

    def with_decided(self, name: str) -> "Graph":
        """Return the graph with what decides the node of this name known while tracing, here or in an inner graph."""
        return replace(self, nodes=tuple(_with_decided(node, name) for node in self.nodes))

    def captured(self) -> frozenset[str]:
        """Return the names that this graph, a body, reads from the graphs around it."""
        made = {value.name for value in self.inputs} | set(self.constants)
        read: set[str] = set()
        for node in self.nodes:
            read |= {name for name in node.reads if name and name not in made}
            made |= set(node.outputs)
        return frozenset(read | {value.name for value in self.outputs if value.name not in made})


def _with_decided(node: Node, name: str) -> Node:
    inner = {key: value.with_decided(name) for key, value in node.attributes.items() if isinstance(value, Graph)}
    if not inner:
        return node
    return replace(node, attributes={**node.attributes, **inner}, decided=node.decided or node.name == name)

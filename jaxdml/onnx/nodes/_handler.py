"""What the table of operators holds, and what an operator's function gets."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from fnmatch import fnmatchcase
from functools import cached_property
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from jaxdml.onnx._graph import Node
from jaxdml.onnx.values.bounded import Bounds


@dataclass(frozen=True)
class NodeCall:
    """One node while it is traced: what its function may ask beside its operands.

    Attributes:
      node: the node.
      handler: how it is computed.
      xp: numpy where every operand is known while tracing, else jax.numpy.
      exact: whether quantize-dequantize groups run as integer operators.
      body: runs a graph among the attributes: ``body(graph, operands, number)`` returns its outputs. ``number`` is that
        of the turn of a loop, which random numbers follow; it is left out where there is one turn only.
      note: tells the report what became of nodes: ``note(names, what)``.
      key: returns the node's key of ``jax.random``, or raises an error if the call gives none.
      bounds: of lengths that depend on values.
      must_know: whether an output of the node must be known while tracing.
    """

    node: Node
    handler: "Handler"
    xp: ModuleType
    exact: bool
    body: Callable[..., list[Any]]
    note: Callable[[tuple[str, ...], str], None]
    key: Callable[[], Any]
    bounds: Bounds
    must_know: Callable[[], bool]

    @property
    def outputs(self) -> tuple[bool, ...]:
        """Whether each output is wanted."""
        return tuple(bool(name) for name in self.node.outputs)


class Reads(Enum):
    """How an operator reads a weight that it may have packed."""

    FILTERS = auto()
    MATRIX = auto()
    TRANSPOSED = auto()
    """As a right matrix of which it has the columns as rows."""


class Places(NamedTuple):
    """Positions of the inputs that ``Handler`` names; its attributes of these names say which they are."""

    static: frozenset[int]
    shape_only: frozenset[int]
    constant: frozenset[int]
    optional: frozenset[int]
    filters: frozenset[int]
    matrices: frozenset[int]


@dataclass(frozen=True)
class Handler:
    """How an operator is computed from one version on.

    Inputs are named as the parameters of ``run``, separated by spaces, with "*" and "?" as in names of files.
    Where ``run`` takes any number of ``operands``, ``operands[1::3]`` is every third of them from the second one on.

    Attributes:
      since: the first version of its domain that means this.
      run: ``run(call, *operands, **attributes)``. Its parameters are the schema: inputs by position with None for one
        that is left out, attributes as keyword-only parameters with ONNX's names and defaults. It returns a value, or a
        tuple of one for each output.
      static: inputs whose values must be known while tracing; they arrive as NumPy arrays.
      host: whether ``run`` also computes with NumPy, where all operands are known.
      elementwise: whether ``run`` may get all operands with channels last; none of them is static.
      raw: whether ``run`` gets values as they are: ChannelsLast, HeadsFirst, Dequantized, Pending, NumPy.
      shape_only: inputs of which only the shape is read.
      constant: inputs of which an initializer stays a constant instead of becoming one of the model's parameters, such
        as scales and zero points.
      optional: inputs that may be left out ("") though required ones follow.
      moves: how many of the outputs consist of elements of the first input, which may be integers that stand for reals.
      orders: whether the order of the elements tells which they are; then integers need a positive scale.
      filters: the filters of a convolution.
      matrices: right matrices of products; attribute ``transB`` says that they are transposed.
      packs: makes one parameter of initializers: ``packs(*arrays, **attributes)``. The inputs that it has parameters
        for are those that it takes, None for one that is left out; ``run`` gets the parameter as the first of these,
        and None as the others. It returns None where ``run`` needs the arrays as they are.
      prepares: makes, when a model is loaded, of attributes one parameter of the model, which becomes the node's last
        input: ``prepares(dtype, **attributes)``, with the dtype of the first input if it is known, else None. It gets
        all attributes that are among its own, and the node keeps those that are among those of ``run``. It raises
        NodeError.
      refuses: says why a node cannot be run, or None, from the node and the dtypes of the values that are known when a
        model is loaded: inputs and constants.
      when: whether it runs a given node; an operator may have several handlers of one version.
    """

    since: int
    run: Callable[..., Any]
    static: str = ""
    host: bool = False
    elementwise: bool = False
    raw: bool = False
    shape_only: str = ""
    constant: str = ""
    optional: str = ""
    moves: int = 0
    orders: bool = False
    filters: str = ""
    matrices: str = ""
    packs: Callable[..., Any] | None = None
    prepares: Callable[..., Any] | None = None
    refuses: Callable[[Node, Mapping[str, Any]], str | None] | None = None
    when: Callable[[Node], bool] | None = None

    @cached_property
    def _inputs(self) -> tuple[tuple[inspect.Parameter, ...], str]:
        """The inputs that have a parameter each, and the name of the parameter for any number of others, or ""."""
        (_, *parameters), kinds = inspect.signature(self.run).parameters.values(), inspect.Parameter
        others = next((p.name for p in parameters if p.kind is kinds.VAR_POSITIONAL), "")
        return tuple(p for p in parameters if p.kind is kinds.POSITIONAL_OR_KEYWORD), others

    @cached_property
    def arity(self) -> tuple[int, float]:
        """How many inputs it takes at least and at most."""
        own, others = self._inputs
        return sum(p.default is inspect.Parameter.empty for p in own), float("inf") if others else len(own)

    def names(self, count: int) -> list[str]:
        """Return what this many inputs are called."""
        own, others = self._inputs
        return [*(p.name for p in own), *(f"{others or 'input'}[{n}]" for n in range(count - len(own)))][:count]

    @cached_property
    def at(self) -> Places:
        """The positions of the inputs that are named here."""
        return Places(*(frozenset(self._positions(getattr(self, role))) for role in Places._fields))

    @cached_property
    def packed_at(self) -> tuple[int, ...]:
        """The positions of the inputs that ``packs`` takes, in its order."""
        return tuple(self._positions(" ".join(_parameters(self.packs, inspect.Parameter.POSITIONAL_OR_KEYWORD))))

    def _positions(self, patterns: str) -> Iterator[int]:
        names = [name.partition("[")[0] for name in self.names(int(min(self.arity[1], MANY)))]
        for pattern in patterns.split():
            name, _, part = pattern.removesuffix("]").partition("[")
            places = [place for place, each in enumerate(names) if fnmatchcase(each, name)]
            if part:
                start, _, step = part.split(":")
                places = places[int(start) :: int(step)]
            yield from places

    @cached_property
    def defaults(self) -> Mapping[str, Any]:
        """The attributes that ``run`` takes, and what each is where a node has none."""
        return _parameters(self.run, inspect.Parameter.KEYWORD_ONLY)

    @cached_property
    def prepared(self) -> Mapping[str, Any]:
        """The same of the attributes that become a parameter."""
        return _parameters(self.prepares, inspect.Parameter.KEYWORD_ONLY)

    @cached_property
    def attributes(self) -> Mapping[str, bool]:
        """The attributes that it takes, and whether each is required."""
        defaults = {**self.defaults, **self.prepared}
        return {name: default is inspect.Parameter.empty for name, default in defaults.items()}

    def waiting(self, operands: Sequence[Any]) -> list[int]:
        """Return the positions of operands that must be known while tracing, and are not."""
        return [
            place
            for place, operand in enumerate(operands)
            if place in self.at.static and operand is not None and not isinstance(operand, np.ndarray)
        ]

    def weights(self, node: Node, position: int) -> Reads | None:
        """Return how the node reads a weight at this position, or None if not as filters or a matrix."""
        if position in self.at.filters:
            return Reads.FILTERS
        if position not in self.at.matrices:
            return None
        return Reads.TRANSPOSED if node.attributes.get("transB") else Reads.MATRIX

    def objection(self, node: Node, dtypes: Mapping[str, Any]) -> str | None:
        """Say why a node cannot be run, or None."""
        if self.refuses and (reason := self.refuses(node, dtypes)):
            return reason
        unknown = sorted(set(node.attributes) - set(self.attributes))
        if unknown:
            return f"attribute {', '.join(unknown)} is not supported"
        missing = sorted(name for name, required in self.attributes.items() if required and name not in node.attributes)
        if missing:
            return f"attribute {', '.join(missing)} is missing"
        least, most = self.arity
        if not least <= len(node.inputs) <= most:
            return f"it has {len(node.inputs)} inputs; {least} to {most} are expected"
        absent = [place for place in range(least) if not node.inputs[place] and place not in self.at.optional]
        return f"input {absent[0]} is left out" if absent else None


def _parameters(function: Callable[..., Any] | None, kind: Any) -> dict[str, Any]:
    """Return the parameters of a kind, if there is a function, and their defaults."""
    given = inspect.signature(function).parameters.values() if function else ()
    return {p.name: p.default for p in given if p.kind is kind}


MANY = 192
"""So many inputs of an operator that takes any number are looked at."""

SCALING = "*_scale *_zero_point"
"""Inputs that are scales and zero points, for ``constant``."""

FIRST, EVERY = 1, 2**31
"""Of the outputs the first one, or every one, for ``moves``."""

Table = Mapping[str, tuple[Handler, ...]]

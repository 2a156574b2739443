"""What the table of operators holds, and what an operator's function gets."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from types import ModuleType
from typing import Any, NamedTuple

from jaxdml.onnx._graph import Node
from jaxdml.onnx.values.bounded import Bounds


@dataclass(frozen=True)
class NodeCall:
    """One node while it is traced: what its function may ask beside its operands.

    Attributes:
      node: the node.
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


class Packs(NamedTuple):
    """How initializers that an operator reads become one parameter.

    Attributes:
      positions: of the inputs; the operator gets the parameter as the first of these, and None as the others.
      pack: takes their arrays, with None for one that is left out, and the node's attributes. Returns the parameter,
        or None where the operator needs them as they are.
    """

    positions: tuple[int, ...]
    pack: Callable[..., Any]


@dataclass(frozen=True)
class Handler:
    """How an operator is computed from one version on.

    Attributes:
      since: the first version of its domain that means this.
      run: ``run(call, *operands, **attributes)``. Its parameters are the schema: inputs by position with None for one
        that is left out, attributes as keyword-only parameters with ONNX's names and defaults. It returns a value, or a
        tuple of one for each output.
      static: positions of inputs whose values must be known while tracing; they arrive as NumPy arrays. -1: all.
      host: whether ``run`` also computes with NumPy, where all operands are known.
      elementwise: whether ``run`` may get all operands with channels last; none of them is static.
      raw: whether ``run`` gets values as they are: ChannelsLast, Dequantized, Pending, NumPy.
      shape_only: positions of inputs of which only the shape is read.
      constant: positions where an initializer stays a constant instead of becoming one of the model's parameters,
        such as scales and zero points.
      optional: positions of inputs that may be left out ("") though required ones follow.
      moves: how many of the outputs consist of elements of the first input, which may be integers that stand for reals.
      orders: whether the order of the elements tells which they are; then integers need a positive scale.
      filters: the position of the filters of a convolution.
      matrices: positions of right matrices of products; attribute ``transB`` says that they are transposed.
      packs: the initializers that are one parameter, if there are such.
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
    static: tuple[int, ...] = ()
    host: bool = False
    elementwise: bool = False
    raw: bool = False
    shape_only: tuple[int, ...] = ()
    constant: tuple[int, ...] = ()
    optional: tuple[int, ...] = ()
    moves: int = 0
    orders: bool = False
    filters: int | None = None
    matrices: tuple[int, ...] = ()
    packs: Packs | None = None
    prepares: Callable[..., Any] | None = None
    refuses: Callable[[Node, Mapping[str, Any]], str | None] | None = None
    when: Callable[[Node], bool] = lambda node: True

    @cached_property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(self.run).parameters

    @cached_property
    def arity(self) -> tuple[int, float]:
        """How many inputs it takes at least and at most."""
        kinds = inspect.Parameter
        positional = [p for p in self._parameters.values() if p.kind is kinds.POSITIONAL_OR_KEYWORD][1:]
        variadic = any(p.kind is kinds.VAR_POSITIONAL for p in self._parameters.values())
        least = sum(p.default is kinds.empty for p in positional)
        return least, float("inf") if variadic else len(positional)

    def names(self, count: int) -> list[str]:
        """Return what this many inputs are called."""
        kinds = inspect.Parameter
        parameters = list(self._parameters.values())[1:]
        named = [p.name for p in parameters if p.kind is kinds.POSITIONAL_OR_KEYWORD]
        more = next((p.name for p in parameters if p.kind is kinds.VAR_POSITIONAL), "input")
        return [*named, *(f"{more}[{place}]" for place in range(count - len(named)))][:count]

    @cached_property
    def attributes(self) -> Mapping[str, bool]:
        """The attributes that it takes, and whether each is required."""
        return {**_keyword_only(self._parameters), **self.prepared}

    @cached_property
    def prepared(self) -> Mapping[str, bool]:
        """The attributes that become a parameter, and whether each is required."""
        return _keyword_only(inspect.signature(self.prepares).parameters) if self.prepares else {}

    def keeps(self, name: str) -> bool:
        """Whether ``run`` takes an attribute."""
        return name in _keyword_only(self._parameters)

    def takes(self, name: str) -> bool:
        """Whether it has an attribute."""
        return name in self.attributes

    def default(self, name: str) -> Any:
        """Return what an attribute is where the node has none."""
        return self._parameters[name].default

    def must_be_known(self, position: int) -> bool:
        """Whether the input at this position must be known while tracing."""
        return position in self.static or -1 in self.static

    def weights(self, node: Node, position: int) -> Reads | None:
        """Return how the node reads a weight at this position, or None if not as filters or a matrix."""
        if position == self.filters:
            return Reads.FILTERS
        if position not in self.matrices:
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
        absent = [place for place in range(least) if not node.inputs[place] and place not in self.optional]
        return f"input {absent[0]} is left out" if absent else None


def _keyword_only(parameters: Mapping[str, inspect.Parameter]) -> dict[str, bool]:
    kinds = inspect.Parameter
    return {name: p.default is kinds.empty for name, p in parameters.items() if p.kind is kinds.KEYWORD_ONLY}


FIRST, EVERY = 1, 2**31
"""Of the outputs the first one, or every one, for ``moves``."""

Table = Mapping[str, tuple[Handler, ...]]

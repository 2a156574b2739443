"""Expressions: tensors that nodes of a graph make, and the builder that collects the nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxdml.directml._compiled_graph import CompiledGraph, compile_graph
from jaxdml.directml._graph import Graph, InputEdge, IntermediateEdge, OperatorNode, OutputEdge, slots
from jaxdml.directml._structs import struct_of
from jaxdml.directml._tables import OperatorType
from jaxdml.directml._tensors import BufferTensorDesc
from jaxdml.directml.pydirectml._tensors import TensorDesc, packed


class End(NamedTuple):
    """Where a tensor comes from.

    Attributes:
      node: the index of a node, or None for an input of the graph.
      place: the index of the node's output, or of the input.
    """

    node: int | None
    place: int


class Model(NamedTuple):
    """A compiled graph, as ``GraphBuilder.build`` returns it."""

    compiled: CompiledGraph


class GraphBuilder:
    """Collect operators in the order in which functions make them.

    Args:
      device: a ``Device``.
    """

    def __init__(self, device: Any) -> None:
        self._device = device
        self._input_count = 0
        self._nodes: list[tuple[Any, list[End | None]]] = []

    def build(self, flags: Any, outputs: Sequence[Expression], /) -> Model:
        """Compile the graph of all operators that were made so far.

        Args:
          flags: ``ExecutionFlags``. They have no effect: XLA computes with the data types of the tensors.
          outputs: an expression for each output.

        Returns:
          The ``Model`` that ``Device.compute`` takes.

        Raises:
          InvalidDescError: the graph breaks a rule of DirectML.
          RuntimeError: an output is an input of the graph.
        """
        if any(one._end.node is None for one in outputs):
            raise RuntimeError("an output of the graph is one of its inputs; pass it through activation_identity")
        return Model(compile_graph(self._graph(outputs)))

    def _graph(self, outputs: Sequence[Expression]) -> Graph:
        ends = [
            (end, index, place)
            for index, (_, operands) in enumerate(self._nodes)
            for place, end in enumerate(operands)
            if end is not None
        ]
        return Graph(
            input_count=self._input_count,
            output_count=len(outputs),
            nodes=tuple(OperatorNode(desc) for desc, _ in self._nodes),
            input_edges=tuple(InputEdge(end.place, node, place) for end, node, place in ends if end.node is None),
            intermediate_edges=tuple(
                IntermediateEdge(end.node, end.place, node, place) for end, node, place in ends if end.node is not None
            ),
            output_edges=tuple(
                OutputEdge(one._end.node, one._end.place, place)  # type: ignore[arg-type]  # It is no input.
                for place, one in enumerate(outputs)
            ),
        )


def input_tensor(scope: GraphBuilder, input_index: int, tensor_desc: TensorDesc) -> Expression:
    """Return an input of the graph, the one that is bound by the binding with this index."""
    scope._input_count = max(scope._input_count, input_index + 1)
    return Expression._made(scope, End(None, input_index), tensor_desc._desc)


class Expression:
    """A tensor of a graph. Operators of Python make further ones; those in place change the object itself."""

    _scope: GraphBuilder
    _end: End
    _desc: BufferTensorDesc

    @classmethod
    def _made(cls, scope: GraphBuilder, end: End, desc: BufferTensorDesc) -> Expression:
        made = cls()
        made._scope, made._end, made._desc = scope, end, desc
        return made

    def get_output_desc(self) -> TensorDesc:
        """Return the description of the tensor."""
        return TensorDesc._of(self._desc)

    def __neg__(self) -> Expression:
        return pointwise("ELEMENT_WISE_NEGATE", self)


def operator(
    kind: str, operands: Sequence[Any], outputs: Sequence[BufferTensorDesc | None], **fields: Any
) -> list[Expression | None]:
    """Add an operator to the graph of its operands, and return its outputs.

    Args:
      kind: the name of the operator.
      operands: for each input field an expression, None, or a list of expressions.
      outputs: for each output field its description, or None.
      fields: the fields that hold no tensors.
    """
    struct = struct_of(OperatorType[kind])
    tensors = {False: iter(operands), True: iter(outputs)}
    given = {name: next(tensors[role.output]) for name, role in struct.roles().items()}
    each = [one for part in operands for one in (part if isinstance(part, list) else [part])]
    scopes = {id(one._scope): one._scope for one in each if one is not None}
    if len(scopes) > 1:
        raise RuntimeError("all expressions of an operator must be made with one GraphBuilder")
    (scope,) = scopes.values()
    desc = struct(**{name: _described(one) for name, one in given.items()}, **fields)
    scope._nodes.append((desc, [one and one._end for one in each]))
    index = len(scope._nodes) - 1
    return [
        None if slot.tensor is None else Expression._made(scope, End(index, place), slot.tensor)
        for place, slot in enumerate(slots(desc, output=True))
    ]


def _described(one: Any) -> Any:
    if isinstance(one, list):
        return tuple(map(_described, one))
    return one._desc if isinstance(one, Expression) else one


def pointwise(kind: str, *operands: Expression, **fields: Any) -> Expression:
    """Add an operator whose one output has the sizes of its first operand."""
    first = operands[0]._desc
    (result,) = operator(kind, operands, [packed(first, first.sizes)], **fields)
    assert result is not None
    return result


def _of_two(kind: str) -> Callable[[Expression, Expression], Expression]:
    return lambda a, b: pointwise(kind, a, b)


def _scaled(x: Expression, scale: float, bias: float, kind: str = "ELEMENT_WISE_IDENTITY") -> Expression:
    return pointwise(kind, x, scale_bias=(scale, bias))


_OPERATORS: dict[str, tuple[Callable[..., Expression], Any, Any]] = {
    # For two expressions, for an expression and a number, and for a number and an expression.
    "add": (_of_two("ELEMENT_WISE_ADD"), lambda x, n: _scaled(x, 1, n), lambda x, n: _scaled(x, 1, n)),
    "sub": (_of_two("ELEMENT_WISE_SUBTRACT"), lambda x, n: _scaled(x, 1, -n), lambda x, n: _scaled(x, -1, n)),
    "mul": (_of_two("ELEMENT_WISE_MULTIPLY"), lambda x, n: _scaled(x, n, 0), lambda x, n: _scaled(x, n, 0)),
    "truediv": (
        _of_two("ELEMENT_WISE_DIVIDE"),
        lambda x, n: _scaled(x, 1 / n, 0),
        lambda x, n: _scaled(x, 1 / n, 0, "ELEMENT_WISE_RECIP"),
    ),
    "mod": (_of_two("ELEMENT_WISE_MODULUS_TRUNCATE"), None, None),
}
"""What Python's operators become."""


def _method(name: str) -> dict[str, Callable[..., Any]]:
    """Return the methods of an operator of Python: plain, reflected and in place."""
    of_two, of_number, of_reflected = _OPERATORS[name]

    def plain(self: Expression, other: Any) -> Any:
        if isinstance(other, Expression):
            return of_two(self, other)
        return of_number(self, float(other)) if of_number and isinstance(other, int | float) else NotImplemented

    def reflected(self: Expression, other: Any) -> Any:
        return of_reflected(self, float(other)) if of_reflected and isinstance(other, int | float) else NotImplemented

    def in_place(self: Expression, other: Any) -> Any:
        made = plain(self, other)
        if made is NotImplemented:
            return made
        self._scope, self._end, self._desc = made._scope, made._end, made._desc
        return self

    return {f"__{name}__": plain, f"__r{name}__": reflected, f"__i{name}__": in_place}


for _name in _OPERATORS:
    for _special, _function in _method(_name).items():
        setattr(Expression, _special, _function)

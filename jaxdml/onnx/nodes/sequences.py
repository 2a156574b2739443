"""Sequences and optionals: Python lists while tracing, and None for an optional without an element."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxdml.onnx._graph import Graph
from jaxdml.onnx.nodes._body_arity import of_map
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.nodes._sizes import axis_of, numbers, refusal
from jaxdml.onnx.values.kinds import Value, channels_first, is_host, shape_of
from jaxdml.onnx.values.stored import on_device

MOST = 1024
"""Elements that a tensor is split into at most: each is an operation of the program."""


def _construct(call: NodeCall, *inputs: Value) -> list[Value]:
    return [channels_first(value) for value in inputs]


def _empty(call: NodeCall, *, dtype: int = 1) -> list[Value]:
    return []


def _insert(call: NodeCall, sequence: Value, tensor: Value, position: Any = None) -> list[Value]:
    elements = _elements(sequence)
    place = len(elements) if position is None else _place(position, len(elements), len(elements))
    return [*elements[:place], channels_first(tensor), *elements[place:]]


def _erase(call: NodeCall, sequence: Value, position: Any = None) -> list[Value]:
    elements = _elements(sequence)
    place = _place(np.asarray(-1) if position is None else position, len(elements), len(elements) - 1)
    return [*elements[:place], *elements[place + 1 :]]


def _at(call: NodeCall, sequence: Value, position: Any) -> Value:
    elements = _elements(sequence)
    return elements[_place(position, len(elements), len(elements) - 1)]


def _length(call: NodeCall, sequence: Value) -> np.ndarray:
    return np.asarray(len(_elements(sequence)), np.int64)


def _concatenate(call: NodeCall, sequence: Value, *, axis: int, new_axis: int = 0) -> Value:
    elements = _elements(sequence)
    if not elements:
        raise refusal("an empty sequence has no dtype and no shape, and cannot be concatenated.")
    host = all(is_host(value) for value in elements)
    arrays = elements if host else [on_device(value) for value in elements]
    axis = axis_of(axis, arrays[0].ndim + new_axis)
    join: Callable[..., Any] = getattr(np if host else jnp, "stack" if new_axis else "concatenate")
    return join(arrays, axis)


def _split(call: NodeCall, input: Value, split: Any = None, *, axis: int = 0, keepdims: int = 1) -> list[Value]:
    x = channels_first(input)
    axis = axis_of(axis, x.ndim)
    size = x.shape[axis]
    if split is None or split.ndim == 0:
        step = 1 if split is None else int(split)
        if step < 1:
            raise refusal(f"parts of {step} are asked for; they must be of 1 or more.")
        _must_be_few(-(-size // step))
        ends = [min(start + step, size) for start in range(0, size, step)]
    else:
        _must_be_few(split.size)
        ends = np.cumsum(split).tolist()
        if min(numbers(split), default=0) < 0 or (ends[-1] if ends else 0) != size:
            raise refusal(f"parts of {split.tolist()} are asked for; they must have {size} together.")
    before = (slice(None),) * axis
    if split is None and not keepdims:
        return [x[(*before, place)] for place in range(size)]
    return [x[(*before, slice(start, end))] for start, end in zip([0, *ends], ends, strict=False)]


def _must_be_few(count: int) -> None:
    if count > MOST:
        raise NotImplementedError(f"a sequence of {count} tensors is asked for; up to {MOST} are supported.")


def _map(call: NodeCall, sequence: Value, *others: Value, body: Graph) -> tuple[list[Value], ...]:
    """Run a graph for each element, with those of other sequences at its place, and with tensors as they are."""
    elements = _elements(sequence)
    if any(len(other) != len(elements) for other in others if isinstance(other, list)):
        raise refusal("the sequences have different lengths.")
    turns = [
        call.body(body, [element, *(other[place] if isinstance(other, list) else other for other in others)], place)
        for place, element in enumerate(elements)
    ]
    return tuple([channels_first(turn[place]) for turn in turns] for place in range(len(body.outputs)))


def _optional(call: NodeCall, input: Value = None, *, type: Any = None) -> Value:
    return input


def _get(call: NodeCall, input: Value) -> Value:
    if input is None:
        raise refusal("the optional has no element.")
    return input


def _has(call: NodeCall, input: Value = None) -> np.ndarray:
    return np.asarray(input is not None)


def _elements(sequence: Value) -> list[Value]:
    if not isinstance(sequence, list):
        raise refusal(f"a sequence is needed, and a tensor of shape {list(shape_of(sequence))} is given.")
    return sequence


def _place(position: np.ndarray, length: int, last: int) -> int:
    place = int(position.reshape(()))
    if not -length <= place <= last:
        raise refusal(f"position {place} is out of range for a sequence of {length}.")
    return place + length if place < 0 else place


TABLE: Table = {
    "ConcatFromSequence": (Handler(11, _concatenate, raw=True),),
    "Optional": (Handler(15, _optional, raw=True),),
    "OptionalGetElement": (Handler(15, _get, raw=True),),
    "OptionalHasElement": (Handler(15, _has, raw=True, shape_only="input"),),
    "SequenceAt": (Handler(11, _at, raw=True, static="position"),),
    "SequenceConstruct": (Handler(11, _construct, raw=True),),
    "SequenceEmpty": (Handler(11, _empty, raw=True),),
    "SequenceErase": (Handler(11, _erase, raw=True, static="position"),),
    "SequenceInsert": (Handler(11, _insert, raw=True, static="position"),),
    "SequenceLength": (Handler(11, _length, raw=True, shape_only="sequence"),),
    "SequenceMap": (Handler(17, _map, raw=True, refuses=of_map),),
    "SplitToSequence": (Handler(11, _split, raw=True, static="split"),),
}

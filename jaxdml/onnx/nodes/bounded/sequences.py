"""Sequences, some of whose arrays have lengths."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxdml.onnx.nodes.bounded._task import Rules, Task, array
from jaxdml.onnx.nodes.bounded.joining import beside, joined
from jaxdml.onnx.values.bounded import Bounded, bounded, inner, on_inner, sizes_of
from jaxdml.onnx.values.kinds import Value, channels_first
from jaxdml.onnx.values.lengths import Length, LengthError


def has_bounded(value: Value) -> bool:
    """Whether a value is a sequence with an array that has lengths."""
    return isinstance(value, list) and any(isinstance(each, Bounded) for each in value)


def construct(task: Task, *operands: Value) -> tuple[Value, ...]:
    """Make a sequence of arrays."""
    return ([on_inner(operand, channels_first) for operand in operands],)


def insert(task: Task, sequence: list[Value], tensor: Value, position: Any = None) -> tuple[Value, ...]:
    """Insert an array, the place of which is found by one that has no lengths."""
    place = np.zeros(())
    (found,) = task.compute(sequence, place, *([] if position is None else [position]))
    return ([on_inner(tensor, channels_first) if each is place else each for each in found],)


def as_it_is(task: Task, *operands: Value) -> tuple[Value, ...]:
    """Do what reads no elements."""
    return task.compute(*operands)


def join(task: Task, sequence: list[Value]) -> tuple[Value, ...]:
    """Put the arrays of a sequence one after another, perhaps along a new axis."""
    new = bool(task.attribute("new_axis"))
    axis = task.axis(sequence[0].ndim + new)
    if new:
        own = [sizes_of(x) for x in sequence]
        whole = zip((jnp.expand_dims(array(x), axis) for x in sequence), own, strict=True)
        sequence = [bounded(x, (*each[:axis], 1, *each[axis:])) for x, each in whole]
    parts, sizes, ends = beside(task, sequence, axis)
    return (bounded(joined(parts, axis, ends), sizes),)


def split(task: Task, x: Value, parts: Value = None) -> tuple[Value, ...]:
    """Split along a dimension that has no length."""
    sizes = list(sizes_of(x))
    axis = task.axis(len(sizes))
    if isinstance(sizes[axis], Length):
        raise LengthError(f"how many parts {sizes[axis]} has")
    (found,) = task.compute(inner(x), *([] if parts is None else [parts]))
    keeps = found and found[0].ndim == len(sizes)
    return ([bounded(y, [*sizes[:axis], *([y.shape[axis]] if keeps else []), *sizes[axis + 1 :]]) for y in found],)


RULES: Rules = {
    **dict.fromkeys(("SequenceAt", "SequenceErase", "SequenceLength"), as_it_is),
    "ConcatFromSequence": join,
    "SequenceConstruct": construct,
    "SequenceInsert": insert,
    "SplitToSequence": split,
}

"""What puts arrays one after another along a dimension with lengths."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax

from jaxdml.onnx.integers import rounded_once
from jaxdml.onnx.nodes._pending import pending
from jaxdml.onnx.nodes.bounded._fitting import fitted
from jaxdml.onnx.nodes.bounded._task import Rules, Task, array
from jaxdml.onnx.values.bounded import bounded, inner, is_bounded_in, sizes_of
from jaxdml.onnx.values.kinds import Quantization, Value
from jaxdml.onnx.values.lengths import bounds, limits, true
from jaxdml.onnx.values.promises import equal_shapes


def concat(task: Task, *operands: Value) -> tuple[Value, ...]:
    """Put arrays one after another: each begins where what counts of the one before it ends."""
    axis = task.axis(operands[0].ndim)
    parts, sizes, ends = beside(task, operands, axis)
    if not is_bounded_in(ends[:-1], range(len(ends) - 1)):
        return tuple(bounded(y, sizes) for y in task.compute(*parts))
    if not (task.call.exact and all(map(rounded_once.is_simple, parts))):
        return (bounded(joined(parts, axis, ends), sizes),)

    def quantized(out: Quantization, dtype: Any) -> Any:
        integers = [rounded_once.mapped(x, out, dtype) for x in parts]
        return None if any(x is None for x in integers) else joined(integers, axis, ends)

    floats = partial(joined, parts, axis, ends)
    return (bounded(pending(task.call, parts[0], bounds(sizes), "tables, joined", quantized, floats), sizes),)


def quantized_concat(task: Task, scale: Value, zero_point: Value, *operands: Value) -> tuple[Value, ...]:
    """Do the same with integers, each array with a scale and a zero point."""
    axis = task.axis(operands[0].ndim)
    parts, sizes, ends = beside(task, operands[::3], axis)
    whole = [x for each in zip(parts, operands[1::3], operands[2::3], strict=True) for x in each]
    if not is_bounded_in(ends[:-1], range(len(ends) - 1)):
        return tuple(bounded(y, sizes) for y in task.compute(scale, zero_point, *whole))
    each = [task.compute(scale, zero_point, *whole[first : first + 3])[0] for first in range(0, len(whole), 3)]
    return (bounded(joined(each, axis, ends), sizes),)


def beside(task: Task, operands: Sequence[Value], axis: int) -> tuple[list[Value], list[Any], list[Any]]:
    """Return arrays that fit one another off an axis, the sizes of all together, and how long each is along it."""
    every = [list(sizes_of(operand)) for operand in operands]
    ends = [each[axis] for each in every]
    around = equal_shapes(task.call.node, *(each[:axis] + each[axis + 1 :] for each in every))
    every = [[*around[:axis], end, *around[axis:]] for end in ends]
    total = sum(ends[1:], start=ends[0])
    parts = [inner(fitted(*pair)) for pair in zip(operands, every, strict=True)]
    return parts, [*around[:axis], total, *around[axis:]], ends


def joined(arrays: Sequence[Any], axis: int, ends: Sequence[Any]) -> Any:
    """Write arrays one after another: what is written next covers what does not count."""
    first, total = array(arrays[0]), sum(limits(end).bound for end in ends)
    whole = jnp.zeros([total if d == axis else n for d, n in enumerate(first.shape)], first.dtype)
    start: Any = 0
    for x, end in zip(arrays, ends, strict=True):
        whole = lax.dynamic_update_slice_in_dim(whole, array(x), start, axis)
        start = start + true(end)
    return lax.slice_in_dim(whole, 0, limits(sum(ends[1:], start=ends[0])).bound, axis=axis)


RULES: Rules = {"Concat": concat}

MICROSOFT: Rules = {"QLinearConcat": quantized_concat}
"""Of the domain com.microsoft."""

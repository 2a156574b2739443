"""Compute with sizes while tracing: NumPy arrays that have lengths in them."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxdml.onnx.nodes.bounded._task import Task
from jaxdml.onnx.nodes.casting import dtype_of
from jaxdml.onnx.values import tabled
from jaxdml.onnx.values.kinds import Value, known
from jaxdml.onnx.values.lengths import LengthError, greatest, has_lengths, least, limits
from jaxdml.onnx.values.tabled import Tabled

_CHOICES = {"Min": least, "ReduceMin": least, "Max": greatest, "ReduceMax": greatest}


def on_sizes(task: Task, operands: Sequence[Value]) -> tuple[Value, ...]:
    """Compute a node on sizes: with lengths where the result has some, else for all that a length may be."""
    if not _needs_numbers(task, operands):
        try:
            return _with_lengths(task, operands)
        except (LengthError, TypeError):
            pass
    if not (task.call.handler.elementwise and task.call.handler.host):
        raise LengthError(f"what follows from {operands[0]}")

    def function(*arrays: np.ndarray) -> Any:
        rest = iter(arrays)
        return task.compute(*(None if operand is None else next(rest) for operand in operands))[0]

    return (tabled.computed(function, [operand for operand in operands if operand is not None]),)


def _needs_numbers(task: Task, operands: Sequence[Value]) -> bool:
    """Whether lengths are not enough: for floats and bools, and for what is rounded otherwise below 0."""
    elements = [each for operand in operands if has_lengths(operand) for each in operand.flat]
    if any(isinstance(each, Tabled) for each in elements) and task.call.handler.elementwise:
        return True
    if task.call.node.op_type == "Cast":
        return not jnp.issubdtype(dtype_of(task.attribute("to")), np.integer)
    return task.call.node.op_type == "Div" and any(limits(each).low < 0 for each in elements)


def _with_lengths(task: Task, operands: Sequence[Value]) -> tuple[Value, ...]:
    choose = _CHOICES.get(task.call.node.op_type)
    if choose is None:
        return task.compute(*operands)
    if task.call.node.op_type in ("Min", "Max"):
        each = np.broadcast_arrays(*(operand.astype(object) for operand in operands))
        found = [reduce(choose, sizes) for sizes in zip(*(array.flat for array in each), strict=True)]
        return (known(np.array(found, object).reshape(each[0].shape)),)
    sizes, axes = operands[0], operands[1] if len(operands) > 1 else None
    given: Any = task.attribute("axes") if task.takes("axes") else () if axes is None else axes.tolist()
    if sizes.ndim > 1 or (not given and task.call.node.attributes.get("noop_with_empty_axes")):
        raise LengthError("sizes of more than one dimension")
    found = [reduce(choose, sizes.reshape(-1).tolist())]
    return (known(np.array(found, object).reshape((1,) * (sizes.ndim if task.attribute("keepdims") else 0))),)

"""What keeps each element at its place."""

import numpy as np

from jaxdml.onnx.nodes.bounded._fitting import must_not_have_lengths, stretched
from jaxdml.onnx.nodes.bounded._masking import masked
from jaxdml.onnx.nodes.bounded._task import Rules, Task
from jaxdml.onnx.values.bounded import bounded, inner, sizes_of
from jaxdml.onnx.values.kinds import Value
from jaxdml.onnx.values.lengths import LengthError
from jaxdml.onnx.values.promises import broadcast


def elementwise(task: Task, *operands: Value) -> tuple[Value, ...]:
    """Compute all elements; those that do not count are computed from others that do not."""
    sizes = broadcast(task.call.node, *(sizes_of(operand) for operand in operands if operand is not None))
    arrays = (None if operand is None else inner(stretched(operand, sizes)) for operand in operands)
    return tuple(bounded(result, sizes) for result in task.compute(*arrays))


def like_first(task: Task, x: Value, *others: Value) -> tuple[Value, ...]:
    """Compute what has the shape of the first operand, each element for itself."""
    must_not_have_lengths(others)
    return tuple(bounded(result, sizes_of(x)) for result in task.compute(inner(x), *others))


def dropout(task: Task, x: Value, ratio: Value = None, training_mode: Value = None) -> tuple[Value, ...]:
    """Return all elements. In training some are drawn, and what is drawn depends on the shape."""
    if training_mode is not None and np.any(training_mode):
        raise LengthError(f"what is drawn for sizes {list(sizes_of(x))}")
    return like_first(task, x, ratio, training_mode)


def like_first_of_type(task: Task, x: Value, target: Value) -> tuple[Value, ...]:
    """Convert to the type of an operand, whatever its shape is."""
    return tuple(bounded(result, sizes_of(x)) for result in task.compute(inner(x), inner(target)))


def dynamic_quantize(task: Task, x: Value) -> tuple[Value, ...]:
    """Quantize by the range of what counts: it contains 0 in any case."""
    y, scale, zero = task.compute(masked(x, sizes_of(x), 0))
    return bounded(y, sizes_of(x)), scale, zero


RULES: Rules = {
    **dict.fromkeys(("DequantizeLinear", "EyeLike", "Identity", "QuantizeLinear", "Trilu"), like_first),
    "CastLike": like_first_of_type,
    "Dropout": dropout,
    "DynamicQuantizeLinear": dynamic_quantize,
    "PRelu": elementwise,
}

"""What keeps each element at its place, and layers that compute each row, or each image, for itself."""

import numpy as np

from jaxdml.onnx.nodes.bounded._fitting import must_not_have_lengths, stretched
from jaxdml.onnx.nodes.bounded._masking import masked
from jaxdml.onnx.nodes.bounded._task import Rules, Task
from jaxdml.onnx.values.bounded import bounded, inner, is_bounded_in, sizes_of
from jaxdml.onnx.values.kinds import Value
from jaxdml.onnx.values.lengths import Length, LengthError, has_lengths
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


def like_first_of_type(task: Task, x: Value, target: Value) -> tuple[Value, ...]:
    """Convert to the type of an operand, whatever its shape is."""
    return tuple(bounded(result, sizes_of(x)) for result in task.compute(inner(x), inner(target)))


def each_of_batch(task: Task, x: Value, *others: Value) -> tuple[Value, ...]:
    """Compute each element of a batch, dimension 0, for itself."""
    first, *rest = sizes_of(x)
    must_not_have_lengths(others)
    if not isinstance(first, Length) or is_bounded_in(rest, range(len(rest))):
        raise LengthError(f"the result for sizes {list(sizes_of(x))}")
    others = tuple(_batch_as_bound(other, first) for other in others)
    results = task.compute(inner(x), *others)
    for result in results:
        if result.shape[0] != first.bound:
            raise LengthError(f"size {result.shape[0]} of the result")
    return tuple(bounded(result, (first, *result.shape[1:])) for result in results)


def _batch_as_bound(operand: Value, batch: Length) -> Value:
    """Return sizes that begin with that of the batch, such as those of Resize, with its bound instead."""
    if not has_lengths(operand):
        return operand
    first, *rest = operand.tolist()
    if not isinstance(first, Length) or first.key != batch.key:
        raise LengthError(f"sizes {operand.tolist()}")
    return np.asarray([first.bound, *rest], np.int64)


def dynamic_quantize(task: Task, x: Value) -> tuple[Value, ...]:
    """Quantize by the range of what counts: it contains 0 in any case."""
    y, scale, zero = task.compute(masked(x, sizes_of(x), 0))
    return bounded(y, sizes_of(x)), scale, zero


_OF_BATCHES = """
    Resize Upsample
"""

RULES: Rules = {
    **dict.fromkeys(_OF_BATCHES.split(), each_of_batch),
    **dict.fromkeys(("DequantizeLinear", "Dropout", "Identity", "QuantizeLinear"), like_first),
    "CastLike": like_first_of_type,
    "DynamicQuantizeLinear": dynamic_quantize,
    "PRelu": elementwise,
}

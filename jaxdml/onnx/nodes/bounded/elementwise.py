"""What keeps each element at its place, and layers that compute each row, or each image, for itself."""

import numpy as np

from jaxdml.onnx.nodes._sizes import axis_of
from jaxdml.onnx.nodes.bounded._fitting import stretched
from jaxdml.onnx.nodes.bounded._task import Rules, Task, array
from jaxdml.onnx.values.bounded import bounded, filled, inner, is_bounded_in, sizes_of
from jaxdml.onnx.values.kinds import Value
from jaxdml.onnx.values.lengths import Length, LengthError, has_lengths
from jaxdml.onnx.values.promises import broadcast, equal


def elementwise(task: Task, *operands: Value) -> tuple[Value, ...]:
    """Compute all elements; those that do not count are computed from others that do not."""
    sizes = broadcast(task.call.node, *(sizes_of(operand) for operand in operands if operand is not None))
    arrays = (None if operand is None else inner(stretched(operand, sizes)) for operand in operands)
    return tuple(bounded(result, sizes) for result in task.compute(*arrays))


def like_first(task: Task, x: Value, *others: Value) -> tuple[Value, ...]:
    """Compute what has the shape of the first operand, each element for itself."""
    _must_not_have_lengths(others)
    return tuple(bounded(result, sizes_of(x)) for result in task.compute(inner(x), *others))


def like_first_of_type(task: Task, x: Value, target: Value) -> tuple[Value, ...]:
    """Convert to the type of an operand, whatever its shape is."""
    return tuple(bounded(result, sizes_of(x)) for result in task.compute(inner(x), inner(target)))


def each_of_batch(task: Task, x: Value, *others: Value) -> tuple[Value, ...]:
    """Compute each element of a batch, dimension 0, for itself."""
    first, *rest = sizes_of(x)
    _must_not_have_lengths(others)
    if (
        not isinstance(first, Length)
        or is_bounded_in(rest, range(len(rest)))
        or task.call.node.attributes.get("training_mode")
    ):
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


def each_row(task: Task, x: Value, *others: Value) -> tuple[Value, ...]:
    """Normalize from an axis on, where nothing from it on has a length."""
    sizes = sizes_of(x)
    axis = axis_of(task.attribute("axis"), len(sizes))
    _must_not_have_lengths(others)
    if is_bounded_in(sizes, range(axis, len(sizes))):
        raise LengthError(f"the result for sizes {list(sizes)}")
    results = task.compute(inner(x), *others)
    return tuple(None if y is None else bounded(y, (*sizes[:axis], *y.shape[axis:])) for y in results)


def dynamic_quantize(task: Task, x: Value) -> tuple[Value, ...]:
    """Quantize by the range of what counts: it contains 0 in any case."""
    y, scale, zero = task.compute(filled(array(x), sizes_of(x), 0))
    return bounded(y, sizes_of(x)), scale, zero


def matrix_product(task: Task, a: Value, b: Value, *others: Value) -> tuple[Value, ...]:
    """Multiply matrices; what does not count is 0 where it is summed over."""
    _must_not_have_lengths(others)
    turns_a, turns_b = (task.takes(name) and bool(task.attribute(name)) for name in ("transA", "transB"))
    of_a, of_b = sizes_of(a)[:: -1 if turns_a else 1], sizes_of(b)[:: -1 if turns_b else 1]
    inside = equal(task.call.node, of_a[-1], of_b[-2:][0])
    batch = broadcast(task.call.node, of_a[:-2], of_b[:-2])
    rows, columns = of_a[-2:-1], of_b[-1:] if len(of_b) > 1 else ()
    a, b = (
        stretched(operand, sizes[:: -1 if turns else 1])
        for operand, sizes, turns in ((a, (*batch, *rows, inside), turns_a), (b, (*batch, inside, *columns), turns_b))
    )
    if isinstance(inside, Length):
        a, b = (filled(array(operand), sizes_of(operand), 0) for operand in (a, b))
    return tuple(bounded(y, (*batch, *rows, *columns)) for y in task.compute(inner(a), inner(b), *others))


def _must_not_have_lengths(operands: tuple[Value, ...]) -> None:
    for operand in operands:
        if operand is not None and any(isinstance(size, Length) for size in sizes_of(operand)):
            raise LengthError(f"the result for an operand of sizes {list(sizes_of(operand))}")


_OF_BATCHES = """
    AveragePool BatchNormalization Conv ConvTranspose DepthToSpace GlobalAveragePool GlobalLpPool GlobalMaxPool
    InstanceNormalization LRN LpPool MaxPool Resize SpaceToDepth Upsample
"""

RULES: Rules = {
    **dict.fromkeys(_OF_BATCHES.split(), each_of_batch),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), each_row),
    **dict.fromkeys(("DequantizeLinear", "Dropout", "Identity", "QuantizeLinear"), like_first),
    **dict.fromkeys(("Gemm", "MatMul"), matrix_product),
    "CastLike": like_first_of_type,
    "DynamicQuantizeLinear": dynamic_quantize,
    "PRelu": elementwise,
}

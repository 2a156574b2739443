"""Convolutions over dimensions with lengths: behind the end there are zeros, as where a node pads."""

from typing import Any

from jaxdml.onnx.nodes._windows import kernel_of
from jaxdml.onnx.nodes.bounded._fitting import fitted, must_not_have_lengths
from jaxdml.onnx.nodes.bounded._masking import masked
from jaxdml.onnx.nodes.bounded._spans import of_images, spans
from jaxdml.onnx.nodes.bounded._task import Rule, Rules, Task
from jaxdml.onnx.values.bounded import inner, sizes_of
from jaxdml.onnx.values.kinds import Value
from jaxdml.onnx.values.lengths import LengthError
from jaxdml.onnx.values.promises import equal_shapes


def convolved(filters: int, zero_point: int | None = None) -> Rule:
    """Return the rule of a convolution; it says which operand has the filters, and which the images' zero point."""

    def run(task: Task, x: Value, *others: Value) -> tuple[Value, ...]:
        operands = dict(enumerate((x, *others)))
        kernel = kernel_of(task.call, operands[filters].shape, task.attribute("kernel_shape"))
        last = task.takes("channels_last") and bool(task.attribute("channels_last"))
        where = spans(task, x, kernel, *others, first=1 if last else 2)
        zero = None if zero_point is None else operands.get(zero_point)
        images, attributes = where.images(x, 0 if zero is None else zero.reshape(()))
        return where.results(task.compute(images, *others, **attributes))

    return run


def fused_convolution(task: Task, x: Value, w: Value, b: Value = None, z: Value = None) -> tuple[Value, ...]:
    """Convolve, and add what has the sizes of the result."""
    if z is not None:
        where = spans(task, x, w.shape[2:])
        sizes = (sizes_of(x)[0], w.shape[0], *(span.count for span in where.along))
        z = inner(fitted(z, equal_shapes(task.call.node, sizes, sizes_of(z))))
    return convolved(1)(task, x, w, b, z)


def transposed_convolution(task: Task, x: Value, w: Value, b: Value = None) -> tuple[Value, ...]:
    """Spread elements by filters: those behind the end add nothing."""
    must_not_have_lengths((w, b))
    must_not_have_lengths([x], dimensions=[1])
    if task.attribute("output_shape"):
        raise LengthError("how much of the result output_shape leaves")
    sizes, rank, automatic = sizes_of(x), x.ndim - 2, task.attribute("auto_pad")
    kernel = kernel_of(task.call, w.shape, task.attribute("kernel_shape"))
    each: dict[str, tuple[int, ...]] = {
        name: tuple(task.attribute(name)) or (1 if name in ("strides", "dilations") else 0,) * (2 * rank)
        for name in ("strides", "dilations", "output_padding", "pads")
    }
    pads = each["pads"] if automatic == "NOTSET" else (0,) * (2 * rank)
    spatial: list[Any] = []
    reads = []
    for d, size in enumerate(sizes[2:]):
        stride = each["strides"][d]
        more = (kernel[d] - 1) * each["dilations"][d] + 1 - stride + each["output_padding"][d]
        start, cut = pads[d], pads[d] + pads[rank + d]
        if automatic in ("SAME_UPPER", "SAME_LOWER"):
            start, cut = (max(more, 0) + (automatic == "SAME_LOWER")) // 2, more
        spatial.append(size * stride + (more - cut))
        # An element adds to as many results from where its stride begins.
        if start + more - cut > 0:
            reads.append(2 + d)
    results = task.compute(masked(x, sizes, 0, reads), w, b)
    return tuple(of_images(y, sizes[0], spatial) for y in results)


RULES: Rules = {
    "Conv": convolved(1),
    "ConvInteger": convolved(1, 2),
    "ConvTranspose": transposed_convolution,
    "QLinearConv": convolved(3, 2),
}

MICROSOFT: Rules = {"FusedConv": fused_convolution, "QLinearConv": convolved(3, 2)}
"""Of the domain com.microsoft."""

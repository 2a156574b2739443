"""Poolings over dimensions with lengths: behind the end there is what a node pads with."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxdml.onnx.integers import rounded_once
from jaxdml.onnx.nodes import _windows, pooling
from jaxdml.onnx.nodes.bounded._fitting import must_not_have_lengths
from jaxdml.onnx.nodes.bounded._masking import masked
from jaxdml.onnx.nodes.bounded._spans import Spans, spans
from jaxdml.onnx.nodes.bounded._task import Rule, Rules, Task
from jaxdml.onnx.values.bounded import bounded, inner, is_bounded_in, sizes_of
from jaxdml.onnx.values.kinds import Value, channels_last
from jaxdml.onnx.values.lengths import Length, LengthError, limits, product, true
from jaxdml.onnx.values.stored import ChannelsLast, widened


def pooled(filling: Callable[[Any], Any], first: int = 2) -> Rule:
    """Return the rule of a pooling; it gets a dtype, and says what adds nothing to a window."""

    def run(task: Task, x: Value) -> tuple[Value, ...]:
        where = spans(task, x, task.attribute("kernel_shape"), first=first)
        images, attributes = where.images(x, filling(x.dtype))
        return where.results(task.compute(images, **attributes))

    return run


def max_pool(task: Task, x: Value) -> tuple[Value, ...]:
    """Take the greatest element of each window, and say where it is in an array that ends where its lengths do."""
    if not any(task.call.outputs[1:]):
        return pooled(pooling.least)(task, x)
    where = spans(task, x, task.attribute("kernel_shape"))
    if where.moves:
        raise LengthError("how much is padded before the first element")
    images, _ = where.images(x, pooling.least(x.dtype))
    result, at = task.compute(images)
    found: Any = 0
    step: Any = 1
    sizes = where.sizes[2:]
    for size in sizes if task.attribute("storage_order") else sizes[::-1]:
        found, step, at = found + at % limits(size).bound * step, step * true(size), at // limits(size).bound
    return where.results((result, found + at * step))


def average_pool(task: Task, x: Value) -> tuple[Value, ...]:
    """Average the windows: those that reach behind the end have fewer elements."""
    where = spans(task, x, task.attribute("kernel_shape"))
    images, attributes = where.images(x, 0)
    counts_padding = bool(task.attribute("count_include_pad"))
    overhang = task.attribute("auto_pad") == "NOTSET" and task.attribute("ceil_mode")
    fewer = [isinstance(size, Length) and span.reads for size, span in zip(where.sizes[2:], where.along, strict=True)]
    if not any(fewer) or (counts_padding and not overhang):
        return where.results(task.compute(images, **attributes))
    if task.call.exact and rounded_once.is_simple(images):
        raise LengthError("by how many elements sums of integers are divided")
    pads = [(0, 0) if where.moves else (span.most, span.end) for span in where.along]
    at = {name: getattr(where, name) for name in ("strides", "dilations")}
    lie = _windows.windows(images.shape[2:], where.kernel, pads=[edge[i] for i in (0, 1) for edge in pads], **at)
    return where.results((pooling.averaged(images, lie, _populations(where, counts_padding)),))


def _populations(where: Spans, counts_padding: bool) -> Any:
    """Return how many elements each window has, to broadcast against images with channels last."""
    population: Any = 1
    for d, (size, span) in enumerate(zip(where.sizes[2:], where.along, strict=True)):
        windows, elements = np.arange(limits(span.count).bound), np.arange(where.kernel[d])
        places = where.strides[d] * windows[:, None] + where.dilations[d] * elements - span.start
        inside = places < true(size) + span.asked if counts_padding else (places >= 0) & (places < true(size))
        population = population * inside.sum(1).reshape([-1 if i == d else 1 for i in range(len(where.along) + 1)])
    return population


def over_space(filling: Callable[[Any], Any]) -> Rule:
    """Return the rule of what reduces each channel to one element, as for ``pooled``."""

    def run(task: Task, x: Value) -> tuple[Value, ...]:
        must_not_have_lengths([x], dimensions=[1])
        sizes = sizes_of(x)
        results = task.compute(masked(x, sizes, filling(x.dtype), range(2, x.ndim)))
        return tuple(bounded(y, (*sizes[:2], *y.shape[2:])) for y in results)

    return run


def global_average(task: Task, x: Value) -> tuple[Value, ...]:
    """Average each channel over what counts."""
    sizes, spatial = sizes_of(x), range(2, x.ndim)
    if not is_bounded_in(sizes, spatial):
        return over_space(lambda dtype: 0)(task, x)
    must_not_have_lengths([x], dimensions=[1])
    if task.call.exact and rounded_once.is_simple(inner(x)):
        raise LengthError("by how many elements sums of integers are divided")
    images = widened(channels_last(masked(x, sizes, 0, spatial)))
    total = images.sum(range(1, x.ndim - 1), keepdims=True)
    mean = total / jnp.asarray(true(product(sizes[2:])), total.dtype)
    return (bounded(ChannelsLast(mean.astype(x.dtype)), (*sizes[:2], *(1,) * len(spatial))),)


RULES: Rules = {
    "AveragePool": average_pool,
    "GlobalAveragePool": global_average,
    "GlobalLpPool": over_space(lambda dtype: 0),
    "GlobalMaxPool": over_space(pooling.least),
    "LpPool": pooled(lambda dtype: 0),
    "MaxPool": max_pool,
}

MICROSOFT: Rules = {"NhwcMaxPool": pooled(pooling.least, first=1)}
"""Of the domain com.microsoft."""

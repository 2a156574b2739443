"""Poolings over dimensions with lengths: behind the end there is what a node pads with."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxdml.onnx.integers import rounded_once
from jaxdml.onnx.nodes import _windows, microsoft, pooling
from jaxdml.onnx.nodes._pending import pending
from jaxdml.onnx.nodes.bounded._fitting import must_not_have_lengths
from jaxdml.onnx.nodes.bounded._masking import masked
from jaxdml.onnx.nodes.bounded._spans import Spans, of_images, spans
from jaxdml.onnx.nodes.bounded._task import Rule, Rules, Task
from jaxdml.onnx.values.bounded import bounded, inner, is_bounded_in, sizes_of
from jaxdml.onnx.values.kinds import Dequantized, Quantization, Value, channels_last
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
    population = _populations(where, counts_padding)
    lie = _windows_of(where, images)
    floats = partial(pooling.averaged, images, lie, population)
    if not (task.call.exact and rounded_once.is_simple(images)):
        return where.results((floats(),))
    total = sum_of_windows(images, lie)
    return where.results((mean_of_integers(task, images, total, population, math.prod(where.kernel), floats),))


def _windows_of(where: Spans, images: Value) -> _windows.NodeWindows:
    """Return windows over images that were padded where these depend on a length."""
    pads = [(0, 0) if where.moves else (span.most, span.end) for span in where.along]
    at = {name: getattr(where, name) for name in ("strides", "dilations")}
    return _windows.windows(images.shape[2:], where.kernel, pads=[edge[i] for i in (0, 1) for edge in pads], **at)


def _populations(where: Spans, counts_padding: bool) -> Any:
    """Return how many elements each window has, to broadcast against images with channels last."""
    population: Any = 1
    for d, (size, span) in enumerate(zip(where.sizes[2:], where.along, strict=True)):
        windows, elements = np.arange(limits(span.count).bound), np.arange(where.kernel[d])
        places = where.strides[d] * windows[:, None] + where.dilations[d] * elements - span.start
        inside = places < true(size) + span.asked if counts_padding else (places >= 0) & (places < true(size))
        population = population * inside.sum(1).reshape([-1 if i == d + 1 else 1 for i in range(len(where.along) + 2)])
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
    images, count = masked(x, sizes, 0, spatial), jnp.asarray(true(product(sizes[2:])), jnp.int32)

    def floats() -> ChannelsLast:
        wide = widened(channels_last(images))
        total = wide.sum(range(1, x.ndim - 1), keepdims=True)
        return ChannelsLast((total / count.astype(total.dtype)).astype(x.dtype))

    if task.call.exact and rounded_once.is_simple(images):
        total = sum_over_space(images)
        result = mean_of_integers(task, images, total, count, math.prod(images.shape[2:]), floats)
    else:
        result = floats()
    return (bounded(result, (*sizes[:2], *(1,) * len(spatial))),)


def sum_of_windows(images: Dequantized, where: _windows.NodeWindows) -> Any:
    """Add up the integers of each window, minus their zero point."""
    centred = rounded_once.centred(channels_last(images.integers), images.quantization)
    return sum(part for _, part in _windows.slices(centred, 1, where, np.int32(0)))


def sum_over_space(images: Dequantized) -> Any:
    """Add up the integers of each channel, minus their zero point."""
    centred = rounded_once.centred(channels_last(images.integers), images.quantization)
    return centred.sum(range(1, images.ndim - 1), keepdims=True)


def mean_of_integers(
    task: Task, x: Dequantized, total: Any, count: Any, most: int, floats: Callable[[], ChannelsLast]
) -> Any:
    """Return means, channels last, that QuantizeLinear rounds once."""

    def quantized(out: Quantization, dtype: Any) -> ChannelsLast:
        return rounded_mean(total, count, most, x.quantization, out, dtype)

    shape = ChannelsLast(total).shape
    return pending(task.call, x, shape, "quantized_linear_average_pooling", quantized, floats)


def rounded_mean(total: Any, count: Any, most: int, x: Quantization, out: Quantization, dtype: Any) -> ChannelsLast:
    """Divide sums by counts of at most so many elements, and round once."""
    result = rounded_once.mean(total, jnp.maximum(count, 1), most, x, out, dtype)
    if result is None:
        raise LengthError("by how many elements sums are divided whose scales are not known, or out of range")
    return ChannelsLast(result)


def quantized_average(over_all: bool) -> Rule:
    """Return the rule of a mean of quantized images, of each window or over all spatial dimensions."""

    def run(task: Task, x: Value, sx: Value, zx: Value, sy: Value, zy: Value = None) -> tuple[Value, ...]:
        last = bool(task.attribute("channels_last"))
        own = sizes_of(x)
        sizes = (own[0], own[-1], *own[1:-1]) if last else own
        value, given = microsoft.images(microsoft.value(inner(x), sx, zx), last)
        images = bounded(value, sizes)
        if over_all:
            must_not_have_lengths([images], dimensions=[1])
            values = masked(images, sizes, 0)
            total, count, most = sum_over_space(values), true(product(sizes[2:])), math.prod(values.shape[2:])
            spatial: Sequence[Any] = (1,) * (len(sizes) - 2)
        else:
            where = spans(task, images, task.attribute("kernel_shape"))
            values, _ = where.images(images, 0)
            total = sum_of_windows(values, _windows_of(where, values))
            count, most = _populations(where, bool(task.attribute("count_include_pad"))), math.prod(where.kernel)
            spatial = [span.count for span in where.along]
        mean = rounded_mean(total, jnp.asarray(count), most, value.quantization, microsoft.one(sy, zy), x.dtype)
        y = of_images(mean, sizes[0], spatial)
        return (bounded(given(inner(y)), (sizes[0], *spatial, y.shape[1]) if last else sizes_of(y)),)

    return run


RULES: Rules = {
    "AveragePool": average_pool,
    "GlobalAveragePool": global_average,
    "GlobalLpPool": over_space(lambda dtype: 0),
    "GlobalMaxPool": over_space(pooling.least),
    "LpPool": pooled(lambda dtype: 0),
    "MaxPool": max_pool,
}

MICROSOFT: Rules = {
    "NhwcMaxPool": pooled(pooling.least, first=1),
    "QLinearAveragePool": quantized_average(False),
    "QLinearGlobalAveragePool": quantized_average(True),
}
"""Of the domain com.microsoft."""

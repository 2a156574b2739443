"""Where windows lie over dimensions with lengths, and arrays that they read as if these ended there."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml.onnx.nodes.bounded._fitting import fitted, must_not_have_lengths
from jaxdml.onnx.nodes.bounded._masking import changed, masked
from jaxdml.onnx.nodes.bounded._task import Task
from jaxdml.onnx.values.bounded import sizes_of
from jaxdml.onnx.values.kinds import Value
from jaxdml.onnx.values.lengths import Length, limits, true
from jaxdml.onnx.values.promises import at_most


class Span(NamedTuple):
    """How windows lie along one dimension.

    Attributes:
      count: how many there are.
      start: how many elements to add before the first one; traced where that depends on the length.
      most: what ``start`` is at most.
      end: how many to add behind the array, for the last window of the greatest length.
      asked: how many behind the last element that counts a mean may count.
      reads: whether windows read behind that element.
    """

    count: Any
    start: Any
    most: int
    end: int
    asked: int
    reads: bool


class Spans(NamedTuple):
    """How windows lie over images.

    Attributes:
      sizes: of the images.
      first: their first spatial dimension: 2, or 1 where channels come last for the node.
      along: each spatial dimension.
      kernel: how many elements a window has.
      strides: from one window to the next.
      dilations: from one element of a window to the next.
    """

    sizes: tuple[Any, ...]
    first: int
    along: tuple[Span, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]

    @property
    def moves(self) -> bool:
        """Whether it depends on a length where the first window begins."""
        return any(not isinstance(span.start, int) for span in self.along)

    def results(self, results: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return what a node made of the images, of such sizes."""
        counts = [span.count for span in self.along]
        return tuple(of_images(y, self.sizes[0], counts, self.first) for y in results)

    def images(self, x: Value, filling: Any) -> tuple[Value, dict[str, Any]]:
        """Return images as the windows read them, and attributes that say where these lie."""
        x = masked(x, self.sizes, filling, [self.first + d for d, span in enumerate(self.along) if span.reads])
        if not self.moves:
            return x, {}

        def moved(data: jax.Array, number: Any, axis_of: Callable[[int], int]) -> jax.Array:
            for d, span in enumerate(self.along):
                axis = axis_of(self.first + d)
                edges = [(span.most, span.most + span.end, 0) if i == axis else (0, 0, 0) for i in range(data.ndim)]
                length = data.shape[axis] + span.most + span.end
                data = lax.dynamic_slice_in_dim(lax.pad(data, number, edges), span.most - span.start, length, axis)
            return data

        return changed(x, filling, moved), {"auto_pad": "NOTSET", "pads": (0,) * (2 * len(self.along))}


def of_images(y: Value, batch: Any, spatial: Sequence[Any], first: int = 2) -> Value:
    """Return images of such sizes, in the capacity of these."""
    return fitted(y, (batch, *spatial, y.shape[-1]) if first == 1 else (batch, y.shape[1], *spatial))


def spans(task: Task, x: Value, kernel: Sequence[int], *others: Value, first: int = 2) -> Spans:
    """Return how the windows of a node lie; refuse lengths of channels and of other operands."""
    sizes = sizes_of(x)
    must_not_have_lengths(others)
    must_not_have_lengths([x], dimensions=[len(sizes) - 1 if first == 1 else 1])
    spatial = sizes[first : first + len(kernel)]
    rank, automatic = len(spatial), task.attribute("auto_pad")
    strides = tuple(task.attribute("strides")) or (1,) * rank
    dilations = tuple(task.attribute("dilations")) or (1,) * rank
    pads = (automatic == "NOTSET" and tuple(task.attribute("pads"))) or (0,) * (2 * rank)
    ceil = automatic == "NOTSET" and task.takes("ceil_mode") and bool(task.attribute("ceil_mode"))
    found = []
    for size, elements, stride, dilation, start, end in zip(
        spatial, kernel, strides, dilations, pads[:rank], pads[rank:], strict=True
    ):
        reach = (elements - 1) * dilation + 1
        if automatic in ("SAME_UPPER", "SAME_LOWER"):
            found.append(_same(size, reach, stride, automatic == "SAME_LOWER"))
        else:
            at_most(task.call.node, reach, size + (start + end))
            found.append(_given(size, reach, stride, start, end, ceil))
    return Spans(sizes, first, tuple(found), tuple(kernel), strides, dilations)


def _given(size: Any, reach: int, stride: int, start: int, end: int, ceil: bool) -> Span:
    more = end - reach
    if ceil:  # The last window has more than padding alone.
        count = (size + (start + stride - 1 + (more if more >= 0 else min(more + stride, 0)))) // stride
    else:
        count = (size + (start + more + stride)) // stride
    behind = limits((count - 1) * stride + (reach - start) - size).bound
    reads = behind > 0 and (ceil or end > 0)
    return Span(count, start, start, _overhang(size, count, reach, stride, start), end, reads)


def _same(size: Any, reach: int, stride: int, lower: bool) -> Span:
    count = (size + (stride - 1)) // stride
    rest = size % stride
    rests = range(stride) if isinstance(rest, Length) else (rest,)
    # What is padded in all, by how many elements there are more than for whole strides.
    starts = {(max(reach - (each or stride), 0) + lower) // 2 for each in rests}
    most = max(starts)
    start: Any = most
    if len(starts) > 1:
        start = (jnp.maximum((true(count) - 1) * stride + reach - true(size), 0) + lower) // 2
    return Span(count, start, most, _overhang(size, count, reach, stride, most), reach, reach > 1)


def _overhang(size: Any, count: Any, reach: int, stride: int, start: int) -> int:
    """Return how far the last window reaches behind an array for the greatest length."""
    return max((limits(count).bound - 1) * stride + reach - start - limits(size).bound, 0)

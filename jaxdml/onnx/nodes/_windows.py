"""Windows of convolutions and poolings: where ``auto_pad``, ``pads`` and ``ceil_mode`` place them; what they hold."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._base.shapes import is_static
from jaxdml.onnx.nodes._handler import NodeCall
from jaxdml.onnx.nodes._sizes import refusal

LARGEST_TABLE = 2**26
"""Elements along one dimension that are numbered; a file that asks for more is refused before memory is taken."""

MOST_TAPS = 2**14
"""Elements of a window that are taken one by one: the program grows with them."""


class NodeWindows(NamedTuple):
    """Where windows lie, with one number for each spatial dimension.

    With this padding and these strides the usual count of windows, rounded down, is ``counts``.

    Attributes:
      inputs: how long the dimension is.
      sizes: how many elements a window has.
      strides: from the first element of a window to that of the next one.
      dilations: from one element of a window to the next one.
      start_padding: how many elements to add before the first one.
      end_padding: how many to add after the last one, so that the last window fits.
      overhang: how many of ``end_padding`` the node does not ask for: ``ceil_mode`` adds them. A mean never counts
        these.
      counts: how many windows there are, that is, the sizes of the output.
    """

    inputs: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    overhang: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def padding(self) -> tuple[tuple[int, int], ...]:
        """Start and end padding of each dimension."""
        return tuple(zip(self.start_padding, self.end_padding, strict=True))

    @property
    def padded(self) -> bool:
        """Whether there is any padding."""
        return any(self.start_padding) or any(self.end_padding)

    @property
    def options(self) -> dict[str, Any]:
        """Where windows lie as options of an operator."""
        names = ("strides", "dilations", "start_padding", "end_padding")
        return {name: getattr(self, name) for name in names}

    def options_of_mean(self, include_padding: bool) -> dict[str, Any] | None:
        """Return the options of an average pooling; None where it would have to count padding but no overhang."""
        if include_padding and any(self.overhang):
            return None
        return self.options | {"window": self.sizes, "include_padding": include_padding}

    def read(self) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
        """Return how much of each dimension the windows read, and the padding that they read.

        Of a dimension of symbolic size with padding, that is all.
        """
        ends, padding = [], []
        each = zip(self.inputs, self.sizes, self.strides, self.dilations, self.padding, self.counts, strict=True)
        for length, size, stride, dilation, (start, end), count in each:
            last = (count - 1) * stride + (size - 1) * dilation + 1 - start
            if is_static(length):
                ends.append(max(min(last, length), 0))
                padding.append((start, max(last - length, 0)))
            else:
                ends.append(length if start or end else last)
                padding.append((start, end))
        return tuple(ends), tuple(padding)

    def taps(self) -> Iterator[tuple[int, ...]]:
        """Yield the places in a window."""
        if math.prod(self.sizes) > MOST_TAPS:
            raise NotImplementedError(f"a window of {list(self.sizes)} has more than {MOST_TAPS} elements")
        return np.ndindex(*self.sizes)

    def elements(self) -> Iterator[np.ndarray]:
        """Yield for each dimension the places ``[counts, sizes]`` of the elements of each window, 0 being the input's
        first.
        """
        each = zip(self.counts, self.strides, self.start_padding, self.sizes, self.dilations, strict=True)
        for count, stride, start, size, dilation in each:
            if count * size > LARGEST_TABLE:
                raise NotImplementedError(f"{count} windows of {size} elements are more than {LARGEST_TABLE} elements")
            yield stride * np.arange(count)[:, None] - start + dilation * np.arange(size)

    def inside(self) -> list[np.ndarray]:
        """Return for each dimension which of ``elements`` are elements of the input."""
        return [(at >= 0) & (at < length) for at, length in zip(self.elements(), self.inputs, strict=True)]

    def populations(self, include_padding: bool) -> np.ndarray:
        """Return how many elements each window has, in an array of shape ``counts``.

        Args:
          include_padding: whether those count that the node pads with. Overhang never does.
        """
        if include_padding:
            ends = [n + end - over for n, end, over in zip(self.inputs, self.end_padding, self.overhang, strict=True)]
            members = [at < end for at, end in zip(self.elements(), ends, strict=True)]
        else:
            members = self.inside()
        result = np.ones((), np.int64)
        for member in members:
            result = np.multiply.outer(result, member.sum(1))
        return result


def windows(
    inputs: Sequence[int],
    sizes: Sequence[int],
    *,
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
) -> NodeWindows:
    """Return where the windows of a node lie.

    Args:
      inputs: sizes of the spatial dimensions; symbolic ones need ``auto_pad`` NOTSET or VALID, and no ``ceil_mode``.
      sizes: of a window.
      strides: the attribute; empty for 1.
      dilations: the attribute; empty for 1.
      pads: the attribute: all starts, then all ends; empty for 0.
      auto_pad: the attribute; ``pads`` counts only for NOTSET.
      ceil_mode: the attribute.

    Raises:
      ValueError: a window is larger than the padded input.
    """
    rank = len(inputs)
    strides, dilations = tuple(strides) or (1,) * rank, tuple(dilations) or (1,) * rank
    pads = tuple(pads) if pads and auto_pad == "NOTSET" else (0,) * (2 * rank)
    reaches = [(size - 1) * dilation + 1 for size, dilation in zip(sizes, dilations, strict=True)]
    each = zip(inputs, reaches, strides, pads[:rank], pads[rank:], strict=True)
    # Rounded up, the last window of VALID would need padding.
    ceil = bool(ceil_mode) and auto_pad == "NOTSET"
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        edges = [_same(n, reach, stride, auto_pad) for n, reach, stride, _, _ in each]
    else:
        edges = [_given(*one, ceil) for one in each]
    starts, ends, overhang, counts = (tuple(part) for part in zip(*edges, strict=True)) if edges else ((),) * 4
    return NodeWindows(tuple(inputs), tuple(sizes), strides, dilations, starts, ends, overhang, counts)


def windows_of_filters(
    call: NodeCall, images: Sequence[int], filters: Sequence[int], kernel_shape: Sequence[int], **given: Any
) -> NodeWindows:
    """Return where the windows of a convolution lie: of images and filters with these shapes, as ``windows`` says."""
    return windows(images[2:], kernel_of(call, filters, kernel_shape), **given)


def kernel_of(call: NodeCall, filters: Sequence[int], kernel_shape: Sequence[int]) -> tuple[int, ...]:
    """Return the spatial sizes of filters of this shape; refuse an attribute that says otherwise."""
    sizes = tuple(filters[2:])
    if kernel_shape and tuple(kernel_shape) != sizes:
        rule = f"kernel_shape of {call.node} is {list(kernel_shape)}, but its filters have {list(sizes)}."
        raise refusal(rule, "Leave it out, or give filters of this size.")
    return sizes


def slices(x: jax.Array, first: int, where: NodeWindows, filling: Any) -> Iterator[tuple[tuple[int, ...], jax.Array]]:
    """Yield each place in a window, and the elements that all windows have there.

    Args:
      x: an array.
      first: which dimension the windows begin with.
      where: the windows.
      filling: what to pad with.
    """
    rest = x.ndim - first - len(where.sizes)
    edges = [(start, end, 0) for start, end in where.padding]
    padded = lax.pad(x, jnp.asarray(filling), [(0, 0, 0)] * first + edges + [(0, 0, 0)] * rest)
    each = tuple(zip(where.dilations, where.strides, where.counts, strict=True))
    whole = [(0, size, 1) for size in x.shape]
    for tap in where.taps():
        # Where there are no windows, such places may lie outside.
        bounds = [
            (at * dilation, at * dilation + (count - 1) * stride + 1, stride) if count else (0, 0, 1)
            for at, (dilation, stride, count) in zip(tap, each, strict=True)
        ]
        bounds = whole[:first] + bounds + whole[x.ndim - rest :]
        # With symbolic sizes, indices in brackets would become a gather.
        yield tap, lax.slice(padded, *zip(*bounds, strict=True))


def _same(length: int, reach: int, stride: int, auto_pad: str) -> tuple[int, int, int, int]:
    """Pad so that there is a window for every stride of the input."""
    count = -(-length // stride)
    total = max((count - 1) * stride + reach - length, 0)
    start = (total + (auto_pad == "SAME_LOWER")) // 2
    return start, total - start, 0, count


def _given(length: int, reach: int, stride: int, start: int, end: int, ceil: bool) -> tuple[int, int, int, int]:
    room = length + start + end - reach
    if isinstance(room, int) and room < 0:
        raise ValueError(f"a window reaches over {reach} elements; with its padding the input has {reach + room}")
    if not ceil:
        return start, end, 0, room // stride + 1
    count = -(-room // stride) + 1
    if (count - 1) * stride >= length + start:  # the last window would hold padding alone
        count -= 1
    needed = (count - 1) * stride + reach - length - start
    # Any end of less than a stride more gives as many windows; keep what is asked for where that is one of these.
    fitting = min(max(end, needed), needed + stride - 1)
    return start, fitting, max(fitting - end, 0), count

"""Place the windows of a convolution or a pooling, and read what those of a convolution contain."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class Windows(NamedTuple):
    """Hold where windows lie, one number for each spatial dimension. Static.

    An array has N, C and the spatial dimensions: for a convolution ``[N, C, *spatial]`` or ``[N, *spatial, C]``, for a
    pooling in any order.
    """

    dimensions: tuple[int, ...]
    """The places of the spatial dimensions in the array."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    groups: int
    """Into how many groups the channels of a convolution fall; each output channel reads those of one group."""

    @property
    def taps(self) -> int:
        """The number of elements of a window in one channel."""
        return math.prod(self.sizes)

    @property
    def reaches(self) -> tuple[int, ...]:
        """How many elements a window spans, from its first to its last."""
        return tuple((size - 1) * step + 1 for size, step in zip(self.sizes, self.dilations, strict=True))

    def spatial(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the spatial sizes of an array."""
        return tuple(shape[d] for d in self.dimensions)

    def counts(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of windows along each spatial dimension of an input."""
        edges = zip(self.spatial(shape), self.start_padding, self.end_padding, self.reaches, self.strides, strict=True)
        return tuple((size + start + end - reach) // stride + 1 for size, start, end, reach, stride in edges)

    @property
    def padded(self) -> bool:
        """Whether there is any padding."""
        return any((*self.start_padding, *self.end_padding))

    @property
    def channels_last(self) -> bool:
        """Whether an input of a convolution is ``[N, *spatial, C]`` rather than ``[N, C, *spatial]``."""
        return self.dimensions[0] == 1

    @property
    def channel_axis(self) -> int:
        """The dimension of the channels of a convolution, counted from the front."""
        return len(self.sizes) + 1 if self.channels_last else 1

    def with_channels_last(self) -> "Windows":
        """Return the same windows of ``[N, *spatial, C]``."""
        return self._replace(dimensions=tuple(range(1, len(self.sizes) + 1)))

    def without_padding(self) -> "Windows":
        """Return the same windows of an input that is padded already."""
        none = (0,) * len(self.sizes)
        return self._replace(start_padding=none, end_padding=none)

    def with_channels(self, batch: int, spatial: tuple[int, ...], *channels: int) -> tuple[int, ...]:
        """Return the shape of an input of a convolution with these sizes."""
        return (batch, *spatial, *channels) if self.channels_last else (batch, *channels, *spatial)

    def along_channels(self, x: jax.Array) -> jax.Array:
        """Give ``[C]``, or a single number, the rank of an array, so that it broadcasts against it."""
        return x.reshape(self.with_channels(1, (1,) * len(self.sizes), x.size))


def padded(x: jax.Array, zero_point: jax.Array | None, windows: Windows) -> jax.Array:
    """Pad ``x`` with the zero point, which stands for the real number 0."""
    edges = [(start, end, 0) for start, end in zip(windows.start_padding, windows.end_padding, strict=True)]
    if not any(map(any, edges)):
        return x
    filling = jnp.zeros((), x.dtype) if zero_point is None else zero_point.reshape(()).astype(x.dtype)
    edges.insert(windows.channel_axis - 1, (0, 0, 0))
    return lax.pad(x, filling, [(0, 0, 0), *edges])


def shifted_slices(x: jax.Array, windows: Windows) -> Iterator[jax.Array]:
    """Return for each element of a window, in row-major order, what all windows of padded ``x`` have there."""
    spatial = windows.spatial(x.shape)
    last = [count - reach for count, reach in zip(spatial, windows.reaches, strict=True)]
    channel = windows.channel_axis - 1
    for place in itertools.product(*map(range, windows.sizes)):
        starts = [at * step for at, step in zip(place, windows.dilations, strict=True)]
        ends = [start + end + 1 for start, end in zip(starts, last, strict=True)]
        strides = [*windows.strides]
        starts.insert(channel, 0)
        ends.insert(channel, x.shape[channel + 1])
        strides.insert(channel, 1)
        yield lax.slice(x, [0, *starts], [x.shape[0], *ends], [1, *strides])


def slices_at(x: jax.Array, starts: Sequence[jax.Array], length: int) -> jax.Array:
    """Return slices along the last dimension of ``[N, ..., K]`` as ``[N, *grid, length]``.

    Args:
      x: the array.
      starts: int32 of the shape of the grid, for each dimension from the second one on: where slices start. They lie
        inside as a whole. Without one for the last dimension they start at its beginning.
      length: of a slice.
    """
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(0, starts[0].ndim + 1),
        collapsed_slice_dims=tuple(range(1, x.ndim - 1)),
        start_index_map=tuple(range(1, len(starts) + 1)),
    )
    sizes = (x.shape[0], *[1] * (x.ndim - 2), length)
    return lax.gather(x, jnp.stack(starts, -1), numbers, sizes, mode="promise_in_bounds")


def sums_of_groups(x: jax.Array, windows: Windows, features: int) -> jax.Array:
    """Sum what each window of padded ``x`` has in the channels of each group, as int32.

    The result has one channel if there is one group, otherwise one for each of the output's ``features``.
    """
    batch, groups, spatial = x.shape[0], windows.groups, windows.spatial(x.shape)
    axis = windows.channel_axis
    grouped = x.reshape(windows.with_channels(batch, spatial, groups, x.shape[axis] // groups))
    of_channels = jnp.sum(grouped, axis=axis + 1, dtype=jnp.int32)
    total = sum(shifted_slices(of_channels, windows), jnp.int32(0))
    return total if groups == 1 else jnp.repeat(total, features // groups, axis=axis)

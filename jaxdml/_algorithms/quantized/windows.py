"""Place the windows of a convolution, and read them: a patch is all that one window contains."""

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class Windows(NamedTuple):
    """Hold where the windows of a convolution lie, one number for each spatial dimension. Static."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    groups: int
    """Into how many groups the channels fall; each output channel reads those of one group."""

    @property
    def taps(self) -> int:
        """The number of elements of a window in one channel."""
        return math.prod(self.sizes)

    @property
    def padded(self) -> bool:
        """Whether windows reach beyond the input."""
        return any(self.start_padding) or any(self.end_padding)

    @property
    def moved(self) -> bool:
        """Whether the windows are anything else than all single elements of the input."""
        return self.padded or self.taps > 1 or any(stride > 1 for stride in self.strides)

    @property
    def reaches(self) -> tuple[int, ...]:
        """From the first to the last element of a window."""
        return tuple((size - 1) * step + 1 for size, step in zip(self.sizes, self.dilations, strict=True))

    def counts(self, spatial: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of windows along each spatial dimension of an input of these sizes."""
        edges = zip(spatial, self.start_padding, self.end_padding, self.reaches, self.strides, strict=True)
        return tuple((size + start + end - reach) // stride + 1 for size, start, end, reach, stride in edges)


def padded(x: jax.Array, zero_point: jax.Array | None, windows: Windows) -> jax.Array:
    """Pad ``[..., *spatial, C]`` with the zero point, which stands for the real number 0."""
    if not windows.padded:
        return x
    filling = jnp.zeros((), x.dtype) if zero_point is None else zero_point.reshape(()).astype(x.dtype)
    edges = [(start, end, 0) for start, end in zip(windows.start_padding, windows.end_padding, strict=True)]
    return lax.pad(x, filling, [(0, 0, 0)] * (x.ndim - len(edges) - 1) + edges + [(0, 0, 0)])


def shifted_slices(x: jax.Array, windows: Windows) -> Iterator[jax.Array]:
    """Return for each element of a window, in row-major order, what all windows have there.

    Args:
      x: ``[..., *spatial, C]``, padded.
      windows: where the windows lie.
    """
    spatial = x.shape[-1 - len(windows.sizes) : -1]
    leading = x.ndim - len(spatial) - 1
    last = [count - reach for count, reach in zip(spatial, windows.reaches, strict=True)]
    for place in itertools.product(*map(range, windows.sizes)):
        starts = [at * step for at, step in zip(place, windows.dilations, strict=True)]
        ends = [start + end + 1 for start, end in zip(starts, last, strict=True)]
        yield lax.slice(
            x,
            [0] * leading + starts + [0],
            [*x.shape[:leading], *ends, x.shape[-1]],
            [1] * leading + [*windows.strides] + [1],
        )


def patches(x: jax.Array, windows: Windows) -> jax.Array:
    """Return the patches of padded ``[..., *spatial, C]`` as ``[..., *counts, taps * C]``."""
    if not windows.moved:
        return x
    return jnp.concatenate([*shifted_slices(x, windows)], axis=-1)


def filters_as_columns(w: jax.Array, groups: int) -> jax.Array:
    """Return filters ``[O, I, *sizes]`` as matrices ``[groups, taps * I, O / groups]``, to multiply patches by."""
    channels, depth, *sizes = w.shape
    parts = w.reshape(groups, channels // groups, depth, math.prod(sizes))
    order: Any = (0, 3, 2, 1)
    return lax.transpose(parts, order).reshape(groups, math.prod(sizes) * depth, channels // groups)

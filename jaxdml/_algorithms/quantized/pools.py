"""Place the windows of a pooling, and sum them exactly."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

LARGEST_WINDOW = (2**31 - 1) // 255
"""The greatest number of elements whose differences from a zero point always have a sum that fits int32."""

_FUSED = 8
"""Sums of up to so many neighbours are not stored: reading the elements again takes less time."""


class Pools(NamedTuple):
    """Hold where the windows of a pooling lie, one number for each dimension that they move along. Static."""

    dimensions: tuple[int, ...]
    """Their places in the array."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]

    @property
    def elements(self) -> int:
        """How many elements a window has."""
        return math.prod(self.sizes)

    @property
    def reaches(self) -> tuple[int, ...]:
        """From the first to the last element of a window."""
        return tuple((size - 1) * step + 1 for size, step in zip(self.sizes, self.dilations, strict=True))

    def counts(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of windows along each dimension of an array of this shape."""
        edges = zip(self.dimensions, self.start_padding, self.end_padding, self.reaches, self.strides, strict=True)
        return tuple((shape[d] + start + end - reach) // stride + 1 for d, start, end, reach, stride in edges)

    def real_elements(self, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Return how many elements of each window are no padding, as int32 that broadcasts against the sums."""
        result = np.ones((1,) * len(shape), np.int32)
        for i, (d, count) in enumerate(zip(self.dimensions, self.counts(shape), strict=True)):
            first = np.arange(count) * self.strides[i] - self.start_padding[i]
            places = first[:, None] + np.arange(self.sizes[i]) * self.dilations[i]
            real = ((places >= 0) & (places < shape[d])).sum(axis=1, dtype=np.int32)
            along = [1] * len(shape)
            along[d] = -1
            result = result * np.reshape(real[:1] if (real == real[0]).all() else real, along)
        return result


def window_sums(x: jax.Array, pools: Pools) -> jax.Array:
    """Return the int32 sums of 8-bit integers over all windows. Padding adds 0."""
    counts = pools.counts(x.shape)
    whole = []
    for d, count, size, step, start in zip(
        *(pools.dimensions, counts, pools.sizes, pools.dilations, pools.start_padding), strict=True
    ):
        if count == 1:
            # There is one window, so sum what it has of x.
            end = min(x.shape[d], max(0, (size - 1) * step + 1 - start))
            x = lax.slice_in_dim(x, min(-start % step, end), end, step, d)
            whole.append(d)
    edges = [(0, 0, 0)] * x.ndim
    for d, count, start, end in zip(pools.dimensions, counts, pools.start_padding, pools.end_padding, strict=True):
        if count != 1:
            edges[d] = start, end, 0
    x = lax.pad(x, jnp.zeros((), x.dtype), edges).astype(jnp.int32)
    if whole:
        x = jnp.sum(x, axis=whole, keepdims=True, dtype=jnp.int32)
    for i, count in enumerate(counts):
        if count != 1:
            x = _sums_along(x, pools.dimensions[i], count, pools.sizes[i], pools.strides[i], pools.dilations[i])
    return x


def _sums_along(x: jax.Array, d: int, count: int, size: int, stride: int, step: int) -> jax.Array:
    """Sum windows along one dimension. The sums of 2, 4, 8 and more neighbours are made of one another."""
    parts: list[jax.Array] = []
    taken, width = 0, 1
    while True:
        if size & width:
            parts.append(lax.slice_in_dim(x, taken * step, taken * step + (count - 1) * stride + 1, stride, d))
            taken += width
        if 2 * width > size:
            return sum(parts[1:], parts[0])
        whole = x.shape[d]
        x = lax.slice_in_dim(x, 0, whole - width * step, 1, d) + lax.slice_in_dim(x, width * step, whole, 1, d)
        width *= 2
        if width > _FUSED:
            x = lax.optimization_barrier(x)  # type: ignore[no-untyped-call]

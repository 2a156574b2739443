"""Sum the windows of a pooling exactly."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.windows import Windows

LARGEST_WINDOW = (2**31 - 1) // 255
"""The greatest number of elements whose differences from a zero point always have a sum that fits int32."""

_MOST_ADDED, _FEWEST_RESULTS = 64, 2**13
"""A GPU adds up to so many numbers one after the other, if there are at least so many results. On an H200
32 x 7 x 7 x 2048 took 4.2 us so, and 7.3 by a reduction, which is a kernel of its own; 8 x 7 x 7 x 2048 3.1 and 3.6."""

_FUSED = 8
"""Sums of up to so many neighbours are not stored: reading the elements again takes less time."""


def real_elements(windows: Windows, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return how many elements of each window are no padding, as int32 that broadcasts against the sums."""
    result = np.ones((1,) * len(shape), np.int32)
    for i, (d, count) in enumerate(zip(windows.dimensions, windows.counts(shape), strict=True)):
        first = np.arange(count) * windows.strides[i] - windows.start_padding[i]
        places = first[:, None] + np.arange(windows.sizes[i]) * windows.dilations[i]
        real = ((places >= 0) & (places < shape[d])).sum(axis=1, dtype=np.int32)
        along = [1] * len(shape)
        along[d] = -1
        result = result * np.reshape(real[:1] if (real == real[0]).all() else real, along)
    return result


def _reduced(x: jax.Array, dimensions: Sequence[int]) -> jax.Array:
    return jnp.sum(x, axis=dimensions, keepdims=True, dtype=jnp.int32)


def window_sums(
    x: jax.Array, windows: Windows, summed: Callable[[jax.Array, Sequence[int]], jax.Array] = _reduced
) -> jax.Array:
    """Return the int32 sums of 8-bit integers over all windows. Padding adds 0.

    Args:
      x: the integers.
      windows: where the windows lie.
      summed: sums up dimensions along which there is one window, and keeps them.
    """
    counts = windows.counts(x.shape)
    whole = []
    for d, count, size, step, start in zip(
        *(windows.dimensions, counts, windows.sizes, windows.dilations, windows.start_padding), strict=True
    ):
        if count == 1:
            # There is one window, so sum what it has of x.
            end = min(x.shape[d], max(0, (size - 1) * step + 1 - start))
            x = lax.slice_in_dim(x, min(-start % step, end), end, step, d)
            whole.append(d)
    edges = [(0, 0, 0)] * x.ndim
    for d, count, start, end in zip(
        windows.dimensions, counts, windows.start_padding, windows.end_padding, strict=True
    ):
        if count != 1:
            edges[d] = start, end, 0
    x = lax.pad(x, jnp.zeros((), x.dtype), edges).astype(jnp.int32)
    if whole:
        x = summed(x, whole)
    for i, count in enumerate(counts):
        if count != 1:
            x = _sums_along(x, windows.dimensions[i], count, windows.sizes[i], windows.strides[i], windows.dilations[i])
    return x


def window_sums_by_adding(x: jax.Array, windows: Windows) -> jax.Array:
    """Return what ``window_sums`` does. If a window is a whole image, XLA for CUDA sums and rounds it in one kernel."""
    return window_sums(x, windows, _added)


def _added(x: jax.Array, dimensions: Sequence[int]) -> jax.Array:
    count = math.prod(x.shape[d] for d in dimensions)  # 0 if a window has padding alone.
    if x.ndim - 1 in dimensions or not 0 < count <= _MOST_ADDED or x.size < count * _FEWEST_RESULTS:
        return _reduced(x, dimensions)
    for d in dimensions:
        first, *others = (lax.slice_in_dim(x, at, at + 1, axis=d) for at in range(x.shape[d]))
        x = sum(others, first)
    return x


def window_sums_at_once(x: jax.Array, windows: Windows) -> jax.Array:
    """Return what ``window_sums`` does, by one reduction over windows: TPUs have a fast one."""
    sizes, strides, dilations = [1] * x.ndim, [1] * x.ndim, [1] * x.ndim
    edges = [(0, 0)] * x.ndim
    for i, d in enumerate(windows.dimensions):
        sizes[d], strides[d], dilations[d] = windows.sizes[i], windows.strides[i], windows.dilations[i]
        edges[d] = windows.start_padding[i], windows.end_padding[i]
    total: jax.Array = lax.reduce_window(
        x.astype(jnp.int32), np.int32(0), lax.add, sizes, strides, edges, window_dilation=dilations
    )
    return total


def _sums_along(x: jax.Array, d: int, count: int, size: int, stride: int, step: int) -> jax.Array:
    """Sum windows along one dimension. A sum of 2, 4, 8 or more neighbours is made of two sums of half as many."""
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

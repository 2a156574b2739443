"""Align the scales and zero points of an array that is quantized or dequantized."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

Axes = int | tuple[int, ...] | None


def spread(value: ArrayLike | None, shape: tuple[int, ...], axis: Axes, block_size: Axes) -> np.ndarray[Any, Any]:
    """Return a scale or zero point with one value for each element of an array of this shape; None is 0."""
    given = np.asarray(0 if value is None else value)
    if axis is None or value is None:
        return np.broadcast_to(given, shape)
    axes = [one % len(shape) for one in (axis if isinstance(axis, tuple) else (axis,))]
    if block_size is None:
        return np.broadcast_to(given.reshape([-1 if d in axes else 1 for d in range(len(shape))]), shape)
    sizes = block_size if isinstance(block_size, tuple) else (block_size,) * len(axes)
    for one, size in zip(axes, sizes, strict=True):
        if given.shape[one] > 1:
            given = given.take(np.arange(shape[one]) // size, one)
    return np.broadcast_to(given, shape)

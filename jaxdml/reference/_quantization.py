"""Align scales and zero points with the elements that they belong to."""

from __future__ import annotations

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


def of_product(value: ArrayLike | None, shape: tuple[int, ...], per_row: bool) -> np.ndarray[Any, Any]:
    """Return a scale or zero point with one value for each element of a product of matrices; None is 0.

    A vector has one value per row, or one per column.
    """
    given = np.asarray(0 if value is None else value)
    return np.broadcast_to(given[:, None] if per_row and given.ndim == 1 else given, shape)

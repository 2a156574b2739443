"""Define ``top_k``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike


def _sort_key(element: Any) -> tuple[bool, Any]:
    """Return the key that sorts an element: a NaN is greater than all else, and -0.0 equals +0.0."""
    if isinstance(element, int):
        return False, element
    number = float(element)
    return (True, 0.0) if math.isnan(number) else (False, number)


def top_k(
    x: ArrayLike,
    k: int,
    *,
    axis: int = -1,
    direction: int | str = "decreasing",
    index_dtype: DTypeLike | None = None,
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Take the ``k`` largest or smallest elements of every sequence, with Python's stable sort.

    Args:
      x: real array of rank 1 or more.
      k: how many to take.
      axis: the axis to select along.
      direction: ``"decreasing"`` or 1, ``"increasing"`` or 0.
      index_dtype: dtype of the indices, by default int32.

    Returns:
      ``(values, indices)``, shaped like ``x`` with ``k`` along ``axis``.

    Source:
      DML_TOP_K1_OPERATOR_DESC.

    Example:
      >>> values, indices = reference.top_k(np.array([3.0, 1.0, 3.0, 2.0]), 2)
      >>> values.tolist(), indices.tolist()
      ([3.0, 3.0], [0, 2])
    """
    x = np.asarray(x)
    moved = np.moveaxis(x, axis, -1)
    decreasing = direction in ("decreasing", 1)
    indices = np.empty((*moved.shape[:-1], k), np.int32 if index_dtype is None else index_dtype)
    for row in np.ndindex(moved.shape[:-1]):
        keys = [_sort_key(element) for element in moved[row].tolist()]
        # With reverse=True too, Python's sort keeps equal elements in ascending order of their indices.
        order = sorted(range(len(keys)), key=keys.__getitem__, reverse=decreasing)
        indices[row] = order[:k]
    values = np.take_along_axis(moved, indices.astype(np.int64), axis=-1)
    return np.moveaxis(values, -1, axis), np.moveaxis(indices, -1, axis)

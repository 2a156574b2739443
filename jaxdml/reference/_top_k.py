"""The definition of ``top_k``."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike


def _rank(element: Any) -> tuple[bool, Any]:
    """Place one element in ascending order: a NaN above all else, -0.0 with +0.0."""
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
    """Take the ``k`` largest or smallest elements of every sequence: Python's stable sort, by value.

    Args:
      x: real array of rank 1 or more.
      k: how many to take.
      axis: the axis to select along.
      direction: ``"decreasing"`` or 1, ``"increasing"`` or 0.
      index_dtype: dtype of the indices, by default uint32.

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
    indices = np.empty((*moved.shape[:-1], k), np.uint32 if index_dtype is None else index_dtype)
    for place in np.ndindex(moved.shape[:-1]):
        ranks = [_rank(element) for element in moved[place].tolist()]
        # Sorting in reverse keeps equal elements in ascending index, like sorting forward.
        order = sorted(range(len(ranks)), key=ranks.__getitem__, reverse=decreasing)
        indices[place] = order[:k]
    values = np.take_along_axis(moved, indices.astype(np.int64), axis=-1)
    return np.moveaxis(values, -1, axis), np.moveaxis(indices, -1, axis)

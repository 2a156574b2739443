"""Define ``gather``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxdml.reference._indices import resolve


def gather(
    x: ArrayLike, indices: ArrayLike, *, axis: int = 0, mode: str = "clip", fill_value: Any = None
) -> np.ndarray[Any, Any]:
    """Read slices one by one, each at an index of one axis.

    Args:
      x: array of rank r >= 1.
      indices: integers of any shape.
      axis: the axis that ``indices`` count along.
      mode: ``"clip"``, ``"fill"`` or ``"promise_in_bounds"``.
      fill_value: in mode ``"fill"``, what an index out of range reads; None means 0.

    Returns:
      ``x`` with ``axis`` replaced by the dimensions of ``indices``.

    Source:
      DML_GATHER_OPERATOR_DESC.

    Example:
      >>> reference.gather(np.array([11, 12, 13, 14]), [3, 1, -1, 0]).tolist()
      [14, 12, 14, 11]
    """
    x, indices = np.asarray(x), np.asarray(indices)
    axis %= x.ndim
    before = (slice(None),) * axis
    shape = x.shape[:axis] + indices.shape + x.shape[axis + 1 :]
    output = np.full(shape, 0 if fill_value is None else fill_value, x.dtype)
    for i in np.ndindex(indices.shape):
        position = resolve(int(indices[i]), x.shape[axis], mode)
        if position is not None:
            output[before + i] = np.take(x, position, axis)
    return output

"""Define ``gather_elements``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxdml.reference._indices import resolve


def gather_elements(
    x: ArrayLike, indices: ArrayLike, *, axis: int = 0, mode: str = "clip", fill_value: Any = None
) -> np.ndarray[Any, Any]:
    """Read elements one by one, each at an index of one axis and at its own position in the others.

    Args:
      x: array of rank r >= 1.
      indices: integers of rank r.
      axis: the axis that ``indices`` count along.
      mode: ``"clip"``, ``"fill"`` or ``"promise_in_bounds"``.
      fill_value: in mode ``"fill"``, what an index out of range reads; None means 0.

    Returns:
      An array with the shape of ``indices``.

    Source:
      DML_GATHER_ELEMENTS_OPERATOR_DESC.

    Example:
      >>> reference.gather_elements(np.array([[1, 2, 3], [4, 5, 6]]), [[1, 0, -1]]).tolist()
      [[4, 2, 6]]
    """
    x, indices = np.asarray(x), np.asarray(indices)
    axis %= x.ndim
    output = np.full(indices.shape, 0 if fill_value is None else fill_value, x.dtype)
    for i in np.ndindex(indices.shape):
        position = resolve(int(indices[i]), x.shape[axis], mode)
        if position is not None:
            output[i] = x[(*i[:axis], position, *i[axis + 1 :])]
    return output

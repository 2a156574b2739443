"""Define ``scatter_elements``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxdml.reference._indices import resolve


def scatter_elements(
    x: ArrayLike,
    indices: ArrayLike,
    updates: ArrayLike,
    *,
    axis: int = 0,
    mode: str = "drop",
    duplicates: str = "last",
) -> np.ndarray[Any, Any]:
    """Write elements one by one, in row-major order of ``indices``: the last update of an element wins.

    Args:
      x: array of rank r >= 1.
      indices: integers of rank r.
      updates: the shape of ``indices``.
      axis: the axis that ``indices`` count along.
      mode: ``"drop"``, ``"clip"`` or ``"promise_in_bounds"``.
      duplicates: ignored. Under every rule the last update of an element may win.

    Returns:
      A copy of ``x`` with the updates written.

    Source:
      DML_SCATTER_ELEMENTS_OPERATOR_DESC.

    Example:
      >>> reference.scatter_elements(np.zeros((2, 3), int), [[2], [0]], [[7], [8]], axis=1).tolist()
      [[0, 0, 7], [8, 0, 0]]
    """
    output, indices, updates = np.array(x), np.asarray(indices), np.asarray(updates)
    axis %= output.ndim
    for i in np.ndindex(indices.shape):
        position = resolve(int(indices[i]), output.shape[axis], mode)
        if position is not None:
            output[(*i[:axis], position, *i[axis + 1 :])] = updates[i]
    return output

"""The definition of ``scatter_elements``."""

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
    """Write elements one by one, in row-major order of ``indices``, so that the last of two wins.

    Args:
      x: array of rank r >= 1.
      indices: integers of rank r.
      updates: the shape of ``indices``.
      axis: the axis that ``indices`` count along.
      mode: ``"drop"``, ``"clip"`` or ``"promise_in_bounds"``.
      duplicates: taken for the signature; every rule allows that the last wins.

    Returns:
      The written copy of ``x``.

    Source:
      DML_SCATTER_ELEMENTS_OPERATOR_DESC.

    Example:
      >>> reference.scatter_elements(np.zeros((2, 3), int), [[2], [0]], [[7], [8]], axis=1).tolist()
      [[0, 0, 7], [8, 0, 0]]
    """
    output, indices, updates = np.array(x), np.asarray(indices), np.asarray(updates)
    axis %= output.ndim
    for i in np.ndindex(indices.shape):
        place = resolve(int(indices[i]), output.shape[axis], mode)
        if place is not None:
            output[(*i[:axis], place, *i[axis + 1 :])] = updates[i]
    return output

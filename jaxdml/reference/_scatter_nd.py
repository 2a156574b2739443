"""Define ``scatter_nd``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxdml.reference._indices import resolve


def scatter_nd(
    x: ArrayLike, indices: ArrayLike, updates: ArrayLike, *, mode: str = "drop", duplicates: str = "last"
) -> np.ndarray[Any, Any]:
    """Write slices one by one, in row-major order of ``indices``: the last update of an element wins.

    Args:
      x: array of rank r.
      indices: integers, ``[..., t]``, ``t <= r``.
      updates: ``indices.shape[:-1] + x.shape[t:]``.
      mode: ``"drop"``, ``"clip"`` or ``"promise_in_bounds"``.
      duplicates: ignored. Under every rule the last update of an element may win.

    Returns:
      A copy of ``x`` with the updates written.

    Source:
      DML_SCATTER_ND_OPERATOR_DESC.

    Example:
      >>> reference.scatter_nd(np.arange(1, 9), [[4], [3], [1], [7]], [9, 10, 11, 12]).tolist()
      [1, 11, 3, 10, 9, 6, 7, 12]
    """
    output, indices, updates = np.array(x), np.asarray(indices), np.asarray(updates)
    for i in np.ndindex(indices.shape[:-1]):
        position = tuple(resolve(int(j), size, mode) for j, size in zip(indices[i], output.shape, strict=False))
        if None not in position:
            output[position] = updates[i]
    return output

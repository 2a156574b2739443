"""Define ``gather_nd``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxdml.reference._indices import resolve


def gather_nd(
    x: ArrayLike, indices: ArrayLike, *, batch_dims: int = 0, mode: str = "clip", fill_value: Any = None
) -> np.ndarray[Any, Any]:
    """Read slices one by one, each at a tuple of indices.

    Args:
      x: array of rank r, whose first ``batch_dims`` dimensions are those of ``indices``.
      indices: integers, ``[..., t]``, ``t <= r - batch_dims``.
      batch_dims: how many leading dimensions ``x`` and ``indices`` have in common.
      mode: ``"clip"``, ``"fill"`` or ``"promise_in_bounds"``.
      fill_value: in mode ``"fill"``, what a tuple with an index out of range reads; None means 0.

    Returns:
      An array of shape ``indices.shape[:-1] + x.shape[batch_dims + t:]``.

    Source:
      DML_GATHER_ND1_OPERATOR_DESC.

    Example:
      >>> reference.gather_nd(np.array([[0, 1], [2, 3]]), [[1], [0], [-1]]).tolist()
      [[2, 3], [0, 1], [2, 3]]
    """
    x, indices = np.asarray(x), np.asarray(indices)
    addressed = x.shape[batch_dims : batch_dims + indices.shape[-1]]
    shape = indices.shape[:-1] + x.shape[batch_dims + len(addressed) :]
    output = np.full(shape, 0 if fill_value is None else fill_value, x.dtype)
    for i in np.ndindex(indices.shape[:-1]):
        position = tuple(resolve(int(j), size, mode) for j, size in zip(indices[i], addressed, strict=True))
        if None not in position:
            output[i] = x[i[:batch_dims] + position]
    return output

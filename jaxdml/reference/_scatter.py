"""The definitions of ``scatter_nd`` and ``scatter_elements``."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def _resolve(index: int, size: int, mode: str) -> int | None:
    """Return the place that an index means in a dimension of this size, or None to leave the update out."""
    place = index + size if index < 0 else index
    if 0 <= place < size:
        return place
    if mode == "drop":
        return None
    if mode == "clip":
        return min(max(place, 0), size - 1) if size else None
    raise IndexError(f"index {index} is out of range for size {size}, against the caller's promise")


def scatter_nd(
    x: ArrayLike, indices: ArrayLike, updates: ArrayLike, *, mode: str = "drop", duplicates: str = "last"
) -> np.ndarray[Any, Any]:
    """Write slices one by one, in row-major order of ``indices``, so that the last of two wins.

    Args:
      x: array of rank r.
      indices: integers, ``[..., t]``, ``t <= r``.
      updates: ``indices.shape[:-1] + x.shape[t:]``.
      mode: ``"drop"``, ``"clip"`` or ``"promise_in_bounds"``.
      duplicates: taken for the signature; every rule allows that the last wins.

    Returns:
      The written copy of ``x``.

    Source:
      DML_SCATTER_ND_OPERATOR_DESC.

    Example:
      >>> reference.scatter_nd(np.arange(1, 9), [[4], [3], [1], [7]], [9, 10, 11, 12]).tolist()
      [1, 11, 3, 10, 9, 6, 7, 12]
    """
    output, indices, updates = np.array(x), np.asarray(indices), np.asarray(updates)
    for i in np.ndindex(indices.shape[:-1]):
        place = tuple(_resolve(int(j), size, mode) for j, size in zip(indices[i], output.shape, strict=False))
        if None not in place:
            output[place] = updates[i]
    return output


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
        place = _resolve(int(indices[i]), output.shape[axis], mode)
        if place is not None:
            output[(*i[:axis], place, *i[axis + 1 :])] = updates[i]
    return output

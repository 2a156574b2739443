"""Define ``argmin``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from jaxdml.reference._extremes import find


def argmin(
    x: ArrayLike,
    *,
    axis: int | Sequence[int] = -1,
    keepdims: bool = False,
    select_last_index: bool = False,
    index_dtype: DTypeLike | None = None,
) -> np.ndarray[Any, Any]:
    """Go through the elements and keep the index of the least one, or of the first NaN.

    Args:
      x: real array.
      axis: the axis to search, or several.
      keepdims: whether the result keeps these axes, with length 1.
      select_last_index: whether the last of equal elements is chosen.
      index_dtype: dtype of the indices, by default int32.

    Returns:
      The indices, row-major over the axes in the order of the array's dimensions.

    Source:
      DML_ARGMIN_OPERATOR_DESC.

    Example:
      >>> reference.argmin(np.array([2.0, 1.0, 3.0, 1.0])).tolist()
      1
    """
    return find(x, axis, keepdims, select_last_index, index_dtype, least=True)

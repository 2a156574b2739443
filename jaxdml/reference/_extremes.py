"""Define ``argmax`` and ``argmin``."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike


def _exceeds(one: Any, other: Any, least: bool) -> bool:
    """Tell whether ``one`` is chosen before ``other`` because of its value: NaNs are chosen before all numbers."""
    one_is_nan, other_is_nan = math.isnan(one), math.isnan(other)
    if one_is_nan or other_is_nan:
        return one_is_nan and not other_is_nan
    return bool(one < other if least else one > other)


def find(
    x: ArrayLike,
    axis: int | Sequence[int],
    keepdims: bool,
    select_last_index: bool,
    index_dtype: DTypeLike | None,
    least: bool,
) -> np.ndarray[Any, Any]:
    """Return the index of the greatest or least element, row-major over the axes."""
    x = np.asarray(x)
    named = [axis] if isinstance(axis, int) else axis
    axes = sorted(one % x.ndim for one in named)
    shape = [1 if d in axes else size for d, size in enumerate(x.shape)]
    indices = np.empty(shape, np.uint32 if index_dtype is None else index_dtype)
    for place in np.ndindex(*shape):
        best, chosen = None, 0
        for index, along in enumerate(itertools.product(*(range(x.shape[d]) for d in axes))):
            at = list(place)
            for d, i in zip(axes, along, strict=True):
                at[d] = i
            element = x[tuple(at)].item()
            equal = best is not None and not _exceeds(best, element, least)
            if best is None or _exceeds(element, best, least) or (equal and select_last_index):
                best, chosen = element, index
        indices[place] = chosen
    return indices if keepdims else indices.squeeze(tuple(axes))

"""Define ``argmax`` and ``argmin``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike


def _precedes(one: Any, other: Any, least: bool) -> bool:
    """Tell whether ``one`` is chosen before ``other`` because of its value: NaNs are chosen before all numbers."""
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and not math.isnan(other)
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
    axes = tuple(sorted(one % x.ndim for one in named))
    others = tuple(d for d in range(x.ndim) if d not in axes)
    sequences = x.transpose(*others, *axes).reshape(*(x.shape[d] for d in others), math.prod(x.shape[d] for d in axes))
    indices = np.empty(sequences.shape[:-1], np.int32 if index_dtype is None else index_dtype)
    for place in np.ndindex(indices.shape):
        elements = sequences[place].tolist()
        best = 0
        for index, element in enumerate(elements):
            if select_last_index:
                chosen = not _precedes(elements[best], element, least)
            else:
                chosen = _precedes(element, elements[best], least)
            if chosen:
                best = index
        indices[place] = best
    return np.expand_dims(indices, axes) if keepdims else indices

"""Hold the worked examples of the source pages."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxdml._selfcheck.data import (
    Answers,
    Arguments,
    Array,
)


@dataclass(frozen=True)
class Example:
    """A worked example of a source page: the call, and the answers printed there."""

    operator: str
    arguments: Arguments
    options: Mapping[str, Any]
    expected: Answers


_TEN = np.array([[[[0, 1, 10, 11], [3, 2, 9, 8], [4, 5, 6, 7]]]], np.float32)
_TIES = np.array([[[[1, 2, 2, 3], [3, 4, 5, 5], [6, 6, 6, 6]]]], np.float32)


def _selected(values: list[list[int]], indices: list[list[int]]) -> Answers:
    return np.array([[values]], np.float32), np.array([[indices]], np.uint32)


def _zeros(dtype: type, *shape: int) -> Array:
    return np.zeros(shape, dtype)


EXAMPLES = (
    Example("top_k", (_TEN,), {"k": 2, "axis": 3}, _selected([[11, 10], [9, 8], [7, 6]], [[3, 2], [2, 3], [3, 2]])),
    Example(
        "top_k", (_TEN,), {"k": 2, "axis": 2}, _selected([[4, 5, 10, 11], [3, 2, 9, 8]], [[2, 2, 0, 0], [1, 1, 1, 1]])
    ),
    Example(
        "top_k",
        (_TIES,),
        {"k": 3, "axis": 3},
        _selected([[3, 2, 2], [5, 5, 4], [6, 6, 6]], [[3, 1, 2], [2, 3, 1], [0, 1, 2]]),
    ),
    Example(
        "top_k",
        (_TIES,),
        {"k": 3, "axis": 3, "direction": "increasing"},
        _selected([[1, 2, 2], [3, 4, 5], [6, 6, 6]], [[0, 1, 2]] * 3),
    ),
    Example(
        "scatter_nd",
        (
            np.arange(1, 9, dtype=np.float32),
            np.array([[4], [3], [1], [7]], np.int32),
            np.arange(9, 13, dtype=np.float32),
        ),
        {},
        (np.array([1, 11, 3, 10, 9, 6, 7, 12], np.float32),),
    ),
    Example(
        "scatter_elements",
        (np.arange(5, dtype=np.float32), np.array([3, 1, 3, 0], np.uint32), np.arange(5, 9, dtype=np.float32)),
        # The page writes one place twice, and prints what the last write leaves.
        {"axis": 0, "duplicates": "last"},
        (np.array([8, 6, 2, 7, 4], np.float32),),
    ),
    # These two give shapes only; of zeros, the answer is zeros.
    Example(
        "scatter_nd",
        (_zeros(np.float32, 3, 4, 5, 6, 7), _zeros(np.uint32, 1, 2, 3), _zeros(np.float32, 1, 2, 6, 7)),
        {},
        (_zeros(np.float32, 3, 4, 5, 6, 7),),
    ),
    Example(
        "quantized_linear_matrix_multiply",
        (
            *(_zeros(np.uint8, 2, 3, 4, 5), np.ones((1, 1, 4, 1), np.float32), _zeros(np.uint8, 1, 1, 4, 1)),
            *(_zeros(np.int8, 2, 3, 5, 6), np.ones((1, 1, 1, 6), np.float32), _zeros(np.int8, 1, 1, 1, 6)),
            *(np.ones((1, 1, 1, 1), np.float32), _zeros(np.uint8, 1, 1, 1, 1)),
        ),
        {},
        (_zeros(np.uint8, 2, 3, 4, 6),),
    ),
)

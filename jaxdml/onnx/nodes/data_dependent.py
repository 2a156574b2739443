"""Operators whose results have shapes that depend on values, so these must be known while JAX traces."""

from typing import Any

import numpy as np

from jaxdml.onnx.nodes._handler import FIRST, Handler, NodeCall, Table
from jaxdml.onnx.nodes._sizes import axis_of, refusal
from jaxdml.onnx.nodes._suppression import best_apart
from jaxdml.onnx.nodes.indexing import gather


def _non_zero(call: NodeCall, x: np.ndarray) -> np.ndarray:
    # A scalar has no indices, but is counted.
    return np.array(np.nonzero(np.atleast_1d(x)), np.int64)[: x.ndim]


def _compress(call: NodeCall, x: Any, condition: np.ndarray, *, axis: int | None = None) -> Any:
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis_of(axis, x.ndim))
    if condition.size > x.shape[axis]:
        raise refusal(f"{condition.size} conditions are given for {x.shape[axis]} elements.")
    return gather(call, x, np.flatnonzero(condition), axis=axis)


def _unique(call: NodeCall, x: np.ndarray, *, axis: int | None = None, sorted: int = 1) -> tuple[np.ndarray, ...]:
    values, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        values, first, counts = np.take(values, order, axis or 0), first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return values, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


def _non_max_suppression(
    call: NodeCall,
    boxes: np.ndarray,
    scores: np.ndarray,
    max_output_boxes_per_class: np.ndarray | None = None,
    iou_threshold: np.ndarray | None = None,
    score_threshold: np.ndarray | None = None,
    *,
    center_point_box: int = 0,
) -> np.ndarray:
    most = 0 if max_output_boxes_per_class is None else int(max_output_boxes_per_class.reshape(()))
    overlap = np.float32(0) if iou_threshold is None else iou_threshold.reshape(())
    least = None if score_threshold is None else score_threshold.reshape(())
    first, second = boxes[..., :2], boxes[..., 2:]
    if center_point_box:
        first, second = first - second / 2, first + second / 2
    low, high = np.minimum(first, second), np.maximum(first, second)
    rows = [
        (batch, kind, box)
        for batch, kind in np.ndindex(scores.shape[:2])
        for box in _kept(low[batch], high[batch], scores[batch, kind], most, overlap, least)
    ]
    return np.array(rows, np.int64).reshape(-1, 3)


def _kept(low: np.ndarray, high: np.ndarray, scores: np.ndarray, most: int, overlap: Any, least: Any) -> list[int]:
    """Return the boxes of one class that no better one overlaps too much, the best first."""
    # The lower of equal scores first.
    order = np.argsort(-scores, kind="stable")
    order = order if least is None else order[scores[order] > least]
    kept: list[int] = order[best_apart(low[order], high[order], most, overlap)].tolist()
    return kept


TABLE: Table = {
    "NonZero": (Handler(9, _non_zero, static=(0,), host=True),),
    "Compress": (Handler(9, _compress, static=(1,), host=True, moves=FIRST),),
    "Unique": (Handler(11, _unique, static=(0,), host=True),),
    "NonMaxSuppression": (Handler(10, _non_max_suppression, static=(-1,), host=True),),
}

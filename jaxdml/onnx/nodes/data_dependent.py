"""Operators whose results have shapes that depend on values, so these must be known while JAX traces."""

from typing import Any

import numpy as np

from jaxdml.onnx.nodes._handler import FIRST, Handler, NodeCall, Table
from jaxdml.onnx.nodes._sizes import axis_of, refusal
from jaxdml.onnx.nodes._suppression import best_of_classes, boxes_of
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
    overlap = 0.0 if iou_threshold is None else iou_threshold.item()
    if not 0 <= overlap <= 1:
        raise refusal(f"iou_threshold must be from 0 to 1; got {overlap:g}.")
    least = None if score_threshold is None else score_threshold.item()
    first, second = boxes[..., :2], boxes[..., 2:]
    if center_point_box:
        first, second = first - second / 2, first + second / 2
    low, high = np.minimum(first, second), np.maximum(first, second)
    found = [
        best_of_classes(boxes_of(low_of, high_of, overlap), scores_of, most, least)
        for low_of, high_of, scores_of in zip(low, high, scores, strict=True)
    ]
    counts = [len(each) for of in found for each in of]
    kinds = np.array(list(np.ndindex(scores.shape[:2])), np.int64).reshape(-1, 2)
    places = np.concatenate([np.zeros(0, np.int64), *(each for of in found for each in of)])
    return np.column_stack([np.repeat(kinds, counts, axis=0), places])


TABLE: Table = {
    "NonZero": (Handler(9, _non_zero, static="x", host=True),),
    "Compress": (Handler(9, _compress, static="condition", host=True, moves=FIRST),),
    "Unique": (Handler(11, _unique, static="x", host=True),),
    "NonMaxSuppression": (Handler(10, _non_max_suppression, static="*", host=True),),
}

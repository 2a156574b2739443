"""Suppression on the host keeps the boxes that comparing each with each does."""

import numpy as np
import pytest
from onnx import helper

from jaxdml.onnx import backend
from jaxdml.onnx.nodes import _suppression
from jaxdml.onnx.nodes._suppression import best_apart, best_of_classes, boxes_of

ODD = np.float32([np.nan, np.inf, -np.inf, 3.4e38])


def one_by_one(low, high, most, overlap):
    areas = np.prod(high - low, axis=-1)
    left, kept = list(range(len(low))), []
    while left and len(kept) < most:
        best = left.pop(0)
        kept.append(best)
        sides = np.maximum(np.minimum(high[best], high[left]) - np.maximum(low[best], low[left]), 0)
        shared = np.prod(sides, axis=-1)
        fraction = shared / (areas[best] + areas[left] - shared)
        covered = (areas[best] > 0) & (areas[left] > 0) & (fraction > overlap)
        left = [place for place, gone in zip(left, covered, strict=True) if not gone]
    return kept


def boxes(rng, kind, count):
    """Return boxes on a grid, where sides meet; scattered ones, far apart or not; and such with odd corners."""
    if kind == "grid":
        low = rng.integers(0, 8, (count, 2)).astype(np.float32)
        return low, low + rng.integers(0, 4, (count, 2)).astype(np.float32)
    low = (rng.random((count, 2)) * rng.choice([2, 10, 100])).astype(np.float32)
    high = low + rng.random((count, 2)).astype(np.float32) * 3
    if kind == "odd" and count:
        low[rng.integers(0, count)], high[rng.integers(0, count)] = rng.choice(ODD), rng.choice(ODD)
    return low, high


@pytest.mark.parametrize("kind", ["grid", "scattered", "odd"])
def test_the_same_boxes_are_kept_as_one_by_one(kind, monkeypatch):
    rng = np.random.default_rng(0)
    for _ in range(200):
        for name, most in {"BLOCK": 20, "MANY_PAIRS": 2000, "DENSE": 30}.items():
            monkeypatch.setattr(_suppression, name, int(rng.integers(1, most)))
        count = int(rng.integers(0, 60))
        low, high = boxes(rng, kind, count)
        most, overlap = int(rng.choice([1, 3, 1000])), np.float32(rng.choice([0, 0.1, 0.5, 1])).item()
        lists = [rng.permutation(count)[: rng.integers(0, count + 1)] for _ in range(3)]
        padded = np.full((3, count), count)
        for row, own in zip(padded, lists, strict=True):
            row[: len(own)] = own
        for own, found in zip(lists, best_apart(boxes_of(low, high, overlap), padded, most), strict=True):
            with np.errstate(all="ignore"):
                wanted = own[one_by_one(low[own], high[own], most, overlap)]
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("least", [None, np.float32(0.3).item(), -np.inf])
def test_classes_are_sorted_as_far_as_needed(least, monkeypatch):
    """Few scores differ, so that ties are cut; some are NaN, which no number is less than."""
    rng = np.random.default_rng(1)
    for _ in range(100):
        monkeypatch.setattr(_suppression, "SAMPLE", int(rng.integers(1, 30)))
        monkeypatch.setattr(_suppression, "DENSE", int(rng.integers(1, 9)))
        count, most = int(rng.integers(0, 300)), int(rng.choice([0, 1, 3, 30, 1000]))
        low, high = boxes(rng, "grid", count)
        scores = rng.choice(np.float32([0, 0.1, 0.5, 0.3, 1, -np.inf, np.inf, np.nan]), (3, count))
        scores[0] = 0
        found = best_of_classes(boxes_of(low, high, 0.2), scores, most, least)
        for own, places in zip(scores, found, strict=True):
            order = np.argsort(-own, kind="stable")
            order = order if least is None else order[own[order] > least]
            with np.errstate(all="ignore"):
                wanted = order[one_by_one(low[order], high[order], most, 0.2)]
            np.testing.assert_array_equal(places, wanted)


def test_more_boxes_are_sorted_where_the_best_ones_are_one():
    """The best 1,990 boxes are the same, so all that is sorted at first keeps one, which strikes off the others."""
    low = np.zeros((2000, 2), np.float32)
    low[1990:] += np.arange(1, 11, dtype=np.float32)[:, None]
    scores = np.linspace(1, 0, 2000, dtype=np.float32)[None]
    (found,) = best_of_classes(boxes_of(low, low + 1, 0.5), scores, 4, None)
    assert found.tolist() == [0, 1990, 1991, 1992]


@pytest.mark.parametrize("threshold", [-0.1, 1.5, np.nan])
def test_a_threshold_is_a_fraction(threshold):
    given = [np.zeros((1, 2, 4), np.float32), np.zeros((1, 1, 2), np.float32), np.int64(1), np.float32(threshold)]
    node = helper.make_node("NonMaxSuppression", ["b", "s", "m", "t"], ["y"])
    with pytest.raises(ValueError, match=f"iou_threshold must be from 0 to 1; got {threshold}"):
        backend.run_node(node, given)

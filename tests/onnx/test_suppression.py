"""Suppression on the host keeps the boxes that comparing each with each does."""

import numpy as np
import pytest

from jaxdml.onnx.nodes import _suppression
from jaxdml.onnx.nodes._suppression import best_apart

ODD = np.float32([np.nan, np.inf, -np.inf, 3.4e38])


def one_by_one(low, high, most, overlap):
    areas = np.prod(high - low, axis=-1)
    left, kept = list(range(len(low))), []
    while left and len(kept) < most:
        best = left.pop(0)
        kept.append(best)
        sides = np.maximum(np.minimum(high[best], high[left]) - np.maximum(low[best], low[left]), 0)
        shared = np.prod(sides, axis=-1)
        part = shared / (areas[best] + areas[left] - shared)
        covered = (areas[best] > 0) & (areas[left] > 0) & (part > overlap)
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
        monkeypatch.setattr(_suppression, "CHUNK", int(rng.integers(1, 40)))
        low, high = boxes(rng, kind, int(rng.integers(0, 60)))
        most, overlap = int(rng.choice([0, 1, 3, 1000])), np.float32(rng.choice([-1, 0, 0.1, 0.5, 1]))
        with np.errstate(all="ignore"):
            found, wanted = best_apart(low, high, most, overlap), one_by_one(low, high, most, overlap)
        np.testing.assert_array_equal(found, wanted)

"""Boxes that no better one overlaps too much, on the host."""

from collections.abc import Iterator

import numpy as np

CHUNK = 256
"""So many boxes are compared with one another at once."""


def best_apart(low: np.ndarray, high: np.ndarray, most: int, overlap: np.floating) -> np.ndarray:
    """Return the places of the boxes that no better one overlaps too much, in their order, at most so many.

    Boxes that lie apart are not compared: detectors move those of each class to a place of its own.

    Args:
      low: the lower corners, the best box first.
      high: the upper corners.
      most: how many.
      overlap: how much of what two cover both may cover.
    """
    finite = bool(np.isfinite(low).all() and np.isfinite(high).all())
    groups = _apart(low, high) if finite and overlap >= 0 else iter([np.arange(len(low))])
    kept = [places[_kept(low[places], high[places], most, overlap)] for places in groups]
    return np.sort(np.concatenate([np.zeros(0, np.int64), *kept]))[: max(most, 0)]


def _apart(low: np.ndarray, high: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the places of boxes in groups that do not touch, each in order."""
    for columns in _intervals(low[:, 0], high[:, 0]):
        for places in _intervals(low[columns, 1], high[columns, 1]):
            yield columns[places]


def _intervals(low: np.ndarray, high: np.ndarray) -> list[np.ndarray]:
    """Return the places of intervals in groups that have at most their ends in common, each in order."""
    order = np.argsort(low, kind="stable")
    starts = np.flatnonzero(low[order[1:]] >= np.maximum.accumulate(high[order])[:-1]) + 1
    return [np.sort(places) for places in np.split(order, starts)]


def _kept(low: np.ndarray, high: np.ndarray, most: int, overlap: np.floating) -> list[int]:
    """Return the places of the boxes of one group that stay."""
    areas = np.prod(high - low, axis=-1)
    kept: list[int] = []
    for start in range(0, len(low), CHUNK):
        places = np.arange(start, min(start + CHUNK, len(low)))
        places = places[~_covers(low, high, areas, kept, places, overlap).any(0)]
        covers = _covers(low, high, areas, places, places, overlap)
        left = np.ones(len(places), bool)
        for i, place in enumerate(places.tolist()):
            if len(kept) >= most:
                return kept
            if left[i]:
                kept.append(place)
                left &= ~covers[i]
    return kept


def _covers(
    low: np.ndarray, high: np.ndarray, areas: np.ndarray, a: np.ndarray | list[int], b: np.ndarray, overlap: np.floating
) -> np.ndarray:
    """Return for each pair of boxes whether they overlap too much."""
    sides = [np.minimum.outer(high[a, d], high[b, d]) - np.maximum.outer(low[a, d], low[b, d]) for d in (0, 1)]
    shared = np.maximum(sides[0], 0) * np.maximum(sides[1], 0)
    # A box without an area overlaps none.
    areal = np.logical_and.outer(areas[a] > 0, areas[b] > 0)
    found: np.ndarray = areal & (shared / (np.add.outer(areas[a], areas[b]) - shared) > overlap)
    return found

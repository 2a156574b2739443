"""Boxes that no better one overlaps too much, on the host."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

BLOCK = 128
"""At most so many boxes are compared with one another first, then twice as many each time."""

STRIP = 64
"""So many neighbouring boxes are compared with all that begin before they end."""

SAMPLE = 512
"""Of about so many scores is guessed which ones are good enough."""


class Boxes(NamedTuple):
    """Boxes, and how much two may overlap.

    Attributes:
      low: the lower ends in both dimensions, ``[2, n]``.
      high: the upper ends.
      areas: NaN for a box without an area, which overlaps none.
      overlap: the area of what two share over that of what both cover must not exceed this.
      prunable: whether boxes that lie apart do not overlap too much, for all that can be said of their ends.
    """

    low: np.ndarray
    high: np.ndarray
    areas: np.ndarray
    overlap: np.floating
    prunable: bool


def boxes_of(low: np.ndarray, high: np.ndarray, overlap: np.floating) -> Boxes:
    """Return boxes of their corners ``[n, 2]``."""
    low, high = (np.ascontiguousarray(corners.T) for corners in (low, high))
    with np.errstate(all="ignore"):
        areas = (high[0] - low[0]) * (high[1] - low[1])
    finite = bool(np.isfinite(low).all() and np.isfinite(high).all())
    return Boxes(low, high, np.where(areas > 0, areas, np.nan), overlap, finite and bool(overlap >= 0))


def best_of_classes(boxes: Boxes, scores: np.ndarray, most: int, least: np.floating | None) -> list[np.ndarray]:
    """Return for each class the boxes that no better one overlaps too much, the best first.

    The lower of equal scores goes first, and NaN last. Most classes need few boxes, so the best few are tried before
    more are sorted.

    Args:
      boxes: those of all classes.
      scores: ``[classes, n]``.
      most: how many for each class.
      least: what scores must exceed; or None.
    """
    found = [np.zeros(0, np.int64)] * len(scores)
    open_classes, wanted = np.arange(len(scores) if most > 0 else 0), most + most // 2 + 32
    while len(open_classes):
        keys = -scores[open_classes]
        counts = np.full(len(keys), keys.shape[1]) if least is None else (keys < -least).sum(1)
        chosen = _first(keys, wanted) if least is None else _first(keys, wanted) & (keys < -least)
        _, places = np.nonzero(chosen)
        ends = np.cumsum(chosen.sum(1))
        unfinished = []
        for row, (kind, some) in enumerate(zip(open_classes.tolist(), np.split(places, ends[:-1]), strict=True)):
            order = some[np.argsort(keys[row, some], kind="stable")]
            found[kind] = best_apart(boxes, order, most)
            if len(found[kind]) < most and len(some) < counts[row]:
                unfinished.append(kind)
        open_classes, wanted = np.array(unfinished, np.int64), wanted * 4
    return found


def _first(keys: np.ndarray, wanted: int) -> np.ndarray:
    """Return which keys of each row are among the smallest, about so many; with one, all that are not greater."""
    step = keys.shape[1] // SAMPLE
    if not step or 2 * wanted > keys.shape[1]:
        return np.ones(keys.shape, bool)
    sample = np.sort(keys[:, ::step])
    limits = sample[:, min(wanted // step + 2, sample.shape[1] - 1), None]
    first: np.ndarray = ~(keys > limits)  # A NaN is the greatest, and greater than no number.
    return first


def best_apart(boxes: Boxes, order: np.ndarray, most: int) -> np.ndarray:
    """Return those that no earlier one overlaps too much, in their order, at most so many."""
    left, size = order, min(BLOCK, most + most // 4 + 8)
    kept, count = [order[:0]], 0
    with np.errstate(all="ignore"):
        while len(left) and count < most:
            block, left = left[:size], left[size:]
            block = block[_greedy(boxes, block)]
            kept.append(block)
            count, size = count + len(block), 2 * size
            if len(left) and count < most:
                gone = np.zeros(len(left), bool)
                for _, of_left, covers in _compared(boxes, block, left):
                    gone[of_left] |= covers.any(0)
                left = left[~gone]
    return np.concatenate(kept)[:most]


def _greedy(boxes: Boxes, block: np.ndarray) -> np.ndarray:
    """Return which boxes of a block no better one that stays overlaps too much."""
    stays = np.ones(len(block), bool)
    pairs = []
    for better, worse, covers in _compared(boxes, block, block):
        i, j = np.divmod(np.flatnonzero(covers), max(len(worse), 1))
        pairs.append((better[i], worse[j]))
    better, worse = (np.concatenate(part) for part in zip(*pairs, strict=True))
    later = np.flatnonzero(better < worse)
    if not len(later):
        return stays
    later = later[np.argsort(better[later], kind="stable")]
    better, worse = better[later], worse[later]
    starts = [0, *(np.flatnonzero(better[1:] != better[:-1]) + 1).tolist()]
    for first, start, end in zip(better[starts].tolist(), starts, [*starts[1:], len(better)], strict=True):
        if stays[first]:
            stays[worse[start:end]] = False
    return stays


def _compared(boxes: Boxes, a: np.ndarray, b: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield places in two lists of boxes, and for each pair of them whether the boxes overlap too much.

    No other pair does: where there are many, boxes that lie apart in the first dimension are not compared.
    """
    in_a, in_b = np.arange(len(a)), np.arange(len(b))
    if len(a) <= 2 * STRIP:
        yield in_a, in_b, _covers(boxes, a, b)
        return
    low, high = boxes.low[0], boxes.high[0]
    if boxes.prunable:
        in_a, in_b = (np.argsort(low[of], kind="stable") for of in (a, b))
        begins, reach = low[b[in_b]], np.maximum.accumulate(high[b[in_b]])
    for start in range(0, len(a), STRIP):
        strip, part = in_a[start : start + STRIP], in_b
        if boxes.prunable:
            first = np.searchsorted(reach, low[a[strip[0]]], "right")
            part = in_b[first : np.searchsorted(begins, high[a[strip]].max())]
        yield strip, part, _covers(boxes, a[strip], b[part])


def _covers(boxes: Boxes, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return for each pair of boxes whether they overlap too much."""
    shared, other = (
        np.minimum.outer(high[a], high[b]) - np.maximum.outer(low[a], low[b])
        for low, high in zip(boxes.low, boxes.high, strict=True)
    )
    np.maximum(shared, 0, out=shared)
    np.maximum(other, 0, out=other)
    shared *= other
    both = np.add.outer(boxes.areas[a], boxes.areas[b])
    both -= shared
    shared /= both
    found: np.ndarray = shared > boxes.overlap
    return found

"""Boxes that no better one overlaps too much, on the host: all classes at once, some boxes of each at a time."""

from typing import NamedTuple

import numpy as np

BLOCK = 16
"""So many boxes of each class are compared at first, then twice as many each time up to ``MANY_PAIRS``."""

MANY_PAIRS = 2**18
"""So many pairs of boxes are compared at once, and fit into a cache."""

SAMPLE = 512
"""Of about so many scores is guessed which ones are good enough."""

DENSE = 8
"""If one of so many pairs of boxes touch, all pairs are looked at: to pick them would take longer. If only one of so
many boxes is kept, these strike off others before they are sorted."""


class Boxes(NamedTuple):
    """Boxes, one more than there are, which touches none and fills lists up.

    Attributes:
      low: the lower ends in both dimensions, ``[2, n + 1]``.
      high: the upper ends.
      areas: NaN for a box without an area, which overlaps none.
      overlap: the area that two share over the one that both cover must not exceed this; 0 to 1.
    """

    low: np.ndarray
    high: np.ndarray
    areas: np.ndarray
    overlap: float


def boxes_of(low: np.ndarray, high: np.ndarray, overlap: float) -> Boxes:
    """Return boxes of their corners ``[n, 2]``."""
    low, high = (np.append(ends.T, np.full((2, 1), np.nan, ends.dtype), axis=1) for ends in (low, high))
    with np.errstate(all="ignore"):
        areas = (high[0] - low[0]) * (high[1] - low[1])
        return Boxes(low, high, np.where(areas > 0, areas, np.nan), overlap)


def best_of_classes(boxes: Boxes, scores: np.ndarray, most: int, least: float | None) -> list[np.ndarray]:
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
    if most <= 0:
        return found
    kinds, keys = np.arange(len(scores)), -scores
    allowed = np.ones(keys.shape, bool) if least is None else keys < -least
    wanted = min(most + most // 2, scores.shape[1] // 8) + 32
    while len(kinds):
        lists = _sorted(keys[kinds], allowed[kinds] & _first(keys[kinds], wanted), 2 * wanted)
        tried = np.count_nonzero(lists < scores.shape[1], axis=1)
        unfinished = []
        for row, kept in enumerate(best_apart(boxes, lists, most)):
            kind = int(kinds[row])
            found[kind] = kept
            if len(kept) < most and tried[row] < np.count_nonzero(allowed[kind]):
                unfinished.append(kind)
                if len(kept) * DENSE < tried[row]:
                    allowed[kind] &= ~_covered(boxes, kept[:DENSE])
        kinds, wanted = np.array(unfinished, np.int64), wanted * 8
    return found


def _covered(boxes: Boxes, kept: np.ndarray) -> np.ndarray:
    """Return which of all boxes those kept overlap too much, but themselves."""
    covered = np.zeros(boxes.areas.size - 1, bool)
    covered[_overlapping(boxes, np.arange(covered.size)[None], kept[None])[1]] = True
    covered[kept] = False
    return covered


def _first(keys: np.ndarray, wanted: int) -> np.ndarray:
    """Return which keys of each row are among the smallest, about so many; with one, all that are not greater."""
    step = keys.shape[1] // SAMPLE
    if not step or 2 * wanted > keys.shape[1]:
        return np.ones(keys.shape, bool)
    sample = np.sort(keys[:, ::step])
    limits = sample[:, min(wanted // step + 2, sample.shape[1] - 1), None]
    first: np.ndarray = ~(keys > limits)  # A NaN is the greatest, and greater than no number.
    return first


def _sorted(keys: np.ndarray, chosen: np.ndarray, longest: int) -> np.ndarray:
    """Return for each row the places that are chosen, the smallest key first, filled up with the number of keys.

    At most ``longest`` of them: many keys may be equal.
    """
    places = [np.flatnonzero(row) for row in chosen]
    lists = [own[np.argsort(key[own], kind="stable")[:longest]] for key, own in zip(keys, places, strict=True)]
    result = np.full((len(keys), max(map(len, lists), default=0)), keys.shape[1])
    for row, own in zip(result, lists, strict=True):
        row[: len(own)] = own
    return result


def best_apart(boxes: Boxes, lists: np.ndarray, most: int) -> list[np.ndarray]:
    """Return for each list of boxes those that no earlier one overlaps too much, at most so many.

    Args:
      boxes: the boxes.
      lists: ``[classes, length]``, the best first, filled up with the number of boxes.
      most: how many of each list.
    """
    nothing = boxes.areas.size - 1
    kept = np.full((len(lists), 0), nothing)
    counts = np.zeros(len(lists), np.int64)
    rows, start, size = np.arange(len(lists)), 0, BLOCK
    while len(rows) and start < lists.shape[1]:
        block = lists[rows, start : start + size]
        block = _dropped(boxes, block, kept[rows, : counts[rows].max()])
        _drop_within(boxes, block)
        stays = block != nothing
        at, column = stays.nonzero()
        places = counts[rows[at]] + stays.cumsum(1)[at, column] - 1
        counts[rows] += np.count_nonzero(stays, axis=1)
        kept = np.pad(kept, [(0, 0), (0, max(counts.max() - kept.shape[1], 0))], constant_values=nothing)
        kept[rows[at], places] = block[at, column]
        start += size
        rows = rows[counts[rows] < most]
        size = 2 * size if len(rows) * size * (counts.max() + size) < MANY_PAIRS else size
    return [own[: min(count, most)] for own, count in zip(kept, counts.tolist(), strict=True)]


def _dropped(boxes: Boxes, block: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return the boxes of a block that those kept do not overlap too much, in their order, filled up at the end."""
    nothing = boxes.areas.size - 1
    row, column, _ = _overlapping(boxes, block, kept)
    block[row, column] = nothing
    gone = block == nothing
    order = np.argsort(gone, axis=1, kind="stable")[:, : np.count_nonzero(~gone, axis=1).max()]
    return np.take_along_axis(block, order, axis=1)


def _drop_within(boxes: Boxes, block: np.ndarray) -> None:
    """Write "nothing" over boxes of a block that an earlier one that stays overlaps too much."""
    row, better, worse = _overlapping(boxes, block, block)
    later = better < worse
    stays = bytearray(b"\1") * block.size
    first, second = (((row * block.shape[1]) + of)[later].tolist() for of in (better, worse))
    for one, other in zip(first, second, strict=True):  # In the order of the better ones.
        if stays[one]:
            stays[other] = 0
    block[np.frombuffer(stays, bool).reshape(block.shape) == 0] = boxes.areas.size - 1


def _overlapping(boxes: Boxes, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return which boxes of ``a`` overlap which of ``b`` too much: rows, columns of ``a`` and columns of ``b``."""
    a, b = a[:, :, None], b[:, None, :]
    (left, low), (right, high) = boxes.low, boxes.high
    touch = (left[a] < right[b]) & (left[b] < right[a])
    touch &= low[a] < high[b]
    touch &= low[b] < high[a]
    pairs = np.flatnonzero(touch)
    if len(pairs) * DENSE > touch.size:
        pairs = np.flatnonzero(_covers(boxes, a, b))
        return np.unravel_index(pairs, touch.shape)
    rows, of_a, of_b = np.unravel_index(pairs, touch.shape)
    covers = _covers(boxes, a[rows, of_a, 0], b[rows, 0, of_b])
    return rows[covers], of_a[covers], of_b[covers]


def _covers(boxes: Boxes, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return whether boxes overlap too much."""
    with np.errstate(all="ignore"):
        shared, other = (
            np.minimum(high[a], high[b]) - np.maximum(low[a], low[b])
            for low, high in zip(boxes.low, boxes.high, strict=True)
        )
        shared = np.maximum(shared, 0) * np.maximum(other, 0)
        found: np.ndarray = shared / (boxes.areas[a] + boxes.areas[b] - shared) > boxes.overlap
        return found

"""What nodes of trees compare, as one comparison of integers for all."""

from typing import Any, NamedTuple

import numpy as np

LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF = range(8)
"""What nodes do, as TreeEnsemble numbers it; LEAF is ours."""


class Nodes(NamedTuple):
    """The nodes of an ensemble, each an entry of every array.

    Attributes:
      mode: LEQ and so on.
      feature: which feature is compared.
      split: what it is compared with.
      missing: whether NaN goes where a comparison that is true does.
      true: the node that follows if the comparison is true.
      false: the node that follows if it is not.
    """

    mode: np.ndarray
    feature: np.ndarray
    split: np.ndarray
    missing: np.ndarray
    true: np.ndarray
    false: np.ndarray


class Compared(NamedTuple):
    """Nodes that all go to the right if a key is greater than a bound, and whether NaN goes to the left."""

    feature: np.ndarray
    bound: np.ndarray
    left: np.ndarray
    right: np.ndarray
    to_left: np.ndarray


def keys(x: np.ndarray, integer: Any) -> np.ndarray:
    """Return integers in the order of floats; 0 and -0 are one, those of NaN mean nothing."""
    bits = x.view(integer)
    return np.where(bits < 0, -(bits & np.iinfo(integer).max), bits)


def compared(given: Nodes, dtype: Any, integer: Any) -> Compared:
    """Write every comparison as one of the key with a bound; what asks for equality becomes two nodes."""
    limits = np.iinfo(integer)
    at_most, at_least = (keys(each, integer) for each in _around(given.split, dtype))
    unknown = np.isnan(given.split)
    mode, true, false, missing = given.mode, given.true, given.false, given.missing
    strict = (mode == LT) | (mode == GTE)
    swapped = (mode == GTE) | (mode == GT)
    bound = np.where(strict, at_least - 1, at_most)
    bound[unknown] = np.where(swapped, limits.max - 1, limits.min)[unknown]
    left, right = np.where(swapped, false, true), np.where(swapped, true, false)
    to_left = np.where(swapped, ~missing, missing)
    leaf = np.flatnonzero(mode == LEAF)
    left[leaf] = right[leaf] = leaf
    # Equal: not greater than the split, and greater than the number before it. NaN equals nothing, and differs.
    equality = np.flatnonzero((mode == EQ) | (mode == NEQ))
    differs = mode[equality] == NEQ
    if_equal = np.where(differs, false[equality], true[equality])
    otherwise = np.where(differs, true[equality], false[equality])
    second = len(mode) + np.arange(len(equality))
    never = unknown[equality] | (at_most != at_least)[equality]
    bound[equality[never]] = limits.min
    left[equality] = np.where(never, if_equal, second)
    right[equality] = otherwise
    to_left[equality] = missing[equality] & ~differs
    written = Compared(
        np.concatenate([given.feature, given.feature[equality]]),
        np.concatenate([bound, at_most[equality] - 1]),
        np.concatenate([left, otherwise]),
        np.concatenate([right, if_equal]),
        np.concatenate([to_left, np.zeros(len(equality), bool)]),
    )
    possible = np.zeros(len(mode), bool)
    possible[equality] = ~(differs | never)
    return _with_sets(written, given, possible, at_most)


def _with_sets(written: Compared, given: Nodes, possible: np.ndarray, key: np.ndarray) -> Compared:
    """Search sets instead of walking through them.

    Exporters write "is one of" as a chain: nodes that compare one feature for equality, and lead to one node if it is
    true. The first becomes a search; others may lead nowhere then.

    Args:
      written: the nodes as they are written, to which more are added.
      given: what they mean.
      possible: which of them compare with a number that there is.
      key: of the numbers that they compare with.
    """
    after = given.false
    inner = given.mode != LEAF
    times = np.bincount(np.concatenate([given.true[inner], after[inner]]), minlength=len(after))
    alike = (given.feature == given.feature[after]) & (given.true == given.true[after])
    alike &= (given.missing == given.missing[after]) & (times[after] == 1)
    linked = possible & possible[after] & alike
    follows = np.zeros(len(after), bool)
    follows[after[linked]] = True
    rows: list[tuple[int, int, int, int, int, bool]] = []
    size = len(written.bound)
    for head in np.flatnonzero(linked & ~follows).tolist():
        chain = [head]
        while linked[chain[-1]]:
            chain.append(int(after[chain[-1]]))
        rows += _search(head, np.unique(key[chain]), given, int(after[chain[-1]]), size + len(rows))
    if not rows:
        return written
    place, *columns = (np.array(column) for column in zip(*rows, strict=True))
    count = max(size, int(place.max()) + 1)
    return Compared(*(extended(array, count, place, values) for array, values in zip(written, columns, strict=True)))


def extended(array: np.ndarray, count: int, places: np.ndarray, values: Any) -> np.ndarray:
    """Return an array with so many elements, and values at some places."""
    longer = np.concatenate([array, np.zeros(count - len(array), array.dtype)])
    longer[places] = values
    return longer


def _search(
    head: int, members: np.ndarray, given: Nodes, otherwise: int, free: int
) -> list[tuple[int, int, int, int, int, bool]]:
    """Return nodes that find out whether a key is a member: where each stands, and what it has in ``Compared``.

    Args:
      head: where the first stands, which has the feature, the node if it is, and what becomes of NaN.
      members: keys in their order.
      given: what ``head`` means.
      otherwise: the node if it is none.
      free: where further nodes may stand.
    """
    bounds = np.unique(np.concatenate([members - 1, members]))
    # Not greater than the first bound is no member, nor is greater than the last.
    ends = [otherwise, *np.where(np.isin(bounds, members)[1:], given.true[head], otherwise).tolist(), otherwise]
    first = 1 + ends[1:].index(int(given.true[head]))
    rows: list[tuple[int, int, int, int, int, bool]] = []

    def node(low: int, high: int) -> int:
        """Return the node that decides between the ends from ``low`` to ``high``."""
        if low == high:
            return ends[low]
        middle = (low + high) // 2
        place = free + len(rows) - 1 if rows else head
        rows.append((place, 0, 0, 0, 0, False))
        at = len(rows) - 1
        to_left = bool(given.missing[head]) and first <= middle
        below, above = node(low, middle), node(middle + 1, high)
        rows[at] = place, int(given.feature[head]), int(bounds[middle]), below, above, to_left
        return place

    node(0, len(bounds))
    return rows


def _around(split: np.ndarray, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the greatest numbers of a dtype that are not more, and the least that are not less."""
    with np.errstate(over="ignore"):
        nearest = split.astype(dtype)
    below = np.where(nearest > split, np.nextafter(nearest, dtype(-np.inf)), nearest)
    return below, np.where(nearest < split, np.nextafter(nearest, dtype(np.inf)), nearest)

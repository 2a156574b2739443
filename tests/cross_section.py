"""Choose the cases that a run of the whole suite computes where somebody waits for it."""

import os
import zlib
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from tests.kit import THOROUGH

EVERY = 8
"""Of the cases of a parametrized test, at most one of so many is run."""

MOST = 20
"""So many cases of a test are enough: the time of a run is not to grow with the cases that each operator brings."""

ALL = THOROUGH or bool(os.environ.get("CI"))
"""Services for continuous integration set ``CI``: they run all cases, and so does the thorough profile."""

Item = TypeVar("Item")


def cross_section(items: Sequence[Item], names: Sequence[str]) -> tuple[list[Item], list[Item]]:
    """Return the items to run, in their order, and the others. Every test is run, but not with each of its cases.

    Each case stands for those next to it. Which one that is depends on its name and the test's. So of tests with the
    same cases, such as those of many operators, each is run with others.

    Args:
      items: cases of tests.
      names: of each item the name that pytest gives it: that of the test, and of its case in brackets. Items of one
        name are one case: all of them are run, or none.
    """
    tests: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for place, name in enumerate(names):
        tests[name.partition("[")[0]].setdefault(name, []).append(place)
    chosen: set[int] = set()
    for cases in tests.values():
        count = min(MOST, max(1, len(cases) // EVERY))
        for part in np.array_split(list(cases), count):
            chosen.update(cases[part[zlib.crc32(part[0].encode()) % len(part)]])
    return [items[i] for i in sorted(chosen)], [item for i, item in enumerate(items) if i not in chosen]

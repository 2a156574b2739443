"""Choose the cases that a run of the whole suite computes where somebody waits for it."""

import os
import zlib
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

from tests.kit import THOROUGH

EVERY = 3
"""Of the cases of a parametrized test, one of so many is run."""

ALL = THOROUGH or bool(os.environ.get("CI"))
"""Services for continuous integration set ``CI``: they run all cases, and so does the thorough profile."""

Item = TypeVar("Item")


def cross_section(items: Sequence[Item], names: Sequence[str]) -> tuple[list[Item], list[Item]]:
    """Return the items to run, in their order, and the others. Every test is run, but not with each of its cases.

    Which case is the first one depends on the name of the test. So of tests with the same cases, such as those of many
    operators, each is run with others.

    Args:
      items: cases of tests.
      names: of each item the name that pytest gives it: that of the test, and of its case in brackets.
    """
    cases: dict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(names):
        cases[name.partition("[")[0]].append(place)
    chosen = set()
    for test, places in cases.items():
        first = zlib.crc32(test.encode()) % min(EVERY, len(places))
        chosen.update(places[first::EVERY])
    return [items[i] for i in sorted(chosen)], [item for i, item in enumerate(items) if i not in chosen]

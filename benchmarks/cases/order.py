"""Say in which order to measure: what says most comes first."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from benchmarks.cases import Case

_FIRST = (("models", "whole models"), ("grid",), ("accelerators",), ("growth in n",), ("growth in k",))
"""Groups, from what people ask for to what explains it; those of one tuple are mixed."""


def in_order(cases: Sequence[Case]) -> list[Case]:
    """Return the cases group by group; within a group the operators take turns, each with its cases far apart."""
    first = {group for groups in _FIRST for group in groups}
    rest = dict.fromkeys((case.group,) for case in cases if case.group not in first)
    return [case for groups in (*_FIRST, *rest) for case in _in_turn(case for case in cases if case.group in groups)]


def _in_turn(cases: Iterable[Case]) -> Iterator[Case]:
    by_operator: dict[str, list[Case]] = {}
    for case in cases:
        by_operator.setdefault(case.operator, []).append(case)
    spread = [[found[place] for place in _far_apart(len(found))] for found in by_operator.values()]
    return (case for row in zip_longest(*spread) for case in row if case is not None)


def _far_apart(count: int) -> list[int]:
    """Return places such that the first few of them are spread over all: 0, the middle, the quarters, and so on."""
    bits = max(1, (count - 1).bit_length())
    reversed_bits = (int(f"{number:0{bits}b}"[::-1], 2) for number in range(2**bits))
    return [place for place in reversed_bits if place < count]

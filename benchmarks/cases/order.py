"""Say in which order to measure: what says most comes first."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from benchmarks.cases import MODELS, Case

_FIRST = (("models", "whole models"), ("grid",), ("accelerators",), ("growth in n",), ("growth in k",))
"""Groups, from what people ask for to what explains it; those of one tuple are mixed."""


def in_order(cases: Sequence[Case]) -> list[Case]:
    """Return the cases in the order in which they are measured.

    A small one of each operator is first. The others follow group by group; within a group the operators, and whole
    models, take turns, each with its cases far apart.
    """
    first = of_each_operator(cases)
    rest = [case for case in cases if case not in first]
    return [*first, *(case for groups in _groups(cases) for case in _in_turn(rest, groups))]


def of_each_operator(cases: Sequence[Case]) -> list[Case]:
    """Return the smallest case of each operator, of the first group in which it has any."""
    found: dict[str, Case] = {}
    for groups in _groups(cases):
        there = [case for case in cases if case.group in groups and case.operator not in {*MODELS, *found}]
        for case in sorted(there, key=_size):
            found.setdefault(case.operator, case)
    return list(found.values())


def _size(case: Case) -> float:
    """Return about how long a case takes: the larger, the longer."""
    return case.bytes + case.operations / 16


def _groups(cases: Sequence[Case]) -> list[tuple[str, ...]]:
    known = {group for groups in _FIRST for group in groups}
    return [*_FIRST, *dict.fromkeys((case.group,) for case in cases if case.group not in known)]


def _in_turn(cases: Iterable[Case], groups: Sequence[str]) -> Iterator[Case]:
    by_operator: dict[str, list[Case]] = {}
    for case in (case for case in cases if case.group in groups):
        by_operator.setdefault(case.operator, []).append(case)
    # Whole models, which take longest, come last in each turn.
    ordered = sorted(by_operator, key=MODELS.__contains__)
    spread = [[by_operator[name][place] for place in _far_apart(len(by_operator[name]))] for name in ordered]
    return (case for row in zip_longest(*spread) for case in row if case is not None)


def _far_apart(count: int) -> list[int]:
    """Return places such that the first few of them are spread over all: 0, the middle, the quarters, and so on."""
    bits = max(1, (count - 1).bit_length())
    reversed_bits = (int(f"{number:0{bits}b}"[::-1], 2) for number in range(2**bits))
    return [place for place in reversed_bits if place < count]

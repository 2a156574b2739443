"""Parametrize a test by several factors, each pair of whose values occurs; or by all there is."""

import itertools
import os
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
MOST_CASES = 300
"""A full product that is larger is sampled, and every pair of values is added."""

Case = tuple[Any, ...]

long = pytest.mark.long
"""Marks a test that takes seconds and is next to one of the same subject: it is run only where all cases are."""


class OneOf(tuple):
    """Values that take turns as one: what is computed is expected to be the same code for each of them."""

    def __new__(cls, *values: Any) -> "OneOf":
        return super().__new__(cls, values)


def grid(**factors: Sequence[Any]) -> pytest.MarkDecorator:
    """Return the mark that gives a test its cases: the pairwise ones, or under the thorough profile the full product.

    Every case costs a compilation, so factors are for static arguments. Data are drawn, or stacked into one array.
    """
    return pytest.mark.parametrize(tuple(factors), cases(**factors), ids=name)


def cases(**factors: Sequence[Any]) -> list[Case]:
    """Return the cases of a grid, for a test that has several."""
    return thorough(factors) if THOROUGH else pairwise(factors)


def name(value: Any) -> str:
    """Name a value in a test's name, which must be the same in every process."""
    if isinstance(value, tuple):
        return f"({', '.join(map(name, value))})"
    return getattr(value, "__name__", None) or str(value)


def thorough(factors: dict[str, Sequence[Any]]) -> list[Case]:
    """Return the full product of the factors, or a sample of it that has every pair."""
    single = {name: _each(values) for name, values in factors.items()}
    if np.prod([len(values) for values in single.values()], dtype=float) <= MOST_CASES:
        return list(itertools.product(*single.values()))
    drawn = random.Random(0)
    return pairwise(single) + [tuple(map(drawn.choice, single.values())) for _ in range(MOST_CASES)]


def _each(values: Sequence[Any]) -> list[Any]:
    return [one for value in values for one in (value if isinstance(value, OneOf) else [value])]


def pairwise(factors: dict[str, Sequence[Any]]) -> list[Case]:
    """Return few cases in which every pair of values of any two factors occurs; the same cases in every process.

    Each case begins with a pair that is missing. Every other factor takes the value that adds the most missing pairs,
    and of several such values the one that was taken least often.
    """
    factors = {name: list(values) for name, values in factors.items()}
    places = [[(factor, place) for place in range(len(values))] for factor, values in enumerate(factors.values())]
    missing = dict.fromkeys(pair for two in itertools.combinations(places, 2) for pair in itertools.product(*two))
    missing = missing or dict.fromkeys((place,) for place in places[0])
    uses: Counter[tuple[int, int]] = Counter()
    cases = []
    while missing:
        case = list(next(iter(missing)))
        for factor, candidates in enumerate(places):
            if all(factor != taken for taken, _ in case):
                case.append(max(candidates, key=partial(_merit, case=case, missing=missing, uses=uses)))
        case.sort()
        for pair in [*itertools.combinations(case, 2), *((place,) for place in case)]:
            missing.pop(pair, None)
        uses.update(case)
        cases.append(case)
    return _with_values(cases, list(factors.values()))


def _merit(place, case, missing, uses) -> tuple[int, int]:
    return sum((min(place, other), max(place, other)) in missing for other in case), -uses[place]


def _with_values(cases, values) -> list[Case]:
    drawn = random.Random(0)
    turns: defaultdict[tuple[int, int], list[Any]] = defaultdict(list)

    def value(factor: int, place: int) -> Any:
        of = values[factor][place]
        if not isinstance(of, OneOf):
            return of
        # Each takes its turn, in an order that goes along with no other factor's.
        queue = turns[factor, place]
        if not queue:
            queue.extend(drawn.sample(of, len(of)))
        return queue.pop()

    return [tuple(value(*place) for place in case) for case in cases]

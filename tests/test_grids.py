"""The cases that tests.kit.grids makes."""

import itertools

import pytest

from tests.kit import OneOf, grids
from tests.kit.grids import pairwise, thorough

FACTORS = [
    {"a": [1, 2, 3]},
    {"a": [1, 2, 3], "b": ["x"]},
    {"a": range(8), "b": range(10), "c": range(9), "d": range(2)},
    {name: range(size) for name, size in zip("abcdefg", (3, 5, 2, 7, 2, 6, 4), strict=True)},
]


@pytest.mark.parametrize("factors", FACTORS, ids=str)
def test_every_pair_of_values_occurs(factors):
    cases = pairwise(factors)
    assert {tuple(case) for case in cases} <= set(itertools.product(*factors.values()))
    for i, values in enumerate(factors.values()):
        assert {case[i] for case in cases} == set(values)
    for (i, of_i), (j, of_j) in itertools.combinations(enumerate(factors.values()), 2):
        assert {(case[i], case[j]) for case in cases} == set(itertools.product(of_i, of_j))


def test_there_are_few_cases_and_always_the_same():
    assert pairwise(FACTORS[2]) == pairwise(FACTORS[2])
    assert len(pairwise(FACTORS[2])) <= 1.3 * 8 * 10
    assert len(pairwise(FACTORS[3])) <= 1.3 * 6 * 7


def test_what_is_one_takes_turns():
    cases = pairwise({"dtype": [OneOf("float", "int"), OneOf("byte")], "size": range(6)})
    taken = [dtype for dtype, _ in cases]
    assert len(cases) == 12
    assert taken.count("float") == taken.count("int") == 3
    assert taken.count("byte") == 6


def test_the_thorough_profile_takes_all(monkeypatch):
    factors = {"dtype": [OneOf("float", "int"), "byte"], "size": range(6)}
    assert thorough(factors) == list(itertools.product(["float", "int", "byte"], range(6)))
    monkeypatch.setattr(grids, "MOST_CASES", 10)
    sampled = thorough(factors)
    assert len(sampled) == 18 + 10
    assert set(sampled) == set(itertools.product(["float", "int", "byte"], range(6)))

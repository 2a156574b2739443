"""The cross-section of the suite has every test, and takes the same cases in every process."""

from tests.cross_section import EVERY, MOST, cross_section

MANY = [f"a.py::many[{i}]" for i in range(3 * EVERY)]
NAMES = ["a.py::one", *MANY, "a.py::two[0]", "a.py::two[1]", "b.py::z"]


def test_every_test_is_run_with_some_of_its_cases():
    chosen, left = cross_section(NAMES, NAMES)
    assert sorted([*chosen, *left]) == sorted(NAMES)
    assert [name.partition("[")[0] for name in chosen] == ["a.py::one", *["a.py::many"] * 3, "a.py::two", "b.py::z"]
    assert chosen == [name for name in NAMES if name in chosen]


def test_tests_with_the_same_cases_take_turns():
    names = [f"test_{operator}[{case}]" for operator in range(20) for case in range(EVERY)]
    chosen, _ = cross_section(names, names)
    assert {name[-2] for name in chosen} == set(map(str, range(EVERY)))


def test_no_test_has_more_cases_than_are_enough():
    names = [f"test[{case}]" for case in range(100 * MOST)]
    chosen, _ = cross_section(names, names)
    assert len(chosen) == MOST


def test_cases_of_one_program_stay_together():
    names = [f"test[{program}]" for program in range(2 * EVERY) for _ in range(5)]
    chosen, _ = cross_section(range(len(names)), names)
    first, second = chosen[:5], chosen[5:]
    assert len(set(map(names.__getitem__, first))) == len(set(map(names.__getitem__, second))) == 1
    assert len(chosen) == 10


def test_the_choice_does_not_depend_on_the_process():
    names = ["test_a[0]", "test_a[1]", "test_a[2]"]
    assert cross_section(names, names)[0] == ["test_a[1]"]

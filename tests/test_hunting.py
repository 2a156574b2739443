"""A few of the programs of ``python -m tests.hunting``, which runs as many as one has time for."""

from dataclasses import replace

import jax
import pytest

import jaxdml
from jaxdml import reference
from tests import hunting
from tests.cross_section import EVERY
from tests.random_programs import CALLS, METHODS, draw_program

pytestmark = pytest.mark.skipif(jax.default_backend() != "cpu", reason="hunts errors of XLA's CPU backend")
SEED = 3
PROGRAMS = [number for first in range(len(CALLS)) for number in range(first, EVERY * len(CALLS), len(CALLS))]
"""The programs of an operator stand together, so that a cross-section has one of each."""


@pytest.mark.parametrize("number", PROGRAMS)
def test_an_operator_is_right_whatever_is_around_it(number):
    found = hunting.report(SEED, number)
    assert "wrong" not in found, "\n  ".join([hunting.command(SEED, number), *found["wrong"]])


def test_every_operator_is_drawn_and_each_of_its_methods():
    lacking = set(reference.__all__) - set(CALLS)
    assert not lacking, f"tests/random_programs/calls.py lacks {lacking}: add what draws a call to CALLS"
    assert set(CALLS) == set(reference.__all__)
    assert set(METHODS) == {name for name in CALLS if "implementation" in getattr(jaxdml, name).__kwdefaults__}


def test_what_differs_is_told_and_where():
    program = draw_program(SEED, 0)
    program = replace(program, final=[result + 1 for result in program.final])
    assert "elements of result 0: at" in hunting.differences(program.whole())[0]
    told = dict(line.split(": ", 1) for line in hunting.explained(program))
    assert told["the operator"] == "right"
    assert "elements" in told["what follows"]


def test_a_program_that_hangs_or_crashes_is_reported_and_the_next_one_is_run(monkeypatch):
    monkeypatch.setattr(hunting, "LIMIT_S", 0.01)
    found = list(hunting.reports(SEED, 4, 6))
    assert [one["number"] for one in found] == [4, 5]
    assert all("the process ended with -9" in one["wrong"] for one in found)

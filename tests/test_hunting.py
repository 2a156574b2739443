"""A few of the programs of ``python -m tests.hunting``, which runs as many as one has time for."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import jaxdml
from jaxdml import reference
from jaxdml._cases import dimensions
from tests import hunting
from tests.kit.methods import METHODS
from tests.random_programs import NAMES, draw_program
from tests.random_programs.calls import RECORDS, of_record
from tests.random_programs.operands import Drawing

pytestmark = pytest.mark.skipif(jax.default_backend() != "cpu", reason="hunts errors of XLA's CPU backend")
SEED = 3
EACH = 4
"""So many programs are of each operator, of which a cross-section has one."""

PROGRAMS = [
    pytest.param(number, marks=pytest.mark.program(number, of=name))
    for first, name in enumerate(NAMES)
    for number in range(first, EACH * len(NAMES), len(NAMES))
]


@pytest.mark.parametrize("number", PROGRAMS)
def test_an_operator_is_right_whatever_is_around_it(number):
    found = hunting.report(SEED, number)
    assert "wrong" not in found, "\n  ".join([hunting.command(SEED, number), *found["wrong"]])


def test_every_operator_is_drawn_and_each_of_its_methods():
    assert sorted(reference.__all__) == NAMES
    lacking = {name for name in NAMES if "implementation" in getattr(jaxdml, name).__kwdefaults__} - set(METHODS)
    assert not lacking, f"tests/kit/methods.py lacks {lacking}: add their methods"


@pytest.mark.parametrize("name", NAMES)
def test_the_sample_of_every_operator_is_drawn_in_rows_and_mapped(name):
    for vmap in (False, True):
        call = of_record(RECORDS[name], Drawing(np.random.default_rng(0), 40, vmap))
        assert len(call.operands) == len(dimensions.of(RECORDS[name].dimensions).arguments)
        assert call.operands[0].mapped is vmap
        assert any(40 in x.value.shape for x in call.operands)


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

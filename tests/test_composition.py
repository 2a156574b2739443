"""Every operator under every transformation, on one device and on meshes.

A test's name says which: ``top_k-vmap_middle-explicit``. Its result must be bit for bit what NumPy says.
"""

import functools
import traceback

import jax
import pytest

from tests.calls import CALLS
from tests.impossible import impossible
from tests.laws import assert_same_bits
from tests.operators import OPERATORS
from tests.placements import CASES, compiled, layouts_of, placed_program, put
from tests.transformations import transformations_of


def assert_all_same(got, want):
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert_same_bits(one, other)


def errors_of(function, *arguments):
    try:
        return function(*arguments)
    except Exception as error:
        return error


@functools.cache
def results_of(name, placement):
    """Run all cells of an operator in one program; return each one's result, or its error, and what is expected."""
    layouts = layouts_of(name, placement)
    main = next(iter(layouts.values()))
    cells = {column: make(name, main) for column, make in transformations_of(name).items()}
    programs = {column: placed_program(name, placement, cell) for column, cell in cells.items()}
    inputs = {column: put(placement, cell.inputs, cell.specs) for column, cell in cells.items()}
    results = {}

    def run(inputs):
        traced = {column: errors_of(programs[column], *inputs[column]) for column in inputs}
        results.update({column: result for column, result in traced.items() if isinstance(result, Exception)})
        return {column: result for column, result in traced.items() if column not in results}

    whole = errors_of(compiled(run), inputs)
    if isinstance(whole, Exception):  # Some cell fails where it is lowered or compiled.
        whole = {column: errors_of(compiled(programs[column]), *inputs[column]) for column in inputs}
    return {column: (cell, {**whole, **results}[column]) for column, cell in cells.items()}


CELLS = [(name, column) for name in OPERATORS for column in (*transformations_of(name), *CALLS)]


@pytest.mark.parametrize("placement", CASES)
@pytest.mark.parametrize(("name", "column"), CELLS)
def test_composition(name, column, placement):
    reason = impossible(name, column, placement)
    if reason is not None:
        why, prove = reason
        prove(name)
        pytest.skip(f"impossible: {why}")
    if column in CALLS:
        CALLS[column](name, placement)
        return
    cell, result = results_of(name, placement)[column]
    if isinstance(result, Exception):
        pytest.fail("".join(traceback.format_exception(result, limit=-4)), pytrace=False)
    assert_all_same(cell.judged(result), cell.expected)

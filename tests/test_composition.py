"""Every operator under every transformation, on one device and on meshes.

A test's name says which: ``top_k-vmap_middle-explicit``. Its result must be bit for bit what NumPy says. On Explicit
axes the types of the results must say how they are sharded.
"""

import functools
import inspect
import traceback

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec

import jaxdml
from tests.kit import OPERATORS, assert_same_trees, compiled, meshes
from tests.matrix.calls import CALLS
from tests.matrix.cells import EVERY, SLOW, TESTED
from tests.matrix.compositions import COMPOSITIONS
from tests.matrix.impossible import impossible
from tests.matrix.placements import layouts_of, placed_program, put
from tests.matrix.transformations import transformations_of


def errors_of(function, *arguments):
    try:
        return function(*arguments)
    except Exception as error:
        return error


def cells_of(name, placement):
    """Return the transformations of an operator that are tested there, as they are compiled in one program."""
    layouts = layouts_of(name, placement)
    every, main = transformations_of(name, placement, layouts), next(iter(layouts.values()))
    return {
        column: make(name, main)
        for column, make in every.items()
        if (name, column, placement) in TESTED and impossible(name, column, placement) is None
    }


def shared(placement, cells):
    """Put each input once, so that XLA finds out what is computed twice; return all, and the places of each cell's."""
    places, inputs, chosen = {}, [], {}
    for column, cell in cells.items():
        keys = [(spec, x.dtype, x.shape, x.tobytes()) for x, spec in zip(cell.inputs, cell.specs, strict=True)]
        new = {key: x for key, x in zip(keys, cell.inputs, strict=True) if key not in places}
        inputs += put(placement, tuple(new.values()), tuple(spec for spec, *_ in new))
        places.update({key: len(places) + i for i, key in enumerate(new)})
        chosen[column] = [places[key] for key in keys]
    return inputs, chosen


@functools.cache
def results_of(name, placement):
    """Run all cells in one program; return each one, its result or error, and the types of its result."""
    cells = cells_of(name, placement)
    programs = {column: placed_program(name, placement, cell) for column, cell in cells.items()}
    inputs, chosen = shared(placement, cells)
    errors, types = {}, {}

    def run(inputs):
        traced = {column: errors_of(programs[column], *(inputs[i] for i in chosen[column])) for column in cells}
        errors.update({column: result for column, result in traced.items() if isinstance(result, Exception)})
        results = {column: result for column, result in traced.items() if column not in errors}
        types.update({column: jax.tree.map(jax.typeof, result) for column, result in results.items()})
        return results

    whole = errors_of(compiled(run), inputs)
    if isinstance(whole, Exception):  # Some cell fails where it is lowered or compiled.
        alone = {column: compiled(program, keep_unused=True) for column, program in programs.items()}
        whole = {column: errors_of(alone[column], *(inputs[i] for i in chosen[column])) for column in cells}
    return {column: (cell, {**whole, **errors}[column], types.get(column)) for column, cell in cells.items()}


def assert_sharded(types, specs):
    """Require the types to have these specs."""

    def entries(spec, rank):
        return [(axes,) if isinstance(axes, str) else axes for axes in [*spec, *[None] * (rank - len(spec))]]

    def check(spec, x):
        assert entries(x.sharding.spec, x.ndim) == entries(spec, x.ndim)

    jax.tree.map(check, specs, types, is_leaf=lambda x: isinstance(x, PartitionSpec))


def parameter(name, column, placement):
    marks = [] if placement == "one" else [meshes.needs_devices]
    if column not in CALLS:
        marks.append(pytest.mark.program(placement, of=name))
    return pytest.param(name, column, placement, id=f"{name}-{column}-{placement}", marks=marks)


def cells(*, calls):
    """Give a test the cells that are ways to call, or the others."""
    chosen = [parameter(*cell) for cell in TESTED if (cell[1] in CALLS) == calls]
    return pytest.mark.parametrize(("name", "column", "placement"), chosen)


def skip_if_impossible(name, column, placement):
    reason = impossible(name, column, placement)
    if reason is not None:
        why, prove = reason
        prove(name)
        pytest.skip(f"impossible: {why}")


@cells(calls=True)
def test_call(name, column, placement):
    skip_if_impossible(name, column, placement)
    CALLS[column](name, placement)


@cells(calls=False)
def test_composition(name, column, placement):
    skip_if_impossible(name, column, placement)
    cell, result, types = results_of(name, placement)[column]
    if isinstance(result, Exception):
        pytest.fail("".join(traceback.format_exception(result, limit=-4)), pytrace=False)
    assert_same_trees(cell.judged(result), cell.expected)
    if placement == "explicit" and cell.results is not None and not column.startswith("checkify"):
        assert_sharded(types, cell.results)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_composition_has_what_the_operator_takes(name):
    parameters = inspect.signature(getattr(jaxdml, name)).parameters
    assert bool(COMPOSITIONS[name].methods) == ("implementation" in parameters), "METHODS in tests/kit/methods.py"
    assert bool(layouts_of(name, "axis_name")) == ("axis_name" in parameters), "dimensions in jaxdml/_cases"


def test_a_run_has_every_column_of_an_operator():
    every, tested = ({cell[:2] for cell in cells} for cells in (EVERY, TESTED))
    assert {(name, column) for name, column in every - tested if column not in SLOW} == set()


@pytest.mark.parametrize("nothing", [{}, (), (None,), np.zeros((0, 3))], ids=str)
def test_a_cell_that_would_compare_nothing_fails(nothing):
    with pytest.raises(AssertionError, match="nothing is compared"):
        assert_same_trees(nothing, nothing)

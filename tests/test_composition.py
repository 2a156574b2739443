"""Every operator under every transformation, on one device and on meshes.

A test's name says which: ``top_k-vmap_middle-explicit``. Its result must be bit for bit what NumPy says. On Explicit
axes the types of the results must say how they are sharded.
"""

import functools
import traceback
from collections import defaultdict

import jax
import pytest
from jax.sharding import PartitionSpec

from tests.calls import CALLS
from tests.compositions import COMPOSITIONS
from tests.impossible import impossible
from tests.laws import assert_same_bits
from tests.operators import OPERATORS
from tests.placements import CASES, layouts_of, placed_program, put
from tests.quick import compiled
from tests.turns import programs_of, takes_part, turn


def assert_all_same(got, want):
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert_same_bits(one, other)


def errors_of(function, *arguments):
    try:
        return function(*arguments)
    except Exception as error:
        return error


def cells_of(name, placement):
    """Return the transformations of an operator there, as they are compiled in one program."""
    main = next(iter(layouts_of(name, placement).values()), None)
    return {
        column: make(name, main)
        for column, make in programs_of(name, placement).items()
        if takes_part(name, column, placement) and impossible(name, column, placement) is None
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


EVERY = [
    pytest.param(name, column, case.values[0], id=f"{name}-{column}-{case.id}", marks=case.marks)
    for name in dict.fromkeys((*OPERATORS, *COMPOSITIONS))
    for case in CASES
    for column in (*programs_of(name, case.values[0]), *CALLS)
    if COMPOSITIONS[name].has(column)
]
CELLS = [cell for cell in EVERY if takes_part(*cell.values)]


@pytest.mark.parametrize(("name", "column", "placement"), CELLS)
def test_composition(name, column, placement):
    reason = impossible(name, column, placement)
    if reason is not None:
        why, prove = reason
        prove(name)
        pytest.skip(f"impossible: {why}")
    if column in CALLS:
        CALLS[column](name, placement)
        return
    cell, result, types = results_of(name, placement)[column]
    if isinstance(result, Exception):
        pytest.fail("".join(traceback.format_exception(result, limit=-4)), pytrace=False)
    assert_all_same(cell.judged(result), cell.expected)
    if placement == "explicit" and cell.results is not None and not column.startswith("checkify"):
        assert_sharded(types, cell.results)


def test_what_several_operators_have_at_a_placement_one_of_them_has_there():
    possible, tested = defaultdict(set), defaultdict(set)
    for every, cells in ((possible, EVERY), (tested, CELLS)):
        for name, column, placement in (cell.values for cell in cells):
            if COMPOSITIONS[name].every_column:
                every[column, placement].add(turn(name, "") % 2)
    assert {both for both, of in possible.items() if len(of) == 2} <= set(tested)


def test_an_operator_that_shares_a_kernel_has_each_of_its_columns_somewhere():
    every, tested = ({cell.values[:2] for cell in cells} for cells in (EVERY, CELLS))
    assert every == tested

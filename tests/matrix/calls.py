"""Ways to call an operator that tests/test_composition.py compiles each by itself, or not at all."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import export

from tests.kit import assert_same_trees, compiled
from tests.matrix.compositions import COMPOSITIONS, operands, oracle
from tests.matrix.compositions import layouts as all_layouts
from tests.matrix.layouts import Layout
from tests.matrix.placements import layouts_of, mesh_of, placed_operator, put


class Placed(NamedTuple):
    """An operator, its arguments where they belong, and what NumPy says."""

    function: Callable[..., Any]
    arguments: tuple[jax.Array, ...]
    expected: tuple[np.ndarray, ...]
    mesh: jax.sharding.Mesh


def layout_of(name: str, placement: str, *, last: bool = False) -> Layout:
    """Return the main layout that the operator has there, or its last one if it can be had there."""
    layouts = layouts_of(name, placement)
    main, *_, final = [*layouts, *all_layouts(name)]
    return layouts[final if last and final in layouts else main]


def placed(name: str, placement: str, *, tame: bool = False, last: bool = False, **options: Any) -> Placed:
    """Place the call with that layout."""
    layout, arguments = layout_of(name, placement, last=last), operands(name, tame=tame)
    return Placed(
        placed_operator(name, placement, layout, **options),
        put(placement, arguments, layout.specs),
        oracle(name, *arguments, **options),
        mesh_of(placement),
    )


def eval_shape(name, placement):
    call = placed(name, placement)
    results = jax.eval_shape(call.function, *call.arguments)
    assert [(x.shape, x.dtype) for x in results] == [(x.shape, x.dtype) for x in call.expected]


def leak_checks(name, placement):
    call = placed(name, placement)
    with jax.checking_leaks():
        jax.eval_shape(call.function, *call.arguments)


def strict_promotion(name, placement):
    call = placed(name, placement)
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        assert len(jax.eval_shape(call.function, *call.arguments)) == len(call.expected)


def takes_the_place_of_x(name: str, placement: str) -> bool:
    """Return whether the first result has the shape, dtype and blocks of the first argument: it can have its memory."""
    layout, (x, *others) = layout_of(name, placement, last=True), operands(name)
    result, *_ = oracle(name, x, *others, **COMPOSITIONS[name].donated)
    return (x.shape, x.dtype, layout.specs[0]) == (result.shape, result.dtype, layout.results[0])


@functools.cache
def _ahead_of_time(name, placement):
    """Lower and compile under ``jax.set_mesh``; give the memory of the first argument to a result if it can be.

    The programs for meshes are compiled with x64, because there they are not compiled for that alone.
    """
    donated = {"donate_argnums": 0} if takes_the_place_of_x(name, placement) else {}
    call = placed(name, placement, last=True, **COMPOSITIONS[name].donated)
    with jax.set_mesh(call.mesh), jax.enable_x64(placement != "one"):
        program = compiled(call.function, **donated).lower(*call.arguments).compile()
        return program, call, program(*call.arguments)


def ahead_of_time(name, placement):
    _, call, results = _ahead_of_time(name, placement)
    assert_same_trees(results, call.expected)


def donation(name, placement):
    program, call, results = _ahead_of_time(name, placement)
    assert "input_output_alias" in program.as_text()
    assert call.arguments[0].is_deleted()
    assert_same_trees(results, call.expected)


def x64(name, placement):
    if placement != "one":
        ahead_of_time(name, placement)
        return
    call = placed(name, placement)
    with jax.enable_x64(True):
        assert_same_trees(compiled(call.function)(*call.arguments), call.expected)


def debug_nans(name, placement):
    """Call without ``jit`` where there is no ``shard_map``. No argument has a NaN, and no program may return one."""
    call = placed(name, placement, tame=True)
    function = compiled(call.function) if placement in ("shard_map", "axis_name") else call.function
    with jax.debug_nans(True):
        assert_same_trees(function(*call.arguments), call.expected)


def disable_jit(name, placement):
    call = placed(name, placement, tame=True)
    with jax.disable_jit():
        assert_same_trees(call.function(*call.arguments), call.expected)


def exported(name, placement):
    call = placed(name, placement)
    written = export.export(jax.jit(call.function), platforms=["cpu", "cuda", "rocm", "tpu"])(
        *call.arguments
    ).serialize()
    assert_same_trees(compiled(export.deserialize(written).call)(*call.arguments), call.expected)


_EVERY = [eval_shape, leak_checks, strict_promotion, ahead_of_time, donation, debug_nans, disable_jit, x64, exported]
CALLS = {function.__name__: function for function in _EVERY}
"""By name."""


def calls_of(name: str, placement: str) -> list[str]:
    """Return the names of the calls that an operator can have there."""
    return [call for call in CALLS if call != "donation" or takes_the_place_of_x(name, placement)]

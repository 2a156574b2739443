"""Ways to call an operator that tests/test_composition.py compiles each by itself, or not at all."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from jax import export

from tests.compositions import COMPOSITIONS, operands, oracle
from tests.grids import THOROUGH
from tests.impossible import impossible
from tests.laws import assert_same_bits
from tests.placements import layouts_of, mesh_of, placed_operator, put
from tests.quick import compiled


class Placed(NamedTuple):
    """An operator, its arguments where they belong, and what NumPy says."""

    function: Callable[..., Any]
    arguments: tuple[jax.Array, ...]
    expected: tuple[np.ndarray, ...]
    mesh: jax.sharding.Mesh


def placed(name: str, placement: str, *, tame: bool = False, last: bool = False, **options: Any) -> Placed:
    """Place the call with the main layout, or with the operator's last one if it can be had there."""
    layouts = layouts_of(name, placement)
    main, *_, final = [*layouts, *COMPOSITIONS[name].layouts]
    layout = layouts[final if last and final in layouts else main]
    arguments = operands(name, tame=tame)
    return Placed(
        placed_operator(name, placement, layout, **options),
        put(placement, arguments, layout.specs),
        oracle(name, *arguments, **options),
        mesh_of(placement),
    )


def assert_right(results, expected):
    for one, other in zip(results, expected, strict=True):
        assert_same_bits(one, other)


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


@functools.cache
def _ahead_of_time(name, placement):
    """Lower and compile under ``jax.set_mesh``; give the memory of the first argument to a result if it can be.

    The programs for meshes are compiled with x64, because there they are not compiled for that alone.
    """
    donated = {} if impossible(name, "donation", placement) else {"donate_argnums": 0}
    call = placed(name, placement, last=True, **COMPOSITIONS[name].donated)
    with jax.set_mesh(call.mesh), jax.enable_x64(placement != "one"):
        program = compiled(call.function, **donated).lower(*call.arguments).compile()
        return program, call, program(*call.arguments)


def ahead_of_time(name, placement):
    _, call, results = _ahead_of_time(name, placement)
    assert_right(results, call.expected)


def donation(name, placement):
    program, call, results = _ahead_of_time(name, placement)
    assert "input_output_alias" in program.as_text()
    assert call.arguments[0].is_deleted()
    assert_right(results, call.expected)


def x64(name, placement):
    if placement != "one":
        ahead_of_time(name, placement)
        return
    call = placed(name, placement)
    with jax.enable_x64(True):
        assert_right(compiled(call.function)(*call.arguments), call.expected)


def debug_nans(name, placement):
    """Call without ``jit`` where there is no ``shard_map``. No argument has a NaN, and no program may return one."""
    call = placed(name, placement, tame=True)
    function = compiled(call.function) if placement in ("shard_map", "axis_name") else call.function
    with jax.debug_nans(True):
        assert_right(function(*call.arguments), call.expected)


def disable_jit(name, placement):
    if placement != "one" and not THOROUGH:
        pytest.skip("every operation is compiled by itself: run with HYPOTHESIS_PROFILE=thorough")
    call = placed(name, placement, tame=True)
    with jax.disable_jit():
        assert_right(call.function(*call.arguments), call.expected)


def exported(name, placement):
    call = placed(name, placement)
    written = export.export(jax.jit(call.function), platforms=["cpu", "cuda", "rocm", "tpu"])(
        *call.arguments
    ).serialize()
    assert_right(compiled(export.deserialize(written).call)(*call.arguments), call.expected)


_EVERY = [eval_shape, leak_checks, strict_promotion, ahead_of_time, donation, debug_nans, disable_jit, x64, exported]
CALLS = {function.__name__: function for function in _EVERY}
"""By name."""

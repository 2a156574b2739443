"""The laws of scatter_elements, against the oracle and by themselves; those that it shares are in test_scatter_nd."""

from functools import partial

import jax
import numpy as np
import pytest
from hypothesis import given

import jaxdml
from jaxdml import reference
from tests.kit import assert_same_bits, grid, indices_for, quick, seeds
from tests.kit.scattering import MODES, VALUES, any_values, few_draws, held_by_jax, index_dtypes

ALONG = [
    ((5,), 0, (5,)),
    ((4,), -1, (0,)),
    ((1,), 0, (6,)),
    ((3, 5), 0, (6, 5)),
    ((3, 5), 1, (2, 4)),
    ((2, 3, 4), 1, (2, 5, 3)),
    ((2, 3, 4), -3, (4, 3, 4)),
    ((2, 1, 3, 2), -2, (1, 1, 3, 2)),
]
"""Shape of x, axis, and shape of the indices, off the axis smaller or not."""


def along_problem(seed, of, dtype, index_dtype, out_of_range=True):
    """Draw x, indices and updates for scatter_elements, with duplicates."""
    shape, axis, sizes = of
    rng = np.random.default_rng(seed)
    indices = indices_for(rng, shape[axis], sizes, index_dtype, out_of_range)
    return held_by_jax(any_values(rng, shape, dtype), indices, any_values(rng, sizes, dtype))


@quick
@pytest.mark.parametrize("operator", [jaxdml.scatter_elements, reference.scatter_elements], ids=["jax", "oracle"])
def test_the_elements_page_has_the_last_of_two_win(operator):
    x = np.array([8, 2, 7, 4], np.float32)
    got = operator(x, np.array([3, 1, 3, 0]), np.array([5, 6, 7, 8], np.float32), duplicates="last")
    assert_same_bits(got, np.array([8, 6, 7, 7], np.float32))


every_way_along = grid(of=ALONG, dtype=VALUES, mode=MODES)


@every_way_along
@few_draws
@given(seed=seeds, index_dtype=index_dtypes)
def test_scatter_elements_agrees_with_the_oracle(of, dtype, mode, seed, index_dtype):
    problem = along_problem(seed, of, dtype, index_dtype, out_of_range=mode != "promise_in_bounds")
    got = jaxdml.scatter_elements(*problem, axis=of[1], mode=mode, duplicates="last")
    assert_same_bits(got, reference.scatter_elements(*problem, axis=of[1], mode=mode))


# With the cases of the test above, nothing is compiled anew.
@every_way_along
@few_draws
@given(seed=seeds, index_dtype=index_dtypes)
def test_writing_twice_is_writing_once(of, dtype, mode, seed, index_dtype):
    x, *written = along_problem(seed, of, dtype, index_dtype, out_of_range=mode != "promise_in_bounds")
    once = jaxdml.scatter_elements(x, *written, axis=of[1], mode=mode, duplicates="last")
    twice = jaxdml.scatter_elements(once, *written, axis=of[1], mode=mode, duplicates="last")
    assert_same_bits(twice, once)


@quick
@pytest.mark.parametrize("in_axes", [(0, 0, 0), (1, 2, 0), (None, 0, 0), (0, None, None)])
def test_vmap_of_elements_is_a_loop(in_axes):
    rng = np.random.default_rng(0)
    whole = [
        rng.standard_normal((3, 4, 5), np.float32),
        rng.integers(-4, 4, (3, 2, 5)).astype(np.int32),
        rng.standard_normal((3, 2, 5), np.float32),
    ]
    arguments = [part[0] if a is None else np.moveaxis(part, 0, a) for part, a in zip(whole, in_axes, strict=True)]
    got = jax.jit(jax.vmap(partial(jaxdml.scatter_elements, duplicates="last"), in_axes=in_axes))(*arguments)
    for i in range(3):
        one = [part[0 if a is None else i] for part, a in zip(whole, in_axes, strict=True)]
        assert_same_bits(got[i], reference.scatter_elements(*one))

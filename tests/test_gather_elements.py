"""The laws of gather_elements, against the oracle and by themselves; those that it shares are in test_gather."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from jax.sharding import PartitionSpec as P

import jaxdml
from jaxdml import reference
from tests.kit import assert_same_bits, grid, indices_for, quick, seeds
from tests.kit.gathering import MODES, check, fill_of, mapped, refuse
from tests.kit.meshes import mesh_of, needs_devices, put
from tests.kit.scattering import VALUES, any_values, few_draws, index_dtypes

ALONG = [
    ((5,), 0, (7,)),
    ((3, 5), 0, (6, 5)),
    ((3, 5), 1, (2, 4)),
    ((2, 3, 4), -2, (2, 5, 3)),
    ((2, 0, 3), 1, (2, 0, 1)),
]
"""Shape of x, axis, and shape of the indices, off the axis smaller or not."""


@grid(of=ALONG, dtype=VALUES, mode=MODES)
@few_draws
@given(seed=seeds, index_dtype=index_dtypes)
def test_gather_elements_agrees_with_the_oracle(of, dtype, mode, seed, index_dtype):
    shape, axis, index_shape = of
    rng = np.random.default_rng(seed)
    indices = indices_for(rng, shape[axis], index_shape, index_dtype, mode != "promise_in_bounds" and shape[axis] > 0)
    fill_value = fill_of(np.random.default_rng(seed % 2), mode, dtype)
    check("gather_elements", any_values(rng, shape, dtype), indices, axis=axis, mode=mode, fill_value=fill_value)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
def test_it_reads_what_top_k_found_and_what_scatter_elements_wrote(dtype):
    x = jax.device_put(any_values(np.random.default_rng(3), (4, 9), np.dtype(dtype)))
    values, indices = jaxdml.top_k(x, 5)
    assert_same_bits(jaxdml.gather_elements(x, indices, axis=-1), values)
    written = jaxdml.scatter_elements(jnp.zeros_like(x), indices, values, axis=-1, duplicates="unique")
    assert_same_bits(jaxdml.gather_elements(written, indices, axis=-1), values)


def test_an_axis_without_elements_can_be_filled():
    got = jaxdml.gather_elements(np.zeros((2, 0), np.int8), np.ones((1, 3), int), axis=1, mode="fill", fill_value=-5)
    assert_same_bits(got, np.full((1, 3), -5, np.int8))


@quick
@pytest.mark.parametrize("in_axes", [(0, 0), (1, None), (None, 2)])
def test_vmap_is_a_loop(in_axes):
    rng = np.random.default_rng(0)
    x, indices = any_values(rng, (3, 4, 5), np.dtype(np.int16)), indices_for(rng, 4, (3, 2, 5), np.dtype(np.int32))
    mapped(jaxdml.gather_elements, reference.gather_elements, in_axes, x, indices)


@quick
@pytest.mark.parametrize(("mode", "first"), [("clip", 9), ("fill", 1)])
def test_the_gradient_adds_up_what_was_read(mode, first):
    indices = np.array([[0, 2], [1, 0], [-9, 1]], np.int32)
    weights = np.float32([[1, 8], [2, 4], [8, 16]])

    def loss(x):
        return (jaxdml.gather_elements(x, indices, mode=mode) * weights).sum()

    assert jax.jit(jax.grad(loss))(np.zeros((3, 2), np.float32)).tolist() == [[first, 4], [2, 16], [0, 8]]


@quick
@needs_devices
@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_indices_may_be_smaller_than_a_sharded_x(kind):
    rng = np.random.default_rng(0)
    x, indices = any_values(rng, (8, 8), np.dtype(np.float32)), indices_for(rng, 8, (5, 6), np.dtype(np.int32))
    mesh = mesh_of(kind)
    for axis in (0, 1):
        got = jax.jit(partial(jaxdml.gather_elements, axis=axis))(put(mesh, x, "x", "y"), put(mesh, indices))
        assert_same_bits(got, reference.gather_elements(x, indices, axis=axis))


@needs_devices
def test_smaller_indices_read_from_blocks():
    rng = np.random.default_rng(0)
    x, indices = any_values(rng, (8, 3), np.dtype(np.int8)), indices_for(rng, 8, (5, 2), np.dtype(np.int32))
    mesh = mesh_of("explicit")
    read = jax.shard_map(
        partial(jaxdml.gather_elements, axis_name="y", mode="fill", fill_value=3),
        mesh=mesh,
        in_specs=(P("y"), P()),
        out_specs=P(),
    )
    expected = reference.gather_elements(x, indices, mode="fill", fill_value=3)
    assert_same_bits(jax.jit(read)(put(mesh, x, "y"), put(mesh, indices)), expected)


X, I = np.zeros((2, 5), np.float32), np.zeros((2, 3), np.int32)  # noqa: E741
REFUSED = {
    "another rank": (
        lambda: jaxdml.gather_elements(X, I[0]),
        *("indices must have the rank of x; got ranks 1 and 2.", "x: float32[2, 5], indices: int32[3]"),
        "Add axes of size 1 to the one of lower rank.",
    ),
    "no axes": (
        lambda: jaxdml.gather_elements(np.float32(1), np.int32(0)),
        *("x must have at least one axis.", "x: float32[], indices: int32[]"),
        "Pass x[None] to read from one element.",
    ),
    "larger off the axis": (
        lambda: jaxdml.gather_elements(X, np.zeros((2, 6), int)),
        "indices.shape[1] is 6, more than x.shape[1], 5; only axis 0 may be larger.",
        *("x: float32[2, 5], indices: int64[2, 6]", "Cut indices to 5 in dimension 1, or pass axis=1."),
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_does_not_fit_is_said_in_three_lines(why):
    call, rule, *lines = REFUSED[why]
    refuse(call, TypeError, f"jaxdml.gather_elements: {rule}", *lines)


@quick
def test_symbolic_sizes_have_to_fit():
    n, u = jax.export.symbolic_shape("n, u")
    x, indices = jax.ShapeDtypeStruct((n, 2), np.float32), jax.ShapeDtypeStruct((u, 2), np.int32)
    refuse(
        lambda: jax.eval_shape(partial(jaxdml.gather_elements, axis=1), x, indices),
        TypeError,
        "jaxdml.gather_elements: indices.shape[0], u, must be known to be at most x.shape[0], n; "
        "only axis 1 may be larger.",
        "x: float32[n, 2], indices: int32[u, 2]",
        "Pass constraints=['u <= n'] to jax.export.symbolic_shape.",
    )

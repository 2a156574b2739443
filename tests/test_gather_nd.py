"""The laws of gather_nd, against the oracle and by themselves; those that it shares are in test_gather."""

from functools import partial

import jax
import numpy as np
import pytest
from hypothesis import given

import jaxdml
from jaxdml import reference
from tests.kit import assert_same_bits, grid, indices_for, quick, seeds
from tests.kit.gathering import MODES, check, fill_of, mapped, refuse
from tests.kit.meshes import mesh_of, needs_devices, put
from tests.kit.scattering import VALUES, any_values, few_draws, index_dtypes

TUPLES = [
    ((5,), 0, (4, 1)),
    ((4, 3, 2), 0, (2, 3, 2)),
    ((2, 3), 0, (2, 0)),
    ((2, 5, 3), 1, (2, 4, 1)),
    ((2, 3, 1, 4), 2, (2, 3, 2)),
    ((0, 3), 0, (0, 2)),
]
"""Shape of x, batch dimensions, and shape of the indices."""


@grid(of=TUPLES, dtype=VALUES, mode=MODES)
@few_draws
@given(seed=seeds, index_dtype=index_dtypes)
def test_gather_nd_agrees_with_the_oracle(of, dtype, mode, seed, index_dtype):
    shape, batch_dims, index_shape = of
    rng = np.random.default_rng(seed)
    sizes = shape[batch_dims : batch_dims + index_shape[-1]]
    indices = np.zeros(index_shape, index_dtype)
    if indices.size:
        indices = indices_for(rng, sizes, index_shape, index_dtype, mode != "promise_in_bounds")
    fill_value = fill_of(np.random.default_rng(seed % 2), mode, dtype)
    options = {"batch_dims": batch_dims, "mode": mode, "fill_value": fill_value}
    check("gather_nd", any_values(rng, shape, dtype), indices, **options)


@quick
def test_an_empty_tuple_reads_the_whole():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert_same_bits(jaxdml.gather_nd(x, np.zeros((4, 0), np.int32)), np.stack([x] * 4))
    assert_same_bits(jaxdml.gather_nd(x, np.zeros((2, 4, 0), np.int64), batch_dims=1), np.stack([x] * 4, axis=1))
    assert jaxdml.gather_nd(np.float32(3), np.zeros((0,), np.int8)) == 3


def test_a_tuple_is_out_of_range_if_one_of_its_indices_is():
    x, indices = np.arange(1, 7, dtype=np.int8).reshape(2, 3), np.array([[1, 3], [-3, 0], [-2, -1], [5, -9]])
    assert jaxdml.gather_nd(x, indices, mode="fill").tolist() == [0, 0, 3, 0]
    assert jaxdml.gather_nd(x, indices).tolist() == [6, 1, 3, 4]


def test_gather_nd_reads_what_scatter_nd_wrote():
    x, updates = np.zeros((5, 3), np.float32), np.float32([[1, -0.0, np.nan], [2, 3, 4]])
    indices = np.array([[-1], [2]], np.int8)
    assert_same_bits(jaxdml.gather_nd(jaxdml.scatter_nd(x, indices, updates), indices), updates)


@quick
@pytest.mark.parametrize("in_axes", [(0, 0), (2, None), (None, 1)])
@pytest.mark.parametrize("batch_dims", [0, 1])
def test_vmap_is_a_loop(in_axes, batch_dims):
    rng = np.random.default_rng(0)
    x = any_values(rng, (3, 4, 5, 2), np.dtype(np.float32))
    indices = indices_for(rng, x.shape[1 + batch_dims], (3, 4, 6, 1), np.dtype(np.int32))
    options = {"batch_dims": batch_dims, "mode": "fill"}
    mapped(partial(jaxdml.gather_nd, **options), partial(reference.gather_nd, **options), in_axes, x, indices)


@quick
@pytest.mark.parametrize(("mode", "expected"), [("clip", [[1, 0], [4, 10]]), ("fill", [[1, 0], [0, 2]])])
def test_the_gradient_adds_up_what_was_read(mode, expected):
    indices, weights = np.array([[0, 0], [1, 1], [1, -3], [9, 1]], np.int32), np.float32([1, 2, 4, 8])

    def loss(x):
        return (jaxdml.gather_nd(x, indices, mode=mode) * weights).sum()

    assert jax.jit(jax.grad(loss))(np.zeros((2, 2), np.float32)).tolist() == expected


@quick
@needs_devices
def test_every_indexed_dimension_and_the_batch_may_be_sharded():
    rng = np.random.default_rng(0)
    x = any_values(rng, (2, 4, 8, 3), np.dtype(np.float16))
    indices = indices_for(rng, (4, 8), (2, 7, 2), np.dtype(np.int32))
    mesh = mesh_of("explicit")
    for over in ((None, "x", "y"), ("x", None, "y")):
        read = jax.jit(partial(jaxdml.gather_nd, batch_dims=1, mode="fill", fill_value=-0.0))
        expected = reference.gather_nd(x, indices, batch_dims=1, mode="fill", fill_value=-0.0)
        assert_same_bits(read(put(mesh, x, *over), put(mesh, indices)), expected)


X, I = np.zeros((2, 5), np.float32), np.zeros((2, 3), np.int32)  # noqa: E741
OPERANDS = "x: float32[2, 5], indices: int32[2, 3]"
REFUSED = {
    "no tuples": (
        *(lambda: jaxdml.gather_nd(X, np.int32(0)), TypeError),
        "indices must have the shape [..., t], a tuple of t indices for each slice; got [].",
        *("x: float32[2, 5], indices: int32[]", "Pass indices[None] to read one slice."),
    ),
    "tuples too long": (
        *(lambda: jaxdml.gather_nd(X, I), TypeError),
        "indices must have the shape [..., t] with t <= 2, the rank of x; got [2, 3].",
        *(OPERANDS, "Pass indices[..., None] if each index addresses one dimension of x."),
    ),
    "tuples too long after a batch": (
        *(lambda: jaxdml.gather_nd(X, I, batch_dims=1), TypeError),
        "indices must have the shape [..., t] with t <= 1, the rank of x after 1 batch dimensions; got [2, 3].",
        *(OPERANDS, "Pass indices[..., None] if each index addresses one dimension of x."),
    ),
    "batch_dims out of range": (
        *(lambda: jaxdml.gather_nd(X, I, batch_dims=2), ValueError),
        "batch_dims must be between 0 and 1 for ranks 2 and 2; got 2.",
        *(OPERANDS, "Pass batch_dims=0 if the indices address the first dimensions of x."),
    ),
    "batches of other sizes": (
        *(lambda: jaxdml.gather_nd(X, I[:1, :1], batch_dims=1), TypeError),
        "the first 1 sizes of x and of indices must be equal; got [2, 5] and [1, 1].",
        *("x: float32[2, 5], indices: int32[1, 1]", "Broadcast both to one batch, or pass a smaller batch_dims."),
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_does_not_fit_is_said_in_three_lines(why):
    call, error, rule, *lines = REFUSED[why]
    refuse(call, error, f"jaxdml.gather_nd: {rule}", *lines)


@quick
def test_empty_tuples_address_no_dimension_that_is_sharded():
    def read(x):
        return jaxdml.gather_nd(x, np.zeros((1, 0), np.int32), axis_name="i")

    refuse(
        lambda: jax.vmap(read, axis_name="i")(X),
        ValueError,
        "jaxdml.gather_nd: indices address no dimension of x, and axis_name='i' says that one is sharded.",
        *("x: float32[5], indices: int32[1, 0]", "Leave axis_name out, or pass indices of shape [..., 1] or more."),
    )

"""The laws of the matrix multiply of integers, against the oracle and by themselves."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import jaxdml
from jaxdml import reference
from tests.kit import OneOf, assert_same_bits, grid, quick, seeds
from tests.test_quantized_linear_matrix_multiply import (
    BATCHES,
    COLUMNS,
    DISTINCT_METHODS,
    QUANTIZED,
    ROWS,
    integers,
    shape_of,
)

multiply = jaxdml.matrix_multiply_integer
few_draws = settings(max_examples=settings().max_examples // 5)


def problem(seed, dtypes, sizes, batches, zero_axes):
    """Draw all arguments; a zero point whose axes are None is absent."""
    rng = np.random.default_rng(seed)
    m, k, n = sizes
    batch = np.broadcast_shapes(*batches)
    a, b = integers(rng, dtypes[0], (*batches[0], m, k)), integers(rng, dtypes[1], (*batches[1], k, n))
    za, zb = (
        None if axes is None else integers(rng, dtype, shape_of(axes, batch, m, n))
        for axes, dtype in zip(zero_axes, dtypes, strict=True)
    )
    return a, za, b, zb


@partial(jax.jit, static_argnames=("packed", "implementation"))
def product(a, za, b, zb, packed, implementation=None):
    return multiply(a, za, jaxdml.prepack(b) if packed else b, zb, implementation=implementation)


def agrees(given, **options):
    # A NumPy array takes a program of its own to copy.
    assert_same_bits(product(*jax.device_put(given), **options), reference.matrix_multiply_integer(*given))


@grid(
    method=DISTINCT_METHODS, m=[1, OneOf(7, 8)], k=[0, OneOf(1, 7, 8), 40], n=[OneOf(1, 7, 8)],
    batches=[BATCHES[0], OneOf(*BATCHES[1:4]), OneOf(*BATCHES[4:])],
    a=QUANTIZED, b=QUANTIZED, za=[None, OneOf(*ROWS)], zb=[None, OneOf(*COLUMNS)], packed=[False, True],
)  # fmt: skip
@few_draws
@given(seed=seeds)
def test_agrees_with_the_oracle(method, m, k, n, batches, a, b, za, zb, packed, seed):
    agrees(problem(seed, (a, b), (m, k, n), batches, (za, zb)), packed=packed, implementation=method)


# The longest sums pass the modulus itself, and not only the greatest int32.
@quick
@grid(
    method=DISTINCT_METHODS, k=[33_025, OneOf(33_026, 66_052, 140_000)], m=[1, 9], a=QUANTIZED, b=QUANTIZED,
    packed=[False, True], negative=[False, True],
)  # fmt: skip
def test_sums_wrap_around(method, k, m, a, b, packed, negative):
    left, za, right, zb = problem(0, (a, b), (m, k, 3), ((), ()), ("m", "n"))
    # In the first row and column all products are 255 * 255, the greatest that zero points allow, or its negative.
    left[0], za[0] = np.iinfo(a).max, np.iinfo(a).min
    right[:, 0], zb[0] = np.iinfo(b).max, np.iinfo(b).min
    if negative:
        left, za = ~left, ~za
    got = product(*jax.device_put((left, za, right, zb)), packed=packed, implementation=method)
    assert_same_bits(got, reference.matrix_multiply_integer(left, za, right, zb))
    greatest = 255 * 255 * (-k if negative else k)
    assert (int(got[0, 0]) - greatest) % 2**32 == 0
    assert (int(got[0, 0]) == greatest) == (k == 33_025)


@quick
@grid(
    shapes=[
        *(((2, 0), (0, 3)), ((9, 0), (0, 9)), ((1, 0), (0, 3))),
        *(((0, 4), (4, 3)), ((2, 4), (4, 0)), ((0, 2, 4), (4, 3))),
    ],
    packed=[OneOf(False, True)],
)
def test_empty_dimensions(shapes, packed):
    a, b = (np.ones(shape, np.int8) for shape in shapes)
    got = product(a, np.int8(-128), b, np.int8(9), packed=packed)
    assert_same_bits(got, np.zeros((*shapes[0][:-1], shapes[1][-1]), np.int32))


@quick
@grid(
    axes=[(0, None, None, None), (None, 0, None, None), (2, None, 0, 0), (1, 0, 1, None)],
    packed=[OneOf(False, True)],
)
def test_vmap_over_any_argument_is_a_loop(axes, packed):
    rng = np.random.default_rng(0)
    shapes = ((3, 4, 5), np.uint8), ((3, 4), np.uint8), ((3, 5, 6), np.int8), ((3, 6), np.int8)
    whole = [integers(rng, dtype, shape) for shape, dtype in shapes]
    moved = [part[0] if axis is None else np.moveaxis(part, 0, axis) for part, axis in zip(whole, axes, strict=True)]
    got = jax.jit(jax.vmap(partial(product, packed=packed), in_axes=axes))(*moved)
    for i in range(3):
        one = [part[0 if axis is None else i] for part, axis in zip(whole, axes, strict=True)]
        assert_same_bits(got[i], reference.matrix_multiply_integer(*one))


@quick
@pytest.mark.parametrize("x64", [False, True])
def test_python_numbers_are_zero_points_of_the_dtype_of_their_matrix(x64):
    a, b = np.uint8([[9, 255]]), np.int8([[-7], [127]])
    with jax.enable_x64(x64):
        got = multiply(a, 200, b, -3)
    assert_same_bits(got, reference.matrix_multiply_integer(a, np.uint8(200), b, np.int8(-3)))
    assert got.tolist() == [[(9 - 200) * (-7 + 3) + (255 - 200) * (127 + 3)]]


@quick
@quick
@pytest.mark.parametrize("packed", [False, True])
def test_a_deep_product_leaks_no_tracer(packed):
    a, b = np.ones((2, 140_000), np.uint8), np.ones((140_000, 3), np.uint8)
    with jax.checking_leaks():
        total = jax.jit(lambda a, b: jaxdml.matrix_multiply_integer(a, None, jaxdml.prepack(b) if packed else b, None))
        assert_same_bits(total(a, b), np.full((2, 3), 140_000, np.int32))


def test_nothing_flows_back_from_a_result():
    a, b = np.ones((2, 3), np.int8), np.ones((3, 2), np.int8)

    def loss(x):
        return (multiply(x.astype(jnp.int8), None, b, None).astype(jnp.float32) * x.sum()).sum()

    # Only the factor that is a float has a derivative.
    np.testing.assert_array_equal(jax.jit(jax.grad(loss))(a.astype(np.float32)), np.full((2, 3), 12.0))

"""The laws of the product with float results, against the oracle and by themselves."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import jaxdml
from jaxdml import directml as dml
from jaxdml import reference
from jaxdml._arithmetic.ieee import NAN
from jaxdml._kernels.float_scaling import Scaling, kernel
from jaxdml._kernels.float_scaling.kernel import FEW_OUTPUTS
from jaxdml._kernels.float_scaling.scaled_sums import _USUAL_SCALES, of_two_words
from jaxdml._kernels.integer_sums import RawProduct
from tests.directml_descs import FLOAT16, INT8, UINT8, tensor
from tests.kit import OneOf, assert_same_bits, data, grid, quick, seeds
from tests.test_quantized_linear_matrix_multiply import (
    BATCHES,
    COLUMNS,
    DISTINCT_METHODS,
    ONE,
    QUANTIZED,
    ROWS,
    integers,
    shape_of,
)

multiply = jaxdml.matrix_multiply_integer_to_float
few_draws = settings(max_examples=settings().max_examples // 5)
FLOATS = [np.dtype(name) for name in ("float32", "float16", jnp.bfloat16)]


@partial(jax.jit, static_argnames=("packed", "output_dtype", "implementation"))
def product(a, sa, za, b, sb, zb, bias=None, *, packed=False, output_dtype="float32", implementation=None):
    right = jaxdml.prepack(b) if packed else b
    return multiply(a, sa, za, right, sb, zb, bias, output_dtype=output_dtype, implementation=implementation)


def agrees(given, **options):
    want = reference.matrix_multiply_integer_to_float(*given, output_dtype=options.get("output_dtype", FLOATS[0]))
    # A NumPy array takes a program of its own to copy.
    assert_same_bits(product(*jax.device_put(given), **options), want)


def floats(rng, shape, style):
    """Draw scales or biases: of usual sizes, whose products are subnormal, or of any bits."""
    if style == "any bits":
        return data("mixed", int(rng.integers(2**32)), shape, FLOATS[0])
    exponents = rng.integers(-8, 1, shape) if style == "usual" else rng.integers(-80, -60, shape)
    return (rng.uniform(1, 2, shape) * np.exp2(exponents)).astype(np.float32)


def problem(seed, dtypes, sizes, batches, scale_axes, zero_axes, bias_axes):
    """Draw all arguments; a zero point or a bias whose axes are None is absent."""
    rng = np.random.default_rng(seed)
    m, k, n = sizes
    batch = np.broadcast_shapes(*batches)
    style = rng.choice(["usual", "subnormal", "any bits"])
    a, b = integers(rng, dtypes[0], (*batches[0], m, k)), integers(rng, dtypes[1], (*batches[1], k, n))
    sa, sb = (floats(rng, shape_of(axes, batch, m, n), style) for axes in scale_axes)
    za, zb = (
        None if axes is None else integers(rng, dtype, shape_of(axes, batch, m, n))
        for axes, dtype in zip(zero_axes, dtypes, strict=True)
    )
    bias = None
    if bias_axes is not None:
        bias = floats(rng, shape_of(bias_axes, batch, m, n), style)
        bias = bias * floats(rng, (), style) if style == "subnormal" else bias
    return a, sa, za, b, sb, zb, bias


@grid(
    method=DISTINCT_METHODS, m=[OneOf(1, 8)], k=[OneOf(0, 40)], n=[OneOf(1, 7)], batches=[OneOf(*BATCHES)],
    a=QUANTIZED, b=QUANTIZED, sa=[OneOf(*ROWS)], sb=[OneOf(*COLUMNS)], za=[OneOf(None, *ROWS)],
    zb=[OneOf(None, *COLUMNS)], bias=[None, OneOf("", "n", "1n", "mn", "m1", "bmn", "b11")],
    output_dtype=[FLOATS[0], OneOf(*FLOATS[1:])], packed=[False, True],
)  # fmt: skip
@few_draws
@given(seed=seeds)
def test_agrees_with_the_oracle(method, m, k, n, batches, a, b, sa, sb, za, zb, bias, output_dtype, packed, seed):
    given = problem(seed, (a, b), (m, k, n), batches, (sa, sb), (za, zb), bias)
    agrees(given, packed=packed, output_dtype=output_dtype, implementation=method)


def test_sums_that_int32_cannot_hold_are_exact():
    k = 33_026
    left, right = np.full((3, k), 255, np.uint8), np.full((k, 2), 127, np.int8)
    left[1:], right[:, 1] = integers(np.random.default_rng(0), left.dtype, (2, k)), -128
    given = left, ONE, np.zeros(3, np.uint8), right, ONE, np.int8([-128, 127]), np.float32(-0.5)
    agrees(given, packed=True)
    greatest = float(np.float32(255 * 255 * k))
    assert product(*given[:6], np.float32(0), packed=True)[0].tolist() == [greatest, -greatest]


def test_sums_of_two_words_are_rounded_once():
    rng = np.random.default_rng(0)
    high = (rng.integers(-(2**31), 2**31, 2**16) >> rng.integers(0, 32, 2**16)).astype(np.int32)
    # Of ties, and of their neighbours.
    low = rng.choice([0, 1, 2**15 - 1, 2**15, 2**15 + 1, 2**16 - 1], 2**16) & -(1 << rng.integers(0, 17, 2**16))
    low = np.where(rng.random(2**16) < 0.5, low, rng.integers(0, 2**16, 2**16)).astype(np.int32)
    # The sums are exact in float64.
    assert_same_bits(jax.jit(of_two_words)(low, high), (high * 2.0**16 + low).astype(np.float32))


def test_large_results_with_usual_scales_and_with_any():
    rng = np.random.default_rng(0)
    m, k, n = 64, 8, 2 + FEW_OUTPUTS // 64
    a, b = integers(rng, QUANTIZED[1], (m, k)), integers(rng, QUANTIZED[0], (k, n))
    for style in "usual", "subnormal", "any bits":
        sa, sb, bias = floats(rng, (m,), style), floats(rng, (n,), style), floats(rng, (n,), "usual")
        if style == "subnormal":
            bias = bias * np.float32(2.0**-125)
        # Many sums nearly cancel.
        with np.errstate(all="ignore"):
            bias[::2] = -sa[0] * sb[::2] * np.float32(a[0].astype(int) @ (b[:, ::2].astype(int) + 1))
        agrees((a, sa, np.uint8(0), b, sb, np.int8(-1), bias))
    usual = floats(rng, (n,), "usual")
    agrees((a, np.float32(0.5), None, b, usual, None, None))
    # Nothing is unusual but some bias: a subnormal number is not a zero.
    for unusual in (1e-40, 0.0, -0.0):
        bias = np.where(np.arange(n) % 2, np.float32(unusual), usual).astype(np.float32)
        agrees((np.zeros_like(a), np.float32(0.5), np.uint8(0), b, usual, np.int8(-1), bias))


def test_large_results_with_scales_at_the_ends_of_the_usual_ones():
    rng = np.random.default_rng(0)
    m, k, n = 64, 8, 2 + FEW_OUTPUTS // 64
    a, b = integers(rng, QUANTIZED[1], (m, k)), integers(rng, QUANTIZED[0], (k, n))
    least, greatest = _USUAL_SCALES
    # Products of two scales are subnormal below 2**-63, and infinite from 2**64 on.
    for size in (least, 2.0**-63, 2.0**-64, 2.0**-70, greatest, 2.0**60, 2.0**64):
        sa, sb = (np.float32(size) * rng.uniform(1, 2, length).astype(np.float32) for length in (m, n))
        agrees((a, sa, None, b, sb, None, None))


def test_platforms_without_float64_have_the_same_bits():
    rng = np.random.default_rng(0)
    totals = (rng.integers(-(2**31), 2**31, (64, 50)) >> rng.integers(0, 32, (64, 50))).astype(np.int32)
    by = Scaling(*(floats(rng, (64, 50), style) for style in ("any bits", "usual", "subnormal")))
    got = jax.jit(partial(kernel._exactly, shape=totals.shape, dtype=FLOATS[0]))(RawProduct(totals), by)
    with np.errstate(all="ignore"):
        want = totals.astype(np.float32) * (by.a_scale * by.b_scale) + by.bias
    assert_same_bits(got, np.where(np.isnan(want), np.uint32(NAN).view(np.float32), want))


def expected_derivatives(a, b, sa, sb, along):
    total = np.int64(a) @ np.int64(b)
    return (along * total * sb).sum(-1), (along * total * sa[:, None]).sum(-2), along.sum(-2)


@quick
@pytest.mark.parametrize("k", [5, 131_072])
def test_scales_and_bias_have_the_derivatives_of_the_formula(k):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-1, 2, (3, k)).astype(np.int8), rng.integers(-1, 2, (k, 4)).astype(np.int8)
    # So few bits that float32 adds them up exactly.
    sa, sb, bias = (np.exp2(rng.integers(-1, 2, size)).astype(np.float32) for size in (3, 4, 4))
    along = rng.integers(1, 4, (3, 4)).astype(np.float32)

    def f(sa, sb, bias):
        return product(a, sa, None, b, sb, None, bias)

    value, pull = jax.vjp(f, sa, sb, bias)
    assert_same_bits(value, reference.matrix_multiply_integer_to_float(a, sa, None, b, sb, None, bias))
    for got, want in zip(pull(along), expected_derivatives(a, b, sa, sb, along), strict=True):
        np.testing.assert_array_equal(got, want)


@quick
def test_derivatives_of_derivatives_and_of_integers():
    a, b = np.int8([[1, 2], [3, -4]]), np.int8([[5, -6], [7, 8]])

    def of_scales(sa, sb):
        return multiply(a, sa, None, b, sb, None, output_dtype="float16").astype(jnp.float32).sum()

    cross = jax.jit(jax.jacfwd(jax.grad(of_scales), argnums=1))(jnp.ones(2), jnp.ones(2))
    np.testing.assert_array_equal(cross, a.astype(int) @ b.astype(int))

    def of_integers(x):
        return (multiply(x.astype(jnp.int8), ONE, None, b, ONE, None) * x.sum()).sum()

    # Only the factor that is a float has a derivative.
    want = np.full((2, 2), (a.astype(int) @ b.astype(int)).sum(), np.float32)
    np.testing.assert_array_equal(jax.jit(jax.grad(of_integers))(a.astype(np.float32)), want)


@quick
def test_python_numbers_become_float32():
    a, b = np.uint8([[9, 255]]), np.int8([[-7], [127]])
    with jax.enable_x64(True):
        got = jax.jit(multiply)(a, 0.1, 200, b, 0.3, -3, 0)
    tenth, third = np.float32(0.1), np.float32(0.3)
    want = reference.matrix_multiply_integer_to_float(a, tenth, np.uint8(200), b, third, np.int8(-3), np.float32(0))
    assert_same_bits(got, want)


def test_a_description_in_float16_is_computed_in_float32():
    rng = np.random.default_rng(0)
    desc = dml.MatrixMultiplyIntegerToFloatOperatorDesc(
        a_tensor=tensor(UINT8, 1, 2, 3, 4), a_scale_tensor=tensor(FLOAT16, 3, 1),
        b_tensor=tensor(INT8, 1, 2, 4, 5), b_scale_tensor=tensor(FLOAT16, 1, 5),
        # One row for all, by strides of 0.
        bias_tensor=tensor(FLOAT16, 1, 2, 3, 5, strides=(0, 0, 0, 1)), output_tensor=tensor(FLOAT16, 1, 2, 3, 5),
    )  # fmt: skip
    a, b = integers(rng, QUANTIZED[1], (1, 2, 3, 4)), integers(rng, QUANTIZED[0], (1, 2, 4, 5))
    sa, sb, bias = (rng.uniform(0.5, 2, shape).astype(np.float16) for shape in ((3, 1), (1, 5), (5,)))
    buffer = np.concatenate([bias, bias[:1]])  # Of whole units of 4 bytes.
    got = jax.jit(dml.compile_operator(desc))(a, sa, None, b, sb, None, buffer)
    wide = [part.astype(np.float32) for part in (sa, sb, bias)]
    want = reference.matrix_multiply_integer_to_float(
        a, wide[0], None, b, wide[1], None, wide[2], output_dtype="float16"
    )
    assert_same_bits(got, want)


ARRAYS = np.ones((3, 4), np.int8), ONE, None, np.ones((4, 5), np.int8), ONE, None
REFUSED = {
    "bias of another dtype": (
        (np.ones(5, np.int16),), {},
        "bias must be float32; got int16.", "  bias: int16[5]", "  Pass bias as float32.",
    ),
    "bias is a complex number": (
        (1j,), {},
        "bias must be float32; got complex64.", "  bias: complex64[]", "  Pass bias as float32.",
    ),
    "bias for each row": (
        (np.ones(3, np.float32),), {},
        "bias must broadcast to [3, 5], the shape of the result; got [3].",
        "  a: int8[3, 4], b: int8[4, 5], bias: float32[3]", "  Pass one value, or 5: one for each column.",
    ),
    "bias of a larger rank": (
        (np.ones((2, 3, 5), np.float32),), {},
        "bias must broadcast to [3, 5], the shape of the result; got [2, 3, 5].",
        "  a: int8[3, 4], b: int8[4, 5], bias: float32[2, 3, 5]", "  Pass one value, or 5: one for each column.",
    ),
    **{
        f"output_dtype {shown}": (
            (), {"output_dtype": value},
            f"output_dtype must be one of float32, float16, bfloat16; got {shown}.",
            "  a: int8[3, 4], b: int8[4, 5]", "  Pass output_dtype='float32', and convert the result.",
        )
        for value, shown in (("float64", "'float64'"), (None, "None"), ("float", "'float'"), ("nothing", "'nothing'"))
    },
}  # fmt: skip


@quick
@pytest.mark.parametrize("name", REFUSED)
def test_refuses_with_the_whole_text(name):
    more, options, rule, shown, advice = REFUSED[name]
    with pytest.raises(TypeError) as caught:
        jax.eval_shape(partial(multiply, **options), *ARRAYS, *more)
    assert str(caught.value) == f"jaxdml.matrix_multiply_integer_to_float: {rule}\n{shown}\n{advice}"

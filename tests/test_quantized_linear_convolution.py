"""The laws of the quantized convolution, against the oracle, in rational numbers, and by themselves."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import jaxdml
from jaxdml import reference
from tests.kit import OneOf, assert_same_bits, grid, quick, seeds
from tests.kit.exact_rounding import begins, one_multiply, rounded_quotients, scale_triples
from tests.test_convolution_integer import FORMS, SHAPES, drawn, of_channels
from tests.test_quantized_linear_matrix_multiply import METHODS, ONE, QUANTIZED, STYLES, integers, scales

convolve = jaxdml.quantized_linear_convolution
few_draws = settings(max_examples=settings().max_examples // 5)

ENDS = np.iinfo(np.int32)


def biases(rng, shape):
    """Draw biases as large as small sums, or any, the ends of int32 among them."""
    if shape is None:
        return None
    if rng.random() < 0.5:
        return rng.integers(-3000, 3000, shape).astype(np.int32)
    return np.where(rng.random(shape) < 0.5, rng.choice([ENDS.min, ENDS.max], shape), integers(rng, np.int32, shape))


@partial(jax.jit, static_argnames=("options", "method"))
def jitted(*given, options=(), method=None):
    return convolve(*given, **dict(options), implementation=method)


def agrees(given, method=None, **options):
    # A NumPy array takes a program of its own to copy.
    got = jitted(*jax.device_put(given), options=tuple(options.items()), method=method)
    assert_same_bits(got, reference.quantized_linear_convolution(*given, **options))
    return got


@grid(
    kind=list(SHAPES), x=[OneOf(*QUANTIZED)], w=[OneOf(*QUANTIZED)], output=[OneOf(*QUANTIZED)],
    inferred=[OneOf(False, True)], method=[OneOf(*METHODS)], zx=[OneOf(None, "one", "vector of one")],
    zw=[OneOf(None, *FORMS)], sw=[OneOf(*FORMS)], bias=[OneOf(None, *FORMS)], zo=[OneOf(None, "one", "vector of one")],
)  # fmt: skip
@few_draws
@given(seed=seeds)
def test_agrees_with_the_oracle(kind, x, w, output, inferred, method, zx, zw, sw, bias, zo, seed):
    shapes = SHAPES[kind]
    rng = np.random.default_rng(seed)
    style = rng.choice(STYLES)
    of_zx, of_zw, of_sw, of_bias, of_zo = (
        None if form is None else of_channels(shapes, form) for form in (zx, zw, sw, bias, zo)
    )
    given = (
        *(drawn(rng, x, shapes[0]), scales(rng, (), style), drawn(rng, x, of_zx)),
        *(drawn(rng, w, shapes[1]), scales(rng, of_sw, style), drawn(rng, w, of_zw)),
        *(biases(rng, of_bias), scales(rng, (1,), style), drawn(rng, output, of_zo)),
    )
    # Without an output_dtype it is that of the output's zero point, and without that of x.
    agrees(given, method, **shapes[2], **({} if inferred else {"output_dtype": output}))


AT_ONCE = 40_000


def of_accumulators(accumulators, triple, zero_point):
    """Return what the operator makes of these sums, each the bias of an output channel of its own."""
    x, w = np.zeros((1, 1, 1), np.int8), np.zeros((AT_ONCE, 1, 1), np.int8)
    padded = np.resize(accumulators, AT_ONCE).astype(np.int32)
    x_scale, w_scale, output_scale = (np.float32(scale) for scale in triple)
    got = jitted(*jax.device_put((x, x_scale, None, w, w_scale, None, padded, output_scale, np.int8(zero_point))))
    return np.asarray(got)[0, : accumulators.size, 0]


def test_every_quotient_is_correctly_rounded():
    rng = np.random.default_rng(1)
    compared = wrong = 0
    for span in (300, 2**20, ENDS.max):
        for triple in scale_triples(rng, 16, span):
            # Next to each accumulator at which an output begins, and anywhere.
            near = begins(triple, 400)[:, None] + np.arange(-3, 3)
            accumulators = np.concatenate([near.ravel(), rng.integers(-span, span, AT_ONCE, endpoint=True)])
            accumulators = accumulators[(ENDS.min <= accumulators) & (accumulators <= ENDS.max)][:AT_ONCE]
            exact = rounded_quotients(accumulators, triple)
            for zero_point in (-128, 1):
                want = np.clip(exact + zero_point, -128, 127)
                got = of_accumulators(accumulators, triple, zero_point)
                np.testing.assert_array_equal(got, want, err_msg=f"{triple=} {zero_point=}")
                compared += want.size
            wrong += (np.clip(one_multiply(accumulators, triple), -128, 127) != np.clip(exact, -128, 127)).sum()
    assert compared > 3_000_000
    assert wrong > 0  # Else these numbers would be too easy to tell the two apart.


def test_ties_go_to_even_before_an_odd_zero_point_is_added():
    halves = np.arange(-9, 10, 2)
    got = of_accumulators(halves, (1, 1, 2), 1)
    assert got.tolist() == [-3, -3, -1, -1, 1, 1, 3, 3, 5, 5]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_bias_may_take_the_sum_beyond_int32(sign):
    x, w = np.full((1, 4, 3), 255, np.uint8), np.full((3, 4, 2), sign * 127, np.int8)
    bias = np.array([ENDS.max, ENDS.min, sign * 2**30], np.int32)
    # The sum is 8 * 255 * 127, and 2**24 of them are one unit of the output.
    got = agrees((x, ONE, None, w, ONE, None, bias, np.float32(2**24), None), output_dtype=np.int8)
    assert got[0, :, 0].tolist() == ([127, -128, 64] if sign > 0 else [127, -128, -64])
    # Here the quotient is next to a tie, which a sum in float32, or one that wraps around, does not find.
    bias = ((np.arange(3) + 125) * 2**24 + 2**23 - 8 * 255 * 127 + np.array([-1, 0, 1])).astype(np.int32) * sign
    got = agrees((x, ONE, None, w, ONE, None, bias, np.float32(2**24), None), output_dtype=np.int8)
    assert got[0, :, 0].tolist() == ([125, 126, 127] if sign > 0 else [-125, -126, -128])


@quick
@grid(method=[OneOf(*METHODS)], x=[OneOf(*QUANTIZED)], w=QUANTIZED)
def test_no_depth_overflows(method, x, w):
    rng = np.random.default_rng(0)
    channels = 14_000
    left, right = integers(rng, x, (1, channels, 6)), integers(rng, w, (2, channels, 5))
    left[..., :5], right[0] = np.iinfo(x).max, np.iinfo(w).max
    zx, zw = x.type(np.iinfo(x).min), np.array([np.iinfo(w).min, 3], w)
    # The first sum is the greatest there is: more than 2**32.
    divisor = np.float32(255 * 255 * 5 * channels / 100)
    bias = np.array([ENDS.max, ENDS.min], np.int32)
    for given_x in ((left, ONE, zx), (~left, ONE, ~zx)):
        got = agrees((*given_x, right, ONE, zw, bias, divisor, np.int8(0)), method)
        assert abs(int(got[0, 0, 0])) in (100 + 47, 100 - 47, 127, 128)


EMPTY = {
    "no images": ((0, 2, 4, 4), (3, 2, 2, 2), {}, (0, 3, 3, 3)),
    "no channels": ((2, 0, 4, 4), (3, 0, 2, 2), {}, (2, 3, 3, 3)),
    "windows of padding alone": ((1, 1, 1, 1), (3, 1, 1, 1), {"start_padding": 2}, (1, 3, 3, 3)),
}


@pytest.mark.parametrize("kind", EMPTY)
def test_a_sum_of_nothing_is_the_bias(kind):
    of_x, of_w, options, shape = EMPTY[kind]
    bias = np.array([5, -6, 7], np.int32)
    x, w = np.zeros(of_x, np.uint8), np.ones(of_w, np.int8)
    given = x, ONE, np.uint8(0), w, ONE, np.int8(-1), bias, 2 * ONE, np.uint8(100)
    got = agrees(given, **options)
    assert_same_bits(got, np.broadcast_to(np.uint8([102, 97, 104]).reshape(1, 3, 1, 1), shape))


NUMBERS = np.random.default_rng(0)
SMALL_X, SMALL_W = integers(NUMBERS, np.uint8, (1, 2, 5)), integers(NUMBERS, np.int8, (3, 2, 2))


def scaled(x_scale=ONE, w_scale=ONE, output_scale=ONE):
    return SMALL_X, np.float32(x_scale), None, SMALL_W, np.float32(w_scale), None, None, np.float32(output_scale), None


@quick
@pytest.mark.parametrize("name", ["x_scale", "w_scale", "output_scale"])
def test_meaningless_scales_do_no_harm(name):
    for value in (0.0, -0.0, np.inf, -np.inf, np.nan):
        answers = [jitted(*scaled(**{name: value}), method=method) for method in METHODS]
        for got in answers:
            assert got.shape == (1, 3, 4)
            assert_same_bits(got, answers[0])


@pytest.mark.parametrize("name", ["x_scale", "w_scale", "output_scale"])
def test_subnormal_scales_count_too(name):
    for bits in (1, 3, 0x400000, 0x7FFFFF, 0x80000001):
        tiny = np.uint32(bits).view(np.float32)
        other = "output_scale" if name != "output_scale" else "x_scale"
        agrees(scaled(**{name: tiny, other: np.abs(tiny) * np.float32(32)}))


@quick
@pytest.mark.parametrize("x64", [False, True])
def test_python_numbers_take_the_dtype_that_is_wanted(x64):
    with jax.enable_x64(x64):
        got = convolve(np.uint8([[[9]]]), 0.5, 200, np.int8([[[-7]]]), 3, -3, -70, 0.25, 4, output_dtype="int8")
    want = reference.quantized_linear_convolution(
        *(np.uint8([[[9]]]), ONE / 2, np.uint8(200), np.int8([[[-7]]]), 3 * ONE, np.int8(-3)),
        *(np.int32(-70), ONE / 4, np.int8(4)),
    )
    assert_same_bits(got, want)


@quick
def test_vmap_over_the_parameters_is_a_loop():
    rng = np.random.default_rng(0)
    x, w = integers(rng, np.uint8, (1, 2, 5, 3)), integers(rng, np.int8, (3, 6, 2, 2))
    given = (
        *(x, scales(rng, (3,), "decimal"), integers(rng, np.uint8, (3,))),
        *(w, scales(rng, (6, 3), "decimal"), integers(rng, np.int8, (6, 3))),
        *(rng.integers(-99, 99, (3, 6)).astype(np.int32), scales(rng, (3,), "decimal"), integers(rng, np.uint8, (3,))),
    )
    axes = (3, 0, 0, 0, 1, 1, 0, 0, 0)
    got = jax.jit(jax.vmap(convolve, in_axes=axes))(*given)
    for i in range(3):
        one = [np.take(part, i, axis) for part, axis in zip(given, axes, strict=True)]
        assert_same_bits(got[i], reference.quantized_linear_convolution(*one))


@quick
def test_scales_have_no_derivative():
    def loss(scale):
        return convolve(SMALL_X, scale, None, SMALL_W, scale, None, None, scale).astype(jnp.float32).sum()

    assert jax.jit(jax.grad(loss))(ONE) == 0


@quick
def test_the_oracle_refuses_meaningless_scales():
    for bad in (0, np.inf, np.nan):
        with pytest.raises((ArithmeticError, ValueError)):
            reference.quantized_linear_convolution(*scaled(output_scale=bad))

"""The laws of dequantizing, against the oracle and by themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdml
from jaxdml import reference
from jaxdml._cases._quantizing import dtype_of, scales, special
from tests.kit import OneOf, assert_same_bits, data, grid, quick

dequantize = jax.jit(jaxdml.dequantize_linear, static_argnames=("axis", "block_size"))
N = 4000


def agrees(x, scale, zero_point=None, **options):
    got = dequantize(*jax.device_put((x, scale, zero_point)), **options)
    assert_same_bits(got, reference.dequantize_linear(x, scale, zero_point, **options))
    return np.asarray(got)


@grid(
    x=[OneOf("int8", "uint16", "uint8", "int16"), "int32", "uint32"], scale=["float32", OneOf("float16", "bfloat16")],
)  # fmt: skip
def test_agrees_with_the_oracle_on_any_scale(x, scale):
    rng = np.random.default_rng(0)
    of_x, of_scale = np.dtype(x), dtype_of(scale)
    factors = np.where(np.arange(N) % 3 == 0, special(rng, (N,), of_scale), scales(rng, (N,), of_scale))
    agrees(data("mixed", 1, (N,), of_x), factors, data("mixed", 2, (N,), of_x))


def test_a_scale_of_zero_infinity_or_nan():
    scale = np.float32([0, -0.0, np.inf, -np.inf, np.nan, -np.nan])[:, None]
    got = agrees(np.tile(np.int8([-3, 0, 5]), (6, 1)), scale)
    assert np.signbit(got[:2]).tolist() == [[True, False, False], [False, True, True]]
    assert got[2].tolist()[::2] == [-np.inf, np.inf]
    assert np.isnan(got[2:4, 1]).all()
    assert np.isnan(got[4:]).all()


def test_products_that_overflow_or_are_subnormal():
    scale = np.float32([3e38, 2e36, 1.1754944e-38, 1e-45, -7e-40])[:, None]
    got = agrees(np.tile(np.uint8([0, 1, 2, 127, 128, 129, 255]), (5, 1)), scale, np.uint8(128))
    assert np.isinf(got[0, 0])
    assert 0 < got[3, -1] < 1e-42


def test_differences_of_int32_wrap_around_and_others_do_not():
    x, zero = np.array([2**31 - 1, -(2**31)], np.int32), np.array([-1, 1], np.int32)
    assert agrees(x, np.float32(1), zero).tolist() == [-(2.0**31), 2.0**31]
    x, zero = np.array([0, 2**32 - 1, 2**31 + 1], np.uint32), np.array([2**32 - 1, 0, 2**31], np.uint32)
    assert agrees(x, np.float32(1), zero).tolist() == [-(2.0**32), 2.0**32, 1]
    assert agrees(np.int16([-(2**15)]), np.float32(1), np.int16(2**15 - 1)).tolist() == [1 - 2.0**16]


def test_what_the_caller_adds_is_a_rounding_of_its_own():
    rng = np.random.default_rng(2)
    x, term = rng.integers(0, 256, N, np.uint8), rng.standard_normal(N).astype(np.float32)
    scale = rng.uniform(0.01, 0.1, N).astype(np.float32)
    got = jax.jit(lambda x, s, t: jaxdml.dequantize_linear(x, s, 128) + t)(x, scale, term)
    assert_same_bits(got, reference.dequantize_linear(x, scale, np.uint8(128)) + term)


def test_a_result_of_16_bits_is_rounded_whatever_the_caller_does():
    x = np.arange(256, dtype=np.uint8)
    for dtype in (jnp.float16, jnp.bfloat16):
        scale = np.asarray(0.0371, dtype)
        got = jax.jit(lambda x, s: jaxdml.dequantize_linear(x, s, 3).astype(jnp.float32))(x, scale)
        assert_same_bits(got, reference.dequantize_linear(x, scale, np.uint8(3)).astype(np.float32))


@grid(axis=[0, -1], scale=["one", "vector"], zero=[None, OneOf("one", "vector")])
def test_vectors_belong_to_an_axis(axis, scale, zero):
    rng = np.random.default_rng(4)
    shapes = {"one": (1,), "vector": ((5, 7, 6)[axis],)}
    zero_point = None if zero is None else data("any bits", 3, shapes[zero], np.int8)
    agrees(data("any bits", 3, (5, 7, 6), np.int8), scales(rng, shapes[scale], np.dtype("f4")), zero_point, axis=axis)


@pytest.mark.parametrize(
    ("axis", "block_size", "scale", "zero"),
    [
        (1, 3, (5, 3, 6), (5, 3, 1)),
        (-1, 6, (5, 7, 1), (1, 1, 1)),
        ((0, 1), (2, 3), (3, 3, 6), (1, 3, 1)),
    ],
)
def test_blocks_have_a_scale_each(axis, block_size, scale, zero):
    given = data("any bits", 3, (5, 7, 6), np.uint8), scales(np.random.default_rng(5), scale, np.dtype("f2"))
    agrees(*given, data("any bits", 4, zero, np.uint8), axis=axis, block_size=block_size)


def test_one_element_and_none():
    agrees(np.uint8(3), np.float32(0.5), np.uint8(4))
    agrees(np.uint32(2**32 - 1), np.float32(0.5))
    agrees(np.zeros((0, 3), np.int8), np.ones((1, 3), np.float16))


@quick
@pytest.mark.parametrize("x64", [False, True])
def test_python_numbers_are_float32_scales(x64):
    x = np.int8([35, -125, 8])
    with jax.enable_x64(x64):
        call = dequantize if x64 else jaxdml.dequantize_linear
        assert_same_bits(call(x, 0.1, 3), reference.dequantize_linear(x, np.float32(0.1), np.int8(3)))


@quick
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_derivative_is_the_difference(dtype):
    x, scale = np.uint8([[7, 250, 128], [0, 3, 130]]), np.asarray([[0.5], [2]], dtype_of(dtype))

    def weighted(scale):
        return (jaxdml.dequantize_linear(x, scale, 128) * np.asarray([[1, 2, 4]], scale.dtype)).sum()

    @jax.jit
    def derivatives(scale):
        tangent = jax.jvp(lambda s: jaxdml.dequantize_linear(x, s, 128), (scale,), (jnp.ones_like(scale),))[1]
        return jax.grad(weighted)(scale), jax.hessian(weighted)(scale), tangent

    gradient, hessian, tangent = map(np.asarray, derivatives(scale))
    difference = np.float32(x) - 128
    assert_same_bits(gradient, (difference @ np.float32([[1], [2], [4]])).astype(gradient.dtype))
    assert not hessian.any()
    assert_same_bits(tangent, difference.astype(tangent.dtype))


D = "jaxdml.dequantize_linear: "
X = np.zeros((2, 5), np.int8)


@quick
@pytest.mark.parametrize(
    ("given", "rule", "shown", "advice"),
    [
        ((np.zeros(3, np.float32), 1.0), "x must be one of int8, uint8, int16, uint16, int32, uint32; got float32.",
            "x: float32[3]", "Convert x with .astype first."),
        ((X, np.int8(3)), "scale must be one of float32, float16, bfloat16; got int8.", "scale: int8[]",
            "Convert scale with .astype first."),
        ((X, 1.0, np.uint8(3)), "zero_point must be int8; got uint8.", "zero_point: uint8[]",
            "Pass zero_point as int8."),
        ((X, 1.0, np.zeros(2, np.int8)), "zero_point must be one value, or broadcast to [2, 5]; got [2].",
            "x: int8[2, 5], zero_point: int8[2]", "Pass axis if zero_point has a value for each index of one axis."),
    ],
)  # fmt: skip
def test_a_refusal_says_what_to_write_instead(given, rule, shown, advice):
    with pytest.raises(TypeError) as caught:
        jaxdml.dequantize_linear(*given)
    assert str(caught.value) == "\n  ".join([D + rule, shown, advice])

"""``requantize`` rounds int32 once and correctly, whether its scales are known or traced."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import jaxdml
from tests.kit import as_shipped, assert_same_bits, compiled, quick
from tests.kit.exact_rounding import rounded_quotients, scale_triples
from tests.kit.meshes import COUNT, mesh_of, needs_devices, put

pytestmark = quick

EXTREMES = np.array([-(2**31), 2**31 - 1, -1, 0, 1], np.int32)


def sums(rng, count):
    wide = rng.integers(-(2**31), 2**31, count // 2)
    return np.concatenate([wide, rng.integers(-(10**6), 10**6, count // 2), EXTREMES]).astype(np.int32)


def wanted(x, scales, zero_point, dtype):
    limits = np.iinfo(dtype)
    return np.clip(rounded_quotients(x, scales) + zero_point, limits.min, limits.max).astype(dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@as_shipped
def test_known_and_traced_scales_give_the_right_bits(dtype):
    rng = np.random.default_rng(0)
    zero = np.asarray(37, dtype)
    for scales in scale_triples(rng, 24, 2**31):
        x = sums(rng, 20_000)
        want = wanted(x, scales, 37, dtype)
        assert_same_bits(jaxdml.requantize(x, *map(np.float32, scales), zero), want)
        assert_same_bits(jaxdml.requantize(x, *map(jnp.float32, scales), zero), want)


def test_it_finishes_what_an_integer_product_begins():
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 256, (5, 40), np.uint8), rng.integers(-128, 128, (40, 7), np.int8)
    columns = rng.uniform(0.001, 0.01, 7).astype(np.float32)
    whole = jaxdml.quantized_linear_matrix_multiply(a, 0.02, 128, b, columns, None, 0.1, np.uint8(100))
    product = jaxdml.matrix_multiply_integer(a, 128, b, None)
    assert_same_bits(jaxdml.requantize(product, 0.02, columns, 0.1, np.uint8(100)), whole)


@pytest.mark.parametrize("known", [False, True])
def test_parameters_broadcast_and_are_mapped(known):
    rng = np.random.default_rng(2)
    x = rng.integers(-(10**4), 10**4, (3, 4, 6)).astype(np.int32)
    scale = rng.uniform(0.001, 0.02, (4, 1)).astype(np.float32)
    zeros = np.int8([[1, -2, 3, 4, 5, -6]])
    given = scale if known else jnp.asarray(scale)
    one = np.ones((1, 1), np.float32)
    mapped = jax.vmap(lambda x: jaxdml.requantize(x, given, 1.0, one, zeros), 1, 1)
    got = compiled(mapped)(np.stack([x, x], 1))
    columns = scale[:, 0].tolist()
    want = [[rounded_quotients(row, (s, 1, 1)) for row, s in zip(plane, columns, strict=True)] for plane in x]
    want = np.clip(np.asarray(want) + zeros, -128, 127).astype(np.int8)
    assert_same_bits(got, np.stack([want, want], 1))


@needs_devices
def test_sharded_sums_stay_sharded():
    x = np.arange(-8 * COUNT, 8 * COUNT, dtype=np.int32).reshape(COUNT, 16)
    want = wanted(x, (0.5, 0.5, 1.0), 3, "uint8")
    run = partial(jaxdml.requantize, a_scale=0.5, b_scale=np.full((COUNT, 1), 0.5, np.float32), output_scale=1.0)
    placed = put(mesh_of("explicit", d=COUNT), x, "d")
    got = compiled(lambda x: run(x, output_zero_point=np.uint8(3)))(placed)
    assert_same_bits(got, want)
    assert jax.typeof(got).sharding.spec[0] == "d"
    blocks = jax.shard_map(
        lambda x: jaxdml.requantize(x, 0.5, 0.5, 1.0, np.uint8(3)),
        mesh=mesh_of("auto", d=COUNT),
        in_specs=P("d"),
        out_specs=P("d"),
    )
    assert_same_bits(compiled(blocks)(x), want)


def test_derivatives_are_zero():
    call = partial(jaxdml.requantize, EXTREMES, b_scale=1.0, output_scale=1.0, output_dtype="int8")
    assert jax.grad(lambda scale: call(scale).astype(jnp.float32).sum())(1.0) == 0


@pytest.mark.parametrize(
    ("arguments", "error", "rule"),
    [
        ((np.int16([3]), 1.0, 1.0, 1.0), TypeError, "x must be one of int32; got int16."),
        ((EXTREMES, 0.0, 1.0, 1.0), ValueError, "a_scale must be a finite float32, not 0 and not subnormal; got 0.0."),
        ((EXTREMES, None, 1.0, 1.0), TypeError, "a_scale must be an array."),
        (
            (EXTREMES, np.ones(3, np.float32), 1.0, 1.0),
            TypeError,
            "a_scale must be one value, or broadcast to [5]; got [3].",
        ),
        (
            (EXTREMES, 1.0, 1.0, 1.0, 300),
            ValueError,
            "output_zero_point must be an integer from 0 to 255; got 300.",
        ),
    ],
)
def test_refuses(arguments, error, rule):
    with pytest.raises(error) as caught:
        jaxdml.requantize(*arguments, output_dtype="uint8")
    assert str(caught.value).splitlines()[0] == f"jaxdml.requantize: {rule}"


@pytest.mark.parametrize("zero_point", [None, 10])
def test_what_it_returns_has_to_be_said(zero_point):
    with pytest.raises(TypeError) as caught:
        jaxdml.requantize(EXTREMES, 1.0, 1.0, 1.0, zero_point)
    assert str(caught.value) == (
        "jaxdml.requantize: output_dtype, or the dtype of output_zero_point, must say what requantize returns; "
        f"got neither.\n  output_zero_point: {type(zero_point).__name__.replace('NoneType', 'None')}\n"
        "  Pass output_dtype='int8', or output_zero_point=np.int8(0)."
    )

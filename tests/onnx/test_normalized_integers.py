"""Softmax of integers in one kernel, against the form with a table; LayerNormalization of integers, against float64."""

import math
from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from jaxdml._networks import softmax
from jaxdml._networks.normalization import normalized_integers
from tests.kit import quick
from tests.onnx.quantized import Groups, draw

pytestmark = quick

U8, S8 = np.uint8, np.int8


def exactly(number):
    return Fraction(float(np.float32(number)))


# Softmax


@pytest.mark.parametrize("length", [2, 16, 256])
@pytest.mark.parametrize("out", [1 / 256, 1 / 255, 0.00037, 2.0**-20, 3.0])
@pytest.mark.parametrize("scale", [0.0003, 0.0371, 0.9])
def test_softmax_in_one_kernel_has_the_bits_of_the_table(length, out, scale):
    rng, scale, out = np.random.default_rng(5), exactly(scale), exactly(out)
    x = draw(rng, (64, length), S8)
    x[:16] = x[:16, :1]  # All are equal.
    x[16:32] >>= 4  # Many of a row are.
    x[32:40, 0] = 127
    static = {"axes": (1,), "terms": length, "scale": out}
    # Of few bits each counts.
    for bits, integers in ((softmax.bits_of_exponentials(length, out), x), (9, x.view(U8))):
        table, powers = softmax._exponentials(scale, bits), softmax.powers_of(scale, bits)
        ways = partial(softmax._from_a_table, divide=softmax._of_words), partial(softmax._in_one_kernel, powers=powers)
        want, got = (jax.jit(partial(way, **static))(integers, table, None) for way in ways)
        np.testing.assert_array_equal(got, want)


def test_powers_are_refused_where_a_product_of_them_may_round_otherwise():
    bits = 24
    near_a_half = exactly(-math.log(1.5 / 2**bits))
    assert softmax.powers_of(near_a_half, bits) is None
    assert softmax.powers_of(exactly(0.0371), bits) is not None


def lowered(shape, axis):
    groups = Groups()
    groups.q(groups("Softmax", groups.dq(groups.input(np.zeros(shape, U8)), 0.0371), axis=axis), 1 / 256, U8(0))
    traced = jax.jit(groups.load().apply).trace({}, jax.ShapeDtypeStruct(shape, U8))
    return {platform: traced.lower(lowering_platforms=(platform,)).as_text() for platform in ("cuda", "cpu", "tpu")}


def test_rows_of_a_power_of_two_are_one_kernel_on_cuda():
    texts = lowered((3, 64), 1)
    assert "xf64>" in texts["cuda"]
    assert "gather" not in texts["cuda"]
    assert all("xf64>" not in texts[platform] for platform in ("cpu", "tpu"))


@pytest.mark.parametrize(("shape", "axis"), [((3, 63), 1), ((3, 512), 1), ((64, 3), 0)])
def test_other_rows_are_looked_up_on_cuda(shape, axis):
    assert "gather" in lowered(shape, axis)["cuda"]


# LayerNormalization


def normalized(x, axes, epsilon, scale, bias, out):
    """Return quotients that are not rounded yet."""
    mean = x.mean(axes, keepdims=True)
    variance = np.square(x - mean).mean(axes, keepdims=True)
    return ((x - mean) / np.sqrt(variance + epsilon) * scale + bias) / out


@pytest.mark.parametrize(("dtype", "to"), [(U8, S8), (S8, U8)])
@pytest.mark.parametrize(("axis", "biased"), [(-1, True), (1, False)])
def test_layer_normalization_is_rounded_from_what_is_as_close_as_float32(dtype, to, axis, biased):
    rng, groups = np.random.default_rng(0), Groups()
    shape, zero = (40, 6, 96), np.iinfo(to).min + 120
    x = draw(rng, shape, dtype)
    x[0] = 5  # No variance.
    x[1] = dtype(np.iinfo(dtype).max)
    scale, bias = (rng.normal(mean, 0.3, shape[axis:]).astype(np.float32) for mean in (1, 0))
    dequantized = groups.dq(groups.input(x), 0.0365, dtype(7))
    made = groups("LayerNormalization", dequantized, scale, *([bias] if biased else []), axis=axis)
    name = groups.q(made, 0.0397, to(zero))
    axes = tuple(range(axis % 3, 3))
    real = (x.astype(np.float64) - 7) * float(exactly(0.0365))
    wanted = normalized(real, axes, 1e-5, scale.astype(np.float64), bias if biased else 0.0, float(exactly(0.0397)))
    near = np.abs(wanted - np.floor(wanted) - 0.5) < 1e-4
    limits = np.iinfo(to)
    want = np.clip(np.rint(wanted) + zero, limits.min, limits.max)
    got = groups.run()[name].astype(np.int64)
    assert near.mean() < 0.01
    np.testing.assert_array_equal(got[~near], want[~near])
    assert np.abs(got - want).max() <= 1
    assert groups.notes()[made] == "float: normalized in float32 and rounded"


OUT_OF_RANGE = "float: its scales or sizes are not known while tracing, or out of range"


def test_layer_normalization_stays_in_floats_where():
    groups, rng = Groups(), np.random.default_rng(1)
    x, traced, ones = groups.input(draw(rng, (4, 8), U8)), groups.input(np.float32(0.25)), np.ones(8, np.float32)
    plain = groups.dq(x, 0.25, U8(100))
    with_mean = groups("LayerNormalization", plain, ones, outputs=2)
    made = [
        groups("LayerNormalization", groups.dq(x, traced, U8(100)), ones),
        groups("LayerNormalization", plain, ones, epsilon=0.0),
        with_mean[0],
    ]
    for y in made:
        groups.q(y, 0.05, U8(128))
    groups.out(with_mean[1])
    groups.q(groups("LayerNormalization", plain, ones), groups.input(np.float32(0.05)), U8(128))
    notes = groups.notes()
    assert [notes[y] for y in made] == [OUT_OF_RANGE, OUT_OF_RANGE, "as it is written"]
    groups.nearly()


def test_parameters_that_are_not_finite_and_sizes_of_nothing():
    x, one = jnp.arange(8, dtype=jnp.uint8).reshape(2, 4), jnp.ones((1, 4))
    scale = jnp.asarray([[jnp.nan, jnp.inf, -jnp.inf, 1.0]])
    got = normalized_integers(x, (-1,), 1e-5, scale, None, 0.5, 3, np.dtype(U8))
    np.testing.assert_array_equal(got, [[3, 0, 0, 6]] * 2)  # NaN is 0; -1 / 3 of infinity is below all.
    # Of the second and the last XLA would make 0: they are subnormal.
    for epsilon, out in ((0.0, 0.5), (1e-41, 0.5), (1e38, 0.5), (1e-5, 1e-40), (1e-5, 2e38)):
        assert normalized_integers(x, (-1,), epsilon, one, None, out, 3, np.dtype(U8)) is None
    assert normalized_integers(x[:, :0], (-1,), 1e-5, one[:, :0], None, 0.5, 3, np.dtype(U8)) is None


def test_layer_normalization_of_an_unknown_size_stays_in_floats():
    groups = Groups()
    x = groups.dq(groups.input(np.arange(12, dtype=U8).reshape(3, 4), 3, "n"), 0.5)
    groups.q(groups("LayerNormalization", x, np.ones(1, np.float32)), 0.25, U8(100))
    model, (size,) = groups.load(), export.symbolic_shape("n")
    exported = export.export(jax.jit(model.apply))(model.params, jax.ShapeDtypeStruct((3, size), U8))
    (got,) = exported.call(model.params, *groups.inputs.values())
    np.testing.assert_array_equal(got, model(*groups.inputs.values())[0])


@pytest.mark.parametrize("axis", [1, 2])
def test_layer_normalization_of_padded_rows_has_the_bits_of_others(axis):
    groups, rng = Groups(), np.random.default_rng(2)
    x, scale = rng.integers(0, 256, (50, 40, 16)).astype(U8), rng.normal(1, 0.2, 16).astype(np.float32)
    dequantized = groups.dq(groups.input(x[:3], "N", 40, 16), 0.03, U8(128))
    groups.q(groups("LayerNormalization", dequantized, scale, axis=axis), 0.02, U8(128))
    model = groups.load()
    (want,) = jax.jit(model.apply)(model.params, x)
    for count in (7, 50):  # From the second length on, arrays are padded.
        (got,) = model(x[:count])
        np.testing.assert_array_equal(got, want[:count])


def test_images_of_a_padded_batch_are_normalized_as_others():
    groups, rng = Groups(), np.random.default_rng(3)
    x, ones = rng.normal(size=(20, 3, 4, 5)).astype(np.float32), np.ones(3, np.float32)
    images = groups.input(x[:2], "N", 3, 4, 5)
    groups.out(groups("InstanceNormalization", images, ones, 0 * ones))
    groups.out(groups("MeanVarianceNormalization", images, axes=[2, 3]))
    model = groups.load()
    wanted = jax.jit(model.apply)(model.params, x)
    for count in (7, 20):
        for got, want in zip(model(x[:count]), wanted, strict=True):
            np.testing.assert_allclose(got, want[:count], rtol=1e-6, atol=1e-6)

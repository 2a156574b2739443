"""``fake_quantize`` has the bits of a pair of operators, and the derivatives of training."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdml
from jaxdml import reference
from tests.kit import as_shipped, assert_same_bits, data, grid, quick
from tests.kit.meshes import COUNT, mesh_of, needs_devices, put

pytestmark = quick

DTYPES = ("int8", "uint8", "int16", "uint16")


def pair(x, scale, zero_point, **options):
    integers = reference.quantize_linear(x, scale, zero_point, **options)
    options.pop("output_dtype", None)
    return reference.dequantize_linear(integers, scale, zero_point, **options)


@as_shipped
@grid(x=["float32", "float16", "bfloat16"], scale=["float32", "bfloat16"], dtype=DTYPES, known=[False, True])
def test_it_has_the_bits_of_the_pair(x, scale, dtype, known):
    x = data("any bits", 0, (64, 5), jnp.dtype(x))
    scale = np.array([0.5, 0.013, -0.3, 3e-3, 2.0]).astype(jnp.dtype(scale))
    zero = np.array([0, 1, 7, 100, 127], dtype)
    call = jax.jit(partial(jaxdml.fake_quantize, axis=1))
    got = jaxdml.fake_quantize(x, scale, zero, axis=1) if known else call(x, scale, zero)
    assert_same_bits(got, pair(x, scale, zero, axis=1))


@grid(dtype=DTYPES, zero=["least", "0", "greatest"], known=[False, True])
def test_where_x_saturates_its_derivative_is_0(dtype, zero, known):
    limits = np.iinfo(dtype)
    zero = np.array({"least": limits.min, "0": 0, "greatest": limits.max}[zero], dtype)
    # In units of the scale: both limits, the halves beside them, which tie, and their neighbours.
    edges = np.array([limits.min, limits.max]) - int(zero)
    halves = (edges[:, None] + np.array([-1, -0.5, 0, 0.5, 1])).astype(np.float32)
    x = np.concatenate([np.nextafter(halves, towards) for towards in (-np.inf, np.inf)] + [halves]).ravel()
    x = np.concatenate([x, [0.0, 3.0, np.inf, -np.inf, np.nan]]).astype(np.float32) / 4
    scale = np.float32(0.25)

    def call(x):
        return jaxdml.fake_quantize(x, scale if known else jnp.asarray(scale), zero).sum()

    rounded = np.rint(x / scale) + int(zero)
    want = (limits.min <= rounded) & (rounded <= limits.max)
    assert 0 < want.sum() < want.size
    assert_same_bits(jax.grad(call)(x), want.astype(np.float32))


def test_the_derivative_in_the_scale_is_that_of_learned_step_sizes():
    rng = np.random.default_rng(0)
    x, scale = rng.normal(size=(50, 3)).astype(np.float32), np.float32([0.01, 0.02, 0.5])
    zero = np.int8([0, 5, -7])
    got = jax.grad(lambda scale: jaxdml.fake_quantize(x, scale, zero, axis=1).sum())(scale)
    rounded = np.rint(x / scale) + zero
    inside = (rounded >= -128) & (rounded <= 127)
    assert 0 < inside.sum() < inside.size
    want = np.clip(rounded, -128, 127) - zero - np.where(inside, x / scale, 0)
    np.testing.assert_allclose(got, want.sum(0), rtol=1e-4)


def test_forward_reverse_and_second_derivatives_agree():
    x, scale = jnp.array([-0.4, 0.3, 0.7, 60.0]), jnp.float32(0.1)
    call = partial(jaxdml.fake_quantize, output_dtype="int8")
    both = (0, 1)
    for one, other in zip(jax.jacfwd(call, both)(x, scale), jax.jacrev(call, both)(x, scale), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    # Inside, the derivative in the scale is q - x / scale, so that of x in it is -1 / scale.
    mixed = jax.jacfwd(jax.grad(lambda x, scale: call(x, scale).sum(), 1), 0)(x, scale)
    np.testing.assert_allclose(mixed, [-10, -10, -10, 0], rtol=1e-6)


def test_it_is_mapped_and_takes_blocks():
    x = np.random.default_rng(1).normal(size=(3, 4, 6)).astype(np.float32)
    scale = np.random.default_rng(2).uniform(0.01, 0.1, (3, 4, 2)).astype(np.float32)
    options = {"axis": 2, "block_size": 3, "output_dtype": "int8"}
    want = pair(x, scale, None, **options)
    assert_same_bits(jaxdml.fake_quantize(x, scale, **options), want)
    mapped = jax.vmap(partial(jaxdml.fake_quantize, **{**options, "axis": 1}), in_axes=1, out_axes=1)
    assert_same_bits(mapped(x, jnp.asarray(scale)), want)


@needs_devices
@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_sharded_arrays_have_the_same_bits_and_gradients(kind):
    rng = np.random.default_rng(3)
    x, scale = rng.normal(size=(2 * COUNT, 3)).astype(np.float32), rng.uniform(0.001, 0.1, 2 * COUNT)
    scale = scale.astype(np.float32)
    call = partial(jaxdml.fake_quantize, axis=0, output_dtype="int8")
    slope = jax.grad(lambda x, scale: (call(x, scale) * x).sum(), (0, 1))
    want, slopes = call(x, jnp.asarray(scale)), slope(x, jnp.asarray(scale))
    mesh = mesh_of(kind, d=COUNT)
    given = put(mesh, x, "d"), put(mesh, scale, "d")
    assert_same_bits(jax.jit(call)(*given), want)
    for got, one in zip(jax.jit(slope)(*given), slopes, strict=True):
        np.testing.assert_allclose(got, one, rtol=1e-4)


def test_bad_arguments_are_refused():
    with pytest.raises(TypeError) as error:
        jaxdml.fake_quantize(np.ones(3, np.float32), 0.5, 3)
    assert str(error.value) == (
        "jaxdml.fake_quantize: output_dtype, or the dtype of zero_point, must say what fake_quantize returns; "
        "got neither.\n  zero_point: int\n  Pass output_dtype='int8', or zero_point=np.int8(0)."
    )
    with pytest.raises(TypeError, match="x must be one of float32, float16, bfloat16; got int32"):
        jaxdml.fake_quantize(np.ones(3, np.int32), 0.5, output_dtype="int8")

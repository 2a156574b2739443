"""Convolutions with packed filters have the bits of the oracle, however they are stored, passed on and transformed."""

import pickle
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import PartitionSpec as P

import jaxdml
from jaxdml import reference
from jaxdml._arithmetic.windows import Windows
from jaxdml._cases._convolving import CHANNELS_LAST
from jaxdml._kernels.integer_convolution import METHODS, native_convolution, packed_filters
from tests.kit import OneOf, assert_same_bits, compiled, grid, quick
from tests.kit.meshes import COUNT, mesh_of, needs_devices, put

pytestmark = quick

ON_CPU = jax.default_backend() == "cpu"

LAYERS = {
    "native": ((2, 16, 6, 7), (17, 16, 3, 3), {"start_padding": 1, "strides": (1, 2)}),
    "few channels": ((1, 3, 9, 8), (8, 3, 3, 3), {"start_padding": 1, "strides": 2}),
    "dilated": ((1, 5, 9, 8), (8, 5, 3, 2), {"dilations": (2, 1)}),
    "windows of one": ((2, 20, 3, 4), (9, 20, 1, 1), {}),
    "groups": ((1, 6, 5, 5), (4, 3, 2, 2), {"group_count": 2}),
    "groups, windows of one": ((1, 6, 5, 5), (4, 3, 1, 1), {"group_count": 2}),
    "one channel each": ((2, 5, 6, 6), (10, 1, 3, 3), {"group_count": 5, "end_padding": 1}),
    "one dimension": ((1, 4, 9), (8, 4, 3), {}),
}


def integers(seed, dtype, shape):
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max, shape, dtype, endpoint=True)


def layer(name, x_dtype="uint8", w_dtype="int8", last=False):
    """Return an input, filters and options, with channels first or last."""
    shape, filters, options = LAYERS[name]
    x, w = integers(0, x_dtype, shape), integers(1, w_dtype, filters)
    if not last:
        return x, w, options
    spatial = "DHW"[5 - x.ndim :]
    order = f"N{spatial}C", f"{spatial}IO", f"N{spatial}C"
    w = w.transpose(*range(2, w.ndim), 1, 0)
    return np.moveaxis(x, 1, -1), w, options | {"dimension_numbers": order}


def packed_of(w, options):
    order = options.get("dimension_numbers")
    return jaxdml.prepack_filters(w, dimension_numbers=order and order[1])


@grid(
    name=list(LAYERS), last=[False, True], x_dtype=[OneOf("int8", "uint8")], w_dtype=["int8", "uint8"],
    zero=[False, True], large=[OneOf(False, True)],
)  # fmt: skip
def test_agrees_with_the_oracle(name, last, x_dtype, w_dtype, zero, large, monkeypatch):
    if large:
        monkeypatch.setattr(packed_filters, "LARGE", 1)
    x, w, options = layer(name, x_dtype, w_dtype, last)
    jax.clear_caches()
    packed = packed_of(w, options)
    assert (packed.shape, packed.ndim, packed.dtype) == (w.shape, w.ndim, w.dtype)
    assert_same_bits(packed.unpacked(), w)
    features = packed.sums.size
    zeros = (np.asarray(7, x_dtype), integers(2, w_dtype, features)) if zero else (None, None)
    want = reference.convolution_integer(x, zeros[0], w, zeros[1], **options)
    convolve = partial(jaxdml.convolution_integer, **options)
    assert_same_bits(compiled(lambda x, w: convolve(x, zeros[0], w, zeros[1]))(x, packed), want)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("by_rows", [False, True])
def test_every_method_takes_filters_in_every_layout(method, by_rows):
    if jax.default_backend() != (METHODS[method] or jax.default_backend()):
        pytest.skip(f"{method} does not serve here")
    for last in (True, False):
        if method == "native_convolution" and not last:
            continue
        x, w, options = layer("one channel each" if method == "shifted_slices" else "few channels", last=last)
        packed = packed_filters.pack(jnp.asarray(w), packed_of(w, options).dimensions, by_rows)[0]
        convolve = partial(jaxdml.convolution_integer, implementation=method, **options)
        got = compiled(lambda x, w, convolve=convolve: convolve(x, np.uint8(3), w, None))(x, packed)
        assert_same_bits(got, reference.convolution_integer(x, np.uint8(3), w, None, **options))


@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_every_platform_takes_packed_filters(platform):
    x, w, options = layer("native", last=True)
    convolve = jax.jit(lambda x, w: jaxdml.convolution_integer(x, 3, w, None, **options))
    text = convolve.trace(x, packed_of(w, options)).lower(lowering_platforms=(platform,)).as_text()
    # Filters that were packed on a GPU are stored by rows, which a CPU multiplies patches by.
    assert ("stablehlo.convolution" in text) != (platform == "cpu" and jax.default_backend() != "cpu")


def test_filters_too_deep_for_int32_are_exact():
    x, w = np.full((1, 40_000, 1, 1), 255, np.uint8), np.full((2, 40_000, 1, 1), 255, np.uint8)
    got = jaxdml.convolution_integer(x, None, jaxdml.prepack_filters(w), None)
    assert (np.asarray(got) == 255 * 255 * 40_000 - 2**32).all()


X, W, OPTIONS = layer("few channels", last=True)
CHANGED = integers(5, "int8", W.shape)


def convolved(x, w):
    return jaxdml.quantized_linear_convolution(x, 0.02, 130, w, 0.01, None, None, 0.5, 100, **OPTIONS)


def wanted(x, w):
    one = np.float32
    given = x, one(0.02), np.uint8(130), w, one(0.01), None, None, one(0.5), np.uint8(100)
    return reference.quantized_linear_convolution(*given, **OPTIONS)


def test_packed_filters_are_a_pytree_with_leading_dimensions():
    # What is stacked has one bound.
    layers = [replace(packed_of(w, OPTIONS), bound=packed_of(W, OPTIONS).bound) for w in (W, CHANGED)]
    assert packed_of(CHANGED, OPTIONS).bound <= layers[0].bound
    stacked = jax.tree.map(lambda *arrays: jnp.stack(arrays), *layers)
    images = np.stack([X, X[:, ::-1]])

    def programs(images, layers):
        return {
            "each with its own": jax.vmap(convolved)(images, layers),
            "one image": jax.vmap(convolved, (None, 0))(images[0], layers),
            "one layer": jax.vmap(convolved, (0, None))(images, jax.tree.map(lambda x: x[1], layers)),
            "scanned": jax.lax.scan(lambda carry, w: (carry, convolved(images[0], w)), 0, layers)[1],
        }

    expected = {
        "each with its own": np.stack([wanted(images[0], W), wanted(images[1], CHANGED)]),
        "one image": np.stack([wanted(X, W), wanted(X, CHANGED)]),
        "one layer": np.stack([wanted(image, CHANGED) for image in images]),
        "scanned": np.stack([wanted(X, W), wanted(X, CHANGED)]),
    }
    jax.tree.map(assert_same_bits, compiled(programs)(images, stacked), expected)


def test_packed_filters_are_saved_exported_and_restored(tmp_path):
    packed = packed_of(W, OPTIONS)
    names = "filters", "sums", "dimensions", "by_rows", "k", "bound"
    np.savez(tmp_path / "w.npz", dtype=str(packed.dtype), **{name: getattr(packed, name) for name in names})
    with np.load(tmp_path / "w.npz") as loaded:
        restored = jaxdml.PackedFilters(**loaded)
    for again in (restored, pickle.loads(pickle.dumps(packed))):
        assert jax.tree.structure(again) == jax.tree.structure(packed)
        assert_same_bits(jax.jit(convolved)(X, again), wanted(X, W))
    written = export.export(jax.jit(convolved), platforms=["cpu", "cuda", "tpu"])(X, packed).serialize()
    assert_same_bits(export.deserialize(written).call(X, packed), wanted(X, W))
    assert_same_bits(jax.jit(lambda w: packed_of(w, OPTIONS).unpacked())(W), W)


@needs_devices
def test_packed_filters_are_sharded():
    x, w = integers(0, "uint8", (2, 2 * COUNT, 4, 4)), integers(1, "uint8", (3 * COUNT, 2 * COUNT, 2, 2))
    want = reference.convolution_integer(x, np.uint8(7), w, np.uint8(9))
    packed = jaxdml.prepack_filters(w)
    assert not packed.by_rows
    convolve = partial(jaxdml.convolution_integer, x_zero_point=np.uint8(7), w_zero_point=np.uint8(9))
    mesh = mesh_of("explicit", d=COUNT)
    features = replace(
        packed, filters=put(mesh, packed.filters, None, None, None, "d"), sums=put(mesh, packed.sums, "d")
    )
    got = compiled(lambda x, w: convolve(x, w=w))(put(mesh, x), features)
    assert_same_bits(got, want)
    assert jax.typeof(got).sharding.spec[1] == "d"
    blocks = replace(packed, filters=P(None, None, "d", None), sums=P())
    mesh = mesh_of("auto", d=COUNT)
    contracted = jax.shard_map(
        lambda x, w: convolve(x, w=w, axis_name="d"), mesh=mesh, in_specs=(P(None, "d"), blocks), out_specs=P()
    )
    assert_same_bits(compiled(contracted)(x, packed), want)


PACKED = packed_of(W, OPTIONS)
ADVICE = "Pass jaxdml.prepack_filters of the filters, or the fields that it returned."
SHOWN = "w.filters: int8[3, 3, 3, 8], w.sums: int32[8]"


@pytest.mark.parametrize(
    ("fields", "rule", "advice"),
    [
        ({"filters": np.asarray(PACKED.filters).view(np.uint8)}, "w.filters must be int8; got uint8.", ADVICE),
        ({"dimensions": (0, 1, 2, 2)}, "w.dimensions must say where the 4 dimensions of w are", ADVICE),
        ({"sums": np.zeros(3, np.int32)}, "w.sums must have one number for each filter, [8]; got [3].", ADVICE),
        ({"sums": np.zeros(8, np.float32)}, "w.sums must be int32; got float32.", ADVICE),
        ({"dtype": "int16"}, "w.dtype must be one of int8, uint8; got int16.", ADVICE),
        (
            {"k": 5},
            "w.sums must add up the numbers of a filter, 27; got w.k = 5.",
            "Pass axis_name for a block of filters whose channels are sharded, or prepack the filters anew.",
        ),
    ],
)
def test_fields_that_do_not_fit_are_refused(fields, rule, advice):
    with pytest.raises(TypeError) as caught:
        convolved(X, replace(PACKED, **fields))
    first, _, last = str(caught.value).splitlines()
    assert rule in first
    assert last.strip() == advice


def test_the_order_is_that_of_packing():
    with pytest.raises(ValueError, match="dimension_numbers must give w the order with which it was packed"):
        jaxdml.convolution_integer(X, None, PACKED, None, dimension_numbers=("NHWC", "OIHW", "NHWC"))
    with pytest.raises(TypeError, match=r"(?s)w must be an array.*Pass the array that was packed"):
        jaxdml.prepack_filters(PACKED)


@pytest.mark.parametrize(
    ("w", "order", "error", "rule"),
    [
        (W, "HWIX", ValueError, "dimension_numbers must say where the 4 dimensions of w are; got 'HWIX'."),
        (W, 7, ValueError, "dimension_numbers must say where the 4 dimensions of w are; got 7."),
        (W[0, 0], None, TypeError, "w must have at least three dimensions; got 2."),
        (W.astype(np.float32), None, TypeError, "w must be one of int8, uint8; got float32."),
    ],
)
def test_what_cannot_be_packed_is_refused(w, order, error, rule):
    with pytest.raises(error) as caught:
        jaxdml.prepack_filters(w, dimension_numbers=order)
    assert str(caught.value).startswith(f"jaxdml.prepack_filters: {rule}")


def test_the_order_may_be_three_numbers_of_jax():
    channels_last = jaxdml.prepack_filters(W, dimension_numbers=CHANNELS_LAST[1])
    assert channels_last.dimensions == (3, 2, 0, 1)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("shape", [(5, 3, 2, 4), (6, 1, 3, 2), (7, 9, 1, 1)])
def test_filters_on_the_host_are_packed_there(caplog, dtype, shape):
    w = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8).view(dtype)
    with jax.log_compiles():
        packed = jaxdml.prepack_filters(w)
    assert "Compiling" not in caplog.text
    of_jax = jaxdml.prepack_filters(jnp.asarray(w))
    assert jax.tree.structure(packed) == jax.tree.structure(of_jax)
    for ours, theirs in zip(jax.tree.leaves(packed), jax.tree.leaves(of_jax), strict=True):
        assert_same_bits(ours, theirs)


def deep_filters(magnitudes):
    """Return two filters of 9 x 128 numbers; the magnitudes of the second add up to what is given."""
    w = np.zeros((2, 128 * 9), np.int8)
    w[1] = magnitudes // w[1].size
    w[1, : magnitudes % w[1].size] += 1
    w[1, ::2] *= -1
    return w.reshape(2, 128, 3, 3)


@pytest.mark.parametrize(("magnitudes", "native"), [(2**17, True), (2**17 + 1, False)])
@pytest.mark.parametrize("positions", [2**10, 2**10 - 32])
def test_deep_filters_are_convolved_in_float32_where_it_holds_their_sums(magnitudes, native, positions):
    packed = jaxdml.prepack_filters(deep_filters(magnitudes))
    assert packed.bound == 2**17 * (1 if native else 2)
    shape = jax.ShapeDtypeStruct((1, 128, positions // 32 + 2, 34), np.int8)

    def text(w):
        convolve = jax.jit(lambda x, w: jaxdml.convolution_integer(x, None, w, None))
        return convolve.trace(shape, w).lower(lowering_platforms=("cuda",)).as_text()

    assert ("stablehlo.convolution" in text(packed)) == (native and positions == 2**10)
    assert "stablehlo.convolution" not in text(packed.unpacked())
    assert "stablehlo.convolution" not in text(replace(packed, bound=0))


def test_float32_holds_the_greatest_sum_of_deep_filters():
    w = deep_filters(2**17)
    x = np.where(w[1] > 0, -128, 127).astype(np.int8)[None]
    x[w[1:] < 0] = -128
    sums = native_convolution.native_sums(
        jnp.asarray(x.transpose(0, 2, 3, 1)),
        jnp.asarray(np.abs(w.astype(np.int16)).astype(np.int8).transpose(2, 3, 1, 0)),
        Windows((1, 2), (3, 3), (1, 1), (1, 1), (0, 0), (0, 0), 1),
        jnp.float32,
        lambda x, w: x,
    )
    assert sums[0, 0, 0, 1] == -(2**24)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_the_bound_is_a_power_of_two(dtype):
    for numbers, bound in (([[-128, 127, 1]], 256), ([[-128, 127, 2]], 512), ([[0, 0, 0]], 0), ([[1, 0, 0]], 1)):
        signed = np.asarray(numbers, np.int8)[:, :, None]
        w = signed if dtype == "int8" else (signed.view(np.uint8) ^ 128)
        assert jaxdml.prepack_filters(w).bound == bound
        assert jaxdml.prepack_filters(jnp.asarray(w)).bound == bound
        assert jaxdml.prepack(w[0]).bound == jaxdml.prepack(jnp.asarray(w[0])).bound == bound
        assert jax.eval_shape(jaxdml.prepack_filters, w).bound == 0
        assert jax.eval_shape(jaxdml.prepack, w[0]).bound == 0

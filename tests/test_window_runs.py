"""Convolutions on GPUs of runs of windows have the bits of the oracle."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import PartitionSpec as P

import jaxdml
from jaxdml import reference
from jaxdml._kernels.integer_convolution import window_runs
from jaxdml._placement.options import INTEGERS
from tests.kit import assert_same_bits, compiled
from tests.kit.forms import forms_of
from tests.kit.known_parameters import lowered, named
from tests.kit.meshes import COUNT, mesh_of, needs_devices

RNG = np.random.default_rng(0)
STEMS = {
    # Windows that share pixels, two at once: the first layer of most networks for images.
    "3 x 3, strided": ((2, 9, 12, 3), (16, 3, 3, 3), {"strides": 2, "start_padding": 1, "end_padding": 1}),
    "7 x 7": ((1, 20, 24, 3), (64, 3, 7, 7), {"strides": 2, "start_padding": 3, "end_padding": 3}),
    "one step": ((1, 6, 8, 4), (16, 4, 3, 3), {"start_padding": 1, "end_padding": (0, 1)}),
    "two channels": ((2, 6, 9, 2), (12, 2, 3, 3), {"strides": (1, 2), "start_padding": (0, 1), "end_padding": (2, 0)}),
    "wide steps": ((1, 20, 31, 2), (40, 2, 5, 5), {"strides": 3, "start_padding": 2, "end_padding": (2, 1)}),
    "one pair": ((1, 3, 4, 3), (16, 3, 3, 3), {}),
}
"""Shapes of images and filters, and options."""

BLOCKS = {
    "16 channels": ((2, 6, 8, 16), (20, 16, 3, 3), {"start_padding": 1, "end_padding": 1}),
    "64 channels": ((1, 4, 4, 64), (64, 64, 3, 3), {"start_padding": 1, "end_padding": 1}),
    "strided, of 20 channels": ((1, 9, 12, 20), (8, 20, 3, 5), {"strides": (1, 2), "end_padding": (0, 3)}),
    "two more windows": ((1, 6, 6, 16), (20, 16, 3, 3), {"start_padding": 1, "end_padding": 1}),
}
"""Of more channels, which pairs serve if tiles are chosen."""


def of_stem(name, x_dtype="uint8", w_dtype="int8"):
    """Return images, filters, the parameters of a call, its options, and what is packed."""
    shape, of_filters, options = (STEMS | BLOCKS)[name]
    x, w = (
        RNG.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, sizes).astype(dtype)
        for sizes, dtype in ((shape, x_dtype), (of_filters, w_dtype))
    )
    features = of_filters[0]
    parameters = named(
        "x", "w",
        zero_point=np.asarray(114 if x_dtype == "uint8" else -9, x_dtype),
        w_zero=np.asarray(0 if w_dtype == "int8" else 128, w_dtype),
        w_scale=RNG.uniform(0.5, 1, features).astype(np.float32) / 64,
        bias=RNG.integers(-999, 999, features).astype(np.int32),
    )  # fmt: skip
    options = {"strides": 1, "dimension_numbers": ("NHWC", "OIHW", "NHWC")} | options
    packed = jaxdml.prepack_filters(w, parameters=parameters | {"strides": options["strides"]})
    return x, w, parameters, options, packed


def pairs_of(rows, columns):
    """Return the text of a product that two windows side by side make in a program."""
    return f"tensor<{rows}x{columns}xf32>"


@pytest.mark.parametrize("name", STEMS)
@pytest.mark.parametrize(("x_dtype", "w_dtype"), [("uint8", "int8"), ("int8", "uint8")])
def test_two_windows_side_by_side_are_one_row_of_a_product(on_gpu, name, x_dtype, w_dtype):
    x, w, parameters, options, packed = of_stem(name, x_dtype, w_dtype)

    def convolve(x, w):
        return jaxdml.quantized_linear_convolution(x, w=w, **parameters, **options)

    wanted = reference.quantized_linear_convolution(x, w=w, **parameters, **options)
    assert pairs_of(wanted.size // w.shape[0] // 2, 2 * w.shape[0]) in lowered(convolve, x, packed)
    with forms_of("cuda"):
        assert_same_bits(compiled(convolve)(x, packed), wanted)
        images = np.stack([x, x[:, ::-1]])
        got = compiled(jax.vmap(convolve, (0, None)))(images, packed)
    assert_same_bits(got[0], wanted)
    assert_same_bits(got[1], reference.quantized_linear_convolution(images[1], w=w, **parameters, **options))
    assert_same_bits(compiled(convolve)(x, packed), wanted)


@pytest.mark.parametrize("name", [*BLOCKS, "3 x 3, strided"])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_more_channels_are_convolved_so_if_tiles_are_chosen(on_gpu, name, dtype):
    x, w, parameters, options, packed = of_stem(name, dtype)

    def convolve(x, w):
        return jaxdml.quantized_linear_convolution(x, w=w, **parameters, **options)

    wanted = reference.quantized_linear_convolution(x, w=w, **parameters, **options)
    one_product = pairs_of(wanted.size // w.shape[0] // 2, 2 * w.shape[0])
    assert (one_product in lowered(convolve, x, packed)) == (name in STEMS)
    with forms_of("cuda", INTEGERS):
        assert one_product in jax.jit(convolve).lower(x, packed).as_text()
        assert_same_bits(compiled(convolve)(x, packed), wanted)
        got = compiled(jax.vmap(convolve, (1, None), 1))(np.stack([x, x[:, ::-1]], 1), packed)
    assert_same_bits(got[:, 0], wanted)
    assert_same_bits(got[:, 1], reference.quantized_linear_convolution(x[:, ::-1], w=w, **parameters, **options))


@pytest.mark.parametrize(
    ("name", "count"),
    [("16 channels", 4), ("64 channels", 4), ("strided, of 20 channels", 2), ("7 x 7", 2), ("two more windows", 2)],
)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_many_numbers_are_convolved_four_windows_at_once(monkeypatch, on_gpu, name, count, dtype):
    x, w, parameters, options, packed = of_stem(name, dtype)

    def convolve(x, w):
        return jaxdml.quantized_linear_convolution(x, w=w, **parameters, **options)

    wanted = reference.quantized_linear_convolution(x, w=w, **parameters, **options)
    numbers = wanted.size // w.shape[0] // 2 * packed.runs[0].columns.shape[0]
    product = pairs_of(wanted.size // w.shape[0] // count, count * w.shape[0])
    for least, is_so in ((numbers, True), (numbers + 1, count == 2)):
        monkeypatch.setattr(window_runs, "MIN_NUMBERS_OF_FOUR", least)
        with forms_of("cuda", INTEGERS):
            assert (product in jax.jit(convolve).lower(x, packed).as_text()) == is_so
            assert_same_bits(compiled(convolve)(x, packed), wanted)


def test_runs_of_four_have_a_limit(on_gpu):
    """The columns of twos take 2.7 times the bytes of filters of 3 x 3, and those of fours 8 times."""
    for features, counts in ((64, [2, 4]), (80, [2, 4]), (88, [])):
        w = RNG.integers(-128, 128, (features, 64, 3, 3)).astype(np.int8)
        parameters = named("x", "w", w_scale=np.float32(0.01), bias=None) | {"strides": 1}
        packed = jaxdml.prepack_filters(w, parameters=parameters)
        assert packed.chain
        assert [run.count for run in packed.runs] == counts
        assert [run.columns.matrix.size for run in packed.runs] == [w.size * 8 // 3, w.size * 8][: len(counts)]


@pytest.mark.parametrize(
    "changes",
    [
        {"end_padding": (1, 3)},  # An odd number of columns.
        {"strides": 1},
        {"dilations": (1, 2), "end_padding": (1, 3)},
        {"output_scale": np.float32(0.08)},
        {"output_scale": jnp.float32(0.07)},
        {"implementation": "integer_dot"},
    ],
)
def test_other_calls_convolve_window_by_window(on_gpu, changes):
    x, w, parameters, options, packed = of_stem("3 x 3, strided")
    given = parameters | options | changes

    def convolve(x, w):
        return jaxdml.quantized_linear_convolution(x, w=w, **given)

    wanted = reference.quantized_linear_convolution(x, w=w, **{k: v for k, v in given.items() if k != "implementation"})
    assert pairs_of(wanted.size // w.shape[0] // 2, 2 * w.shape[0]) not in lowered(convolve, x, packed)
    with forms_of("cuda"):
        assert_same_bits(compiled(convolve)(x, packed), wanted)


@pytest.mark.parametrize("kind", ["", INTEGERS])
def test_no_filters_are_kept_when_a_program_is_traced(on_gpu, kind):
    x, _, parameters, options, packed = of_stem("7 x 7")
    with forms_of("cuda", kind), jax.checking_leaks():
        jax.jit(lambda x, w: jaxdml.quantized_linear_convolution(x, w=w, **parameters, **options)).lower(x, packed)


def test_sums_of_packed_filters_are_convolved_window_by_window(on_gpu):
    x, w, _, options, packed = of_stem("7 x 7")
    with forms_of("cuda"):
        got = compiled(lambda x, w: jaxdml.convolution_integer(x, np.uint8(114), w, None, **options))(x, packed)
    assert_same_bits(got, reference.convolution_integer(x, np.uint8(114), w, None, **options))


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        pytest.param((16, 5, 3, 3), 2, id="no whole words"),
        pytest.param((16, 12, 3, 3), 2, id="neither few channels nor many"),
        pytest.param((96, 64, 3, 3), 2, id="many bytes"),
        pytest.param((16, 1, 3, 3), 2, id="one channel, as those of groups"),
        pytest.param((16, 3, 3, 3), 3, id="windows share nothing"),
        pytest.param((3, 3, 7, 7), 2, id="few filters"),
        pytest.param((64, 4, 11, 11), 4, id="long patches"),
        pytest.param((16, 3, 3), 2, id="one dimension"),
        pytest.param((16, 3, 3, 3), None, id="strides are not known"),
    ],
)
def test_no_pairs_where_they_do_not_serve(on_gpu, shape, strides):
    w = RNG.integers(-128, 128, shape).astype(np.int8)
    parameters = named("x", "w", w_scale=np.float32(0.01), bias=None) | ({"strides": strides} if strides else {})
    packed = jaxdml.prepack_filters(w, parameters=parameters)
    assert packed.chain
    assert packed.runs == ()


def test_pairs_of_filters_in_another_order_and_on_the_device(on_gpu):
    _, w, parameters, _, packed = of_stem("7 x 7")
    given = jnp.asarray(w.transpose(2, 3, 1, 0))
    again = jaxdml.prepack_filters(given, dimension_numbers="HWIO", parameters=parameters | {"strides": (2, 2)})
    assert_same_bits(again.runs[0].columns.matrix, packed.runs[0].columns.matrix)
    assert again.runs[0].columns.matrix.shape == (128, 256)  # K is padded.


def test_blocks_of_filters_are_convolved_window_by_window(on_gpu):
    """A block of the pairs would be the filters for one of two windows."""
    x, w, parameters, options, packed = of_stem("3 x 3, strided")
    alike = parameters | {"w_scale": np.float32(0.01), "bias": None}
    packed = jaxdml.prepack_filters(w, parameters=alike | {"strides": 2})
    half = jax.tree.map(lambda leaf: leaf[: leaf.shape[0] // 2], packed)

    def convolve(x, w):
        return jaxdml.quantized_linear_convolution(x, w=w, **alike, **options)

    with forms_of("cuda"):
        got = compiled(convolve)(x, half)
    assert_same_bits(got, reference.quantized_linear_convolution(x, w=w[:8], **alike, **options))


def test_pairs_are_exported_and_pickled(on_gpu):
    x, w, parameters, options, packed = of_stem("3 x 3, strided")

    def convolve(x, w):
        return jaxdml.quantized_linear_convolution(x, w=w, **parameters, **options)

    again = pickle.loads(pickle.dumps(packed))
    assert jax.tree.structure(again) == jax.tree.structure(packed)
    written = export.export(jax.jit(convolve), platforms=["cpu", "cuda"])(x, packed).serialize()
    wanted = reference.quantized_linear_convolution(x, w=w, **parameters, **options)
    assert_same_bits(export.deserialize(written).call(x, again), wanted)


@pytest.mark.parametrize(
    ("strides", "error", "message"),
    [
        (0, ValueError, "strides must be at least 1; got 0"),
        ((2, 2, 2), ValueError, "strides must be one integer, or one for each of the 2 spatial dimensions; got 3"),
        (2.0, TypeError, "strides must be an integer; got 2.0"),
    ],
)
def test_strides_that_are_none_are_refused(strides, error, message):
    with pytest.raises(error, match=message):
        jaxdml.prepack_filters(np.ones((8, 3, 3, 3), np.int8), parameters=named("x", "w") | {"strides": strides})


def test_no_images_have_no_pairs(on_gpu):
    x, _, parameters, options, packed = of_stem("3 x 3, strided")
    with forms_of("cuda"):
        got = compiled(lambda x, w: jaxdml.quantized_linear_convolution(x, w=w, **parameters, **options))(x[:0], packed)
    assert got.shape == (0, 5, 6, 16)


@needs_devices
def test_channels_of_pairs_are_on_one_device(on_gpu):
    """Pairs hold all channels, and each device has some of those of the images."""
    x = RNG.integers(0, 256, (2, 9, 12, 4)).astype(np.uint8)
    w = RNG.integers(-128, 128, (16, 4, 3, 3)).astype(np.int8)
    parameters = named("x", "w", w_zero=None, w_scale=np.float32(0.01), bias=None)
    options = {"strides": 2, "end_padding": 1, "dimension_numbers": ("NHWC", "OIHW", "NHWC")}
    packed = jaxdml.prepack_filters(w, parameters=parameters | {"strides": 2})
    assert packed.runs
    mesh = mesh_of("explicit", d=2)
    with jax.set_mesh(mesh), forms_of("cuda"):
        images = jax.device_put(x, jax.NamedSharding(mesh, P(None, None, None, "d")))
        weights = jax.device_put(packed, jax.NamedSharding(mesh, P()))
        convolve = compiled(lambda x, w: jaxdml.quantized_linear_convolution(x, w=w, **parameters, **options))
        got = convolve(images, weights)
    assert_same_bits(got, reference.quantized_linear_convolution(x, w=w, **parameters, **options))


@needs_devices
@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_pairs_on_meshes(on_gpu, kind):
    x, w, parameters, options, packed = of_stem("3 x 3, strided")
    x = np.concatenate([x] * COUNT)
    mesh = mesh_of(kind, d=COUNT)
    with jax.set_mesh(mesh):
        images = jax.device_put(x, jax.NamedSharding(mesh, P("d")))
        weights = jax.device_put(packed, jax.NamedSharding(mesh, P()))
        with forms_of("cuda"):
            got = compiled(lambda x, w: jaxdml.quantized_linear_convolution(x, w=w, **parameters, **options))(
                images, weights
            )
    assert_same_bits(got, reference.quantized_linear_convolution(x, w=w, **parameters, **options))

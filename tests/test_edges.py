"""Convolutions of packed filters that a GPU pads with zeros have the bits of the oracle at every edge."""

import pickle
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import jaxdml
from jaxdml import reference
from jaxdml._arithmetic.windows import Windows
from jaxdml._kernels.integer_convolution import edges
from tests.kit import assert_same_bits, compiled, grid, quick
from tests.kit.forms import forms_of
from tests.kit.known_parameters import COLUMNS, lowered, named
from tests.kit.meshes import COUNT, mesh_of, needs_devices

pytestmark = quick

RNG = np.random.default_rng(0)
LAST = {"dimension_numbers": ("NHWC", "OIHW", "NHWC")}
WITH_ZEROS = {
    # The sizes of images and windows, and options.
    "around": ((5, 6), (3, 3), {"start_padding": 1, "end_padding": 1}),
    "strided, at the end": ((6, 8), (3, 3), {"strides": 2, "end_padding": 1}),
    "strided, at both": ((7, 6), (3, 3), {"strides": (2, 3), "start_padding": 1, "end_padding": 1}),
    "dilated": ((9, 8), (3, 3), {"dilations": 2, "start_padding": (2, 1), "end_padding": (1, 2)}),
    "two from the edge": ((6, 9), (5, 3), {"start_padding": (2, 1), "end_padding": (2, 0)}),
    "of even size": ((5, 6), (2, 4), {"start_padding": (0, 1), "end_padding": (1, 2)}),
    "along rows": ((4, 7), (1, 3), {"start_padding": (0, 1), "end_padding": (0, 1)}),
}
WRITTEN = {
    "beyond two edges": ((1, 6), (3, 3), {"start_padding": 1, "end_padding": 1}),
    "more than half": ((5, 6), (3, 3), {"start_padding": 2, "end_padding": 1}),
    "more than half at the end": ((5, 6), (2, 2), {"end_padding": 2}),
}


def integers(dtype, shape):
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def layer(of, x_dtype="uint8", channels=64, **changes):
    """Return images with channels last, filters, parameters and options, and what is packed on a GPU."""
    sizes, window, options = of
    x, w = integers(x_dtype, (2, *sizes, channels)), integers("int8", (COLUMNS, channels, *window))
    zero = np.asarray(114 if x_dtype == "uint8" else -9, x_dtype)
    parameters = named(
        "x", "w", **{"zero_point": zero, "w_zero": np.int8(0), "output_scale": np.float32(0.3)} | changes
    )
    return x, w, parameters, LAST | options, jaxdml.prepack_filters(w, parameters=parameters)


def program(parameters, options):
    return lambda x, w: jaxdml.quantized_linear_convolution(x, w=w, **parameters, **options)


def writes_around(text):
    return "stablehlo.pad" in text


@grid(name=[*WITH_ZEROS, *WRITTEN], x_dtype=["uint8", "int8"])
def test_padding_by_a_zero_point_is_padding_by_zeros_and_a_term(on_gpu, name, x_dtype):
    x, w, parameters, options, packed = layer((WITH_ZEROS | WRITTEN)[name], x_dtype)
    convolve = program(parameters, options)
    wanted = reference.quantized_linear_convolution(x, w=w, **parameters, **options)
    assert wanted.std() > 10
    assert writes_around(lowered(convolve, x, packed)) == (name in WRITTEN)
    with forms_of("cuda"):
        assert_same_bits(compiled(convolve)(x, packed), wanted)


def test_each_kind_of_window_lacks_what_lies_beyond():
    w = integers("int8", (4, 3, 5, 7))
    found = edges.edge_sums(w)
    assert found.shape == (3, 5, 4)
    for (row, column), (rows, columns) in {
        (0, 2): (slice(1, 3), slice(0, 5)),
        (1, 2): (slice(0, 3), slice(0, 5)),
        (1, 0): (slice(0, 3), slice(2, 5)),
        (2, 3): (slice(0, 2), slice(0, 4)),
    }.items():
        inside = w[:, rows, columns].sum((1, 2, 3), dtype=np.int32)
        assert_same_bits(found[row, column], w.sum((1, 2, 3), dtype=np.int32) - inside)
    assert_same_bits(jax.jit(edges.edge_sums)(w), found)


def test_kinds_of_windows():
    windows = Windows((1, 2), (3, 5), (2, 1), (1, 1), (1, 2), (1, 2), 1)
    rows, columns = edges.kinds(windows, (1, 6, 5, 8))
    assert rows.tolist() == [0, 1, 1]
    assert columns.tolist() == [0, 1, 2, 3, 4]
    assert edges.kinds(windows, (1, 6, 3, 8)) is None


@pytest.mark.parametrize("zero_point", [np.uint8(0), np.uint8(255), np.uint8(128)])
def test_every_zero_point(on_gpu, zero_point):
    x, w, parameters, options, packed = layer(WITH_ZEROS["around"], zero_point=zero_point)
    wanted = reference.quantized_linear_convolution(x, w=w, **parameters, **options)
    with forms_of("cuda"):
        assert_same_bits(compiled(program(parameters, options))(x, packed), wanted)


def test_a_zero_point_that_is_data_and_channels_first(on_gpu):
    x, w, _, options, packed = layer(WITH_ZEROS["strided, at both"], channels=80)
    first = {name: value for name, value in options.items() if name != "dimension_numbers"}

    def sums(x, zero, w):
        return jaxdml.convolution_integer(x, zero, w, None, **first)

    images = np.moveaxis(x, -1, 1)
    assert not writes_around(lowered(sums, images, np.uint8(9), packed))
    with forms_of("cuda"):
        for zero in (9, 128, 255):
            got = compiled(sums)(images, np.uint8(zero), packed)
            assert_same_bits(got, reference.convolution_integer(images, np.uint8(zero), w, None, **first))


def test_zero_is_padded_with_zeros_without_packed_filters():
    x, w, _, options, _ = layer(WITH_ZEROS["around"], "int8")

    def sums(x, w):
        return jaxdml.convolution_integer(x, None, w, None, **options)

    assert not writes_around(lowered(sums, x, w))
    assert writes_around(lowered(lambda x, w: jaxdml.convolution_integer(x, 3, w, None, **options), x, w))
    with forms_of("cuda"):
        assert_same_bits(compiled(sums)(x, w), reference.convolution_integer(x, None, w, None, **options))


@pytest.mark.parametrize(
    "changes",
    [
        {"channels": 63},  # What they lack would be many bytes beside the filters.
        {"w_zero": np.int8(3)},  # Rows of images are summed, with their padding.
    ],
)
def test_other_calls_pad_before(on_gpu, changes):
    x, w, parameters, options, packed = layer(WITH_ZEROS["around"], **changes)
    convolve = program(parameters, options)
    assert writes_around(lowered(convolve, x, packed))
    with forms_of("cuda"):
        wanted = reference.quantized_linear_convolution(x, w=w, **parameters, **options)
        assert_same_bits(compiled(convolve)(x, packed), wanted)


def test_no_edges_where_they_do_not_serve(on_gpu):
    parameters = named("x", "w", w_zero=None)
    for shape in ((COLUMNS, 64, 1, 1), (COLUMNS, 64, 3), (COLUMNS, 63, 3, 3), (COLUMNS, 64, 1, 8)):
        assert jaxdml.prepack_filters(integers("int8", shape), parameters=parameters).edges == ()
    w = integers("int8", (COLUMNS, 64, 3, 3))
    assert jaxdml.prepack_filters(w).edges == ()
    packed = jaxdml.prepack_filters(w, parameters=parameters)
    assert 16 * packed.edges.nbytes == packed.filters.nbytes


def test_mapped_over_images_and_over_filters(on_gpu):
    x, w, parameters, options, packed = layer(WITH_ZEROS["around"])
    convolve = program(parameters, options)
    others = w[::-1].copy()
    both = [packed, jaxdml.prepack_filters(others, parameters=parameters)]
    bound = max(each.bound for each in both)
    # What is stacked has one bound, and these have no chain in common.
    stacked = jax.tree.map(lambda *each: jnp.stack(each), *(replace(one, bound=bound, chain=()) for one in both))
    wanted = [reference.quantized_linear_convolution(x, w=each, **parameters, **options) for each in (w, others)]
    with forms_of("cuda"):
        images = compiled(jax.vmap(convolve, (1, None), 1))(np.stack([x, x[:, ::-1]], 1), packed)
        filters = compiled(jax.vmap(convolve, (None, 0)))(x, stacked)
    assert_same_bits(images[:, 0], wanted[0])
    flipped = reference.quantized_linear_convolution(x[:, ::-1], w=w, **parameters, **options)
    assert_same_bits(images[:, 1], flipped)
    for got, want in zip(filters, wanted, strict=True):
        assert_same_bits(got, want)


def test_edges_are_kept_with_the_filters(on_gpu, tmp_path):
    x, w, parameters, options, packed = layer(WITH_ZEROS["around"])
    again = pickle.loads(pickle.dumps(packed))
    np.savez(tmp_path / "filters.npz", **{name: getattr(packed, name) for name in ("filters", "sums", "edges")})
    stored = np.load(tmp_path / "filters.npz")
    loaded = replace(packed, **stored)
    wanted = reference.quantized_linear_convolution(x, w=w, **parameters, **options)
    for each in (again, loaded, jaxdml.prepack_filters(jnp.asarray(w), parameters=parameters)):
        assert_same_bits(each.edges, packed.edges)
        assert not writes_around(lowered(program(parameters, options), x, each))
        with forms_of("cuda"):
            assert_same_bits(compiled(program(parameters, options))(x, each), wanted)


@pytest.mark.parametrize("wrong", [np.zeros((3, 3, COLUMNS), np.float32), np.zeros(COLUMNS, np.int32), (1, 2), [1]])
def test_wrong_edges_are_refused(on_gpu, wrong):
    x, _, parameters, options, packed = layer(WITH_ZEROS["around"])
    with pytest.raises(TypeError, match=r"w\.edges must be"):
        program(parameters, options)(x, replace(packed, edges=wrong))


@needs_devices
def test_channels_over_devices_are_padded_before(on_gpu):
    """A block has the edges of the whole filters, which are not those of its channels."""
    x, w, parameters, options, packed = layer(WITH_ZEROS["around"], channels=64 * COUNT)
    nowhere = jax.tree.map(lambda _: P(), packed.chain)
    parts = replace(packed, filters=P(None, None, None, "d"), sums=P(), edges=P(), chain=nowhere)
    convolve = partial(jaxdml.quantized_linear_convolution, axis_name="d", **parameters, **options)
    specs = P(None, None, None, "d"), parts
    on_shards = jax.shard_map(
        lambda x, w: convolve(x, w=w), mesh=mesh_of("auto", d=COUNT), in_specs=specs, out_specs=P()
    )
    with forms_of("cuda"):
        got = compiled(on_shards)(x, packed)
    assert_same_bits(got, reference.quantized_linear_convolution(x, w=w, **parameters, **options))

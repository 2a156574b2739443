"""What a TPU gets, run on the device that is here, against the oracle; and what its programs must not have.

A float of a TPU is less than IEEE 754's: it has no subnormals, divides with an error, and its float64 is none. So what
is computed here is right there too only if it rests on nothing of that, which docs/numerics.md says form by form.
"""

import re
from functools import partial

import jax
import numpy as np
import pytest
from hypothesis import given

import jaxdml
from jaxdml import reference
from jaxdml._arithmetic import tiles
from jaxdml._arithmetic.canonical_indices import wrap
from jaxdml._base.axis_direction import AxisDirection
from jaxdml._kernels.indexed_write.scatter import Writing, of_elements, of_slices, write
from jaxdml._kernels.selection.ranked_pairs import ranked, unranked
from jaxdml._selfcheck.judging import check
from jaxdml._selfcheck.planning import CHECKS
from tests.kit import assert_same_bits, bits, data, grid, kinds, quick, seeds
from tests.kit.forms import forms_of
from tests.kit.scattering import few_draws

pytestmark = pytest.mark.skipif(jax.default_backend() != "cpu", reason="runs the forms on a CPU")


@pytest.fixture(scope="module", autouse=True)
def _forms():
    with forms_of("tpu"):
        yield


@quick
@pytest.mark.parametrize("plan", [plan for plan in CHECKS if plan.scenarios(False)], ids=lambda plan: plan.label)
def test_the_forms_agree_with_the_oracle(plan):
    if plan.dtype != "bfloat16" or plan.operator not in ("top_k", "gather", "gather_elements", "gather_nd"):
        row = check(plan, 0, 0.1, thorough=False)
        assert row.agrees, row.failure
        return
    # A TPU moves bfloat16 as it is. A CPU widens it to do so, which quiets NaNs.
    for batch in plan.batches(0, 0.1, False):
        for got, want in zip(batch.ours(), batch.oracle(), strict=True):
            assert_same_bits(quieted(got), quieted(want))


# What is drawn is given to one program of each case.
top_k = jax.jit(jaxdml.top_k, static_argnames=("k", "direction"))


@partial(jax.jit, static_argnames=("mode", "t"))
def written_by_sort(x, indices, updates, *, mode, t):
    how = Writing(of_slices(t), mode, "last", by_sort=True)
    return write(x, wrap(indices, x.shape[:t], mode), updates, how)


WIDENED = {"bfloat16": (0x7F80, 0x8000, 0x7FC0), "float8_e5m2": (0x7C, 0, 0x7F)}
"""The bits of infinity, those that a NaN keeps when a CPU widens it to move it, and those that it then has."""


def quieted(x):
    """Give NaNs the bits that they have after a CPU has widened them."""
    x = np.asarray(x)
    if str(x.dtype) not in WIDENED:
        return x
    infinite, kept, quiet = map(bits(x).dtype.type, WIDENED[str(x.dtype)])
    magnitude = bits(x) & np.iinfo(bits(x).dtype).max // 2
    return np.where(magnitude > infinite, bits(x) & kept | quiet, bits(x))


@quick
@grid(
    shape=[(1, 1), (3, 5), (8, 256), (5, 2500), (2, 4100), (8, 8192), (1, 9001), (16, 10300)],
    k=[1, 8, 20],
    dtype=["float32", "bfloat16", "float16", "int32", "uint8", "int16"],
    direction=["decreasing", "increasing"],
)
@few_draws
@given(kind=kinds, seed=seeds)
def test_top_k_carries_elements_along(shape, k, dtype, direction, kind, seed):
    x, k = data(kind, seed, shape, np.dtype(dtype)), min(k, shape[1])
    for got, want in zip(top_k(x, k, direction=direction), reference.top_k(x, k, direction=direction), strict=True):
        assert_same_bits(quieted(got), quieted(want))


@quick
@pytest.mark.parametrize("direction", AxisDirection)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int32", "uint32", "int8", "uint16"])
def test_two_words_hold_an_element_its_position_and_its_order(dtype, direction):
    x = data("specials", 0, (3000,), np.dtype(dtype))
    positions = np.random.default_rng(0).permutation(2**31 - 1 - np.arange(3000) * 701_000).astype(np.uint32)
    upper, lower = jax.jit(partial(ranked, direction=direction))(x, positions)
    elements, places = jax.jit(partial(unranked, dtype=x.dtype, direction=direction))((upper, lower))
    assert_same_bits(places, positions)
    assert_same_bits(elements, x)
    by_words = np.lexsort((lower, upper))
    by_position = np.argsort(positions)
    _, first = reference.top_k(x[by_position], x.size, direction=direction.name.lower())
    np.testing.assert_array_equal(by_words, by_position[first])
    assert not (np.stack([upper, lower]) == np.uint32(2**32 - 1)).all(0).any()


@quick
@pytest.mark.parametrize("parts", [1, 16])
@pytest.mark.parametrize("dtype", ["float32", "int16", "int8"])
def test_many_chunks_are_read_in_parts(monkeypatch, dtype, parts):
    monkeypatch.setattr(tiles, "_MAX_PARTS", parts)
    x = data("specials", 0, (24, 1300), np.dtype(dtype))
    numbers = np.random.default_rng(0).integers(0, 10, (24, 50)).astype(np.uint32)
    read = jax.jit(lambda x, numbers: tiles.read_chunks(tiles.tiles_of(x), numbers))
    rows = np.arange(24)[:, None]
    assert_same_bits(read(x, numbers), x[:, :1280].reshape(24, 10, 128)[rows, numbers])
    gathers = read.lower(x, numbers).as_text().count('"stablehlo.gather"')
    assert gathers == (2 if dtype != "int8" and parts > 1 else 1)


@quick
@grid(shape=[(0, 2**14), (3, 0, 2**14), (0, 5)], k=[1, 20], dtype=["float32", "uint8"])
def test_batches_may_hold_no_sequence(shape, k, dtype):
    x, k = np.zeros(shape, dtype), min(k, shape[-1])
    values, indices = jax.jit(partial(jaxdml.top_k, k=k))(x)
    assert values.shape == indices.shape == (*shape[:-1], k)
    assert values.dtype == dtype


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_gathers_fill_the_bits_of_what_was_read(dtype):
    x, indices = data("specials", 0, (5, 3), np.dtype(dtype)), np.array([4, 5, -6, 0], np.int32)
    for options in ({"mode": "clip"}, {"mode": "fill", "fill_value": 7}):
        got = jax.jit(partial(jaxdml.gather, **options))(x, indices)
        assert_same_bits(quieted(got), quieted(reference.gather(x, indices, **options)))


@pytest.mark.parametrize("way", ["jvp", "vmap"])
def test_top_k_is_differentiated_and_mapped(way):
    x = np.random.default_rng(0).normal(size=(4, 3, 20)).astype(np.float32)
    if way == "vmap":
        got = jax.jit(jax.vmap(partial(jaxdml.top_k, k=3), in_axes=1))(x)
        assert_same_bits(got.values, reference.top_k(x.swapaxes(0, 1), 3)[0])
        return
    values, tangents = jax.jvp(lambda x: jaxdml.top_k(x, 3).values, (x,), (2 * x,))
    assert_same_bits(tangents, 2 * np.asarray(values))


@grid(mode=["drop", "clip", "promise_in_bounds"], dtype=["float32", "bfloat16", "int8"], t=[1, 2])
@given(seed=seeds)
def test_losers_are_dropped_by_a_sort_of_the_indices(mode, dtype, t, seed):
    rng = np.random.default_rng(seed)
    low, high = (0, 4) if mode == "promise_in_bounds" else (-6, 7)
    x, updates = (data("any bits", seed, shape, np.dtype(dtype)) for shape in ((4, 5, 3), (9, *(4, 5, 3)[t:])))
    indices = rng.integers(low, high, (9, t)).astype(np.int32)
    got = written_by_sort(x, indices, updates, mode=mode, t=t)
    assert_same_bits(quieted(got), quieted(reference.scatter_nd(x, indices, updates, mode=mode)))


@grid(duplicates=["last", "unique", "unspecified"], dtype=["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"])
def test_narrow_floats_are_written_as_they_are(duplicates, dtype):
    x, updates = (data("specials", 0, shape, np.dtype(dtype)) for shape in ((4, 5, 3), (3, 5, 3)))
    indices = np.array([[2], [-4], [9]], np.int32)
    scatter = partial(jaxdml.scatter_nd, duplicates=duplicates)
    got = jax.jit(scatter)(x, indices, updates)
    want = reference.scatter_nd(x, indices, updates)
    assert_same_bits(quieted(got), quieted(want))
    assert "bitcast_convert" not in text(scatter, *[(a.shape, a.dtype) for a in (x, indices, updates)])


@pytest.mark.parametrize("axis", [0, 1])
def test_losers_are_found_along_an_axis(axis):
    rng = np.random.default_rng(axis)
    x, updates = rng.normal(size=(4, 5)).astype(np.float32), rng.normal(size=(4, 5)).astype(np.float32)
    indices = rng.integers(0, 3, (4, 5)).astype(np.int32)
    how = Writing(of_elements(2, axis), "drop", "last", by_sort=True)
    got = jax.jit(lambda x, i, u: write(x, i[..., None], u, how))(x, indices, updates)
    assert_same_bits(got, reference.scatter_elements(x, indices, updates, axis=axis))


@grid(
    order=[None, ("NHWC", "HWIO", "NHWC")],
    images=[1, 3, 9],
    zeros=[(None, None), (3, None), (None, -2), (3, -2)],
    options=[
        {"start_padding": 1, "end_padding": 1},
        {"strides": (2, 1), "start_padding": (0, 1)},
        {"dilations": (1, 2)},
        {"group_count": 2},
        {"group_count": 4},
        {"group_count": 4, "strides": (2, 1)},
    ],
)
def test_convolutions_are_exact(order, images, zeros, options):
    rng = np.random.default_rng(0)
    groups = options.get("group_count", 1)
    x = rng.integers(0, 256, (images, 4, 6, 5)).astype(np.uint8)
    w = rng.integers(-128, 128, (8, 4 // groups, 3, 2)).astype(np.int8)
    zx, zw = (None if z is None else dtype(z) for z, dtype in zip(zeros, (np.uint8, np.int8), strict=True))
    want = reference.convolution_integer(x, zx, w, zw, **options)
    if order:
        x, w = x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0)
    convolve = partial(jaxdml.convolution_integer, dimension_numbers=order, **options)
    got = jax.jit(lambda x, w: convolve(x, zx, w, zw))(x, w)
    assert_same_bits(got if order is None else np.moveaxis(got, -1, 1), want)


@grid(rows=[1, 8], packed=[False, True], zeros=[(None, None), (200, -3)], batch=[(), (2,)])
def test_products_are_exact(rows, packed, zeros, batch):
    rng = np.random.default_rng(0)
    a = rng.integers(0, 256, (*batch, rows, 40)).astype(np.uint8)
    b = rng.integers(-128, 128, (*batch, 40, 24)).astype(np.int8)
    za, zb = (None if z is None else dtype(z) for z, dtype in zip(zeros, (np.uint8, np.int8), strict=True))
    got = jax.jit(lambda a, b: jaxdml.matrix_multiply_integer(a, za, b, zb))(a, jaxdml.prepack(b) if packed else b)
    assert_same_bits(got, reference.matrix_multiply_integer(a, za, b, zb))


@grid(
    shapes=[((3, 40), (40, 24)), ((30, 40), (40, 5)), ((2, 3, 40), (2, 40, 24)), ((1, 33026), (33026, 2))],
    right=["int8", "uint8"],
    zeros=[(None, None), (None, 77), (3, None)],
)
def test_products_of_uint8_are_exact(shapes, right, zeros):
    a, b = (np.full(shape, np.iinfo(kind).max, kind) for shape, kind in zip(shapes, ("uint8", right), strict=True))
    a[..., 1::3], b[..., 2::5, :] = 0, np.iinfo(right).min
    za, zb = (None if z is None else np.dtype(kind).type(z) for z, kind in zip(zeros, ("uint8", right), strict=True))
    product = jax.jit(lambda a, b: jaxdml.matrix_multiply_integer(a, za, b, zb))
    assert_same_bits(product(a, b), reference.matrix_multiply_integer(a, za, b, zb))
    program = text(product, (a.shape, a.dtype), (b.shape, b.dtype))
    mixed = r"dot_general.*xui8>, tensor<[\dx]*xi8>"
    assert not re.search(mixed, program)
    is_shorter = a.shape[-1] <= 33025
    as_uint8 = zeros[0] is None and is_shorter and (right == "uint8" or zb is not None or a.size <= b.size)
    assert bool(re.search(r"dot_general.*xui8>, tensor<[\dx]*xui8>", program)) == as_uint8


def text(function, *shapes):
    arguments = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
    return jax.jit(function).trace(*arguments).lower(lowering_platforms=("tpu",)).as_text()


FLOAT, INT8, INDEX = "float32", "int8", "int32"


def quantized(a, b, scales):
    return jaxdml.quantized_linear_matrix_multiply(a, np.float32(0.1), 3, b, scales, None, np.float32(2), np.int8(0))


def convolved(x, w, scales):
    image, filters = (np.float32(0.1), 3), (scales, None)
    return jaxdml.quantized_linear_convolution(x, *image, w, *filters, None, np.float32(2), np.int8(0))


def averaged(x, scale):
    return jaxdml.quantized_linear_average_pooling(x, scale, 3, scale, 1, window=2, strides=2)


IMAGE, FILTERS = ((1, 8, 9, 9), INT8), ((16, 8, 3, 3), INT8)

PROGRAMS = {
    "top_k": (partial(jaxdml.top_k, k=8), ((8, 256), FLOAT)),
    "top_k of long sequences": (partial(jaxdml.top_k, k=8), ((8, 2**14), "bfloat16")),
    "argmax": (jaxdml.argmax, ((8, 256), FLOAT)),
    "argmin": (jaxdml.argmin, ((8, 256), "bfloat16")),
    "gather": (jaxdml.gather, ((64, 128), "bfloat16"), ((4,), INDEX)),
    "gather_elements": (partial(jaxdml.gather_elements, axis=1), ((64, 128), "bfloat16"), ((64, 4), INDEX)),
    "gather_nd": (jaxdml.gather_nd, ((64, 128), "bfloat16"), ((4, 1), INDEX)),
    "scatter_nd": (partial(jaxdml.scatter_nd, duplicates="last"), ((64, 9), FLOAT), ((4, 1), INDEX), ((4, 9), FLOAT)),
    "scatter_elements": (jaxdml.scatter_elements, ((64, 9), FLOAT), ((4, 9), INDEX), ((4, 9), FLOAT)),
    "integers": (lambda a, b: jaxdml.matrix_multiply_integer(a, 3, b, 1), ((9, 64), "uint8"), ((64, 32), INT8)),
    "floats": (
        lambda a, s, b: jaxdml.matrix_multiply_integer_to_float(a, s, 3, b, s, None),
        *[((9, 64), "uint8"), ((), FLOAT), ((64, 32), INT8)],
    ),
    "convolution": (convolved, IMAGE, FILTERS, ((16,), FLOAT)),
    "convolution of integers": (lambda x, w: jaxdml.convolution_integer(x, 3, w, None), IMAGE, FILTERS),
    "pooling": (averaged, IMAGE, ((), FLOAT)),
    "requantize": (lambda x, s: jaxdml.requantize(x, s, s, s, np.int8(1)), ((9,), "int32"), ((), FLOAT)),
    "product": (quantized, ((1, 64), INT8), ((64, 32), INT8), ((32,), FLOAT)),
    "add": (lambda a, b, s: jaxdml.quantized_linear_add(a, s, 3, b, s, 0, s, 1), *[((9,), INT8)] * 2, ((), FLOAT)),
    "quantize": (lambda x, s: jaxdml.quantize_linear(x, s, np.uint8(3)), ((9,), FLOAT), ((), FLOAT)),
    "dequantize": (lambda x, s: jaxdml.dequantize_linear(x, s, np.uint8(3)), ((9,), "uint8"), ((), FLOAT)),
    "dynamic": (jaxdml.dynamic_quantize_linear, ((9, 9), FLOAT)),
}


@quick
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_for_tpus_rest_on_no_float_that_a_tpu_lacks(name):
    program = text(PROGRAMS[name][0], *PROGRAMS[name][1:])
    assert "f64" not in program
    assert not re.search(r"dot_general.*xf32>", program)


@quick
def test_programs_for_tpus_read_no_single_elements_and_pass_over_no_operand():
    for name in ("top_k", "top_k of long sequences"):
        program = text(PROGRAMS[name][0], *PROGRAMS[name][1:])
        sizes = re.findall(r"slice_sizes = array<i64: ([\d, ]+)>", program)
        assert all("128" in size for size in sizes), sizes
    for name in ("gather", "gather_elements", "gather_nd"):
        gathered = text(PROGRAMS[name][0], *PROGRAMS[name][1:])
        assert "bitcast_convert" not in gathered, name
    scattered = text(PROGRAMS["scatter_nd"][0], *PROGRAMS["scatter_nd"][1:])
    assert scattered.count('"stablehlo.scatter"') == 1


@pytest.mark.parametrize("scales", [(0.5, 0.25, 1), (0.023, 0.041, 0.05), (-0.013, 0.02, 0.031), (300, 2, 0.5)])
def test_sums_with_known_scales_are_exact(scales):
    a, b, output = map(np.float32, scales)
    p, q = (x.astype(np.uint8) for x in np.mgrid[:256, :256])
    add = partial(jaxdml.quantized_linear_add, output_dtype=np.uint8)
    got = jax.jit(lambda p, q: add(p, a, np.uint8(3), q, b, None, output, np.uint8(100)))(p, q)
    assert_same_bits(got, reference.quantized_linear_add(p, a, np.uint8(3), q, b, None, output, np.uint8(100)))


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("output", [0.7, 0.0625])  # With the second one some products are halves.
def test_products_with_known_scales_are_exact(output, biased):
    random = np.random.default_rng(int(biased))
    p, q = random.integers(0, 256, (32, 40), np.uint8), random.integers(-128, 128, (40, 16)).astype(np.int8)
    scale = np.float32(0.03125 if output == 0.0625 else 0.03)
    scales = scale, np.uint8(120), scale * (1 + random.integers(0, 8, 16).astype(np.float32)), None, np.float32(output)
    bias = random.integers(-99, 99, 16).astype(np.int32) if biased else None

    def call(of, p, q):
        a_scale, za, b_scale, zb, o = scales
        return of(p, a_scale, za, q, b_scale, zb, o, np.uint8(100), bias=bias)

    got = jax.jit(partial(call, jaxdml.quantized_linear_matrix_multiply))(p, q)
    assert_same_bits(got, call(reference.quantized_linear_matrix_multiply, p, q))
    program = text(partial(call, jaxdml.quantized_linear_matrix_multiply), (p.shape, p.dtype), (q.shape, q.dtype))
    assert ("i64" in program) == (output == 0.0625)


@pytest.mark.parametrize("images", [1, 3, 9])
def test_convolutions_with_known_scales_are_exact(images):
    random = np.random.default_rng(images)
    x, w = (
        random.integers(0, 256, (images, 4, 6, 5), np.uint8),
        random.integers(-128, 128, (8, 4, 3, 2)).astype(np.int8),
    )

    def call(of, x, w):
        return of(x, np.float32(0.03), np.uint8(9), w, np.float32(0.02), None, None, np.float32(0.7), np.uint8(100))

    got = jax.jit(partial(call, jaxdml.quantized_linear_convolution))(x, w)
    assert_same_bits(got, call(reference.quantized_linear_convolution, x, w))


@grid(include_padding=[False, True], output=[0.031, 0.0625], window=[3, 7])
def test_averages_with_known_scales_are_exact(include_padding, output, window):
    x = data("any bits", 0, (2, 5, 12, 9), np.dtype(np.uint8))
    x[1] = x[1] // 8 * 8
    known = np.float32(0.03 if output == 0.031 else 0.125), np.uint8(9), np.float32(output), np.uint8(100)
    options = {"window": window, "strides": 2, "start_padding": 1, "include_padding": include_padding}

    def call(of, x):
        return of(x, *known, **options)

    got = jax.jit(partial(call, jaxdml.quantized_linear_average_pooling))(x)
    assert_same_bits(got, call(reference.quantized_linear_average_pooling, x))
    program = text(partial(call, jaxdml.quantized_linear_average_pooling), (x.shape, x.dtype))
    # Twice a mean of 4 or 36 elements, at an edge, may be a half; of 6, 9, 42 or 49 it is none.
    has_halves = output == 0.0625 and not include_padding
    assert bool(re.search(r"multiply .*i64>", program)) == has_halves

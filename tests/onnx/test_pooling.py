"""Poolings, beyond ONNX's own node tests."""

import math
from functools import partial

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from onnx import helper

import jaxdml.onnx
from jaxdml._networks.coordinates import product, quotient
from jaxdml._networks.pooling import Pool, greatest_inside
from jaxdml.onnx import backend
from jaxdml.onnx.nodes import pooling
from jaxdml.onnx.nodes._windows import windows
from tests.kit import assert_same_bits, quick
from tests.kit.forms import forms_of
from tests.kit.meshes import COUNT, mesh_of, needs_devices
from tests.onnx._onnxruntime import assert_agree, model

pytestmark = quick


def normal(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def few(*shape, dtype=np.float32, least=-2):
    """Return few distinct values, so that windows have ties."""
    return np.random.default_rng(len(shape)).integers(least, 3, shape).astype(dtype)


def test_max_agrees_with_onnxruntime():
    inputs = {
        "x": few(2, 3, 7, 6),
        "i": few(1, 2, 6, 6, dtype=np.int8),
        "u": few(1, 2, 5, dtype=np.uint8, least=0),
        "cube": few(1, 2, 3, 4, 3),
    }
    three, two = {"kernel_shape": [3, 3]}, {"kernel_shape": [2, 2]}
    ceil = {"strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["0", "0i"], **three, **ceil),
        helper.make_node("MaxPool", ["x"], ["1", "1i"], storage_order=1, dilations=[2, 1], **three),
        helper.make_node("MaxPool", ["x"], ["2"], dilations=[2, 2], strides=[1, 2], pads=[1, 0, 0, 1], **two),
        helper.make_node("MaxPool", ["i"], ["3"], auto_pad="SAME_LOWER", strides=[2, 1], **three),
        helper.make_node("MaxPool", ["u"], ["4"], kernel_shape=[3], pads=[1, 1]),
        helper.make_node("MaxPool", ["cube"], ["5", "5i"], kernel_shape=[2, 2, 2], strides=[1, 2, 1]),
    ]
    assert_agree(nodes, inputs, 12)


def largest(x, window, strides, dilations, pads, storage_order, ceil):
    """Return what a window of the definition holds, one after another: its first NaN, else its first largest."""
    (low, left, high, right), (rows, columns) = pads, x.shape
    counts = [
        -(-(n + edges - (k - 1) * d - 1) // s) + 1 if ceil else (n + edges - (k - 1) * d - 1) // s + 1
        for n, edges, k, s, d in zip(x.shape, (low + high, left + right), window, strides, dilations, strict=True)
    ]
    counts = [
        count - (ceil and (count - 1) * s >= n + start)
        for count, n, s, start in zip(counts, x.shape, strides, pads, strict=False)
    ]
    values, places = np.zeros(counts, x.dtype), np.zeros(counts, np.int64)
    for at in np.ndindex(*counts):
        starts = [i * s - pad for i, s, pad in zip(at, strides, (low, left), strict=True)]
        taps = [np.array(starts) + np.multiply(tap, dilations) for tap in np.ndindex(*window)]
        inside = [(int(r), int(c)) for r, c in taps if 0 <= r < rows and 0 <= c < columns]
        r, c = inside[np.argmax([x[place] for place in inside])]
        values[at], places[at] = x[r, c], c * rows + r if storage_order else r * columns + c
    return values, places


WAYS = [
    {"kernel_shape": [2, 2]},
    {"kernel_shape": [2, 3], "strides": [2, 2], "pads": [1, 1, 0, 1], "storage_order": 1},
    {"kernel_shape": [2, 2], "dilations": [2, 3], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 2], "strides": [2, 3], "ceil_mode": 1, "pads": [0, 1, 1, 0]},
]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint8])
def test_the_largest_element_is_the_same_with_and_without_its_index(dtype):
    """onnxruntime ignores a NaN or not, by where it is; here it wins, as in NumPy and PyTorch."""
    rng = np.random.default_rng(0)
    if np.issubdtype(dtype, np.integer):
        x = rng.choice([np.iinfo(dtype).min, np.iinfo(dtype).min + 1, 5], (6, 7)).astype(dtype)
    else:
        x = rng.choice([np.nan, -np.inf, np.inf, -1, -0.0, 0.0], (6, 7), p=[0.2, 0.5, 0.1, 0.1, 0.05, 0.05])
        x = x.astype(dtype)
        x[:3, :3] = -np.inf
    names = [([f"{i}"], [f"{i}v", f"{i}i"]) for i in range(len(WAYS))]
    nodes = [
        helper.make_node("MaxPool", ["x"], outputs, **way)
        for way, each in zip(WAYS, names, strict=True)
        for outputs in each
    ]
    found = iter(backend.prepare(model(nodes, {"x": x[None, None]}, 12)).run([x[None, None]]))
    ones = {"strides": [1, 1], "dilations": [1, 1], "pads": [0] * 4, "storage_order": 0, "ceil_mode": 0}
    for way in WAYS:
        window, *options = {"kernel_shape": 0, **ones, **way}.values()
        values, places = largest(x, window, *options)
        alone, beside, indices = (next(found)[0, 0] for _ in range(3))
        np.testing.assert_array_equal(alone, values)
        np.testing.assert_array_equal(beside, values)
        np.testing.assert_array_equal(indices, places)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("options", [{"pads": [1] * 4, "strides": [2, 2]}, {"dilations": [2, 1]}, {"ceil_mode": 1}])
def test_integers_are_pooled_alike_in_the_forms_of_tpus_and_of_cuda(dtype, options):
    x = np.random.default_rng(0).integers(*np.iinfo(dtype).min + np.array([0, 256]), (2, 7, 8, 3)).astype(dtype)
    where = windows(x.shape[1:3], (3, 3), **options)
    by_slices = partial(pooling._greatest_of_slices, where=where)
    want = by_slices(x)
    np.testing.assert_array_equal(pooling._reduced(x, where, jax.lax.max, pooling.least(x.dtype)), want)
    if dtype == np.uint8:
        assert_same_bits(pooling.greatest_by_int8(by_slices, x), want)


POOLED = {
    # The shape, the window, options, and whether each window has an element, next to any that it lacks.
    "of ResNet": ((2, 9, 8, 5), (3, 3), {"strides": [2, 2], "pads": [1] * 4}, True),
    "ceil": ((1, 7, 8, 2), (3, 2), {"strides": [2, 3], "ceil_mode": 1, "pads": [0, 1, 1, 0]}, True),
    "without padding": ((1, 7, 8, 2), (2, 3), {}, True),
    "one dimension": ((2, 7, 3), (4,), {"strides": [2], "pads": [3, 2]}, True),
    "three": ((1, 3, 4, 5, 2), (2, 1, 2), {"pads": [1, 0, 1, 0, 0, 1]}, True),
    "dilated": ((1, 7, 8, 2), (2, 2), {"dilations": [2, 1], "pads": [1] * 4}, False),
    "of padding alone": ((1, 4, 4, 2), (2, 2), {"strides": [4, 1], "pads": [0, 0, 2, 0]}, False),
    "no images": ((0, 5, 4, 2), (2, 2), {}, False),
}


@pytest.mark.parametrize("name", POOLED)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32])
def test_one_gpu_reads_integers_without_padding(name, dtype):
    shape, window, options, reads = POOLED[name]
    x = np.random.default_rng(0).integers(*np.iinfo(np.int8).min + np.array([0, 256]), shape).astype(dtype)
    where = windows(shape[1:-1], window, **options)
    want = pooling._greatest_of_slices(x, where)
    pool = Pool(where.sizes, where.strides, where.dilations, where.start_padding, where.counts)

    def pooled(x):
        return greatest_inside(x, pool, pooling._greatest_of_slices(x, where))

    for platform in ("cpu", "cuda"):
        with forms_of(platform):
            lowered = jax.jit(pooled).lower(x)
            # Nothing reads what the other form pads.
            assert ("stablehlo.gather" in lowered.as_text()) == (reads and platform == "cuda")
            assert_same_bits(lowered.compile()(x), want)
            assert_same_bits(jax.vmap(pooled, 1, 1)(np.stack([x, x[::-1]], 1))[:, 0], want)


@needs_devices
@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_images_of_a_mesh_are_pooled_by_slices(kind):
    x = np.random.default_rng(0).integers(-128, 128, (COUNT, 6, 6, 2)).astype(np.int8)
    where = windows(x.shape[1:3], (3, 3), pads=[1] * 4)
    pool = Pool(where.sizes, where.strides, where.dilations, where.start_padding, where.counts)
    mesh = mesh_of(kind, d=COUNT)
    with jax.set_mesh(mesh), forms_of("cuda"):
        images = jax.device_put(x, jax.NamedSharding(mesh, P("d")))
        pooled = jax.jit(lambda x: greatest_inside(x, pool, pooling._greatest_of_slices(x, where)))
        assert "stablehlo.gather" not in pooled.lower(images).as_text()
        assert_same_bits(pooled(images), pooling._greatest_of_slices(x, where))


def test_means_and_norms_agree_with_onnxruntime():
    inputs = {"x": normal(2, 3, 4, 7), "cube": normal(1, 2, 3, 4, 5)}
    three = {"kernel_shape": [3, 3]}
    ceil = {"strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1}
    nodes = [
        helper.make_node("AveragePool", ["x"], ["0"], **three, **ceil),
        helper.make_node("AveragePool", ["x"], ["1"], count_include_pad=1, **three, **ceil),
        helper.make_node("AveragePool", ["cube"], ["2"], kernel_shape=[2, 2, 2], dilations=[1, 2, 2]),
        helper.make_node("AveragePool", ["x"], ["3"], auto_pad="SAME_UPPER", strides=[3, 2], **three),
        helper.make_node("LpPool", ["x"], ["4"], p=1, **three, **ceil),
        helper.make_node("LpPool", ["x"], ["5"], p=3, dilations=[1, 2], **three),
        helper.make_node("GlobalLpPool", ["x"], ["6"]),
        helper.make_node("GlobalLpPool", ["cube"], ["7"], p=1),
    ]
    assert_agree(nodes, inputs, 19)


def test_what_ceil_mode_adds_is_never_counted():
    """Four by four in windows of three: the last one has one element of the input and three of its own padding."""
    node = helper.make_node(
        "AveragePool",
        ["x"],
        ["y"],
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        ceil_mode=1,
        count_include_pad=1,
    )
    (found,) = backend.run_node(node, [np.ones((1, 1, 4, 4), np.float32)])
    assert found.shape == (1, 1, 3, 3)
    assert found[0, 0, 2, 2] == 0.25


def test_a_window_of_padding_alone():
    nodes = [
        helper.make_node("AveragePool", ["x"], ["mean"], kernel_shape=[1], pads=[1, 0]),
        helper.make_node("MaxPool", ["x"], ["largest"], kernel_shape=[1], pads=[1, 0]),
    ]
    found = backend.prepare(model(nodes, {"x": np.ones((1, 1, 2), np.float32)}, 22)).run(
        [np.ones((1, 1, 2), np.float32)]
    )
    np.testing.assert_array_equal(np.squeeze(found), [[0, 1, 1], [-np.inf, 1, 1]])


def test_halves_are_summed_as_float32():
    x = np.full((1, 1, 60, 60), 1.5, np.float16)
    node = helper.make_node("GlobalAveragePool", ["x"], ["y"])
    assert backend.run_node(node, [x])[0].item() == 1.5


def test_the_derivative_of_a_largest_element_goes_to_it():
    x = np.float32([[[1, 3, 2, 0]]])
    nodes = [helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2])]
    run = jaxdml.onnx.load(model(nodes, {"x": x}, 22))
    assert jax.jit(jax.grad(lambda x: run.apply({}, x)[0].sum()))(x).tolist() == [[[0, 2, 1, 0]]]


@pytest.mark.parametrize(
    ("size", "padding", "outputs", "rule"),
    [
        (2**15, 2**14, 2, "more than 16384 elements"),
        (2**40, 2**39, 1, "windows of 1099511627776 elements are more than 67108864 elements"),
    ],
)
def test_no_memory_is_taken_for_what_is_too_large(size, padding, outputs, rule):
    x = np.zeros((1, 1, 8), np.float32)
    kind, names = ("MaxPool", ["y", "i"]) if outputs == 2 else ("AveragePool", ["y"])
    node = helper.make_node(kind, ["x"], names, kernel_shape=[size], pads=[padding, padding])
    with pytest.raises(NotImplementedError, match=rule):
        backend.run_node(node, [x])


def test_unpooling_into_a_larger_shape():
    node = helper.make_node("MaxUnpool", ["x", "i", "s"], ["y"], kernel_shape=[2], strides=[2], pads=[0, 1])
    x, i = np.float32([[[5, 7]]]), np.int64([[[1, 2]]])
    (found,) = backend.run_node(node, [x, i, np.int64([1, 1, 5])])
    assert found.tolist() == [[[0, 5, 7, 0, 0]]]


@pytest.fixture
def regions():
    boxes = np.float32([[0, 0, 5, 3], [1, 2, 7, 9], [-3, -2, 1, 1], [6, 6, 30, 30]])
    return {"x": normal(2, 3, 7, 6), "boxes": boxes, "of": np.int64([0, 1, 1, 0])}


def test_regions_agree_with_onnxruntime(regions):
    outputs = {"output_height": 2, "output_width": 3}
    nodes = [
        helper.make_node("RoiAlign", ["x", "boxes", "of"], ["0"], sampling_ratio=2, **outputs),
        helper.make_node("RoiAlign", ["x", "boxes", "of"], ["1"], spatial_scale=0.5, **outputs),
        helper.make_node("RoiAlign", ["x", "boxes", "of"], ["2"], mode="max", **outputs),
    ]
    assert_agree(nodes, regions, 16)


def test_regions_before_half_a_pixel_was_taken_off(regions):
    node = helper.make_node("RoiAlign", ["x", "boxes", "of"], ["0"], sampling_ratio=1)
    assert_agree([node], regions, 10)


def test_largest_elements_of_regions_agree_with_onnxruntime(regions):
    boxes = np.concatenate([regions["of"][:, None], regions["boxes"]], 1, dtype=np.float32)
    node = helper.make_node("MaxRoiPool", ["x", "boxes"], ["0"], pooled_shape=[2, 3], spatial_scale=0.7)
    assert_agree([node], {"x": regions["x"], "boxes": boxes}, 11)


def largest_of_regions(image, rois, count, scale):
    """Return what the bins of each region hold, whose ends are fractions of its length; nothing is 0."""
    found = np.zeros((len(rois), 1, count, count), np.float32)
    for region, _, *bins in np.ndindex(found.shape):
        corners = [math.copysign(math.floor(abs(end) + 0.5), end) for end in (rois[region, 1:] * scale).tolist()]
        part = image
        for d, i in enumerate(bins):
            first, length = int(corners[1 - d]), max(int(corners[3 - d] - corners[1 - d]) + 1, 1)
            begin, end = first + i * length // count, first - (-(i + 1) * length // count)
            part = np.moveaxis(part, d, 0)[max(begin, 0) : max(end, 0)]
            part = np.moveaxis(part, 0, d)
        found[(region, 0, *bins)] = part.max() if part.size else 0
    return found


@pytest.mark.parametrize(("count", "scale"), [(7, 1.0), (11, 0.5), (3, 0.1)])
def test_bins_of_regions_end_at_exact_places(count, scale):
    """Parts of 7 and 11 are no floats; halves are rounded away from 0; and -inf is a largest element, too."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, 1, 40, 40)).astype(np.float32)
    x[0, 0, :4, :4] = -np.inf
    first = rng.integers(-9, 44 / scale, (60, 2))
    rois = np.concatenate(
        [np.zeros((60, 1)), first, first + rng.integers(-2, 40 / scale, (60, 2))], 1, dtype=np.float32
    )
    rois[:2] = [0, 0, 0, 1, 1], [0, -1e30, -1e30, 1e30, 1e30]
    node = helper.make_node("MaxRoiPool", ["x", "rois"], ["y"], pooled_shape=[count, count], spatial_scale=scale)
    (found,) = backend.prepare(model([node], {"x": x, "rois": rois}, 22)).run([x, rois])
    rois[1, 1:] = np.clip(rois[1, 1:] * scale, -(2**29), 2**29) / np.float32(scale)
    np.testing.assert_array_equal(found, largest_of_regions(x[0, 0], rois, count, np.float32(scale)))


def test_regions_have_as_many_samples_as_in_onnxruntime():
    """A bin of 1.0000001 has two samples, and one of 1 has one."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 300, (100, 2))
    boxes = np.concatenate([first, first + rng.integers(0, 300, (100, 2))], 1, dtype=np.float32)
    inputs = {"x": normal(1, 1, 48, 48), "boxes": boxes, "of": np.zeros(100, np.int64)}
    size = {"output_height": 7, "output_width": 5, "spatial_scale": 0.1}
    nodes = [helper.make_node("RoiAlign", ["x", "boxes", "of"], ["0"], **size)]
    nodes += [helper.make_node("RoiAlign", ["x", "boxes", "of"], ["1"], sampling_ratio=3, **size)]
    assert_agree(nodes, inputs, 16)


def test_coordinates_are_rounded_at_each_step():
    x = np.random.default_rng(0).normal(size=4000).astype(np.float32)
    scale, parts = np.float32(0.7), np.float32(7)
    found = jax.jit(lambda x: (product(x, scale) - np.float32(0.5), quotient(x, parts)))(x)
    np.testing.assert_array_equal(found, (x * scale - np.float32(0.5), x / parts))

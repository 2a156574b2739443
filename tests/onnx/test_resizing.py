"""Resizes and samples, beyond ONNX's own node tests."""

import math
from fractions import Fraction
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from onnx import helper, numpy_helper

import jaxdml.onnx
from jaxdml.onnx import backend
from jaxdml.onnx.nodes._interpolation import Sampling, meant, originals, taps
from tests.kit import quick
from tests.onnx._onnxruntime import assert_agree, model

pytestmark = quick

X = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32)


def constant(name, values, dtype=np.float32):
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(values, dtype)))


def modes(*coordinates, sizes, **attributes):
    """Return nodes for all combinations of coordinates, and of ways to interpolate."""
    ways = [{"mode": "linear"}, {"mode": "cubic"}]
    ways += [{"mode": "nearest", "nearest_mode": way} for way in ("floor", "ceil", "round_prefer_ceil")]
    inputs = ["x", "roi", "none", "sizes"] if sizes else ["x", "roi", "scales"]
    return [
        helper.make_node("Resize", inputs, [f"{i}"], coordinate_transformation_mode=coordinate, **way, **attributes)
        for i, (coordinate, way) in enumerate(product(coordinates, ways))
    ]


ROI = constant("roi", [0, 0, 0.3, -0.2, 1, 1, 0.6, 1.1])


def test_sizes_agree_with_onnxruntime():
    coordinates = ("half_pixel", "asymmetric", "align_corners", "tf_crop_and_resize", "half_pixel_symmetric")
    nodes = modes(*coordinates, sizes=True, extrapolation_value=7.0)
    given = [ROI, constant("none", []), constant("sizes", [2, 3, 7, 8], np.int64)]
    assert_agree([*given, *nodes], {"x": X}, 19, tolerance=1e-4)


def test_one_output_agrees_with_onnxruntime():
    nodes = modes("pytorch_half_pixel", "tf_crop_and_resize", "align_corners", sizes=True)
    given = [ROI, constant("none", []), constant("sizes", [2, 3, 1, 8], np.int64)]
    assert_agree([*given, *nodes], {"x": X}, 13, tolerance=1e-4)


def test_scales_agree_with_onnxruntime():
    nodes = modes("half_pixel", "asymmetric", "tf_half_pixel_for_nn", sizes=False)
    given = [constant("roi", []), constant("scales", [1, 1, 2, 0.6])]
    assert_agree([*given, *nodes], {"x": X}, 11, tolerance=1e-4)


def test_what_lies_outside_can_be_left_out_and_what_shrinks_smoothed():
    nodes = [
        helper.make_node("Resize", ["x", "", "scales"], ["0"], mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5),
        helper.make_node("Resize", ["x", "", "scales"], ["1"], mode="linear", antialias=1),
        helper.make_node("Resize", ["x", "", "tiny"], ["2"], mode="cubic", antialias=1, exclude_outside=1),
    ]
    given = [constant("scales", [1, 1, 1.7, 0.6]), constant("tiny", [1, 1, 0.26, 0.2])]
    assert_agree([*given, *nodes], {"x": X}, 18, tolerance=1e-4)


def test_the_earliest_versions_agree_with_onnxruntime():
    nodes = [
        helper.make_node("Upsample", ["x"], [mode], mode=mode, scales=[1, 1, 2, 1.5]) for mode in ("nearest", "linear")
    ]
    assert_agree(nodes, {"x": X}, 7)
    for opset, kind, scales in ((9, "Upsample", [1, 1, 1.5, 3]), (10, "Resize", [1, 1, 0.6, 1.4])):
        nodes = [helper.make_node(kind, ["x", "scales"], [mode], mode=mode) for mode in ("nearest", "linear")]
        assert_agree([constant("scales", scales), *nodes], {"x": X}, opset)


def test_with_channels_last():
    nodes = [
        helper.make_node("GlobalMaxPool", ["x"], ["p"]),
        helper.make_node("Resize", ["p", "", "", "sizes"], ["y"], axes=[-1, 0]),
    ]
    given = constant("sizes", [4, 6], np.int64)
    found = backend.prepare(model([given, *nodes], {"x": X}, 18)).run([X])[-1]
    np.testing.assert_array_equal(found, np.broadcast_to(X.max((2, 3), keepdims=True).repeat(3, 0), (6, 3, 1, 4)))


def test_integers_are_cut_off_and_clamped():
    x = np.array([[[0, 255, 255, 0]]], np.uint8)
    sizes = np.int64([1, 1, 8])
    found, real = (
        backend.run_node(helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode="cubic"), [x.astype(dtype), sizes])
        for dtype in (np.uint8, np.float32)
    )
    np.testing.assert_array_equal(found[0], np.clip(real[0], 0, 255).astype(np.uint8))


def test_a_mean_that_is_an_integer_keeps_its_value():
    """Of numbers in a row, a fifth of each step is an integer; float32 finds some of them a little less."""
    x = np.arange(0, 255, 5, dtype=np.uint8)[None, None]
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear", coordinate_transformation_mode="asymmetric")
    (found,) = backend.run_node(node, [x, np.float32([1, 1, 5])])
    assert found[0, 0, :251].tolist() == list(range(251))


def test_an_infinite_element_stays_where_it_is():
    x = np.float32([[[1, 2, np.inf, 3]]])
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear")
    (found,) = backend.run_node(node, [x, np.int64([1, 1, 8])])
    assert np.isfinite(found[..., [0, 1, 2, 7]]).all()


def test_a_batch_of_unknown_size():
    nodes = [helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear")]
    made = model([constant("scales", [1, 1, 1.5, 1.4]), *nodes], {"x": X}, 18)
    del made.graph.output[0]
    made.graph.input[0].type.tensor_type.ClearField("shape")
    run = jaxdml.onnx.load(made)
    batch = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 3, 4, 5"), jnp.float32)
    exported = jax.export.export(jax.jit(lambda x: run.apply({}, x)[0]))(batch)
    assert exported.call(X).shape == (2, 3, 6, 7)


def test_no_memory_is_taken_for_what_is_too_long():
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"])
    with pytest.raises(NotImplementedError, match="an output of length 1000000000000"):
        backend.run_node(node, [X, np.int64([2, 3, 4, 10**12])])


def test_scales_or_sizes_must_be_there():
    with pytest.raises(ValueError, match="has neither scales nor sizes"):
        backend.run_node(helper.make_node("Resize", ["x"], ["y"]), [X])


HALF, WHOLE = Fraction(1, 2), (Fraction(0), Fraction(1))
PLACES = {
    "half_pixel": lambda x, n, m: (x + HALF) * n / m - HALF,
    "half_pixel_symmetric": lambda x, n, m: (x + HALF) * n / m - HALF,
    "pytorch_half_pixel": lambda x, n, m: (x + HALF) * n / m - HALF if m > 1 else 0,
    "tf_half_pixel_for_nn": lambda x, n, m: (x + HALF) * n / m,
    "asymmetric": lambda x, n, m: Fraction(x * n, m),
    "align_corners": lambda x, n, m: Fraction(x * (n - 1), m - 1) if m > 1 else 0,
    "tf_crop_and_resize": lambda x, n, m: Fraction(x * (n - 1), m - 1) if m > 1 else Fraction(n - 1, 2),
}
ROUNDINGS = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round_prefer_floor": lambda x: math.ceil(x - HALF),
    "round_prefer_ceil": lambda x: math.floor(x + HALF),
}


def nearest(n, m, coordinates, way, factor=None):
    """Return which elements a dimension of n elements is resized from, to m or by a factor."""
    sampling = Sampling(n, m, Fraction(m, n) if factor is None else factor, coordinates, WHOLE)
    return taps(sampling, "nearest", way, -0.75, False, False)[0][0].tolist()


@pytest.mark.parametrize("coordinates", PLACES)
def test_the_nearest_element_is_that_of_exact_places(coordinates):
    """In float32, 20 to 6 and 14 to 4 read another element; in float64, 2 to 82 does with some modes."""
    sizes = [1, 2, 3, 4, 5, 6, 7, 9, 10, 14, 20, 41, 82]
    for (n, m), (way, rounded) in product(product(sizes, sizes), ROUNDINGS.items()):
        want = [min(max(rounded(PLACES[coordinates](x, n, m)), 0), n - 1) for x in range(m)]
        assert nearest(n, m, coordinates, way) == want, (n, m, way)


def test_what_is_nearest_does_not_depend_on_rounding():
    modes = {"0": ("half_pixel", "round_prefer_ceil", 6), "1": ("asymmetric", "floor", 14)}
    nodes = [constant("6", [6], np.int64), constant("14", [14], np.int64)]
    for name, (coordinates, way, size) in modes.items():
        how = {"coordinate_transformation_mode": coordinates, "nearest_mode": way, "axes": [0]}
        nodes.append(helper.make_node("Resize", ["x", "", "", f"{size}"], [name], **how))
    x = np.arange(20, dtype=np.float32)
    found = backend.prepare(model(nodes, {"x": x}, 19)).run([x])[-2:]
    assert [each.tolist() for each in found] == [
        [1, 5, 8, 11, 15, 18],
        [0, 1, 2, 4, 5, 7, 8, 10, 11, 12, 14, 15, 17, 18],
    ]


@pytest.mark.parametrize("scale", [Fraction(2, 3), Fraction(7, 10), Fraction(11, 10), Fraction(5, 3), Fraction(3, 41)])
def test_a_scale_is_the_fraction_that_it_was_rounded_from(scale):
    """As PyTorch takes it, whose exporter writes it in float32: 2 / float32(2 / 3) is less than 3."""
    n = 82
    m = math.floor(n * scale)
    assert meant(np.float32(scale)) == scale
    assert nearest(n, m, "asymmetric", "floor", meant(np.float32(scale))) == [math.floor(x / scale) for x in range(m)]


def test_numbers_that_are_no_simple_fraction_are_what_they_are():
    tiny = np.float32(2**-100)
    assert [meant(x) for x in (tiny, -tiny, np.float32(-0.3), np.float32(0))] == [
        Fraction(1, 2**100),
        Fraction(-1, 2**100),
        Fraction(-3, 10),
        0,
    ]
    places = originals(Sampling(5, 3, Fraction(3, 5), "tf_crop_and_resize", (-meant(tiny), Fraction(1))))
    assert places.outside(5).tolist() == [True, False, False]
    assert places.rounded("floor").tolist() == [-1, 1, 4]


def test_a_region_reaches_the_elements_that_it_names():
    """In float32 a fifth of 5 elements is more than 1, and rounded up would be 2."""
    x = np.arange(6, dtype=np.float32)
    node = helper.make_node(
        "Resize",
        ["x", "roi", "", "sizes"],
        ["y"],
        coordinate_transformation_mode="tf_crop_and_resize",
        nearest_mode="ceil",
    )
    (found,) = backend.run_node(node, [x, np.float32([0.2, 0.8]), np.int64([4])])
    assert found.tolist() == [1, 2, 3, 4]


def test_weights_that_are_all_outside_are_none():
    sampling = Sampling(3, 2, Fraction(2, 3), "tf_crop_and_resize", (Fraction(-4), Fraction(1)))
    _, weights = taps(sampling, "linear", "", 0, exclude_outside=True, antialias=False)
    assert weights.tolist() == [[0, 1], [0, 0]]


def test_a_ratio_that_is_kept_rounds_halves_up():
    """0.7 of 15 is 10.5, where in floats it is less."""
    x = np.zeros((10, 15), np.float32)
    for policy, sizes in (("not_larger", [7, 20]), ("not_smaller", [7, 10])):
        node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], keep_aspect_ratio_policy=policy)
        assert backend.run_node(node, [x, np.int64(sizes)])[0].shape == (7, 11)
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], keep_aspect_ratio_policy="not_larger")
    assert backend.run_node(node, [x, np.int64([10, 20])])[0].shape == (10, 15)


@pytest.mark.parametrize("antialias", [0, 1])
def test_nothing_may_be_left(antialias):
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear", antialias=antialias)
    assert backend.run_node(node, [np.ones((2, 3), np.float32), np.int64([2, 0])])[0].shape == (2, 0)


@pytest.mark.parametrize("scale", [0, -1, np.nan, np.inf])
def test_a_scale_must_be_a_positive_number(scale):
    with pytest.raises(ValueError, match="a scale must be above 0 and finite; got"):
        backend.run_node(helper.make_node("Resize", ["x", "", "s"], ["y"]), [X, np.float32([1, 1, scale, 1])])


def test_nothing_cannot_be_enlarged():
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"])
    with pytest.raises(ValueError, match="a dimension of length 0 has no elements to resize to length 3"):
        backend.run_node(node, [np.zeros((2, 0), np.float32), np.int64([2, 3])])


CASES = [
    ("linear", "zeros", 0),
    ("linear", "border", 1),
    ("linear", "reflection", 0),
    ("nearest", "zeros", 1),
    ("nearest", "border", 0),
    ("nearest", "reflection", 1),
    ("cubic", "zeros", 0),
    ("cubic", "border", 1),
]


@pytest.mark.parametrize(("opset", "old"), [(16, {"linear": "bilinear", "cubic": "bicubic"}), (20, {})])
def test_samples_agree_with_onnxruntime(opset, old):
    grid = np.random.default_rng(1).uniform(-1.6, 1.6, (2, 3, 2, 2)).astype(np.float32)
    nodes = [
        helper.make_node(
            "GridSample",
            ["x", "grid"],
            [f"{i}"],
            mode=old.get(mode, mode),
            padding_mode=padding,
            align_corners=corners,
        )
        for i, (mode, padding, corners) in enumerate(CASES)
        if (padding == "zeros") == (opset == 16)
    ]
    assert_agree(nodes, {"x": X, "grid": grid}, opset, tolerance=1e-4)


def test_samples_of_a_volume_and_of_a_line():
    volume, line = X[:, :1, None, 0:3], X[:, :, :1, :1]
    grid = np.random.default_rng(2).uniform(-1.6, 1.6, (2, 1, 2, 2, 3)).astype(np.float32)
    nodes = [helper.make_node("GridSample", ["v", "g"], ["0"])]
    nodes += [helper.make_node("GridSample", ["l", "h"], ["1"], padding_mode="reflection", align_corners=1)]
    assert_agree(nodes, {"v": volume, "g": grid, "l": line, "h": grid[..., 0, :2]}, 20, tolerance=1e-4)

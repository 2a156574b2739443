"""Resizes and samples, beyond ONNX's own node tests."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from onnx import helper, numpy_helper

import jaxdml.onnx
from jaxdml.onnx import backend
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

"""Convolutions, beyond ONNX's own node tests."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from onnx import helper

import jaxdml.onnx
from jaxdml.onnx import backend
from tests.kit import quick
from tests.onnx._onnxruntime import assert_agree, model

pytestmark = quick


def normal(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def test_agrees_with_onnxruntime():
    inputs = {
        "x": normal(2, 4, 6, 5),
        "w": normal(6, 2, 3, 2),
        "b": normal(6),
        "line": normal(1, 2, 7),
        "short": normal(3, 2, 3),
        "cube": normal(1, 1, 3, 4, 3),
        "corner": normal(2, 1, 2, 2, 2),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["0"], group=2, strides=[2, 1], dilations=[1, 2], pads=[2, 0, 1, 3]),
        helper.make_node(
            "Conv", ["x", "w"], ["1"], group=2, strides=[2, 3], auto_pad="SAME_UPPER", kernel_shape=[3, 2]
        ),
        helper.make_node("Conv", ["x", "w"], ["2"], group=2, strides=[2, 2], auto_pad="SAME_LOWER"),
        helper.make_node("Conv", ["line", "short"], ["3"], auto_pad="VALID"),
        helper.make_node("Conv", ["cube", "corner"], ["4"], pads=[1, 1, 1, 0, 0, 0]),
    ]
    assert_agree(nodes, inputs, 11)


def test_transposed_agrees_with_onnxruntime():
    inputs = {"x": normal(2, 4, 4, 3), "w": normal(4, 3, 3, 3), "b": normal(6), "v": normal(4, 2, 4, 4)}
    two = {"strides": [2, 2]}
    nodes = [
        helper.make_node(
            "ConvTranspose", ["x", "w", "b"], ["0"], group=2, pads=[1, 0, 1, 2], output_padding=[1, 1], **two
        ),
        helper.make_node("ConvTranspose", ["x", "v"], ["1"], auto_pad="SAME_UPPER", **two),
        helper.make_node("ConvTranspose", ["x", "w"], ["2"], auto_pad="SAME_LOWER", **two),
        helper.make_node("ConvTranspose", ["x", "w"], ["3"], output_shape=[8, 6], **two),
        helper.make_node("ConvTranspose", ["x", "w"], ["4"], auto_pad="VALID", dilations=[2, 1], kernel_shape=[3, 3]),
    ]
    assert_agree(nodes, inputs, 11)


def test_transposed_adds_what_the_wanted_shape_has_more_at_the_end():
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], auto_pad="SAME_LOWER", strides=[3])
    one = np.ones((1, 1, 2), np.float32)
    (found,) = backend.run_node(node, [one, np.ones((1, 1, 1), np.float32)])
    assert found.tolist() == [[[1, 0, 0, 1, 0, 0]]]


def test_deformed_without_a_mask_and_with_groups():
    inputs = {"x": normal(1, 4, 4, 4), "w": normal(2, 2, 2, 2), "o": normal(1, 16, 3, 3), "b": normal(2)}
    node = helper.make_node("DeformConv", ["x", "w", "o", "b"], ["0"], group=2, offset_group=2)
    assert_agree([node], inputs, 19, tolerance=1e-4)


def test_filters_must_have_the_shape_that_the_node_says():
    node = helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3])
    with pytest.raises(ValueError, match=r"kernel_shape of .* is \[3, 3\], but its filters have \[2, 2\]"):
        backend.run_node(node, [normal(1, 1, 4, 4), normal(1, 1, 2, 2)])


def test_filters_must_not_be_larger_than_the_padded_input():
    node = helper.make_node("Conv", ["x", "w"], ["y"], dilations=[3, 3])
    with pytest.raises(ValueError, match="a window reaches over 4 elements; with its padding the input has 3"):
        backend.run_node(node, [normal(1, 1, 3, 3), normal(1, 1, 2, 2)])


def test_transforms():
    """A convolution, a pooling with dilations and a transposed convolution under vmap, grad and a symbolic batch."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["a"], ["b"], kernel_shape=[2, 2], dilations=[2, 2]),
        helper.make_node("ConvTranspose", ["b", "v"], ["c"], strides=[2, 2]),
        helper.make_node("AveragePool", ["c"], ["d"], kernel_shape=[2, 2], pads=[0, 0, 1, 1]),
        helper.make_node("GlobalAveragePool", ["d"], ["y"]),
    ]
    inputs = {"x": normal(2, 2, 5, 5), "w": normal(3, 2, 3, 3), "v": normal(3, 2, 2, 2)}
    made = model(nodes, inputs, 19)
    del made.graph.output[:-1]
    for value in made.graph.input:
        value.type.tensor_type.ClearField("shape")
    run = jaxdml.onnx.load(made)
    x, w, v = inputs.values()

    @jax.jit
    def total(x, w, v):
        return run.apply({}, x, w, v)[0]

    expected = total(x, w, v)
    each = jax.jit(jax.vmap(lambda x: total(x[None], w, v)[0]))(x)
    np.testing.assert_allclose(each, expected, rtol=1e-5)
    found = jax.jit(jax.grad(lambda w: total(x, w, v).sum()))(w)
    step = np.zeros_like(w)
    step[1, 1, 2, 0] = 1e-2
    slope = (total(x, w + step, v).sum() - total(x, w - step, v).sum()) / 2e-2
    np.testing.assert_allclose(found[1, 1, 2, 0], slope, rtol=1e-2, atol=1e-3)
    batch = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 2, 5, 5"), jnp.float32)
    exported = jax.export.export(total)(batch, w, v)
    np.testing.assert_allclose(exported.call(x, w, v), expected, rtol=1e-5)

"""Normalizations, beyond ONNX's own node tests."""

import jax
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


@pytest.fixture
def batch():
    return {"x": normal(2, 3, 4, 5), "s": normal(3), "b": normal(3), "m": normal(3), "v": normal(3) ** 2}


BATCH = ["x", "s", "b", "m", "v"]


def test_agrees_with_onnxruntime(batch):
    nodes = [
        helper.make_node("BatchNormalization", BATCH, ["0"], epsilon=1e-2),
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2]),
        helper.make_node("BatchNormalization", ["p", *BATCH[1:]], ["1"]),
        helper.make_node("InstanceNormalization", ["p", "s", "b"], ["2"], epsilon=1e-3),
        helper.make_node("LRN", ["p"], ["3"], size=3, alpha=0.5, beta=0.6, bias=1.5),
        helper.make_node("LpNormalization", ["x"], ["4"], axis=1, p=1),
        helper.make_node("LpNormalization", ["x"], ["5"], axis=-2),
    ]
    assert_agree(nodes, batch, 9)


def test_batches_in_training_agree_with_onnxruntime(batch):
    node = helper.make_node("BatchNormalization", BATCH, ["0", "1", "2"], training_mode=1, momentum=0.7)
    assert_agree([node], batch, 15)


def test_five_outputs_mean_training(batch):
    node = helper.make_node("BatchNormalization", BATCH, ["y", "1", "2", "3", "4"])
    with pytest.raises(jaxdml.onnx.UnsupportedModelError, match="more than one output, which means training"):
        backend.run_node(node, list(batch.values()), opset_version=9)


def test_before_version_9_each_element_may_have_its_own_parameters():
    x, s, b, m, v = (normal(2, 2, 3), *(normal(2, 3) + n for n in range(3)), normal(2, 3) ** 2)
    node = helper.make_node("BatchNormalization", BATCH, ["y"], spatial=0)
    (found,) = backend.run_node(node, [x, s, b, m, v], opset_version=7)
    np.testing.assert_allclose(found, (x - m) / np.sqrt(v + 1e-5) * s + b, rtol=1e-4, atol=1e-5)


def test_layers_agree_with_onnxruntime():
    inputs = {"x": normal(2, 3, 4), "s": normal(3, 4), "b": normal(3, 4)}
    nodes = [
        helper.make_node("LayerNormalization", ["x", "s", "b"], ["0", "m", "i"], axis=1),
        helper.make_node("LayerNormalization", ["x", "s"], ["1"], axis=-2, epsilon=1e-2),
        helper.make_node("RMSNormalization", ["x", "s"], ["2"], axis=1),
    ]
    assert_agree(nodes, inputs, 23)


@pytest.mark.parametrize("opset", [7, 16])
def test_layers_before_the_version_of_onnx_agree_with_onnxruntime(opset):
    inputs = {"x": normal(2, 3, 4), "s": normal(4), "b": normal(4), "w": normal(3, 4)}
    nodes = [
        helper.make_node("LayerNormalization", ["x", "s", "b"], ["0", "m", "i"], epsilon=1e-2),
        helper.make_node("LayerNormalization", ["x", "w"], ["1"], axis=1),
        helper.make_node("SimplifiedLayerNormalization", ["x", "s"], ["2"], axis=-1),
        helper.make_node("ThresholdedRelu", ["x"], ["3"], alpha=0.5),
    ]
    assert_agree(nodes, inputs, opset)


@pytest.mark.parametrize("opset", [7, 8])
@pytest.mark.parametrize("attributes", [{}, {"across_channels": 1}, {"across_channels": 1, "normalize_variance": 0}])
def test_means_and_variances_before_the_version_of_onnx(opset, attributes):
    nodes = [helper.make_node("MeanVarianceNormalization", ["x"], ["y"], **attributes)]
    assert_agree(nodes, {"x": normal(2, 3, 4, 5)}, opset)


@pytest.mark.parametrize("attributes", [{}, {"axes": [0, 2, 3]}, {"axes": [0, 1, 2, 3]}])
def test_means_and_variances(attributes):
    nodes = [helper.make_node("MeanVarianceNormalization", ["x"], ["y"], **attributes)]
    assert_agree(nodes, {"x": normal(2, 3, 4, 5)}, 13)


def test_groups_agree_with_onnxruntime():
    inputs = {"x": normal(2, 4, 3, 2), "s": normal(2), "b": normal(2) + 1}
    node = helper.make_node("GroupNormalization", ["x", "s", "b"], ["0"], num_groups=2)
    assert_agree([node], inputs, 18)
    node = helper.make_node("GroupNormalization", ["x", "s", "b"], ["0"], num_groups=2)
    inputs = {"x": inputs["x"], "s": normal(4), "b": normal(4) + 1}
    assert_agree([node], inputs, 21)


def test_a_large_mean_leaves_the_variance_right():
    x = normal(1, 64) + np.float32(4096)
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y"])
    (found,) = backend.run_node(node, [x, np.ones(64, np.float32)])
    exact = x.astype(np.float64)
    np.testing.assert_allclose(found, (exact - exact.mean()) / exact.std(), rtol=1e-3, atol=1e-3)


def test_statistics_of_halves_are_float32():
    x = (normal(1, 2, 40) * 300).astype(np.float16)  # the squares are no float16
    ones = np.ones(40, np.float16)
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y", "m", "i"])
    found, mean, _ = backend.run_node(node, [x, ones])
    assert (found.dtype, mean.dtype) == (np.float16, np.float32)
    exact = x.astype(np.float64)
    wanted = (exact - exact.mean(-1, keepdims=True)) / exact.std(-1, keepdims=True)
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3)


def test_nothing_has_no_direction_and_a_finite_derivative():
    x = np.zeros((1, 3), np.float32)
    run = jaxdml.onnx.load(model([helper.make_node("LpNormalization", ["x"], ["y"])], {"x": x}, 22))
    assert run.apply({}, x)[0].tolist() == [[0, 0, 0]]
    assert np.isfinite(jax.jit(jax.grad(lambda x: run.apply({}, x)[0].sum()))(x)).all()

"""Fourier transforms, beyond ONNX's own node tests."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from jaxdml.onnx import backend
from tests.kit import quick
from tests.onnx._onnxruntime import assert_agree

pytestmark = quick

X = np.random.default_rng(0).normal(size=(2, 6, 7, 2)).astype(np.float32)


def constant(name, value, dtype=np.int64):
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(value, dtype)))


@pytest.mark.parametrize("parts", [1, 2])
def test_transforms_agree_with_onnxruntime(parts):
    nodes = [
        helper.make_node("DFT", ["x"], ["0"], axis=2),
        helper.make_node("DFT", ["x", "length"], ["1"], axis=-3),
        helper.make_node("DFT", ["x"], ["2"], inverse=1),
    ]
    if parts == 1:
        nodes.append(helper.make_node("DFT", ["x", "length"], ["3"], axis=2, onesided=1))
    assert_agree([constant("length", 5), *nodes], {"x": X[..., :parts]}, 17, tolerance=1e-4)


def test_the_axis_is_an_input_from_version_20_on():
    nodes = [helper.make_node("DFT", ["x", "", "axis"], ["0"]), helper.make_node("DFT", ["x"], ["1"])]
    assert_agree([constant("axis", 1), *nodes], {"x": X}, 20, tolerance=1e-4)


@pytest.mark.parametrize("length", [6, 7])
def test_one_side_determines_a_real_signal(length):
    signal = X[:, :, :length, :1]
    ahead = helper.make_node("DFT", ["x"], ["y"], onesided=1)
    (half,) = backend.run_node(ahead, [signal], opset_version=20)
    back = helper.make_node("DFT", ["x", "n"], ["y"], onesided=1, inverse=1)
    (found,) = backend.run_node(back, [half, np.int64(length)], opset_version=20)
    np.testing.assert_allclose(found, signal, atol=1e-5)
    if length == 6:  # the length that is taken for granted
        (found,) = backend.run_node(
            helper.make_node("DFT", ["x"], ["y"], onesided=1, inverse=1), [half], opset_version=20
        )
        np.testing.assert_allclose(found, signal, atol=1e-5)


def test_one_side_of_a_complex_signal():
    (found,) = backend.run_node(helper.make_node("DFT", ["x"], ["y"], onesided=1), [X], opset_version=20)
    wanted = np.fft.fft(X[..., 0] + 1j * X[..., 1])[..., :4]
    np.testing.assert_allclose(found, np.stack((wanted.real, wanted.imag), -1), rtol=1e-4, atol=1e-5)


def test_a_signal_without_a_dimension_of_parts_is_real():
    nodes = [helper.make_node("STFT", ["x", "step", "", "length"], ["0"])]
    nodes = [constant("step", 3), constant("length", 5), *nodes]
    assert_agree(nodes, {"x": X[0, :, :, 0]}, 17, tolerance=1e-4)
    with pytest.raises(ValueError, match=r"input must have the shape \[..., any, 1\] or \[..., any, 2\]"):
        backend.run_node(helper.make_node("DFT", ["x"], ["y"]), [X[..., 0]], opset_version=17)


def test_short_transforms_agree_with_onnxruntime():
    inputs = {"x": X.reshape(2, -1, 1), "window": np.float32([0.1, 0.5, 1, 0.5, 0.2])}
    nodes = [
        helper.make_node("STFT", ["x", "step", "window"], ["0"]),
        helper.make_node("STFT", ["x", "step", "", "length"], ["1"], onesided=0),
        helper.make_node("STFT", ["x", "step", "window", "length"], ["2"]),
    ]
    assert_agree([constant("step", 3), constant("length", 5), *nodes], inputs, 17, tolerance=1e-4)


def test_a_short_transform_of_everything_at_once():
    (found,) = backend.run_node(helper.make_node("STFT", ["x", "step"], ["y"]), [X[:, :, 0, :1], np.int64(1)])
    wanted = np.fft.rfft(X[:, None, :, 0, 0])
    np.testing.assert_allclose(found, np.stack((wanted.real, wanted.imag), -1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("bins", "length"), [(5, 32), (9, 16)])
def test_mel_weights_agree_with_onnxruntime(bins, length):
    given = [constant("bins", bins), constant("length", length), constant("rate", 8000)]
    given += [constant("low", 20, np.float32), constant("high", 4000, np.float32)]
    inputs = ["bins", "length", "rate", "low", "high"]
    node = helper.make_node("MelWeightMatrix", inputs, ["y"], output_datatype=TensorProto.DOUBLE)
    assert_agree([*given, node], {}, 17)

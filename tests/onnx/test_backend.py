"""ONNX's interface of backends, beside what its own node tests call."""

import jax
import ml_dtypes
import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto, helper
from onnx.backend.base import Backend, BackendRep

from jaxdml.onnx import UnsupportedModelError, backend
from tests.kit import quick

pytestmark = quick

X = np.float32([1, 2])
ADD = helper.make_node("Add", ["a", "b"], ["c"])


def model(body="y = Add(x, i) z = Add(i, i)"):
    head = '<ir_version: 8, opset_import: ["": 17]> g (double[2] x, double[2] i) => (double[2] y, double[2] z) {'
    return onnx.parser.parse_model(head + body + "}")


def test_a_model_runs_with_64_bits():
    prepared = backend.prepare(model(), "CPU", numerics="literal")
    assert isinstance(prepared, BackendRep)
    assert issubclass(backend.JaxdmlBackend, Backend)
    tiny = np.float64([1e-300, 1])
    outputs = prepared.run([tiny, tiny])
    assert [str(output.dtype) for output in outputs] == ["float64"] * 2
    np.testing.assert_array_equal(outputs[0], 2 * tiny)
    np.testing.assert_array_equal(outputs["z"], 2 * tiny)
    np.testing.assert_array_equal(backend.run_model(model(), [tiny, tiny])[1], 2 * tiny)
    assert not jax.config.jax_enable_x64


def test_models_and_devices_that_fit():
    assert backend.is_compatible(model())
    assert not backend.is_compatible(model("y = Nope(x) z = Add(i, i)"))
    assert not backend.is_compatible(model(), "TPU")
    assert backend.supports_device("CPU")
    assert backend.supports_device("CPU:0")
    for name in ("CPU:99", "CPU:x", "", "cpu", "TPU", "CUDA:99"):
        assert not backend.supports_device(name)
    with pytest.raises(ValueError, match=r"jaxdml\.onnx\.backend: there is no device 'TPU'\.\n  Give one of 'CPU'"):
        backend.prepare(model(), "TPU")
    with pytest.raises(UnsupportedModelError, match="Nope"):
        backend.prepare(model("y = Nope(x) z = Add(i, i)"))


def test_a_model_runs_where_it_shall():
    prepared = backend.prepare(model(), "CPU:1")
    assert prepared.device == jax.devices("cpu")[1]
    assert str(prepared.run([np.ones(2)] * 2)[0]) == "[2. 2.]"


def test_one_node():
    np.testing.assert_array_equal(backend.run_node(ADD, [X, X])[0], X + X)
    np.testing.assert_array_equal(backend.run_node(ADD, (X, X), "CPU", opset_version=7)["c"], X + X)
    twice = helper.make_node("Add", ["a", "a"], ["c"])
    np.testing.assert_array_equal(backend.run_node(twice, [X, 2 * X])[0], 3 * X)
    scalars = backend.run_node(ADD, [np.float32(1), np.int64(2).astype(np.float32)])
    assert (scalars[0].shape, scalars[0].dtype, float(scalars[0])) == ((), np.float32, 3.0)
    assert list(ADD.input) == ["a", "b"]


def test_inputs_that_are_left_out():
    clip = helper.make_node("Clip", ["x", "", "max"], ["y"])
    most = np.float32(1.5)
    for inputs in ([X, most], [X, None, most]):
        np.testing.assert_array_equal(backend.run_node(clip, inputs)[0], np.minimum(X, most))
    both = helper.make_node("Clip", ["x", "min", "max"], ["y"])
    np.testing.assert_array_equal(backend.run_node(both, [X, None, most])[0], np.minimum(X, most))


def test_nodes_of_another_domain():
    node = helper.make_node("QLinearAdd", ["a", "s", "z", "b", "s", "z", "s"], ["c"], domain="com.microsoft")
    q, s, z = np.uint8([3, 4]), np.float32(0.5), np.uint8(0)
    assert backend.run_node(node, [q, s, z, q, s, z, s])[0].tolist() == [6, 8]


@pytest.mark.parametrize(
    ("inputs", "error", "text"),
    [
        ([X], TypeError, "1 inputs are given; Add has 2"),
        ([X, [X, X]], UnsupportedModelError, "input 1 of Add is list"),
        ([X, "text"], UnsupportedModelError, "input 1 of Add is str"),
        ([X, np.array(["a"])], UnsupportedModelError, "has dtype <U1"),
        ([X, np.array([{}])], UnsupportedModelError, "has dtype object"),
        ([X, None], UnsupportedModelError, "input 1 is left out"),
    ],
)
def test_inputs_that_do_not_fit(inputs, error, text):
    with pytest.raises(error, match=text):
        backend.run_node(ADD, inputs)


def test_sequences_in_the_place_of_tensors_are_refused():
    with pytest.raises(UnsupportedModelError, match="input 0 is list"):
        backend.prepare(model()).run([[X], X])
    with pytest.raises(UnsupportedModelError, match="input 1 is None"):
        backend.prepare(model()).run([X, None])
    sequence = helper.make_node("SequenceConstruct", ["a"], ["s"])
    (found,) = backend.run_node(sequence, [X])
    np.testing.assert_array_equal(found, [X])


def test_dtypes_that_numpy_lacks():
    x = X.astype(ml_dtypes.bfloat16)
    assert backend.run_node(ADD, [x, x])[0].dtype == x.dtype
    assert helper.np_dtype_to_tensor_dtype(x.dtype) == TensorProto.BFLOAT16

"""Reductions and operators along axes, beyond onnx's own node tests."""

import jax.export
import numpy as np
import onnxruntime
import pytest

from jaxdml._networks.reductions import REDUCTIONS
from jaxdml.onnx import load
from tests.kit import quick
from tests.onnx.test_elementwise import model, run

pytestmark = quick

X = np.float32(np.random.default_rng(0).normal(size=(2, 3, 4)))


def by_onnxruntime(op, *inputs, **options):
    proto = model(op, [np.asarray(x) for x in inputs], **options)
    proto.ir_version = 8
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {f"x{i}": np.asarray(x) for i, x in enumerate(inputs)})[0]


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize(("opset", "axis"), [(7, 0), (11, 1), (12, -2), (13, 1), (13, -3)])
def test_softmax_by_versions(op, opset, axis):
    result = run(op, X, opset=opset, axis=axis)[0]
    np.testing.assert_allclose(result, by_onnxruntime(op, X, opset=opset, axis=axis), rtol=1e-5, atol=1e-6)


def test_softmax_of_nothing_and_of_a_wrong_axis():
    for op in ("Softmax", "Hardmax"):
        assert run(op, np.zeros((2, 0), np.float32))[0].shape == (2, 0)
    with pytest.raises(ValueError, match="axis 3"):
        run("Softmax", X, axis=3)


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceLogSumExp"])
def test_reductions_of_nothing(op):
    expected = {"ReduceMax": -np.inf, "ReduceMin": np.inf, "ReduceSum": 0, "ReduceProd": 1, "ReduceLogSumExp": -np.inf}
    result = run(op, np.zeros((2, 0), np.float32), np.int64([1]), opset=20, keepdims=0)[0]
    np.testing.assert_array_equal(result, np.full(2, expected[op], np.float32))


@pytest.mark.parametrize("traced", [True, False])
def test_reductions_of_integers(traced):
    x = np.int32([[1, 2], [-2, -3]])
    np.testing.assert_array_equal(run("ReduceMean", x, opset=11, axes=[1], traced=traced)[0], [[1], [-2]])
    np.testing.assert_array_equal(run("ReduceL2", x, opset=11, keepdims=0, traced=traced)[0], 4)
    small = np.uint32([[7, 5]])
    np.testing.assert_array_equal(run("ReduceMin", small, opset=20, keepdims=0, traced=traced)[0], 5)
    truths = np.array([[True, False]])
    assert run("ReduceMin", truths, opset=20, keepdims=0, traced=traced)[0] == np.bool_(False)


def test_empty_axes():
    empty = np.int64([])
    np.testing.assert_array_equal(run("ReduceSumSquare", X, empty, opset=18, noop_with_empty_axes=1)[0], X * X)
    assert run("ReduceSum", X, empty, opset=13)[0].shape == (1, 1, 1)


def test_sizes_that_are_symbols():
    size = jax.export.symbolic_shape("n")[0]
    shape = np.array([size, size], object)
    assert REDUCTIONS["Max"](np, shape[:1], axis=0, keepdims=True)[0] == size
    assert REDUCTIONS["Mean"](np, shape, axis=0, keepdims=True)[0] == size


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_cumulative_sums(exclusive, reverse):
    options = {"opset": 14, "exclusive": exclusive, "reverse": reverse}
    inputs = (X, np.array(-2))
    np.testing.assert_allclose(run("CumSum", *inputs, **options)[0], by_onnxruntime("CumSum", *inputs, **options), 1e-5)


def test_the_last_of_equal_elements():
    x = np.int32([[3, 1, 3], [2, 2, 0]])
    for op in ("ArgMax", "ArgMin"):
        options = {"opset": 13, "axis": -1, "keepdims": 0, "select_last_index": 1}
        np.testing.assert_array_equal(run(op, x, **options)[0], by_onnxruntime(op, x, **options))


def test_axes_must_be_known():
    traced = load(model("ReduceSum", [X, np.int64([1])], opset=13))
    with pytest.raises(NotImplementedError, match="must be known"):
        jax.jit(traced.apply)(traced.params, X, np.int32([1]))

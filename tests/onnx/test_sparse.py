"""Sparse tensors of a file, which are made dense."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import jaxdml.onnx
from jaxdml.onnx import _memory
from tests.kit import quick
from tests.onnx.broken import parsed, refused
from tests.onnx.sessions import session

pytestmark = quick

X = np.float32([1, 2])


def sparse(values, indices, shape, name="w"):
    tensor = onnx.SparseTensorProto(values=numpy_helper.from_array(np.asarray(values), name), dims=shape)
    tensor.indices.CopyFrom(numpy_helper.from_array(np.asarray(indices)))
    return tensor


HEAD = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[3] y) '


def with_initializer(tensor):
    model = parsed("{ y = MatMul(x, w) }", HEAD)
    model.graph.sparse_initializer.append(tensor)
    return model


def with_constant(tensor):
    model = parsed("{ w = Constant<value_int = 1>() y = MatMul(x, w) }", HEAD)
    model.graph.node[0].attribute[0].CopyFrom(helper.make_attribute("sparse_value", tensor))
    return model


W = np.float32([[0, 3, 0], [4, 0, 5]])
LINEAR = np.int64([1, 3, 5])
BY_DIMENSION = np.int64([[0, 1], [1, 0], [1, 2]])


@pytest.mark.parametrize("indices", [LINEAR, BY_DIMENSION])
@pytest.mark.parametrize("model", [with_initializer, with_constant])
def test_both_formats_of_indices(indices, model):
    made = model(sparse(np.float32([3, 4, 5]), indices, [2, 3]))
    np.testing.assert_array_equal(jaxdml.onnx.load(made)(X)[0], X @ W)
    np.testing.assert_array_equal(session(made)(x=X)["y"], X @ W)


def test_any_order_and_no_values():
    made = with_initializer(sparse(np.float32([5, 3, 4]), LINEAR[[2, 0, 1]], [2, 3]))
    np.testing.assert_array_equal(jaxdml.onnx.load(made)(X)[0], X @ W)
    for indices in (np.int64([]), np.zeros([0, 2], np.int64)):
        made = with_initializer(sparse(np.float32([]), indices, [2, 3]))
        np.testing.assert_array_equal(jaxdml.onnx.load(made)(X)[0], [0, 0, 0])
    made = parsed("{ y = Add(x, w) }")
    made.graph.sparse_initializer.append(sparse(np.float32([7]), np.zeros([1, 0], np.int64), []))
    np.testing.assert_array_equal(jaxdml.onnx.load(made)(X)[0], X + 7)


def test_a_default_may_be_sparse():
    made = with_initializer(sparse(np.float32([3, 4, 5]), LINEAR, [2, 3]))
    made.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [2, 3]))
    loaded = jaxdml.onnx.load(made)
    assert [value.name for value in loaded.optional_inputs] == ["w"]
    np.testing.assert_array_equal(loaded(X, w=2 * W)[0], X @ (2 * W))


THREE = np.float32([3, 4, 5])


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (sparse(THREE, np.int64([1, 3, 6]), [2, 3]), "an index out of its shape [2, 3]"),
        (sparse(THREE, np.int64([-1, 3, 5]), [2, 3]), "an index out of its shape"),
        (sparse(THREE, np.int64([[0, 1], [1, 0], [0, 3]]), [2, 3]), "an index out of its shape"),
        (sparse(THREE, np.int64([[0, 1], [1, 0], [-1, 2]]), [2, 3]), "an index out of its shape"),
        (sparse(THREE, np.int64([0, 0, 0]), [0, 3]), "an index out of its shape"),
        (sparse(THREE, np.int64([1, 1, 5]), [2, 3]), "two values at one index"),
        (sparse(THREE, np.int64([1, 3]), [2, 3]), "values float32[3] and indices int64[2]"),
        (sparse(THREE, np.int32([1, 3, 5]), [2, 3]), "indices int32[3]"),
        (sparse(THREE, np.int64([[1], [3], [5]]), [2, 3]), "indices int64[3, 1]"),
        (sparse(THREE[None], np.int64([1, 3, 5]), [2, 3]), "values float32[1, 3]"),
        (sparse(THREE, np.int64([1, 3, 5]), [-2, 3]), "shape [-2, 3], which no array can have"),
        (sparse(THREE, np.int64([1, 3, 5]), [2**62, 2**62]), "which no array can have"),
        (sparse(THREE, np.int64([1, 3, 5]), [0, 2**62]), "which no array can have"),
        (sparse(THREE, np.int64([1, 3, 5]), [2**45]), "sparse tensors take 140737488355328 bytes when"),
    ],
)
def test_what_is_broken(tensor, text):
    refused(with_initializer(tensor), text, "initializer 'w'")
    refused(with_constant(tensor), text, "attribute 'sparse_value' of node Constant 'w'")


def test_several_take_more_than_the_machine_has(monkeypatch):
    monkeypatch.setattr(_memory, "of_host", lambda: 40)
    made = with_initializer(sparse(THREE, LINEAR, [2, 3]))
    jaxdml.onnx.load(made)
    made.graph.sparse_initializer.append(sparse(THREE, LINEAR, [2, 3], "v"))
    refused(made, "with initializer 'v', sparse tensors take 48 bytes", "The machine has 40.")


def test_the_memory_of_a_machine_that_says_little(monkeypatch):
    assert 2**28 < _memory.of_host() < 2**50
    monkeypatch.setattr(_memory.os, "sysconf_names", {})
    assert _memory.of_host.__wrapped__() == 2**40


def test_an_attribute_without_a_value():
    made = with_constant(sparse(THREE, LINEAR, [2, 3]))
    made.graph.node[0].attribute[0].ClearField("sparse_tensor")
    refused(made, "has type SPARSE_TENSOR, which is not supported, or no value of it")

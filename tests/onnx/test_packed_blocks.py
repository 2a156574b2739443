"""Matrices of 4 bits and less, dequantized by blocks: they stay packed where products read them."""

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import jaxdml
from jaxdml.onnx import load
from jaxdml.onnx.nodes.groups import transpose
from jaxdml.onnx.nodes.quantizing import pack_matrix
from jaxdml.onnx.values.kinds import Blocks
from tests.kit import quick
from tests.onnx.floats import by_onnxruntime

pytestmark = quick

KINDS = {"int4": TensorProto.INT4, "uint4": TensorProto.UINT4}
K, N, BLOCK = 40, 6, 16


def model(nodes, *, kind="int4", axis=0, zero=False, block=BLOCK, k=K, dtype=np.float32):
    """Return a model of DequantizeLinear and what follows, and the floats of the matrix ``[K, N]``."""
    random = np.random.default_rng(0)
    low = -8 if kind == "int4" else 0
    integers = random.integers(low, low + 16, (k, N))
    scale = random.uniform(0.5, 2, (-(-k // block), N)).astype(dtype)
    zeros = random.integers(low, low + 16, scale.shape) if zero else np.zeros_like(scale, int)
    spread = [np.repeat(array, block, 0)[:k] for array in (scale.astype(np.float32), zeros)]
    floats = (integers - spread[1]) * spread[0]
    turned = [array.T if axis % 2 else array for array in (integers, scale, zeros)]
    constants = [
        helper.make_tensor("q", KINDS[kind], turned[0].shape, turned[0].ravel()),
        onnx.numpy_helper.from_array(np.ascontiguousarray(turned[1]), "s"),
        helper.make_tensor("z", KINDS[kind], turned[2].shape, turned[2].ravel()),
    ]
    given = ["q", "s", "z"] if zero else ["q", "s"]
    first = helper.make_node("DequantizeLinear", given, ["w"], "dequantize", axis=axis, block_size=block)
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x = helper.make_tensor_value_info("x", element, ["m", None])
    y = helper.make_tensor_value_info("y", element, None)
    graph = helper.make_graph([first, *nodes], "g", [x], [y], constants[: len(given)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), floats


PRODUCTS = {
    "MatMul": (0, [helper.make_node("MatMul", ["x", "w"], ["y"], "product")]),
    "MatMul, axis -2": (-2, [helper.make_node("MatMul", ["x", "w"], ["y"], "product")]),
    "Gemm": (0, [helper.make_node("Gemm", ["x", "w"], ["y"], "product")]),
    "Gemm, transB": (1, [helper.make_node("Gemm", ["x", "w"], ["y"], "product", transB=1)]),
    "Transpose, MatMul": (
        -1,
        [helper.make_node("Transpose", ["w"], ["t"], "turn"), helper.make_node("MatMul", ["x", "t"], ["y"], "product")],
    ),
    "Transpose twice": (
        0,
        [
            helper.make_node("Transpose", ["w"], ["t"], "turn", perm=[1, 0]),
            helper.make_node("Transpose", ["t"], ["u"], "turn again"),
            helper.make_node("MatMul", ["x", "u"], ["y"], "product"),
        ],
    ),
}


def inputs(rows, size, dtype=np.float32):
    return np.random.default_rng(1).normal(size=(rows, size)).astype(dtype)


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_read_it_packed(name, kind, zero):
    axis, nodes = PRODUCTS[name]
    proto, floats = model(nodes, kind=kind, axis=axis, zero=zero)
    ours = load(proto)
    (packed,) = ours.params.values()
    assert packed.shape == (K, N)
    assert packed.words.nbytes == 48 * N / 2
    assert "matrix_multiply_block_quantized, 4 bits" in ours.report(inputs(1, K))
    for rows in (1, 5):
        x = inputs(rows, K)
        np.testing.assert_allclose(ours(x)[0], x @ floats, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(ours(x)[0], by_onnxruntime(proto, x)[0], rtol=1e-4, atol=1e-4)


def test_no_program_holds_its_floats():
    axis, nodes = PRODUCTS["MatMul"]
    proto, _ = model(nodes, axis=axis)
    ours = load(proto)
    text = jax.jit(ours.apply).lower(ours.params, inputs(1, K)).compile().as_text()
    entry = text[text.index("ENTRY") :]
    assert f"f32[{K},{N}]" not in entry
    assert f"f32[48,{N}]" not in entry


OTHERS = {
    "Identity": (0, [helper.make_node("Add", ["x", "w"], ["y"], "sum")], K),
    "on the left": (0, [helper.make_node("MatMul", ["w", "x"], ["y"], "product")], N),
    "Gather": (
        1,
        [helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT64), helper.make_node("Gather", ["w", "i"], ["y"])],
        2,
    ),
    "by its transpose": (1, [helper.make_node("MatMul", ["x", "w"], ["y"], "product")], N),
    "Gemm, alpha": (0, [helper.make_node("Gemm", ["x", "w"], ["y"], "product", alpha=0.5)], K),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_reads_floats_gets_floats(name):
    axis, nodes, size = OTHERS[name]
    proto, _ = model(nodes, axis=axis)
    x = inputs(K if name == "Identity" else N, N) if name in ("Identity", "on the left") else inputs(3, size)
    x = np.abs(x) if name == "Gather" else x
    np.testing.assert_allclose(load(proto)(x)[0], by_onnxruntime(proto, x)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options", [{"block": 4}, {"block": 12}, {"block": 100}])
def test_other_blocks(options):
    proto, floats = model(PRODUCTS["MatMul"][1], **options)
    x = inputs(3, K)
    np.testing.assert_allclose(load(proto)(x)[0], x @ floats, rtol=1e-4, atol=1e-4)


def test_of_16_bits():
    proto, floats = model(PRODUCTS["MatMul"][1], dtype=np.float16)
    x = inputs(3, K, np.float16)
    (found,) = load(proto)(x)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, x.astype(np.float32) @ floats, rtol=2e-3, atol=2e-2)


def test_read_literally_it_is_floats():
    proto, floats = model(PRODUCTS["MatMul"][1])
    ours = load(proto, numerics="literal")
    assert "block_quantized" not in ours.report(inputs(1, K))
    x = inputs(3, K)
    np.testing.assert_allclose(ours(x)[0], x @ floats, rtol=1e-4, atol=1e-4)


def test_a_packed_value_looks_like_its_floats():
    integers = np.arange(-8, 8).reshape(16, 1).repeat(3, 1).astype(jnp.int4)
    scale = np.float32([[1, 2, 3]])
    value = Blocks(jaxdml.prepack_blocks(integers, scale, block_size=16), transposed=True)
    assert (value.shape, value.ndim, value.dtype) == ((3, 16), 2, np.float32)
    assert value.floats() is value.floats()
    np.testing.assert_array_equal(value.floats(), (integers.astype(np.float32) * scale).T)


def test_what_is_not_alike_is_not_packed():
    integers, scale = np.zeros((16, 3), jnp.int4), np.ones((1, 3), np.float32)
    assert pack_matrix(integers, scale, None, axis=0, block_size=16).shape == (16, 3)
    assert pack_matrix(integers, scale, None, axis=0, block_size=16, output_dtype=TensorProto.FLOAT16) is None
    assert pack_matrix(integers, scale, np.zeros((2, 3), jnp.int4), axis=0, block_size=16) is None
    assert pack_matrix(integers, scale.astype(np.float64), None, axis=0, block_size=16) is None


def test_only_what_is_packed_is_turned_packed():
    assert transpose(None, np.zeros((2, 3)), floats=None) is None

"""Elementwise operators, casts and activations, beyond onnx's own node tests."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from jaxdml.onnx import UnsupportedModelError, load
from jaxdml.onnx.nodes.activations import ACTIVATIONS
from tests.kit import quick
from tests.onnx.floats import as_onnxruntime, by_onnxruntime, one_node

pytestmark = quick


def model(op, inputs, opset=21, outputs=1, constants=(), **attributes):
    """Return a model of one node; the inputs at these positions are initializers."""
    names = [f"x{i}" for i in range(len(inputs))]
    made = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, made, **attributes)
    typed = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for i, (name, x) in enumerate(zip(names, inputs, strict=True))
        if i not in constants
    ]
    initializers = [onnx.numpy_helper.from_array(inputs[i], names[i]) for i in constants]
    graph = helper.make_graph([node], "g", typed, [onnx.ValueInfoProto(name=name) for name in made], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def run(op, *inputs, traced=True, **options):
    """Run one node on traced operands, or on operands that are known while tracing."""
    inputs = [np.asarray(x) for x in inputs]
    constants = options.pop("constants", () if traced else range(len(inputs)))
    given = [x for i, x in enumerate(inputs) if i not in constants]
    return [np.asarray(y) for y in load(model(op, inputs, constants=constants, **options))(*given)]


BOTH = pytest.mark.parametrize("traced", [True, False])


@BOTH
@pytest.mark.parametrize(
    ("op", "a", "b", "expected"),
    [
        ("Div", np.int32([7, -7, 7, -7]), np.int32([2, 2, -2, -2]), [3, -3, -3, 3]),
        ("Div", np.uint8([200, 7]), np.uint8([3, 8]), [66, 0]),
        ("Mod", np.int32([7, -7, 7, -7]), np.int32([3, 3, -3, -3]), [1, 2, -2, -1]),
        ("Pow", np.int32([2, -1, -1, 1, 3, 9]), np.int32([-1, -1, -2, -5, 4, 0]), [0, -1, 1, 1, 81, 1]),
        ("Pow", np.int32([3, 9, 2, -1]), np.float32([13, 0.5, -1, -1]), [1594323, 3, 0, -1]),
        ("BitShift", np.int8([-3, -3, 5, 5]), np.int8([1, 9, -1, 8]), [-2, -1, 0, 0]),
    ],
)
def test_integers(op, a, b, expected, traced):
    attributes = {"direction": "RIGHT"} if op == "BitShift" else {}
    result = run(op, a, b, traced=traced, opset=28, **attributes)[0]
    assert result.dtype == a.dtype
    np.testing.assert_array_equal(result, expected)


@BOTH
def test_remainder_of_zero_has_the_sign_of_the_divisor(traced):
    a, b = np.float32([-0.0, 4, -3, 5]), np.float32([2, -2, np.inf, 3])
    result = run("Mod", a, b, traced=traced, opset=28)[0]
    np.testing.assert_array_equal(result, np.mod(a, b))
    np.testing.assert_array_equal(np.signbit(result), np.signbit(np.mod(a, b)))


def test_a_whole_quotient_is_whole():
    """XLA would multiply by the reciprocal of 41, and 82 times that is less than 2."""
    nodes = [
        helper.make_node("Constant", [], ["by"], value_float=41.0),
        helper.make_node("Div", ["x", "by"], ["part"]),
        helper.make_node("Floor", ["part"], ["y"]),
    ]
    typed = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1000])]
    made = helper.make_model(helper.make_graph(nodes, "g", typed, [onnx.ValueInfoProto(name="y")]), ir_version=10)
    x = np.arange(1000, dtype=np.float32)
    np.testing.assert_array_equal(load(made)(41 * x)[0], x)


def test_a_power_has_the_type_of_its_base():
    assert run("Pow", np.float16([2, 3]), np.float32([0.5, 2]))[0].dtype == np.float16
    np.testing.assert_array_equal(run("Pow", np.float32([2, 3]), np.int32([3, -1]))[0], np.float32([8, 1 / 3]))


def test_clip():
    x = np.float32([-np.inf, -3, 0, 3, np.inf, np.nan])
    limit = np.finfo(np.float32).max
    np.testing.assert_array_equal(run("Clip", x, opset=10)[0], np.clip(x, -limit, limit))
    np.testing.assert_array_equal(run("Clip", x, opset=10, min=-1.0)[0], np.clip(x, -1, limit))
    np.testing.assert_array_equal(run("Clip", x)[0], x)  # Bounds that are left out do not bound.
    crossed = run("Clip", x[:5], np.float32(2), np.float32(-1), constants=(1, 2))[0]
    np.testing.assert_array_equal(crossed, np.full(5, -1))
    assert run("Clip", x.astype(np.float16), opset=10)[0].dtype == np.float16


@BOTH
def test_dropout_keeps_all(traced):
    x = np.float32([1, 2])
    for opset, dtype in ((7, np.float32), (10, np.bool_), (13, np.bool_)):
        same, mask = run("Dropout", x, traced=traced, opset=opset, outputs=2)
        np.testing.assert_array_equal(same, x)
        assert mask.dtype == dtype
        assert mask.all()


@BOTH
@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (np.int8, [0, 44, -56, -1, 0, -1, 0]),
        (np.uint8, [0, 44, 200, 255, 0, 255, 0]),
        (np.int32, [0, 300, -56, -1, 2**31 - 1, 2**31 - 1, -(2**31)]),
        (np.uint32, [0, 300, 2**32 - 56, 2**32 - 1, 3_000_000_000, 2**32 - 1, 2**31]),
        (ml_dtypes.int4, [0, -4, -8, -1, 0, -1, 0]),
    ],
)
def test_floats_to_integers(dtype, expected, traced):
    x = np.float32([0.9, 300.7, -56.5, -1, 3e9, np.inf, -np.inf])
    if np.dtype(dtype).itemsize == 1:
        # What 32 bits do not hold saturates, and then loses its higher bits.
        expected = [int(np.int64(v)) for v in expected]
        x[4], expected[2:5] = np.nan, [expected[2], expected[3], 0]
        if dtype in (np.int8, np.uint8):
            x[2] = -56.5
            expected[2] = -56 if dtype == np.int8 else 200
    to = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    result = run("Cast", x, traced=traced, opset=21, to=to)[0]
    assert result.dtype == dtype
    np.testing.assert_array_equal(result.astype(np.int64), expected)


@BOTH
def test_casts_of_integers_and_truths(traced):
    kinds = onnx.TensorProto
    np.testing.assert_array_equal(run("Cast", np.int32([200, -1]), traced=traced, to=kinds.INT8)[0], np.int8([-56, -1]))
    floats = np.float32([0, -0.0, 0.1, np.nan])
    np.testing.assert_array_equal(run("Cast", floats, traced=traced, to=kinds.BOOL)[0], [False, False, True, True])
    like = run("CastLike", np.int32([1, 2]), np.float16([0]), traced=traced)[0]
    assert like.dtype == np.float16


NARROW = ("int4", "uint2", "float8_e4m3fn", "float4_e2m1fn", "float8_e8m0fnu")


@BOTH
def test_casts_between_narrow_types(traced):
    x = np.float32([0.5, 1, 2])
    for source in NARROW:
        narrow = x.astype(source)
        for target in ("float8_e4m3fnuz", "int4", "uint8"):
            to = helper.np_dtype_to_tensor_dtype(np.dtype(target))
            result = run("Cast", narrow, traced=traced, opset=25, to=to)[0]
            expected = narrow.astype(np.float32).astype(target)
            np.testing.assert_array_equal(result.astype(np.float32), expected.astype(np.float32))


@BOTH
@pytest.mark.parametrize(
    ("saturate", "mode", "expected"),
    [(1, "up", [0, 126, 127, 128, 254]), (0, "nearest", [0, 126, 127, 128, 255]), (1, "down", [0, 126, 127, 127, 254])],
)
def test_powers_of_two(traced, saturate, mode, expected):
    x = np.float32([0, 0.5, 1, 1.75, 3.4e38])
    to = onnx.TensorProto.FLOAT8E8M0
    result = run("Cast", x, traced=traced, opset=24, to=to, saturate=saturate, round_mode=mode)[0]
    np.testing.assert_array_equal(result.view(np.uint8), expected)


@pytest.mark.parametrize("to", [onnx.TensorProto.STRING, onnx.TensorProto.UNDEFINED, 99])
def test_types_that_are_refused(to):
    with pytest.raises(UnsupportedModelError, match=r"type \w+ is not supported"):
        load(model("Cast", [np.float32([1])], to=to))


def test_bits_that_jax_lacks_are_refused():
    with pytest.raises(NotImplementedError, match="jax_enable_x64"):
        run("BitCast", np.int32([1]), opset=26, to=onnx.TensorProto.INT64)


def test_derivatives_of_activations_are_finite():
    x = jnp.float32([-200, -1, 0, 1, 200])
    ops = sorted(set(ACTIVATIONS) - {"Clip", "PRelu", "SwiGLU"})
    gradients = jax.jit(lambda x: {op: jax.grad(lambda x, op=op: ACTIVATIONS[op](None, x).sum())(x) for op in ops})(x)
    for op, gradient in gradients.items():
        assert np.isfinite(gradient).all(), op


def test_infinities_and_first_operands():
    x = np.float32([-np.inf, np.inf, np.nan, 1])
    np.testing.assert_array_equal(run("IsInf", x, detect_negative=0)[0], [False, True, False, False])
    mean = run("Mean", x[3:], np.float32([[2], [6]]), np.float32(3))[0]
    np.testing.assert_allclose(mean, [[2], [10 / 3]], 1e-6)
    np.testing.assert_array_equal(run("ThresholdedRelu", x, opset=7)[0], [0, np.inf, 0, 0])


@pytest.mark.parametrize("shape", [(), (5, 7), (1, 2, 3, 4, 5)])
@pytest.mark.parametrize("known", [False, True])
def test_a_type_is_lent_without_the_shape_or_the_order_of_dimensions(shape, known):
    """What a convolution returns is stored with its channels last."""
    x, w = np.ones((1, 3, 5, 5), np.float32), np.ones((4, 3, 1, 1), np.float32)
    z = np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("CastLike", ["z", "c"], ["like"]),
        helper.make_node("CastLike", ["c", "z"], ["back"]),
        helper.make_node("Neg", ["like"], ["y"]),
    ]
    typed = [helper.make_tensor_value_info("x", 1, x.shape)]
    typed += [] if known else [helper.make_tensor_value_info("z", 6, z.shape)]
    initializers = [numpy_helper.from_array(w, "w"), *([numpy_helper.from_array(z, "z")] if known else [])]
    outputs = [helper.make_tensor_value_info("y", 1, z.shape), helper.make_tensor_value_info("back", 6, (1, 4, 5, 5))]
    graph = helper.make_graph(nodes, "lent", typed, outputs, initializers)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    as_onnxruntime(proto, x, *([] if known else [z]))


def test_no_axes_squeeze_all_that_have_size_one():
    x, axes = np.ones((1, 3, 1), np.float32), np.zeros(0, np.int64)
    proto, given = one_node("Squeeze", {"x": x, "axes": axes}, "y")
    assert load(proto)(*given)[0].shape == by_onnxruntime(proto, *given)[0].shape == (3,)


def test_an_axis_out_of_range_is_named():
    proto, given = one_node("MeanVarianceNormalization", {"x": np.ones((3, 1), np.float32)}, "y")
    with pytest.raises(ValueError, match=r"axis \d is out of range for rank 2"):
        load(proto)(*given)

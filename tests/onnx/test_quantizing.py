"""ONNX's quantized operators, beyond its own node tests: judged by exact numbers, or by onnxruntime."""

import jax
import numpy as np
import onnx
import pytest
from ml_dtypes import bfloat16
from onnx import helper
from onnx.reference import ReferenceEvaluator

import jaxdml.onnx
from jaxdml.onnx import UnsupportedModelError
from tests.kit import as_shipped, assert_same_bits, quick
from tests.onnx import microsoft, oracle
from tests.onnx.quantized import Groups, draw

pytestmark = quick

U8, S8, S32 = np.uint8, np.int8, np.int32
NARROW = ("int4", "uint4", "int2", "uint2")


def number_of(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


# Quantize and dequantize


def test_halves_go_to_even_and_then_the_zero_point_is_added():
    groups = Groups()
    x = groups.input(np.float32([0.5, 1.5, 2.5, -0.5, np.inf, -np.inf]))
    groups.q(x, 1, U8(1))
    groups.q(x, np.float32([1]), S8([1]))
    groups.q(x, 1)
    got = list(groups.run().values())
    np.testing.assert_array_equal(got[0], [1, 3, 3, 1, 255, 0])
    np.testing.assert_array_equal(got[1], [1, 3, 3, 1, 127, -128])
    np.testing.assert_array_equal(got[2], [0, 2, 2, 0, 255, 0])
    assert got[2].dtype == U8


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", *NARROW])
def test_every_width_is_stored_by_all_and_by_channel_and_by_block(dtype):
    dtype = np.dtype(dtype)
    rng, groups = np.random.default_rng(0), Groups(25)
    limits = helper.np_dtype_to_tensor_dtype(dtype), jax.numpy.iinfo(dtype)
    low, high = int(limits[1].min), int(limits[1].max)
    x = (rng.normal(0, (high - low) / 4, (3, 8))).astype(np.float32)
    given = groups.input(x)
    wanted = {}
    for scale, axis, block in (
        (np.float32(0.5), None, 0),
        (np.float32([0.5, 0.25, 2]), 0, 0),
        (np.exp2(rng.integers(-2, 2, (3, 3))).astype(np.float32), 1, 3),
    ):
        zero = rng.integers(low, high + 1, scale.shape).astype(dtype)
        options = {} if axis is None else {"axis": axis} | ({"block_size": block} if block else {})
        wide = np.repeat(scale, 3, 1)[:, :8] if block else scale[:, None] if axis == 0 else scale
        zeros = np.repeat(zero, 3, 1)[:, :8] if block else zero[:, None] if axis == 0 else zero
        whole = np.clip(np.rint(x / wide) + zeros.astype(int), low, high)
        made = groups.q(given, scale, zero, **options)
        wanted[made] = whole.astype(dtype)
        wanted[groups.out(groups.dq(made, scale, zero, **options))] = np.float32((whole - zeros.astype(int)) * wide)
    wanted[groups.q(given, 0.5, output_dtype=number_of(dtype))] = np.clip(np.rint(x / 0.5), low, high).astype(dtype)
    for name, got in groups.run().items():
        assert got.dtype == wanted[name].dtype
        np.testing.assert_array_equal(got.astype(np.float32), wanted[name].astype(np.float32), err_msg=name)


def test_other_floats_have_the_same_integers():
    groups, rng = Groups(23), np.random.default_rng(1)
    x = draw(rng, (4, 6), U8)
    for kind in (np.float16, bfloat16):
        scale = np.asarray(0.125, kind)
        value = groups.dq(groups.input(x), scale, U8(7))
        groups.out(groups("Identity", value))
        by_row = groups.dq(groups.input(x), np.asarray([0.5, 1, 2, 4], kind), axis=0)
        groups.q(by_row, np.asarray([1, 0.5, 1, 2], kind), axis=0)
        narrow = groups.dq(groups.input(x), 0.125, U8(7), output_dtype=number_of(kind))
        made = [
            groups("Relu", value),
            groups("Add", value, narrow),
            groups("MatMul", value, groups.dq(draw(rng, (6, 3), S8), scale)),
        ]
        bias = groups.dq(np.int32([8, -16]), np.asarray(0.015625, kind))
        made.append(groups("Conv", groups("Unsqueeze", value, np.int64([2])),
                           groups.dq(draw(rng, (2, 6, 1), S8), scale), bias))  # fmt: skip
        for y in made:
            groups.q(y, np.asarray(2, kind), S8(3), precision=1)
            groups.out(groups("Identity", y))
    literal = groups.run("literal")
    notes = groups.notes()
    for name, got in groups.run().items():
        assert got.dtype == literal[name].dtype
        step = 1 if got.dtype.kind in "iu" else 0.02 * abs(literal[name].astype(np.float32)).max()
        np.testing.assert_allclose(got.astype(np.float32), literal[name].astype(np.float32), rtol=0, atol=step)
    assert {"a table", "quantized_linear_add", "quantized_linear_convolution"} <= set(notes.values())


def test_channels_are_last_within_and_first_to_the_world():
    rng = np.random.default_rng(2)
    groups = Groups()
    x = groups.dq(groups.input(draw(rng, (2, 3, 6, 5), U8)), 0.25, U8(100))
    w = groups.dq(draw(rng, (4, 3, 1, 1), S8), 0.125)
    product = groups("Conv", x, w)
    scales = np.float32([4, 8, 2, 1])
    for axis, scale in ((1, scales), (-3, scales), (0, scales[:2]), (2, np.tile(scales, 2)[:6])):
        back = groups.dq(groups.q(product, scale, np.zeros(scale.shape, S8), axis=axis), scale, axis=axis)
        groups.out(groups("Identity", back))
    narrow = groups("QuantizeLinear", product, np.float32(4), np.asarray(1, "int4"))
    groups.out(groups("Identity", groups.dq(narrow, 4, np.asarray(1, "int4"))))
    made, scale, zero = groups("DynamicQuantizeLinear", product, outputs=3)
    for name in (made, scale, zero):
        groups.out(name)
    integers = groups.out(groups("ConvInteger", made, draw(rng, (2, 4, 3, 3), S8), zero))
    groups.out(groups("Transpose", integers, perm=[0, 2, 3, 1]))
    scaled = groups("Mul", groups("Cast", integers, to=onnx.TensorProto.FLOAT), groups("Mul", scale, np.float32(0.1)))
    groups.out(groups("Add", scaled, np.float32([1, 2]).reshape(1, 2, 1, 1)))
    groups.nearly()


@pytest.mark.parametrize("dtype", [np.float16, np.int32])
def test_what_else_may_be_quantized(dtype):
    groups = Groups(23)
    groups.q(groups.input(np.arange(-9, 9, 3).astype(dtype)), 2, S8(1))
    np.testing.assert_array_equal(next(iter(groups.run().values())), [-3, -2, -1, 1, 3, 4])


SMALL = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float4_e2m1fn")


def traps(dtype):
    """Return every number of a type, the middle of each two, what is next to these, and what the type does not hold."""
    bits = np.arange(16 if dtype.itemsize == 1 and "float4" in dtype.name else 256, dtype=np.uint8)
    numbers = bits.view(dtype).astype(np.float32)
    numbers = np.unique(numbers[np.isfinite(numbers)])
    middles = (numbers[1:] + numbers[:-1]) / 2
    beyond = np.float32([numbers[-1] * 1.01, numbers[-1] * 1.3, numbers[-1] * 1e3])
    sure = np.concatenate([numbers, middles, np.nextafter(middles, -np.inf), np.nextafter(middles, np.inf)])
    return np.concatenate([sure, beyond, -beyond, np.float32([0.0, -0.0])]), np.float32([np.inf, -np.inf, np.nan])


@as_shipped  # XLA's older emitters convert some of these types wrongly.
def test_small_floats_are_those_of_onnx_reference():
    groups, rng = Groups(23), np.random.default_rng(7)
    for dtype in map(np.dtype, SMALL):
        finite, others = traps(dtype)
        # The reference adds a zero point of 0 to float4, which drops the sign of -0; it has no infinities and no NaNs.
        x = finite + np.float32(0) if "float4" in dtype.name else np.concatenate([finite, others])
        scaled, zero = groups.input(x * np.float32(0.25)), np.zeros((), dtype)
        for saturate in (0, 1):
            made = groups.q(scaled, 0.25, zero, saturate=saturate)
        groups.out(groups.dq(made, 0.25, zero))
        groups.q(groups.input(np.float32([0.3, 7, 450])), 0.7, groups.input(zero))
        rows = groups.input(rng.normal(0, 3, (3, 8)).astype(np.float32))
        by_row = np.float32([0.5, 0.3, 2])
        made = groups.q(rows, by_row, np.zeros(3, dtype), axis=0)
        groups.out(groups.dq(made, by_row, axis=0))
        blocks = rng.uniform(0.1, 1, (3, 3)).astype(np.float32)
        made = groups.q(rows, blocks, axis=1, block_size=3, output_dtype=number_of(dtype))
        groups.out(groups.dq(made, blocks, axis=1, block_size=3, output_dtype=onnx.TensorProto.FLOAT16))
        kind = bfloat16 if "fnuz" in dtype.name else np.float16
        x = groups.input(rng.normal(0, 3, 300).astype(kind))
        made = groups.q(x, np.asarray(0.3, kind), output_dtype=number_of(dtype))
        groups.out(groups.dq(made, np.asarray(0.3, kind)))
        groups.q(x, np.asarray(0.3, kind), output_dtype=number_of(dtype), precision=onnx.TensorProto.FLOAT)
    wanted = dict(zip(groups.outputs, ReferenceEvaluator(groups.proto()).run(None, groups.inputs), strict=True))
    for name, got in groups.run().items():
        assert got.dtype == wanted[name].dtype
        one, other = got.astype(np.float32), wanted[name].astype(np.float32)
        np.testing.assert_array_equal(one, other, err_msg=name)
        signs = np.signbit(np.nan_to_num(one)), np.signbit(np.nan_to_num(other))
        np.testing.assert_array_equal(*signs, err_msg=name)


def test_small_floats_with_a_zero_point_follow_the_formula():
    groups = Groups(23)
    small = np.asarray([1, -2, 6], "float4_e2m1fn")
    groups.q(groups.input(np.float32([1, -2, 6])), 2, np.asarray(0.5, "float4_e2m1fn"))
    groups.out(groups.dq(groups.input(small), 2, np.asarray(0.5, "float4_e2m1fn")))
    quantized, floats = groups.run().values()
    np.testing.assert_array_equal(quantized.astype(np.float32), [1, -0.5, 4])  # 3.5 is between 3 and 4: to even
    np.testing.assert_array_equal(floats, [1, -5, 11])


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda g: g.q(g.input(np.float32([1])), 1, output_dtype=onnx.TensorProto.FLOAT8E8M0), "quantizes to 24"),
        (lambda g: g.q(g.input(np.float32([1])), 1, np.float32(0)), "quantizes to float32"),
        (lambda g: g.dq(g.input(np.float32([1])), 1), "dequantizes float32"),
        (lambda g: g.dq(g.q(g.input(np.float32([1])), 1), 1, np.float32(0)), "dequantizes float32"),
    ],
)
def test_other_types_are_refused(make, reason):
    groups = Groups(23)
    groups.out(make(groups))
    with pytest.raises(UnsupportedModelError, match=reason):
        groups.load()


def test_an_unknown_type_is_named():
    groups = Groups(23)
    groups.out(groups.dq(groups.input(U8([1])), 1, output_dtype=onnx.TensorProto.STRING))
    with pytest.raises(ValueError, match="DequantizeLinear_0' cannot be computed: KeyError"):
        groups.run()


# Products


def test_vectors_are_multiplied_too():
    rng = np.random.default_rng(3)
    groups, wanted = Groups(), {}
    for a, b in (((5,), (5,)), ((5,), (5, 3)), ((2, 5), (5,)), ((2, 4, 5), (5,)), ((5,), (2, 5, 3)), ((4, 5), (5, 3))):
        left, right = draw(rng, a, U8), draw(rng, b, S8)
        sums = (left.astype(int) - 7) @ (right.astype(int) + 3)
        wanted[groups.out(groups("MatMulInteger", groups.input(left), right, U8(7), S8(-3)))] = sums
        half, quarter = np.float32(0.5), np.float32(0.25)
        product = groups("QLinearMatMul", groups.input(left), half, U8(7), right, quarter, S8(-3), np.float32(8), U8(9))
        wanted[groups.out(product)] = np.clip(np.rint(sums / 64) + 9, 0, 255)
    for name, got in groups.run().items():
        np.testing.assert_array_equal(got, wanted[name])


def test_products_are_exact_by_row_and_by_column_in_half_precision():
    rng = np.random.default_rng(4)
    groups = Groups()
    a, b = draw(rng, (3, 7), S8), draw(rng, (7, 4), S8)
    scales = [np.float16(x) for x in ([0.5, 0.25, 2], [1, 0.5, 0.25, 0.0371], 16)]
    operands = [scales[0], draw(rng, 3, S8), b, scales[1], draw(rng, 4, S8), scales[2], S8(5)]
    name = groups.out(groups("QLinearMatMul", groups.input(a), *operands))
    want = [microsoft.q_linear_mat_mul(a[i : i + 1], scales[0][i], operands[1][i], *operands[2:])[0] for i in range(3)]
    np.testing.assert_array_equal(groups.run()[name], want)


ONE = (np.float32(1), U8(0))
SIZES = {"kernel_shape": [3, 3]}


@pytest.mark.parametrize(
    "convolve",
    [
        lambda g, x, w: g("ConvInteger", x, w, **SIZES),
        lambda g, x, w: g("Conv", g.dq(x, 1), g.dq(w, 1), **SIZES),
        lambda g, x, w: g("QLinearConv", x, *ONE, w, *ONE, *ONE, **SIZES),
        lambda g, x, w: g("com.microsoft.QLinearConv", x, *ONE, w, *ONE, *ONE, **SIZES),
    ],
)
def test_filters_must_have_the_shape_that_the_node_says(convolve):
    groups = Groups()
    groups.out(convolve(groups, groups.input(np.ones((1, 1, 4, 4), U8)), np.ones((1, 1, 2, 2), U8)))
    with pytest.raises(ValueError, match=r"kernel_shape of .* is \[3, 3\], but its filters have \[2, 2\]"):
        groups.load().report()


def dynamic(groups, x, w, scale, bias, weights=None):
    """Add what quantize_dynamic writes for a product."""
    quantized, by, zero = groups("DynamicQuantizeLinear", x, outputs=3)
    product = groups("MatMulInteger", quantized, w, zero, *(() if weights is None else (weights,)))
    both = groups("Mul", by, scale)
    scaled = groups("Mul", groups("Cast", product, to=onnx.TensorProto.FLOAT), both)
    return (scaled, None) if bias is None else (scaled, groups("Add", scaled, bias))


def test_chains_of_a_dynamic_model_are_one_operator_each():
    rng = np.random.default_rng(5)
    groups = Groups()
    x = groups.input(rng.normal(0, 1, (2, 3, 16)).astype(np.float32))
    weights = draw(rng, (16, 4), S8)
    by_column = rng.uniform(0.01, 0.1, 4).astype(np.float32)
    bias = rng.normal(0, 1, 4).astype(np.float32)
    ends = []
    one, same = np.float32([0.05]), np.float32(0.05)
    for scale, addend in ((by_column, bias), (by_column, bias[0]), (one, bias[:1]), (same, bias)):
        ends.append(dynamic(groups, x, weights, scale, addend, S8(3))[1])
    alone, _ = dynamic(groups, x, weights, by_column, None)
    scaled, summed = dynamic(groups, x, weights, np.float32(0.05), bias)
    for name in (*ends, groups("Identity", alone), groups("Relu", scaled), summed):
        groups.out(name)
    notes = groups.notes()
    assert {notes[name] for name in (*ends, summed)} == {"matrix_multiply_integer_to_float"}
    want = oracle.run(groups.proto(), groups.inputs).computed
    for got in (groups.run(), groups.run("literal", compiled=False)):
        for name in groups.outputs:
            assert_same_bits(got[name], want[name])


def test_dynamic_nodes_of_one_shape_share_a_function():
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[2, 4] x) => (float[2, 4] y) {
        a, b, c = DynamicQuantizeLinear(x)
        d = DequantizeLinear(a, b, c)
        e, f, g = DynamicQuantizeLinear(d)
        y = DequantizeLinear(e, f, g) }"""
    model = jaxdml.onnx.load(onnx.parser.parse_model(text))
    lowered = jax.jit(model.apply).lower(model.params, np.ones((2, 4), np.float32)).as_text()
    assert lowered.count("func.func private @dynamic_quantize_linear") == 1
    assert lowered.count("call @dynamic_quantize_linear") == 2


def test_products_that_are_used_otherwise_are_arrays():
    rng = np.random.default_rng(6)
    groups = Groups()
    a, b = groups.input(draw(rng, (2, 16), U8)), draw(rng, (16, 1), S8)
    product = groups("MatMulInteger", a, b)
    floats = groups("Cast", product, to=onnx.TensorProto.FLOAT)
    third, row = np.float32(1 / 3), np.float32([0.1, 0.2, 0.3])
    scaled = groups("Mul", third, floats)
    for made in (
        groups("Identity", product),
        groups("Add", product, S32([5])),
        groups("Cast", product, to=onnx.TensorProto.DOUBLE),
        groups("Cast", floats, to=onnx.TensorProto.INT32),
        groups("Mul", product, product),
        groups("Mul", floats, floats),
        groups("Mul", floats, row),  # These two make more columns.
        groups("Add", scaled, row),
        groups("Mul", floats, np.float32([[2], [3]])),
        groups("Mul", scaled, third),
        groups("Add", scaled, scaled),
        groups("Add", floats, third),
        groups("Add", scaled, np.float32([[2], [3]])),
        groups("Add", row[0], scaled),
        groups("Sub", scaled, third),
        groups("DequantizeLinear", product, np.float32(0.5)),
        groups("Flatten", floats),
    ):
        groups.out(groups("Cast", made, to=onnx.TensorProto.FLOAT))
    groups.nearly()


@pytest.mark.parametrize("size", [4, 2])
def test_scales_of_blocks_are_in_the_order_of_the_model_after_a_convolution(size):
    # Its channels are stored last. With two of each size a wrong order has the right shape.
    rng = np.random.default_rng(0)
    values = {
        "w": rng.integers(-9, 9, (size, size, 1, 1)).astype(np.int8),
        "blocks": rng.uniform(0.1, 1, (1, size // 2, size, size)).astype(np.float32),
        "starts": rng.integers(0, 256, (1, size // 2, size, size)).astype(np.uint8),
        **{"s": np.float32(0.1), "z": np.uint8(100), "zw": np.int8(0)},
    }
    nodes = """c = QLinearConv(x, s, z, w, s, zw, s, z)
        y = DequantizeLinear<axis = 1, block_size = 2>(c, blocks, starts)
        q = QuantizeLinear<axis = 1, block_size = 2>(y, blocks, starts)"""
    given = f'<ir_version: 10, opset_import: ["": 21]> g (uint8[1, {size}, {size}, {size}] x) => (y, q) {{ {nodes} }}'
    proto = onnx.parser.parse_model(given)
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in values.items())
    x = rng.integers(0, 256, (1, size, size, size)).astype(np.uint8)
    wanted = ReferenceEvaluator(proto).run(None, {"x": x})
    for found, expected in zip(jaxdml.onnx.load(proto)(x), wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(found), expected)

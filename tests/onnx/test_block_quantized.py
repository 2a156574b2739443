"""Products with matrices of few bits, and reading their rows: as onnxruntime does, packed when a model is loaded."""

import jax
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import jaxdml
from jaxdml.onnx import UnsupportedModelError, load
from jaxdml.onnx.nodes.block_quantized import pack_weights
from tests.kit import quick
from tests.onnx.floats import by_onnxruntime, one_node

pytestmark = quick

WIDTH, COUNT, SIZE = 48, 6, 16
BLOCKS = WIDTH // SIZE


def few_bits(*shape, seed=0, dtype=np.uint8):
    return np.random.default_rng(seed + sum(shape)).integers(0, 256, shape).astype(dtype)


def scales(*shape, dtype=np.float32):
    return np.random.default_rng(5).uniform(0.1, 1, shape).astype(dtype)


def rows(*shape, dtype=np.float32):
    return np.random.default_rng(6).normal(size=shape).astype(dtype)


def with_initializers(proto, names):
    """Return a model in which some inputs are initializers."""
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    del made.graph.input[:]
    made.graph.input.extend(value for value in proto.graph.input if value.name not in names)
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in names.items())
    return made


def agree(kind, operands, weights, tolerance=1e-5, packed=True, **attributes):
    """Require what onnxruntime returns, with weights as initializers and as inputs."""
    proto, _ = one_node(kind, operands, "y", domain="com.microsoft", opset=21, **attributes)
    (first, *_) = (value for name, value in operands.items() if name not in weights)
    dtype = first.dtype if first.dtype.kind == "f" else operands["scales"].dtype
    proto.graph.output[0].type.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    initializers = {name: operands[name] for name in weights if operands[name] is not None}
    inside = with_initializers(proto, initializers)
    given = [value for name, value in operands.items() if name not in initializers and value is not None]
    (wanted,) = by_onnxruntime(inside, *given)
    model = load(inside)
    assert packed == any(isinstance(value, jaxdml.PackedBlocks) for value in model.params.values())
    every = [value for value in operands.values() if value is not None]
    for found in (model(*given), load(inside, numerics="literal")(*given), load(proto)(*every)):
        assert (found[0].shape, found[0].dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(np.asarray(found[0], np.float32), np.asarray(wanted, np.float32), atol=tolerance)
    return model


def matrix(bits, zero=None, size=SIZE, width=WIDTH, dtype=np.float32):
    blocks = -(-width // size)
    zeros = {None: None, "packed": few_bits(COUNT, -(-blocks * bits // 8)), "floats": 9 * scales(COUNT, blocks)}[zero]
    data = few_bits(COUNT, blocks, size * bits // 8)
    return {"B": data, "scales": scales(COUNT, blocks, dtype=dtype) / 2**bits, "zeros": zeros}


def product(a, operands, packed=True, tolerance=2e-5, bits=4, size=SIZE, level=0, **more):
    sizes = {"K": a.shape[-1], "N": COUNT, "bits": bits, "block_size": size, "accuracy_level": level}
    return agree("MatMulNBits", {"A": a, **operands, **more}, tuple(operands), tolerance, packed, **sizes)


@pytest.mark.parametrize("zero", [None, "packed"])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("shape", [(WIDTH,), (1, WIDTH), (2, 5, WIDTH)])
def test_products(shape, bits, zero):
    product(rows(*shape), matrix(bits, zero), bits=bits)


def test_products_with_a_last_block_that_is_not_full():
    product(rows(3, 40), matrix(4, "packed", 32, 40), size=32)


def test_products_with_zero_points_that_are_floats():
    product(rows(3, WIDTH), matrix(4, "floats"), packed=False)


def test_products_with_a_bias():
    product(rows(3, WIDTH), matrix(4), groups=None, bias=rows(COUNT), tolerance=1e-4)


def test_products_whose_columns_take_the_scale_of_another_block():
    groups = (np.arange(WIDTH)[::-1] // SIZE).astype(np.int32)
    product(rows(3, WIDTH), matrix(4, "floats"), packed=False, groups=groups, tolerance=1e-4)


def test_narrow_products():
    product(rows(3, WIDTH, dtype=np.float16), matrix(4, dtype=np.float16), tolerance=1e-2)


def test_products_of_nothing():
    operands = {"A": rows(2, WIDTH), "B": few_bits(0, BLOCKS, 8), "scales": scales(0, BLOCKS)}
    proto, _ = one_node("MatMulNBits", operands, "y", domain="com.microsoft", K=WIDTH, N=0, block_size=SIZE)
    assert load(proto)(*operands.values())[0].shape == (2, 0)


def test_what_the_weights_became_is_in_the_report():
    model = product(rows(1, WIDTH), matrix(4))
    assert "matrix_multiply_block_quantized, 4 bits" in model.report()
    assert set(model.params) == {"B packed"}


@pytest.mark.parametrize("quant_type", [0, 1])
def test_products_with_floats_of_four_bits(quant_type):
    operands = {"A": rows(3, WIDTH), "B": few_bits(COUNT * WIDTH // 2), "absmax": scales(COUNT * WIDTH // 32)}
    sizes = {"K": WIDTH, "N": COUNT, "block_size": 32, "quant_type": quant_type}
    agree("MatMulBnb4", operands, ("B", "absmax"), packed=False, **sizes)


PLACES = np.array([[0, 5, -1], [3, -6, 2]], np.int64)
OUTSIDE = np.array([[6, -7, 1]], np.int64)


def table(bits=4, zero=False, size=SIZE):
    zeros = few_bits(COUNT, -(-(WIDTH // size) * bits // 8)) if zero else None
    return {"data": few_bits(COUNT, WIDTH * bits // 8), "scales": scales(COUNT, WIDTH // size), "zeros": zeros}


def read(operands, indices, packed=True, **attributes):
    ordered = {"data": operands["data"], "at": indices, "scales": operands["scales"], "zeros": operands["zeros"]}
    return agree("GatherBlockQuantized", ordered, ("data", "scales", "zeros"), packed=packed, **attributes)


def test_rows_in_blocks_that_words_do_not_hold_stay_as_they_are():
    model = load(tied())
    data = {"data": few_bits(COUNT, 6), "scales": scales(COUNT, 2), "zeros": None}
    proto, _ = one_node("GatherBlockQuantized", data | {"at": PLACES}, "y", domain="com.microsoft", block_size=6)
    assert model.params.keys() == {"B packed"}
    proto.graph.node[0].input[:] = ["data", "at", "scales"]
    unpacked = load(with_initializers(proto, {name: data[name] for name in ("data", "scales")}))
    assert unpacked.params.keys() == {"data", "scales"}
    elements = np.stack((data["data"] & 15, data["data"] >> 4), -1).reshape(COUNT, 12) - np.float32(8)
    wanted = (elements * np.repeat(data["scales"], 6, 1))[PLACES]
    np.testing.assert_allclose(unpacked(PLACES)[0], wanted, rtol=1e-6)


@pytest.mark.parametrize("indices", [PLACES, OUTSIDE])
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_rows_of_packed_bytes(bits, zero, indices):
    read(table(bits, zero), indices, bits=bits, block_size=SIZE, quantize_axis=-1)


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize(("gathered", "along", "packed"), [(0, 1, True), (1, 0, False), (1, 1, False), (0, 0, False)])
def test_slices_of_elements_of_four_bits(gathered, along, packed, zero, dtype):
    wanted = onnx.helper.tensor_dtype_to_np_dtype({"int4": 22, "uint4": 21}[dtype])
    elements = (few_bits(WIDTH, WIDTH) % 16 - (8 if dtype == "int4" else 0)).astype(wanted)
    shape = (WIDTH, BLOCKS) if along else (BLOCKS, WIDTH)
    zeros = (few_bits(*shape) % 8).astype(wanted) if zero else None
    operands = {"data": elements, "scales": scales(*shape), "zeros": zeros}
    read(operands, np.array([5, 0, 47], np.int64), packed, block_size=SIZE, gather_axis=gathered, quantize_axis=along)


def tied():
    """Return a model that reads rows of a table, and multiplies by the same table, in another shape."""
    text = f"""<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
    tied (int64[n] at) => (float[n, {COUNT}] y) {{
        rows = Reshape(B, shape)
        x = com.microsoft.GatherBlockQuantized <block_size: int = {SIZE}> (rows, at, scales)
        y = com.microsoft.MatMulNBits <K: int = {WIDTH}, N: int = {COUNT}, block_size: int = {SIZE}> (x, B, scales)
    }}"""
    proto = onnx.parser.parse_model(text)
    initializers = {
        "B": few_bits(COUNT, BLOCKS, SIZE // 2),
        "scales": scales(COUNT, BLOCKS),
        "shape": np.array([COUNT, -1]),
    }
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in initializers.items())
    return proto


def test_a_table_that_is_the_last_matrix_too_is_packed_once():
    proto, places = tied(), np.array([4, 0, 4], np.int64)
    model = load(proto)
    assert set(model.params) == {"B packed"}
    assert [node.op_type for node in model.graph.nodes] == ["GatherBlockQuantized", "MatMulNBits"]
    np.testing.assert_allclose(model(places)[0], by_onnxruntime(proto, places)[0], atol=1e-4)


def test_initializers_that_others_read_or_that_may_be_given_stay():
    proto = tied()
    proto.graph.node.add(op_type="Identity", input=["scales"], output=["s"])
    proto.graph.output.add(name="s")
    assert set(load(proto).params) == {"B packed", "scales"}
    proto.graph.input.add(name="scales")
    proto.graph.input[-1].type.tensor_type.elem_type = 1
    assert set(load(proto).params) == {"B", "scales"}


def test_a_reshape_that_keeps_sizes_is_not_seen_through():
    proto = tied()
    shape = next(tensor for tensor in proto.graph.initializer if tensor.name == "shape")
    shape.CopyFrom(numpy_helper.from_array(np.array([0, -1]), "shape"))
    model = load(proto)
    assert set(model.params) == {"B", "scales", "B packed"}
    places = np.array([4, 0], np.int64)
    np.testing.assert_allclose(model(places)[0], load(tied())(places)[0], atol=1e-5)


def test_packed_weights_are_parameters_of_a_pure_function():
    model = product(rows(1, WIDTH), matrix(4))
    a = rows(2, WIDTH)
    text = jax.jit(model.apply).lower(model.params, a[:1]).as_text()
    assert "ui32" in text or "ui16" in text
    (back,) = jax.jit(lambda p, a: jax.grad(lambda a: model.apply(p, a)[0].sum())(a)[None])(model.params, a[:1])
    assert back.shape == (1, WIDTH)


@pytest.mark.parametrize(
    ("rule", "attributes"), [("weight_prepacked", {"weight_prepacked": 1}), ("bits is 3", {"bits": 3})]
)
def test_other_layouts_are_refused(rule, attributes):
    operands = {"A": rows(2, WIDTH), "B": few_bits(COUNT, BLOCKS, 8), "scales": scales(COUNT, BLOCKS)}
    sizes = {"K": WIDTH, "N": COUNT, "block_size": SIZE}
    proto, _ = one_node("MatMulNBits", operands, "y", domain="com.microsoft", **sizes, **attributes)
    with pytest.raises(UnsupportedModelError, match=rule):
        load(proto)


@pytest.mark.parametrize("wrong", [{"K": (WIDTH,)}, {"block_size": 0}, {"block_size": -16}])
def test_attributes_that_make_no_sense_are_no_error_before_they_are_read(wrong):
    operands = matrix(4)
    sizes = {"K": WIDTH, "N": COUNT, "block_size": SIZE} | wrong
    proto, _ = one_node("MatMulNBits", {"A": rows(2, WIDTH), **operands}, "y", domain="com.microsoft", **sizes)
    model = load(with_initializers(proto, {name: x for name, x in operands.items() if x is not None}))
    assert set(model.params) == {"B", "scales"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"K": WIDTH + 1},
        {"K": WIDTH - SIZE},
        {"K": 0},
        {"block_size": 24},
        {"block_size": 2**62},
        {"scales": scales(COUNT, BLOCKS + 1)},
        {"zero_points": few_bits(COUNT, 5)},
        {"B": few_bits(COUNT, WIDTH).astype(np.int16)},
    ],
)
def test_what_does_not_fit_is_not_packed(wrong):
    given = {"B": few_bits(COUNT, BLOCKS, 8), "scales": scales(COUNT, BLOCKS), "zero_points": None}
    sizes = {"K": WIDTH, "block_size": SIZE}
    assert pack_weights(**given, **sizes) is not None
    assert pack_weights(**given | sizes | wrong) is None


def test_a_node_without_scales_is_no_error_before_it_is_computed():
    operands = {"B": matrix(4)["B"], "scales": None}
    sizes = {"K": WIDTH, "N": COUNT, "block_size": SIZE}
    proto, _ = one_node("MatMulNBits", {"A": rows(2, WIDTH), **operands}, "y", domain="com.microsoft", **sizes)
    model = load(with_initializers(proto, {"B": operands["B"]}))
    with pytest.raises(ValueError, match="MatMulNBits"):
        model(rows(2, WIDTH))


def test_floats_are_no_packed_elements():
    operands = matrix(4) | {"B": rows(COUNT, BLOCKS * 8).reshape(COUNT, BLOCKS, 8)}
    sizes = {"K": WIDTH, "N": COUNT, "block_size": SIZE}
    proto, _ = one_node("MatMulNBits", {"A": rows(2, WIDTH), **operands}, "y", domain="com.microsoft", **sizes)
    model = load(with_initializers(proto, {name: x for name, x in operands.items() if x is not None}))
    assert set(model.params) == {"B", "scales"}

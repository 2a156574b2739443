"""What a model says about its weights when it is loaded: what is computed with them, and how they are quantized."""

import jax
import numpy as np
import onnx
import pytest

import jaxdml
import jaxdml.onnx
from jaxdml import reference
from jaxdml.onnx._graph import Graph, Node, TensorType
from jaxdml.onnx.running.quantized_weights import with_quantized_weights
from tests.kit import assert_same_bits, quick
from tests.onnx import models

pytestmark = quick

RNG = np.random.default_rng(0)
NUMBERS = {
    "w": RNG.integers(-9, 9, (4, 3)).astype(np.int8),
    "wt": RNG.integers(-9, 9, (3, 4)).astype(np.int8),
    "f": RNG.integers(-9, 9, (3, 4, 3, 3)).astype(np.int8),
    "real": RNG.normal(0, 0.2, (4, 3)).astype(np.float32),
    "b": np.int32([5, -70, 900]),
    "bf": np.float32([5, -70, 900]),
    "s": np.float32(0.25),
    "sw": np.float32([0.5, 0.25, 0.75]),
    "sb": np.float32([0.5, 0.25, 0.75]) / 4,
    "t": np.float32(3.1),
    "z": np.uint8(3),
    "zw": np.int8([0, 0, 0]),
    "y0": np.uint8(100),
    "wide": np.uint16(9),
}
MATRIX, IMAGES = "uint8[2, 4] q", "uint8[2, 4, 5, 5] q"
X = "x = DequantizeLinear(q, s, z)"
V = "v = DequantizeLinear<axis = {axis}>({w}, sw, zw)"
PRODUCT = f"{X} {V.format(axis=1, w='w')} p = MatMul(x, v)"
COLUMNS = f"{X} {V.format(axis=0, w='wt')}"
BIAS = "c = DequantizeLinear<axis = 0>(b, sb)"
FILTERS = f"{X} {V.format(axis=0, w='f')} {BIAS}"


def proto(nodes, given=MATRIX, outputs="y", overridable=()):
    """Return a model of these nodes; its initializers are those of ``NUMBERS`` that they read."""
    text = f'<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> g ({given}) => ({outputs}) {{ {nodes} }}'
    made = onnx.parser.parse_model(text)
    read = {name for node in made.graph.node for name in node.input}
    tensors = {name: onnx.numpy_helper.from_array(NUMBERS[name], name) for name in NUMBERS if name in read}
    made.graph.initializer.extend(tensors.values())
    for name in overridable:
        kind = tensors[name].data_type
        made.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, NUMBERS[name].shape))
    return made


def chains(model):
    """Return for what is packed whether it has the vectors that round in the kernel of a product."""
    packed = jax.tree.leaves(dict(model.params), is_leaf=lambda x: hasattr(x, "chain"))
    return [bool(each.chain) for each in packed if hasattr(each, "chain")]


KNOWN = {
    "a product": f"{PRODUCT} y = QuantizeLinear(p, t, y0)",
    "clamped": f"{PRODUCT} r = Relu(p) y = QuantizeLinear(r, t, y0)",
    "clamped and read twice": f"{PRODUCT} r = Clip(p, s, t) y = QuantizeLinear(r, t, y0) o = Abs(r)",
    "an input of several": f"{PRODUCT} o = Relu(x) y = QuantizeLinear(p, t, y0)",
    "columns": f"{COLUMNS} {BIAS} p = Gemm<transB = 1>(x, v, c) y = QuantizeLinear(p, t, y0)",
    "without a bias": f"{COLUMNS} p = Gemm<transB = 1>(x, v) y = QuantizeLinear(p, t, y0)",
    "an operator": "y = QLinearMatMul(q, s, z, w, sw, zw, t, y0)",
    "a biased operator": "y = com.microsoft.QGemm(q, s, z, w, sw, zw, b, t, y0)",
    "a convolution": f"{FILTERS} p = Conv(x, v, c) y = QuantizeLinear(p, t, y0)",
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_weights_are_packed_for_the_parameters_of_their_only_reader(name, on_gpu):
    images = "Conv" in KNOWN[name]
    made = proto(KNOWN[name], IMAGES if images else MATRIX, "y, o" if " o = " in KNOWN[name] else "y")
    assert chains(jaxdml.onnx.load(made)) == [True]
    x = RNG.integers(0, 256, (2, 4, 5, 5) if images else (2, 4)).astype(np.uint8)
    again = jaxdml.onnx.load(made)
    # The chain is that of the call: else it would be rounded in float64.
    text = jax.jit(again.apply).trace(dict(again.params), x).lower(lowering_platforms=("cuda",)).as_text()
    assert "f64" not in text


UNKNOWN = {
    "read twice": f"{PRODUCT} o = MatMul(x, v) y = QuantizeLinear(p, t, y0)",
    "dequantized twice": f"{PRODUCT} u = DequantizeLinear(w, s) o = MatMul(x, u) y = QuantizeLinear(p, t, y0)",
    "not rounded": f"{PRODUCT} y = Relu(p)",
    "changed before it is rounded": f"{PRODUCT} r = Abs(p) y = QuantizeLinear(r, t, y0)",
    "clamped, and wanted as it was": f"{PRODUCT} r = Relu(p) y = QuantizeLinear(r, t, y0) o = Abs(p)",
    "no zero point": f"{PRODUCT} y = QuantizeLinear(p, t)",
    "16 bits": f"{PRODUCT} y = com.microsoft.QuantizeLinear(p, t, wide)",
    "a bias of floats": f"{COLUMNS} p = Gemm<transB = 1>(x, v, bf) y = QuantizeLinear(p, t, y0)",
    "of floats": f"{V.format(axis=1, w='w')} u = Cast<to = 1>(q) p = MatMul(u, v) y = QuantizeLinear(p, t, y0)",
    "a scale that is computed": f"{PRODUCT} u = ReduceMax<keepdims = 0>(x) y = QuantizeLinear(p, u, y0)",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_other_weights_are_packed_for_any_parameters(name, on_gpu):
    made = proto(UNKNOWN[name], outputs="y, o" if " o = " in UNKNOWN[name] else "y")
    assert not any(chains(jaxdml.onnx.load(made)))


@pytest.mark.parametrize(
    ("name", "form"),
    [("bert", "qoperator"), ("vgg", "qoperator"), ("bert", "qdq"), ("resnet", "qdq_channels"), ("resnet", "qdq_pairs")],
)
def test_whole_models_are_packed_for_their_parameters(name, form, on_gpu):
    assert all(chains(jaxdml.onnx.load(models.model(name, form))))


OWN = f"{X} u = QuantizeLinear<axis = 1>(real, sw, zw) {V.format(axis=1, w='u')} p = MatMul(x, v)"


def test_weights_that_a_model_quantizes_are_quantized_once():
    made = proto(f"{OWN} y = QuantizeLinear(p, t, y0)")
    model = jaxdml.onnx.load(made)
    (packed,) = model.params.values()
    assert isinstance(packed, jaxdml.PackedMatrix)
    wanted = np.clip(np.rint(NUMBERS["real"] / NUMBERS["sw"]), -128, 127).astype(np.int8)
    assert_same_bits(packed.unpacked(), wanted)
    x = RNG.integers(0, 256, (2, 4)).astype(np.uint8)
    assert_same_bits(model(x)[0], jaxdml.onnx.load(made, numerics="literal")(x)[0])


@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize(("scale", "zero", "axis"), [("sw", "zw", -1), ("sw", "zw", 1), ("s", "z", 0), ("s", None, 0)])
def test_they_have_the_bits_that_a_call_would_give_them(kind, scale, zero, axis):
    ties = np.arange(-600, 600).reshape(-1, 3) / 2 * NUMBERS[scale]
    x = np.concatenate([ties, np.nextafter(ties, 0), [[6e4, -6e4, 0]]]).astype(kind)
    constants = {"x": x, "scale": NUMBERS[scale].astype(kind)} | ({"zero": NUMBERS[zero]} if zero else {})
    node = Node("QuantizeLinear", "", 19, "node", (*constants,), ("y",), {"axis": axis})
    wanted = reference.quantize_linear(
        x, constants["scale"], constants.get("zero"), axis=axis % 2 if scale == "sw" else None,
        output_dtype=NUMBERS[zero].dtype if zero else np.uint8,
    )  # fmt: skip
    graph = with_quantized_weights(Graph((), (TensorType("y", None, None),), constants, (node,)))
    assert_same_bits(graph.constants["y"], wanted)
    assert not graph.nodes


UNUSUAL = {
    "not finite": (np.float32([[1, np.nan]]), np.float32(1), {}),
    "infinite": (np.float32([[1, np.inf]]), np.float32(1), {}),
    "a scale of 0": (np.float32([[1, 2]]), np.float32(0), {}),
    "blocks": (np.float32([[1, 2]]), np.float32([[1]]), {"block_size": 2}),
    "4 bits": (np.float32([[1, 2]]), np.float32(1), {"output_dtype": 21}),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_others_are_quantized_in_the_call(name):
    x, scale, attributes = UNUSUAL[name]
    node = Node("QuantizeLinear", "", 21, "node", ("x", "scale"), ("y",), attributes)
    graph = Graph((), (TensorType("y", None, None),), {"x": x, "scale": scale}, (node,))
    assert with_quantized_weights(graph) is graph


def test_what_else_reads_them_reads_floats():
    model = jaxdml.onnx.load(proto(f"{OWN} y = QuantizeLinear(p, t, y0) o = MatMul(x, real)", outputs="y, o"))
    assert {str(x.dtype) for x in model.params.values()} == {"int8", "float32"}
    x = RNG.integers(0, 256, (2, 4)).astype(np.uint8)
    np.testing.assert_allclose(model(x)[1], (x - 3.0) / 4 @ NUMBERS["real"], rtol=1e-4, atol=1e-4)


def test_quantized_weights_may_be_an_output():
    model = jaxdml.onnx.load(proto(f"{X} y = QuantizeLinear<axis = 1>(real, sw, zw) o = Relu(x)", outputs="y, o"))
    wanted = np.clip(np.rint(NUMBERS["real"] / NUMBERS["sw"]), -128, 127).astype(np.int8)
    assert_same_bits(model(np.ones((2, 4), np.uint8))[0], wanted)


@pytest.mark.parametrize("overridable", ["real", "sw"])
def test_weights_that_a_call_may_override_are_quantized_in_the_call(overridable):
    model = jaxdml.onnx.load(proto(f"{OWN} y = QuantizeLinear(p, t, y0)", overridable=[overridable]))
    x, other = RNG.integers(0, 256, (2, 4)).astype(np.uint8), NUMBERS[overridable] * 2
    first, second = model(x)[0], model(x, **{overridable: other})[0]
    assert (np.asarray(first) != np.asarray(second)).any()


def test_weights_of_16_bits_stay_floats():
    model = jaxdml.onnx.load(proto("u = com.microsoft.QuantizeLinear(real, s, wide) y = Cast<to = 6>(u)"))
    assert [str(x.dtype) for x in model.params.values()] == ["float32"]


@pytest.mark.parametrize("name", ["mobilenet_v2", "bert"])
def test_a_model_that_a_traced_function_loads_may_be_kept(name):
    kept, file = [], models.model(name, "qoperator")

    @jax.jit
    def run(given):
        kept.append(jaxdml.onnx.load(file))
        return kept[0](**given)

    given = models.inputs(name, batch=2)
    within, outside = run(given), jaxdml.onnx.load(file)
    assert jax.tree.structure(kept[0].params) == jax.tree.structure(outside.params)  # With the bounds of weights.
    for found in (within, kept[0](**given)):
        jax.tree.map(assert_same_bits, found, outside(**given))

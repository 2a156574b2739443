"""Layers whose scales are known: every case by integers and rational numbers."""

import itertools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import export
from jax.sharding import PartitionSpec
from onnx import helper, numpy_helper

import jaxdml.onnx
from jaxdml._kernels.integer_convolution import packed_filters
from jaxdml.onnx.values.stored import Transposed
from tests.kit import quick
from tests.kit.meshes import COUNT, mesh_of, needs_devices, put
from tests.test_known_scales import quotient, rounded

pytestmark = quick

RNG = np.random.default_rng(7)


def model(kind, inputs, constants, outputs, domain="", **attributes):
    """Return a model of one node; ``order`` names its inputs and constants in the node's order."""
    order = attributes.pop("order")
    node = helper.make_node(kind, order, ["y"], domain=domain, name="node", **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), [None, *x.shape[1:]])
            for name, x in inputs.items()
        ],
        [helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.dtype(outputs)), None)],
        [numpy_helper.from_array(np.asarray(x), name) for name, x in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return jaxdml.onnx.load(helper.make_model(graph, opset_imports=opsets, ir_version=9))


def integers(dtype, *shape):
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


def convolved(x, w, strides, dilations, pads, groups):
    """Return int64 sums ``[N, O, *spatial]`` of ``x [N, C, *spatial]``, of which zero points are subtracted."""
    rank = x.ndim - 2
    x = np.pad(x.astype(np.int64), [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
    sizes, features, depth = w.shape[2:], w.shape[0], w.shape[1]
    counts = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(x.shape[2:], sizes, dilations, strides, strict=True)]
    total = np.zeros((x.shape[0], features, *counts), np.int64)
    for o, i in itertools.product(range(features), range(depth)):
        channel = o // (features // groups) * depth + i
        for tap in np.ndindex(*sizes):
            at = tuple(
                slice(t * d, t * d + (c - 1) * s + 1, s)
                for t, d, c, s in zip(tap, dilations, counts, strides, strict=True)
            )
            total[:, o] += x[(slice(None), channel, *at)] * int(w[(o, i, *tap)])
    return total


CONVOLUTIONS = {
    "1x1": ((2, 5, 4, 4), (9, 5, 1, 1), 1, (1, 1), (1, 1), (0, 0, 0, 0)),
    "native": ((1, 16, 5, 5), (17, 16, 3, 3), 1, (2, 1), (1, 1), (1, 0, 1, 2)),
    "few features": ((1, 16, 5, 5), (4, 16, 3, 3), 1, (1, 1), (1, 1), (0, 0, 0, 0)),
    "rows": ((1, 3, 9, 8), (4, 3, 3, 3), 1, (2, 2), (1, 1), (1, 1, 0, 1)),
    "rows, native": ((1, 3, 9, 9), (18, 3, 3, 7), 1, (1, 2), (1, 1), (0, 3, 1, 3)),
    "rows without filling": ((1, 2, 4, 6), (8, 2, 2, 2), 1, (1, 1), (1, 1), (0, 0, 0, 0)),
    "dilated": ((1, 3, 7, 7), (8, 3, 2, 2), 1, (1, 1), (2, 3), (0, 0, 0, 0)),
    "groups": ((1, 4, 5, 5), (6, 2, 2, 2), 2, (1, 1), (1, 1), (1, 1, 0, 0)),
    "depthwise": ((2, 5, 6, 6), (5, 1, 3, 3), 5, (1, 2), (1, 1), (1, 1, 1, 1)),
    "depthwise, 2 each": ((1, 3, 5, 5), (6, 1, 3, 2), 3, (1, 1), (1, 2), (0, 1, 0, 1)),
    "one dimension": ((1, 4, 9), (8, 4, 3), 1, (2,), (1,), (1, 1)),
    "three dimensions": ((1, 2, 4, 4, 3), (8, 2, 2, 1, 2), 1, (1, 2, 1), (1, 1, 1), (0,) * 6),
    "1x1, groups": ((1, 6, 3, 3), (4, 3, 1, 1), 2, (1, 1), (1, 1), (0, 0, 0, 0)),
    "1x1, many windows": ((3, 5, 4, 4), (9, 5, 1, 1), 1, (1, 1), (1, 1), (1, 0, 0, 0)),
    "large": ((2, 3, 7, 6), (9, 3, 3, 2), 1, (1, 2), (2, 1), (1, 0, 1, 1)),
    "large, groups": ((1, 4, 5, 5), (6, 2, 2, 2), 2, (1, 1), (1, 1), (1, 1, 0, 0)),
    "large, one dimension": ((1, 4, 90), (8, 4, 3), 1, (2,), (1,), (1, 1)),
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
@pytest.mark.parametrize("signs", ["uint8 int8", "int8 uint8"])
def test_convolutions_are_exact(case, signs, monkeypatch):
    if case.startswith("large"):
        monkeypatch.setattr(packed_filters, "LARGE", 1)
    shape, filters, groups, strides, dilations, pads = CONVOLUTIONS[case]
    x_dtype, w_dtype = map(np.dtype, signs.split())
    asymmetric, features = w_dtype == np.uint8, filters[0]
    x, w = integers(x_dtype, *shape), integers(w_dtype, *filters)
    zx, zy = (np.asarray(value, x_dtype) for value in (x.flat[0], 7))
    zw = integers(w_dtype, features) if asymmetric else np.asarray(0, w_dtype)
    sw = RNG.uniform(0.002, 0.004, features).astype(np.float32) if asymmetric else np.asarray(0.003, np.float32)
    bias = None if asymmetric else RNG.integers(-(10**4), 10**4, features).astype(np.int32)
    constants = {"sx": np.float32(0.02), "zx": zx, "w": w, "sw": sw, "zw": zw, "sy": np.float32(0.05), "zy": zy}
    order = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy"]
    if bias is not None:
        constants["b"], order = bias, [*order, "b"]
    attributes = {"group": groups, "strides": strides, "dilations": dilations, "pads": pads, "order": order}
    loaded = model("QLinearConv", {"x": x}, constants, x_dtype, **attributes)
    assert isinstance(loaded.params["w"], jaxdml.PackedFilters)
    aligned = zw.astype(np.int64).reshape(-1, *[1] * (w.ndim - 1))
    sums = convolved(x.astype(np.int64) - int(zx), w - aligned, strides, dilations, pads, groups)
    sums = np.moveaxis(sums, 1, -1) + (0 if bias is None else bias)
    multipliers = [quotient(np.float32(0.02), s, np.float32(0.05)) for s in np.broadcast_to(sw, features)]
    want = np.moveaxis(rounded(sums, multipliers, 7, x_dtype), -1, 1)
    np.testing.assert_array_equal(loaded(x)[0], want)


def matrices(dtype, *, a=(3, 8), b=(8, 5), columns=False, zero=True):
    left, right = integers("uint8", *a), integers(dtype, *b)
    scale = RNG.uniform(0.002, 0.004, b[-1]).astype(np.float32) if columns else np.float32(0.003)
    zb = integers(dtype, *np.shape(scale)) if zero else np.zeros(np.shape(scale), dtype)
    return left, right, scale, np.asarray(zb)


@pytest.mark.parametrize(
    "case",
    [
        {"dtype": "int8", "zero": False},
        {"dtype": "int8", "a": (2, 0, 8)},
        {"dtype": "uint8", "columns": True, "a": (2, 1, 8)},
        {"dtype": "int8", "columns": True, "a": (8,)},
        {"dtype": "int8", "a": (2, 3, 8), "b": (2, 8, 5)},
    ],
)
def test_products_of_matrices_are_exact(case):
    a, b, sb, zb = matrices(**case)
    za, zy = np.uint8(100), np.uint8(9)
    constants = {"sa": np.float32(0.02), "za": za, "b": b, "sb": sb, "zb": zb, "sy": np.float32(0.05), "zy": zy}
    loaded = model("QLinearMatMul", {"a": a}, constants, "uint8", order=["a", "sa", "za", "b", "sb", "zb", "sy", "zy"])
    sums = np.matmul(a.astype(np.int64) - 100, b.astype(np.int64) - zb)
    multipliers = [quotient(np.float32(0.02), s, np.float32(0.05)) for s in np.reshape(sb, -1)]
    np.testing.assert_array_equal(loaded(a)[0], rounded(sums, multipliers, 9, np.uint8))


@pytest.mark.parametrize(
    ("rows", "transposed", "biased"), [(1, 1, True), (40, 1, False), (1, 0, True), (2, 0, False), (0, 1, True)]
)
def test_gemm_is_exact(rows, transposed, biased):
    a, b, sb, zb = matrices("int8", a=(rows, 9), b=(9, 12), columns=True, zero=False)
    bias = RNG.integers(-5000, 5000, 12).astype(np.int32)
    constants = {"sa": np.float32(0.02), "za": np.uint8(3), "b": b.T if transposed else b, "sb": sb, "zb": zb}
    constants |= {"sy": np.float32(0.05), "zy": np.uint8(9)}
    order = ["a", "sa", "za", "b", "sb", "zb", "", "sy", "zy"]
    if biased:
        constants["c"], order[6] = bias, "c"
    attributes = {"domain": "com.microsoft", "transB": transposed, "order": order}
    loaded = model("QGemm", {"a": a}, constants, "uint8", **attributes)
    sums = (a.astype(np.int64) - 3) @ b.astype(np.int64) + (bias if biased else 0)
    multipliers = [quotient(np.float32(0.02), s, np.float32(0.05)) for s in sb]
    np.testing.assert_array_equal(loaded(a)[0], rounded(sums, multipliers, 9, np.uint8))


@pytest.mark.parametrize("kind", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("output", [0.05, 1e-30, 12])
def test_sums_and_products_of_arrays_are_exact(kind, output):
    a, b = integers("uint8", 2, 3, 4, 5), integers("uint8", 3, 1, 5)
    scales = [np.float32(5 if output == 12 else 0.02), np.float32(80 if output == 12 else 0.7), np.float32(output)]
    constants = {"sa": scales[0], "za": np.uint8(90), "sb": scales[1], "zb": np.uint8(140), "sy": scales[2]}
    order = ["a", "sa", "za", "b", "sb", "zb", "sy", "zy"]
    constants["zy"] = np.uint8(100)
    loaded = model(kind, {"a": a, "b": b}, constants, "uint8", domain="com.microsoft", order=order)
    p, q = np.broadcast_arrays(a.astype(np.int64) - 90, b.astype(np.int64) - 140)
    first, second, unit = (Fraction(float(scale)) for scale in scales)
    if kind == "QLinearAdd":
        real = [(int(x) * first + int(y) * second) / unit for x, y in zip(p.flat, q.flat, strict=True)]
    else:
        real = [int(x) * int(y) * first * second / unit for x, y in zip(p.flat, q.flat, strict=True)]
    want = np.reshape([min(max(round(value) + 100, 0), 255) for value in real], p.shape)
    np.testing.assert_array_equal(loaded(a, b)[0], want)


@pytest.mark.parametrize("number", [255, 3, 139, 140])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("stretch", [1.0, 1.5])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_product_with_a_number_is_exact(number, swapped, stretch, shape):
    a, b = integers("uint8", 2, 3, 4), np.full(shape, number, np.uint8)
    first, second = np.float32(0.0371), np.float32(0.7)
    unit = abs(np.float32(first * second * (number - 140) * stretch)) or np.float32(1)
    names = ["b", "sb", "zb", "a", "sa", "za"] if swapped else ["a", "sa", "za", "b", "sb", "zb"]
    constants = {"sa": first, "za": np.uint8(90), "b": b, "sb": second, "zb": np.uint8(140)}
    constants |= {"sy": unit, "zy": np.uint8(90)}
    loaded = model("QLinearMul", {"a": a}, constants, "uint8", domain="com.microsoft", order=[*names, "sy", "zy"])
    factor = Fraction(float(first)) * Fraction(float(second)) * (number - 140) / Fraction(float(unit))
    real = [round((int(x) - 90) * factor) + 90 for x in a.reshape(-1)]
    want = np.clip(real, 0, 255).astype(np.uint8).reshape(a.shape)
    np.testing.assert_array_equal(loaded(a)[0], want)
    same = stretch == 1 and number > 140
    assert same == (want == a).all()
    text = jax.jit(loaded.apply).lower(loaded.params, a).as_text()
    assert same == ("stablehlo.multiply" not in text)


# What is not known or not proved, and other platforms.

ORDER = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"]


def convolution(**changes):
    """Return a model of one convolution, and its input."""
    x = integers("uint8", 1, 4, 5, 5)
    constants = {"sx": np.float32(0.02), "zx": np.uint8(4), "w": integers("int8", 8, 4, 3, 3), "sw": np.float32(0.003)}
    constants |= {"zw": np.int8(0), "sy": np.float32(0.05), "zy": np.uint8(7), "b": np.zeros(8, np.int32)}
    constants |= changes
    return model("QLinearConv", {"x": x}, constants, "uint8", order=ORDER, group=1), x


@pytest.mark.parametrize(
    "changes", [{"sy": np.float32(1e-30)}, {"b": np.full(8, 2**31 - 1, np.int32)}, {"b": np.zeros(8, np.int64)}]
)
def test_without_a_proof_the_operator_rounds(changes):
    loaded, x = convolution(**changes)
    operands = loaded.graph.constants
    want = jaxdml.quantized_linear_convolution(
        *(x, operands["sx"], operands["zx"], loaded.params["w"].unpacked(), operands["sw"], operands["zw"]),
        *(jnp.asarray(operands["b"]), operands["sy"], operands["zy"]),
    )
    np.testing.assert_array_equal(loaded(x)[0], want)


def quantized_layer(kind, changes):
    if kind == "QLinearConv":
        return convolution(**changes)
    a, b, _, _ = matrices("int8", a=(3, 9), b=(9, 8))
    constants = {"sx": np.float32(0.02), "zx": np.uint8(3), "w": b, "sw": np.float32(1), "zw": np.int8(0)}
    constants |= {"sy": np.float32(0.05), "zy": np.uint8(9)}
    order, domain = ORDER[:-1], ""
    if kind == "QGemm":
        order, domain = [*order[:6], "b", *order[6:]], "com.microsoft"
        constants["b"] = np.zeros(8, np.int32)
    return model(kind, {"x": a}, constants | changes, "uint8", domain=domain, order=order), a


@pytest.mark.parametrize("kind", ["QLinearConv", "QLinearMatMul", "QGemm"])
@pytest.mark.parametrize("changes", [{"sw": np.ones(3, np.float32)}, {"zx": np.int8(3)}])
def test_malformed_operands_are_refused(kind, changes):
    def load_and_call():
        loaded, x = quantized_layer(kind, changes)
        loaded(x)

    with pytest.raises((TypeError, ValueError)):
        load_and_call()


@pytest.mark.parametrize("symbolic", [False, True])
def test_programs_for_other_platforms_and_for_any_batch(symbolic):
    loaded, x = convolution()
    shape = export.symbolic_shape("n, 4, 5, 5") if symbolic else x.shape
    platforms = ["cuda", "cpu"] if symbolic else ["tpu", "cuda", "cpu"]
    exported = export.export(jax.jit(loaded.apply), platforms=platforms)(
        loaded.params, jax.ShapeDtypeStruct(shape, np.uint8)
    )
    np.testing.assert_array_equal(exported.call(loaded.params, x)[0], loaded(x)[0])
    restored = export.deserialize(exported.serialize())
    np.testing.assert_array_equal(restored.call(loaded.params, x)[0], loaded(x)[0])


def test_products_for_other_platforms():
    a, b, _, _ = matrices("int8", a=(3, 9), b=(8, 9))
    text = "(A, sa, za, B, sb, zb, , sy, zy)"
    source = f"""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
    g (uint8[3, 9] A) => (uint8[3, 8] y)
    <float sa = {{0.02}}, uint8 za = {{3}}, float sb = {{0.003}}, int8 zb = {{1}}, float sy = {{0.05}},
     uint8 zy = {{9}}, int8[8, 9] B = {{{", ".join(map(str, b.reshape(-1)))}}}>
    {{ g = com.microsoft.QGemm <transB = 1> {text}
       s = com.microsoft.QLinearAdd (g, sa, za, g, sb, za, sy, zy)
       y = com.microsoft.QLinearMul (s, sa, za, g, sb, za, sy, zy) }}"""
    loaded = jaxdml.onnx.load(onnx.parser.parse_model(source))
    exported = export.export(jax.jit(loaded.apply), platforms=["cuda", "cpu"])(loaded.params, a)
    np.testing.assert_array_equal(exported.call(loaded.params, a)[0], loaded(a)[0])


def test_packed_matrices_for_other_platforms():
    a, b, sb, zb = matrices("int8", a=(2, 3, 8))
    constants = {"sa": np.float32(0.02), "za": np.uint8(3), "b": b, "sb": sb, "zb": zb}
    constants |= {"sy": np.float32(0.05), "zy": np.uint8(9)}
    loaded = model("QLinearMatMul", {"a": a}, constants, "uint8", order=["a", "sa", "za", "b", "sb", "zb", "sy", "zy"])
    assert isinstance(loaded.params["b"], jaxdml.PackedMatrix)
    exported = export.export(jax.jit(loaded.apply), platforms=["cuda", "cpu"])(loaded.params, a)
    np.testing.assert_array_equal(exported.call(loaded.params, a)[0], loaded(a)[0])


def test_gemm_takes_a_plain_array_for_its_columns():
    a, b, sb, zb = matrices("int8", a=(3, 9), b=(9, 12))
    constants = {"sa": np.float32(0.02), "za": np.uint8(3), "b": b.T, "sb": sb, "zb": zb}
    constants |= {"sy": np.float32(0.05), "zy": np.uint8(9)}
    order = ["a", "sa", "za", "b", "sb", "zb", "", "sy", "zy"]
    attributes = {"domain": "com.microsoft", "transB": 1, "order": order}
    loaded = model("QGemm", {"a": a}, constants, "uint8", **attributes)
    assert isinstance(loaded.params["b"], Transposed)
    np.testing.assert_array_equal(jax.jit(loaded.apply)({"b": b.T}, a)[0], loaded(a)[0])


def test_vmap_maps_images_and_filters():
    loaded, x = convolution()
    images = np.stack([x, integers("uint8", *x.shape)])
    filters = [loaded.params, convolution(w=integers("int8", 8, 4, 3, 3))[0].params]
    stacked = jax.tree.map(lambda *arrays: jnp.stack(arrays), *filters)
    by_image = jax.jit(jax.vmap(loaded.apply, (None, 0)))(loaded.params, images)[0]
    by_both = jax.jit(jax.vmap(loaded.apply))(stacked, images)[0]
    each = jax.jit(loaded.apply)
    for image, params, one, both in zip(images, filters, by_image, by_both, strict=True):
        np.testing.assert_array_equal(one, loaded(image)[0])
        np.testing.assert_array_equal(both, each(params, image)[0])


@needs_devices
@pytest.mark.parametrize("manual", [False, True])
def test_sharded_batches_have_the_same_bits(manual):
    loaded, x = convolution()
    x = integers("uint8", COUNT, *x.shape[1:])
    mesh = mesh_of("auto", batch=COUNT)
    run = loaded.apply
    if manual:
        run = jax.shard_map(
            run, mesh=mesh, in_specs=(PartitionSpec(), PartitionSpec("batch")), out_specs=PartitionSpec("batch")
        )
    np.testing.assert_array_equal(jax.jit(run)(loaded.params, put(mesh, x, "batch"))[0], loaded(x)[0])


@needs_devices
def test_explicit_batches_have_the_same_bits():
    loaded, x = convolution()
    x = integers("uint8", COUNT, *x.shape[1:])
    mesh = mesh_of("explicit", batch=COUNT)
    np.testing.assert_array_equal(jax.jit(loaded.apply)(loaded.params, put(mesh, x, "batch"))[0], loaded(x)[0])


@pytest.mark.parametrize("kind", ["QLinearAdd", "QLinearMul"])
def test_a_batch_of_nothing(kind):
    one, scale, zero = integers("uint8", 0, 3, 4), np.float32(0.5), np.uint8(3)
    constants = {"s": scale, "z": zero, "b": integers("uint8", 3, 4)}
    order = ["a", "s", "z", "b", "s", "z", "s", "z"]
    assert model(kind, {"a": one}, constants, "uint8", domain="com.microsoft", order=order)(one)[0].shape == (0, 3, 4)


@needs_devices
def test_sums_and_quantized_images_in_shard_map():
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[N, 2, 3] x) => (uint8[N, 2, 3] y) <float k = {0.5}, uint8 z = {3}>
    { q = QuantizeLinear (x, k, z)
      d = DequantizeLinear (q, k, z)
      a = Add (d, d)
      m = Mul (d, d)
      s = QuantizeLinear (a, k, z)
      t = QuantizeLinear (m, k, z)
      y = Max (s, t) }"""
    loaded = jaxdml.onnx.load(onnx.parser.parse_model(text))
    x = RNG.normal(size=(COUNT, 2, 3)).astype(np.float32)
    mesh = mesh_of("auto", batch=COUNT)
    run = jax.shard_map(
        lambda x: loaded.apply({}, x), mesh=mesh, in_specs=PartitionSpec("batch"), out_specs=PartitionSpec("batch")
    )
    np.testing.assert_array_equal(jax.jit(run)(put(mesh, x, "batch"))[0], loaded(x)[0])


def test_a_model_takes_plain_arrays_for_filters():
    loaded, x = convolution()
    plain = {name: value.unpacked() for name, value in loaded.params.items()}
    np.testing.assert_array_equal(jax.jit(loaded.apply)(plain, x)[0], loaded(x)[0])


FLOATS = """<ir_version: 8, opset_import: ["": 17]>
g (float[1, 4, 6, 6] x) => (float[1, 4, 4, 3] y) <float[4, 1, 3, 3] w = VALUES>
{ y = Conv <group = 4, strides = [1, 2], pads = [0, 1, 0, 0]> (x, w) }"""


def test_each_channel_of_floats_is_convolved_by_slices():
    w, x = RNG.normal(size=(4, 1, 3, 3)).astype(np.float32), RNG.normal(size=(1, 4, 6, 6)).astype(np.float32)
    text = FLOATS.replace("VALUES", "{" + ", ".join(map(str, w.reshape(-1))) + "}")
    loaded = jaxdml.onnx.load(onnx.parser.parse_model(text))

    def plain(w, x):
        return jax.lax.conv_general_dilated(x, w, (1, 2), [(0, 0), (1, 0)], feature_group_count=4)

    want = jax.jit(plain)(w, x)
    np.testing.assert_allclose(loaded(x)[0], want, rtol=1e-5, atol=1e-5)
    slope = jax.jit(jax.grad(lambda params: loaded.apply(params, x)[0].sum()))(loaded.params)["w"]
    expected = jax.jit(jax.grad(lambda w: plain(w, x).sum()))(w)
    np.testing.assert_allclose(np.moveaxis(slope, (-1, -2), (0, 1)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(1, 2, 3, 3), (2, 3)])
def test_what_is_quantized_has_no_derivative(shape):
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float SHAPE x, float[1] s) => (float SHAPE y) <float k = {0.5}, uint8 z = {3}>
    { q = QuantizeLinear (x, k, z)
      d = DequantizeLinear (q, k, z)
      r = QuantizeLinear (d, s)
      e = DequantizeLinear (r, s)
      y = Add (x, e) }"""
    loaded = jaxdml.onnx.load(onnx.parser.parse_model(text.replace("SHAPE", str(list(shape)))))
    x, s = RNG.normal(size=shape).astype(np.float32), np.ones(1, np.float32)
    want = x + np.round(np.clip(np.round(x * 2), -3, 252) / 2).clip(0)
    np.testing.assert_array_equal(loaded(x, s)[0], want)
    slope = jax.jit(jax.grad(lambda x: loaded.apply({}, x, s)[0].sum()))(x)
    np.testing.assert_array_equal(slope, np.ones_like(x))


UNKNOWN = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
g (uint8[2, 3] a, uint8[3, 3] b, float s, float[3] t, float[2] r) => (uint8[2, 3] y, uint8[2, 3] z, uint8[2, 3] v)
<float k = {0.5}, uint8 zero = {3}>
{ c = com.microsoft.QLinearAdd (a, k, zero, a, s, zero, k, zero)
  y = com.microsoft.QLinearMul (c, s, zero, c, k, zero, k, zero)
  z = QLinearMatMul (a, k, zero, b, s, zero, k, zero)
  v = com.microsoft.QGemm (a, k, zero, b, s, zero, , k, zero) }"""


def test_scales_that_are_not_known_are_left_to_the_operators():
    loaded = jaxdml.onnx.load(onnx.parser.parse_model(UNKNOWN))
    a, b, s = integers("uint8", 2, 3), integers("uint8", 3, 3), np.float32(0.25)
    y, z, v = loaded(a, b, s, np.zeros(3, np.float32), np.zeros(2, np.float32))
    p = a.astype(np.int64) - 3
    c = rounded(p, [quotient(0.75, 1, 0.5)], 3, np.uint8).astype(np.int64) - 3
    np.testing.assert_array_equal(y, rounded(c * c, [Fraction(1, 4)], 3, np.uint8))
    want = rounded(p @ (b.astype(np.int64) - 3), [Fraction(1, 4)], 3, np.uint8)
    np.testing.assert_array_equal(z, want)
    np.testing.assert_array_equal(v, want)


def test_what_products_have_packed_becomes_floats_where_a_product_is_of_floats():
    b = integers("int8", 4, 3)
    text = f"""<ir_version: 8, opset_import: ["": 17]>
    g (uint8[2, 3] a) => (float[2, 4] y)
    <float k = {{0.5}}, uint8 z = {{3}}, int8[4, 3] b = {{{", ".join(map(str, b.reshape(-1)))}}}>
    {{ d = DequantizeLinear (a, k, z)
       e = DequantizeLinear (b, k)
       y = Gemm <alpha = 2.0, transB = 1> (d, e) }}"""
    loaded = jaxdml.onnx.load(onnx.parser.parse_model(text))
    assert isinstance(loaded.params["b"], Transposed)
    a = integers("uint8", 2, 3)
    want = (a.astype(np.float32) - 3) / 2 @ b.T.astype(np.float32)
    np.testing.assert_array_equal(loaded(a)[0], want)


def test_filters_of_other_floats_stay_as_they_are():
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    kind = onnx.TensorProto.BFLOAT16
    images, results = (helper.make_tensor_value_info(name, kind, [1, 1, 3, 3]) for name in "xy")
    w = helper.make_tensor("w", kind, [1, 1, 1, 1], [2.0])
    graph = helper.make_graph([node], "g", [images], [results], [w])
    loaded = jaxdml.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10))
    assert isinstance(loaded.params["w"], jax.Array)
    x = jnp.ones((1, 1, 3, 3), jnp.bfloat16)
    np.testing.assert_array_equal(loaded(x)[0], 2 * x)

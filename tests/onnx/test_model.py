"""A model as a function: its inputs, its errors, its tables."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import onnx
import onnx.parser
import pytest

import jaxdml.onnx
from jaxdml.onnx import UnsupportedModelError
from tests.kit import quick
from tests.onnx.quantized import Groups

pytestmark = quick


def parsed(text):
    header = '<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>'
    return jaxdml.onnx.load(onnx.parser.parse_model(f"{header} {text}"))


SUM = "g (float[N, 2] a, float[N, 2] b) => (y) { t = Add(a, b) y = Relu(t) }"
REPEATED = "g (float[2] x, int64[1] times) => (y, n) { y = Tile(x, times) n = Shape(y) }"
ONE = np.ones((3, 2), np.float32)


def test_inputs_by_position_and_by_name():
    model = parsed(SUM)
    for result in (model(ONE, 2 * ONE), model(ONE, b=2 * ONE), model(b=2 * ONE, a=ONE), model.apply({}, ONE, 2 * ONE)):
        np.testing.assert_array_equal(result[0], 3 * ONE)


@pytest.mark.parametrize(
    ("inputs", "named", "text"),
    [
        ((ONE,), {}, "input 'b' is missing"),
        ((), {}, "input 'a', 'b' is missing"),
        ((ONE, ONE), {"c": ONE}, "input 'c' is unknown"),
        ((ONE, ONE), {"b": ONE}, "input 'b' is given twice"),
        ((ONE, ONE, ONE), {}, "3 inputs are given; the model takes 2"),
        ((ONE, ONE.astype(np.float16)), {}, "input 'b' must be float32, not float16"),
        ((ONE, [[1, 2]]), {}, "input 'b' must be float32, not int"),
    ],
)
def test_inputs_that_are_no_inputs(inputs, named, text):
    with pytest.raises(TypeError, match=text):
        parsed(SUM)(*inputs, **named)


@pytest.mark.parametrize("shape", [(3,), (3, 3), (3, 2, 1)])
def test_shapes_that_are_not_those_declared(shape):
    with pytest.raises(ValueError, match=r"input b: float32\[N, 2\] has shape .*\n(.*\n)?.*"):
        parsed(SUM)(ONE, np.ones(shape, np.float32))
    with pytest.raises(ValueError, match="Give the shape that the model declares"):
        parsed(REPEATED)(np.ones((1, *shape), np.float32), np.int64([2]))


def test_sizes_are_what_onnxruntime_takes():
    np.testing.assert_array_equal(parsed(SUM)(ONE, ONE[:1])[0], 2 * ONE)  # Both are declared with N.
    scalar = parsed("g (float x) => (y) { y = Neg(x) }")
    for x in (np.float32(2), ONE):
        np.testing.assert_array_equal(scalar(x)[0], -x)


@pytest.mark.parametrize("name", ["?", "-1", "*", "None", "unknown", "__dynamic_dimension__", "<dynamic>"])
def test_names_that_say_nothing_are_no_names(name):
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[N, 2, M] x) => (y) { y = Neg(x) }'
    )
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = name
    assert jaxdml.onnx.load(proto).inputs[0].shape == (None, 2, "M")


@pytest.mark.parametrize("inputs", [(ONE,), (ONE, ONE, ONE)])
def test_apply_and_report_count_inputs(inputs):
    for way in (lambda model: model.apply({}, *inputs), lambda model: model.report(*inputs)):
        with pytest.raises(TypeError, match=f"{len(inputs)} inputs are given; the model takes 2"):
            way(parsed(SUM))


def test_what_shapes_depend_on_must_be_known():
    model = parsed(REPEATED)
    x = np.float32([1, 2])
    assert model.static_inputs == {"times"}
    assert parsed(SUM).static_inputs == frozenset()
    for times in (1, 3, 3):
        y, n = model(x, np.int64([times]))
        np.testing.assert_array_equal(y, np.tile(x, times))
        assert n == 2 * times
    assert len(model._calls.programs) == 2
    assert jax.jit(lambda x: model.apply({}, x, np.int64([2]))[0])(x).shape == (4,)
    with pytest.raises(NotImplementedError, match="input 1 of Tile 'y' is 'times', which depends on values that are"):
        jax.jit(model.apply)({}, x, np.int64([2]))


def test_anything_may_be_given_where_nothing_is_declared():
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, None)
    node = onnx.helper.make_node("Neg", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "g", [x], [onnx.ValueInfoProto(name="y")])
    model = jaxdml.onnx.load(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]))
    for shape in ((), (2, 3)):
        assert model(np.ones(shape, np.float32))[0].shape == shape
    assert "as it is written" in model.report()
    unknown = parsed("g (float[?, 2] x) => (y) { y = Neg(x) }")
    assert unknown(ONE)[0].shape == (3, 2)


def test_reports_say_what_became_of_each_node():
    model = parsed(
        """g (uint8[N] x) => (z, w) <float s = {0.5}, uint8 b = {3}>
        { a = DequantizeLinear(x, s, b) r = Relu(a) z = QuantizeLinear(r, s, b) w = Tanh(a) unused = Neg(w) }"""
    )
    wanted = {"a": "float", "r": "a table", "z": "rounds r", "w": "as it is written"}
    x = np.arange(5, dtype=np.uint8)
    for inputs in ((), (x,), (jax.ShapeDtypeStruct((7,), np.uint8),)):
        first, *lines = model.report(*inputs).splitlines()
        assert first.split() == ["node", "operator", "runs", "as"]
        if not inputs:
            assert lines.pop() == "Sizes that the model leaves open are taken as x [1]."
        assert {line.split()[0]: line.split(maxsplit=2)[2] for line in lines} == wanted
    with pytest.raises(TypeError, match="must be uint8"):
        model.report(ONE)
    repeated = parsed(REPEATED)
    assert "Tile" in repeated.report()
    assert "Tile" in repeated.report(np.float32([1, 2]), np.int64([2]))


WINDOW = "z = Constant<value_ints=[{}]>() b = Unsqueeze(x, z) y = MaxPool<kernel_shape=[40]>(b)"


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (f"g (float[B, N] x, float[M, B] s) => (y, t) {{ {WINDOW.format(1)} t = Neg(s) }}", "x [1, 64], s [1, 1]"),
        (f"g (float[?, ?] x, float[2, ?] s) => (y, t) {{ {WINDOW.format(1)} t = Neg(s) }}", "x [1, 64], s [2, 1]"),
        (f"g (float[T, 8] x) => (y) {{ r = Transpose(x) {WINDOW.format(0).replace('(x', '(r')} }}", "x [64, 8]"),
        ("g (float[2, N] x) => (y) <float[3, 1] w = {1, 2, 3}> { y = MatMul(x, w) }", "x [2, 3]"),
        (
            "g (float[N, M] x) => (y) { m = Constant<value_int=1>() y = Loop(m, , x) <body = b"
            " (int64 i, bool c, float[2, 2] a) => (bool d, float[2, 2] r) <float[6, 1] w = {1, 2, 3, 4, 5, 6}>"
            " { d = Identity(c) p = MatMul(a, w) r = Neg(p) }> }",
            "x [1, 6]",
        ),
    ],
    ids=["named", "unnamed", "first", "weight", "body"],
)
def test_reports_take_sizes_that_fit(text, sizes):
    assert parsed(text).report().splitlines()[-1] == f"Sizes that the model leaves open are taken as {sizes}."


def test_reports_that_find_no_size():
    reshaped = "g (float[{}] x) => (y) {{ z = Constant<value_ints=[5, 7]>() y = Reshape(x, z) }}"
    with pytest.raises(ValueError, match="cannot reshape") as caught:
        parsed(reshaped.format("N, M")).report()
    first, second, third = str(caught.value).splitlines()
    rule = "none of the sizes 1, 64, 256, 1024, 4096, 16384 fits where the model leaves them open; with 1: "
    assert first.startswith(f"jaxdml.onnx.Model: {rule}Reshape 'y' cannot be computed: cannot reshape")
    assert second == "  inputs: x: float32[N, M]"
    assert "model.report(*inputs), or --inputs" in third
    for sizes in ("2, 3", "2, 3, 4"):
        with pytest.raises(TypeError, match="cannot reshape"):
            parsed(reshaped.format(sizes)).report()


def test_reports_say_what_is_known_and_what_is_cut():
    text = """g (float[2, N] x, int64 rate, int64[K] ids) => (y, n) <float[3, 2] a = {1, 2, 3, 4, 5, 6}> {
        high = Constant<value_int=16000>()
        c = Equal(rate, high)
        y = If(c) <then_branch = t () => (p) { p = MatMul(x, a) }, else_branch = e () => (q) { q = Neg(x) }>
        n = Neg(ids)
    }"""
    first, second, third = parsed(text).report().splitlines()[-3:]
    assert first == "Sizes that the model leaves open are taken as x [2, 1], ids [1]."
    assert second == "Not every branch fits these sizes, so these inputs must be known: rate."
    assert third == "Without jax_enable_x64 these inputs are cut to 32 bits where they are traced: ids."
    found = parsed(text).report(np.ones((2, 3), np.float32), np.int64(16000), np.int64([1])).splitlines()[-2:]
    assert not any("leaves open" in line for line in found)
    with pytest.raises(NotImplementedError, match="Expand 'n' is 'y'"):
        parsed(
            "g (float[N] x) => (n) <float[2] w = {1, 2}> { a = Add(x, w) y = Cast<to=7>(a) n = Expand(x, y) }"
        ).report()


def test_tables_and_names():
    model = parsed("g (float[N, ?] x) => (float[2] y) <float[1] k = {2}> { y, m = Dropout(x) u = Clip(k, , k) }")
    assert str(model).splitlines() == [
        "node  operator  inputs  outputs",
        "y     Dropout   x       y, m",
        "u     Clip      k, k    u",
    ]
    assert repr(model) == "Model(x: float32[N, ?] -> y: float32[2]; 2 nodes, 0 params)"
    assert (str(model.inputs[0]), str(model.outputs[0])) == ("x: float32[N, ?]", "y: float32[2]")


def test_parameters_are_what_is_not_needed_while_tracing():
    model = parsed(
        """g (float[2, 2] x) => (y) <float[2, 2] w = {1, 2, 3, 4}, int64[2] shape = {4, 1}, float s = {2}>
        { a = MatMul(x, w) b = Mul(a, s) y = Reshape(b, shape) }"""
    )
    assert list(model.params) == ["w"]
    grad = jax.jit(jax.grad(lambda params: model.apply(params, np.float32([[1, 2], [3, 4]]))[0].sum()))(model.params)[
        "w"
    ]
    np.testing.assert_array_equal(grad, [[8, 8], [12, 12]])


def test_loading_compiles_nothing(caplog):
    rng = np.random.default_rng(0)
    weights = {
        "filters": rng.standard_normal((3, 2, 5)).astype(np.float32),
        "quantized": rng.integers(0, 256, (4, 3, 7), np.uint8),
        "matrix": rng.integers(-128, 128, (11, 13), np.int8),
        "bias": rng.standard_normal((1, 13)).astype(np.float32),
    }
    text = """g (float[1, 2, 9] x, uint8[1, 3, 9] q, int8[2, 11] m, float[2, 13] z) => (a, b, c, d)
        { a = Conv(x, filters) b = ConvInteger(q, quantized) c = MatMulInteger(m, matrix) d = Add(z, bias) }"""
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    with jax.log_compiles():
        model = jaxdml.onnx.load(proto)
    assert "Compiling" not in caplog.text
    assert set(model.params) == set(weights)


def test_scales_of_weights_are_parameters():
    """As constants they would make different code of equal products."""
    model = parsed("""
        g (float[2, 3] x) => (y, t) <int8[3, 2] w = {1, 2, 3, 4, 5, 6}, float s = {0.5}, float r = {0.25}> {
            q, a, z = DynamicQuantizeLinear(x)
            sums = MatMulInteger(q, w, z)
            floats = Cast <to = 1> (sums)
            scale = Mul(a, s)
            scaled = Mul(floats, scale)
            other = Mul(r, a)
            y = Mul(scaled, r)
            t = Mul(scaled, other)
        }""")
    assert set(model.params) == {"w", "s"}
    assert model.params["s"] == 0.5
    x = np.float32([[0, 255, 51], [1, 2, 3]])
    want = np.float32(x @ np.float32([[1, 2], [3, 4], [5, 6]]) * np.float32(0.5))
    for got in model(x):
        np.testing.assert_array_equal(got, want * np.float32(0.25))


def test_constants_of_64_bits_that_do_not_fit_are_refused():
    groups = Groups()
    groups.out(groups("Add", groups.input(np.int64([1])), np.int64([2**40])))
    with pytest.raises(OverflowError, match="set jax_enable_x64"):
        groups.load()(np.int64([1]))


def test_zero_points_may_be_left_out_between_what_is_required():
    header = "g (uint8[2] x) => (y) <float s = {1}, uint8 z = {9}>"
    for kind, inputs in {
        "QLinearAdd": "x, s, , x, s, , s",
        "QLinearMul": "x, s, , x, s, , s, z",
        "QLinearLeakyRelu": "x, s, , s",
        "QLinearSigmoid": "x, s, , s, z",
    }.items():
        assert parsed(f"{header} {{ y = com.microsoft.{kind}({inputs}) }}").inputs
        with pytest.raises(UnsupportedModelError, match="input 0 is left out"):
            parsed(f"{header} {{ y = com.microsoft.{kind}({inputs.replace('x', '', 1)}) }}")
    with pytest.raises(UnsupportedModelError, match="attribute axis is missing"):
        parsed(f"{header} {{ y = com.microsoft.QLinearConcat(s, z, x, s, z) }}")
    with pytest.raises(UnsupportedModelError, match="attribute turns is not supported"):
        parsed(f"{header} {{ y = com.microsoft.QLinearSigmoid <turns = 1> (x, s, z, s) }}")
    with pytest.raises(UnsupportedModelError, match="it has 3 inputs; 7 to 8 are expected"):
        parsed(f"{header} {{ y = com.microsoft.QLinearAdd(x, s, z) }}")


def test_bodies_get_floats_that_are_made_outside():
    model = parsed(
        """g (uint8[2] x, bool c) => (y) <float s = {0.5}> {
          a = DequantizeLinear(x, s)
          y = If(c) <then_branch = t () => (float[2] p) { p = Relu(a) },
                       else_branch = e () => (float[2] q) { q = Neg(a) }>
        }"""
    )
    x = jnp.asarray([2, 4], jnp.uint8)
    for condition in (True, False):
        sign = 1 if condition else -1
        np.testing.assert_array_equal(model(x, np.asarray(condition))[0], [sign, 2 * sign])


def test_sizes_that_are_symbols_may_become_values():
    model = parsed("g (float[N] x) => (y, n) { n = Shape(x) f = Cast<to = 1>(n) y = Mul(x, f) }")
    (size,) = jax.export.symbolic_shape("n")
    exported = jax.export.export(jax.jit(model.apply))({}, jax.ShapeDtypeStruct((size,), np.float32))
    y, n = exported.call({}, np.float32([1, 2, 3]))
    assert (y.tolist(), n.tolist()) == ([3, 6, 9], [3])


LARGEST = "g (int64[N] x, uint64[M] u) => (y, u2) { k = Constant<value_ints=[2]>() y, i = TopK(x, k) u2 = Identity(u) }"


def test_integers_that_jax_would_cut_are_refused_by_name():
    model = parsed(LARGEST)
    x, u = np.int64([-(2**31), 5, 2**31 - 1]), np.uint64([2**32 - 1])
    for results in (model(x, u), model.apply({}, x, u)):
        np.testing.assert_array_equal(results[0], [2**31 - 1, 5])
        np.testing.assert_array_equal(results[1], u)
    wide = np.int64([2**40, 5, 2**41])
    for way in (model, lambda *inputs: model.apply({}, *inputs)):
        for inputs, name, dtype in (((wide, u), "x", "int32"), ((-wide, u), "x", "int32"), ((x, u + 1), "u", "uint32")):
            with pytest.raises(OverflowError) as caught:
                way(*inputs)
            first, second, third = str(caught.value).splitlines()
            assert first.startswith(f"jaxdml.onnx.Model: input '{name}' holds integers from ")
            assert f"; {dtype} here holds " in first
            assert second.startswith(f"  {name}: ")
            assert third == "  Set jax_enable_x64, with which JAX has 64 bits."
    with jax.enable_x64(True):
        np.testing.assert_array_equal(parsed(LARGEST)(wide, u + 1)[0], [2**41, 2**40])


@pytest.mark.parametrize("given", [[300], [-1]])
def test_numbers_that_the_dtype_does_not_hold_are_refused(given):
    model = parsed("g (uint8[N] x) => (y) { y = Identity(x) }")
    np.testing.assert_array_equal(model([0, 255])[0], np.uint8([0, 255]))
    with pytest.raises(OverflowError, match=r"input 'x' holds integers .*; uint8 here holds 0 to 255"):
        model(given)


def test_integers_of_64_bits_that_say_a_shape_stay_so():
    model = parsed("g (float[N] x, int64[1] end) => (y) { zero = Constant<value_ints=[0]>() y = Slice(x, zero, end) }")
    for way in (model, lambda *inputs: model.apply({}, *inputs)):
        np.testing.assert_array_equal(way(np.float32([1, 2]), np.int64([2**63 - 1]))[0], [1, 2])


def test_sequences_are_looked_into():
    model = parsed("g (seq(int64[N]) s) => (y) { zero = Constant<value_int=0>() y = SequenceAt(s, zero) }")
    np.testing.assert_array_equal(model([np.int64([1]), np.int64([])])[0], [1])
    with pytest.raises(OverflowError, match=r"input 's' holds integers"):
        model([np.int64([1]), np.int64([2**40])])

"""Operators that draw random numbers: laws of what they draw, and which numbers share a key."""

import jax
import jax.numpy as jnp
import numpy as np
import onnx.parser
import pytest
from jax import export
from onnx import TensorProto, helper

import jaxdml.onnx
from jaxdml.onnx import backend
from tests.kit import quick
from tests.onnx.one_node import one_node

pytestmark = quick

KEY = jax.random.key(7)
COUNT = 20_000
"""Numbers from which moments are taken: the error of a mean is a deviation divided by its root."""


def drawn(kind, *inputs, key=KEY, opset=22, outputs=1, **attributes):
    model = jaxdml.onnx.load(one_node(kind, *inputs, opset=opset, outputs=outputs, **attributes))
    return [np.asarray(result) for result in model(*(x for x in inputs if x is not None), key=key)]


def parsed(body, inputs="float[2] x", outputs="float[N] y"):
    head = f'<ir_version: 8, opset_import: ["": 17]> g ({inputs}) => ({outputs}) '
    return jaxdml.onnx.load(onnx.parser.parse_model(head + body))


NONE = np.zeros([100, 200], np.float32)
BY_SHAPE, LIKE = {"shape": [100, 200]}, {}
FORMS = [("", (), BY_SHAPE), ("Like", (NONE,), LIKE)]


@pytest.mark.parametrize("opset", [7, 22])
@pytest.mark.parametrize(("form", "inputs", "attributes"), FORMS)
def test_normal_numbers(form, inputs, attributes, opset):
    (x,) = drawn(f"RandomNormal{form}", *inputs, opset=opset, mean=3.0, scale=2.0, **attributes)
    assert (x.shape, x.dtype) == ((100, 200), np.float32)
    z = (x - 3) / 2
    np.testing.assert_allclose([z.mean(), (z**2).mean(), (z**3).mean(), (z**4).mean()], [0, 1, 0, 3], atol=0.15)
    (x,) = drawn(f"RandomNormal{form}", *inputs, opset=opset, **attributes)
    np.testing.assert_allclose([x.mean(), x.std()], [0, 1], atol=0.03)


@pytest.mark.parametrize(("form", "inputs", "attributes"), FORMS)
def test_uniform_numbers(form, inputs, attributes):
    (x,) = drawn(f"RandomUniform{form}", *inputs, low=-1.0, high=3.0, **attributes)
    assert (x.shape, x.dtype) == ((100, 200), np.float32)
    assert x.min() >= -1
    assert x.max() < 3
    np.testing.assert_allclose(np.histogram(x, 8, (-1, 3))[0] / COUNT, 1 / 8, atol=0.01)
    (x,) = drawn(f"RandomUniform{form}", *inputs, **attributes)
    np.testing.assert_allclose([x.mean(), x.min(), x.max()], [0.5, 0, 1], atol=0.01)


@pytest.mark.parametrize("kind", ["RandomNormal", "RandomUniform"])
@pytest.mark.parametrize("dtype", [TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE])
def test_types(kind, dtype):
    expected = helper.tensor_dtype_to_np_dtype(dtype)
    with jax.enable_x64(True):
        assert drawn(kind, shape=[3], dtype=dtype)[0].dtype == expected
        assert drawn(f"{kind}Like", np.zeros(3, np.float32), dtype=dtype)[0].dtype == expected
        assert drawn(f"{kind}Like", np.zeros(3, expected))[0].dtype == expected
    assert drawn(kind, shape=[3], dtype=TensorProto.DOUBLE)[0].dtype == np.float32
    with pytest.raises(ValueError, match="are floats, and int32 is asked for"):
        drawn(f"{kind}Like", np.zeros(3, np.int32))


def test_bernoulli():
    p = np.repeat(np.float32([0, 0.25, 1]), COUNT).reshape(3, -1)
    (x,) = drawn("Bernoulli", p)
    assert (x.shape, x.dtype) == (p.shape, p.dtype)
    assert set(x.ravel()) == {0, 1}
    np.testing.assert_allclose(x.mean(1), [0, 0.25, 1], atol=0.02)
    assert drawn("Bernoulli", p, dtype=TensorProto.BOOL)[0].dtype == np.bool_


def test_multinomial():
    p = np.float32([[0.5, 0.25, 0.25], [0, 0.9, 0.1]])
    with np.errstate(divide="ignore"):
        logits = np.log(p) + 3
    (x,) = drawn("Multinomial", logits, sample_size=COUNT)
    assert (x.shape, x.dtype) == ((2, COUNT), np.int32)
    counts = [np.bincount(row, minlength=3) / COUNT for row in x]
    np.testing.assert_allclose(counts, p, atol=0.02)
    assert drawn("Multinomial", logits)[0].shape == (2, 1)
    with jax.enable_x64(True):
        assert drawn("Multinomial", logits, dtype=TensorProto.INT64)[0].dtype == np.int64
    with pytest.raises(ValueError, match="for each row of a matrix"):
        drawn("Multinomial", logits[0])


@pytest.mark.parametrize("ratio", [None, 0.25, 0.5, 1.0])
def test_dropout_in_training(ratio):
    x = np.random.default_rng(0).normal(size=COUNT).astype(np.float32)
    given = None if ratio is None else np.float32(ratio)
    y, kept = drawn("Dropout", x, given, np.bool_(True), outputs=2)
    fraction = 0.5 if ratio is None else ratio
    assert kept.dtype == np.bool_
    np.testing.assert_allclose(kept.mean(), 1 - fraction, atol=0.02)
    np.testing.assert_allclose(y, np.where(kept, x / (1 - fraction) if fraction < 1 else 0, 0), rtol=1e-6)
    only = drawn("Dropout", x, given, np.bool_(True))
    np.testing.assert_array_equal(only[0], y)


def test_dropout_that_drops_nothing_needs_no_key():
    x = np.float32([1, 2])
    for ratio, training in ((0.0, True), (0.5, False)):
        y, kept = drawn("Dropout", x, np.float32(ratio), np.bool_(training), outputs=2, key=None)
        np.testing.assert_array_equal(y, x)
        assert kept.all()


QUANTIZED = """{
    d = DequantizeLinear(x, s)
    e, m = Dropout(d, r, t)
    y = QuantizeLinear(e, s, z) }"""


def test_dropout_of_quantized_numbers():
    def load(training):
        values = f"<float s = {{0.5}}, uint8 z = {{3}}, float r = {{0.5}}, bool t = {{{training}}}>"
        body = QUANTIZED.replace("(x, s)", "(x, s, z)")
        return parsed(values + body, "uint8[N] x", "uint8[N] y, bool[N] m")

    x = np.arange(100, dtype=np.uint8)
    y, kept = load(1)(x, key=KEY)
    np.testing.assert_array_equal(y, np.where(kept, 2 * (x.astype(int) - 3) + 3, 3))
    plain = load(0)
    np.testing.assert_array_equal(plain(x)[0], x)
    assert "the same on integers" in plain.report()


# Keys.


def test_without_a_key_an_error_says_to_give_one():
    model = parsed("{ r = RandomNormal<shape = [2]>() y = Add(x, r) }")
    x = np.float32([1, 2])
    text = (
        r"^jaxdml\.onnx\.Model: RandomNormal 'r' is random, and the call gives no key\.\n"
        r"  Give one: model\(\.\.\., key=jax\.random\.key\(0\)\), or model\.apply.*\.\n  .*\.\n"
    )
    for call in (model, lambda x: model.apply(model.params, x), jax.jit(lambda x: model.apply(model.params, x))):
        with pytest.raises(ValueError, match=text):
            call(x)
    assert "RandomNormal" in model.report()
    assert np.isfinite(model(x, key=KEY)[0]).all()


@pytest.mark.parametrize("key", [0, np.uint32(1), jax.random.split(KEY, 2), np.float32([1, 2]), "a"])
def test_what_is_no_key(key):
    model = parsed("{ r = RandomNormal<shape = [2]>() y = Add(x, r) }")
    for call in (model, lambda x, key: model.apply(model.params, x, key=key)):
        with pytest.raises(TypeError, match=r"key is no key of jax\.random\.\n  key: .*\n  Give one key"):
            call(np.float32([1, 2]), key=key)


def test_keys_of_both_kinds():
    model = parsed("{ r = RandomNormal<shape = [2]>() y = Add(x, r) }")
    x = np.zeros(2, np.float32)
    np.testing.assert_array_equal(model(x, key=jax.random.key(3))[0], model(x, key=jax.random.PRNGKey(3))[0])
    assert model(x, key=KEY)[0].tolist() == model(x, key=KEY)[0].tolist()
    assert model(x, key=KEY)[0].tolist() != model(x, key=jax.random.key(8))[0].tolist()


def test_every_node_draws_other_numbers_whatever_its_seed():
    body = """{
        a = RandomNormal<shape = [3], seed = 1.0>()
        b = RandomNormal<shape = [3], seed = 1.0>()
        y = Concat<axis = 0>(a, b)
    }"""
    y = np.asarray(parsed(body)(np.float32([1, 2]), key=KEY)[0])
    assert len(set(y)) == 6
    np.testing.assert_array_equal(parsed(body.replace("1.0", "2.0"))(np.float32([1, 2]), key=KEY)[0], y)


def test_calls_of_one_function_draw_other_numbers():
    head = '<ir_version: 10, opset_import: ["": 17, "own": 1]> g (float[3] x) => (float[6] y) '
    text = head + "{ a = own.f(x) b = own.f(x) y = Concat<axis = 0>(a, b) }"
    text += ' <domain: "own", opset_import: ["": 17]> f (p) => (r) { r = RandomUniformLike(p) }'
    y = jaxdml.onnx.load(onnx.parser.parse_model(text))(np.zeros(3, np.float32), key=KEY)[0]
    assert len(set(np.asarray(y).tolist())) == 6


LOOP = """{
    y, all = Loop(n, c, x) <body = b (int64 i, bool g, float[2] v) => (bool h, float[2] w, float[2] s) {
        h = Identity(g) s = RandomUniformLike(v) w = Add(v, s) }> }"""
SCAN = """{
    y, all = Scan <num_scan_inputs = 1, body = b (float[2] v, float[2] o) => (float[2] w, float[2] s) {
        s = RandomUniformLike(v) w = Add(v, s) }> (x, xs) }"""
X = np.zeros(2, np.float32)


@pytest.mark.parametrize("count", [3, 40])
def test_every_turn_of_a_loop_draws_other_numbers(count):
    model = parsed(f"<int64 n = {{{count}}}, bool c = {{1}}>" + LOOP, outputs="float[2] y, float[N, 2] all")
    y, every = (np.asarray(result) for result in model(X, key=KEY))
    assert len(set(every.ravel())) == 2 * count
    np.testing.assert_allclose(y, every.sum(0), rtol=1e-5)


def test_every_turn_of_a_loop_with_a_condition_draws_other_numbers():
    body = """<int64 n = {20}> {
        y, last = Loop(n, c, x, x) <body =
        b (int64 i, bool g, float[2] v, float[2] o) => (bool h, float[2] w, float[2] s) {
            h = Identity(c) s = RandomUniformLike(v) w = Add(v, s) }> }"""
    model = parsed(body, "bool c, float[2] x", "float[2] y, float[2] last")
    y, last = (np.asarray(result) for result in model(np.bool_(True), X, key=KEY))
    np.testing.assert_allclose(y, 10, atol=5)
    assert not np.allclose(y, 20 * last)


def test_every_turn_of_a_scan_draws_other_numbers():
    model = parsed(SCAN, "float[2] x, float[5, 2] xs", "float[2] y, float[5, 2] all")
    y, every = (np.asarray(result) for result in model(X, np.zeros([5, 2], np.float32), key=KEY))
    assert len(set(every.ravel())) == 10
    np.testing.assert_allclose(y, every.sum(0), rtol=1e-5)


def test_loops_within_loops_draw_other_numbers():
    body = """<int64 n = {3}, bool c = {1}> {
        y, all = Loop(n, c, x) <body = b (int64 i, bool g, float[2] v) => (bool h, float[2] w, float[3, 2] s) {
            h = Identity(g)
            w, s = Loop(n, c, v) <body = d (int64 j, bool k, float[2] p) => (bool l, float[2] q, float[2] r) {
                l = Identity(k) r = RandomUniformLike(p) q = Add(p, r) }> }> }"""
    every = np.asarray(parsed(body, outputs="float[2] y, float[3, 3, 2] all")(X, key=KEY)[1])
    assert len(set(every.ravel())) == 18


def test_branches_draw_alike_whether_their_condition_is_known():
    body = """{ y = If(c) <then_branch = t () => (float[2] k) { k = RandomUniformLike(x) },
                          else_branch = e () => (float[2] m) { m = RandomNormalLike(x) }> }"""
    model = parsed(body, "bool c, float[2] x")
    for given in (np.bool_(True), np.bool_(False)):
        known = model.apply({}, given, X, key=KEY)[0]
        np.testing.assert_array_equal(model(given, X, key=KEY)[0], known)
    assert model(np.bool_(True), X, key=KEY)[0].tolist() != model(np.bool_(False), X, key=KEY)[0].tolist()


def test_transformations():
    model = parsed("<float r = {0.5}, bool t = {1}> { y, m = Dropout(x, r, t) }", outputs="float[2] y, bool[2] m")
    x = jnp.ones(2)
    keys = jax.random.split(KEY, 50)

    def call(key):
        return model.apply(model.params, x, key=key)

    each = [call(key) for key in keys]
    for mapped in (jax.vmap(call), jax.jit(jax.vmap(call)), lambda keys: jax.lax.map(call, keys)):
        y, kept = mapped(keys)
        np.testing.assert_array_equal(y, np.stack([one for one, _ in each]))
        np.testing.assert_array_equal(kept, np.stack([one for _, one in each]))
    assert len({tuple(row) for row in np.asarray(kept).tolist()}) == 4
    gradient = jax.jit(jax.grad(lambda x: model.apply(model.params, x, key=KEY)[0].sum()))(x)
    np.testing.assert_array_equal(gradient, 2 * np.float32(call(KEY)[1]))


def test_export():
    model = parsed("{ r = RandomNormalLike(x) y = Add(x, r) }", "float[N, 2] x", "float[N, 2] y")
    rows = export.symbolic_shape("n")
    shapes = jax.ShapeDtypeStruct((*rows, 2), np.float32), jax.eval_shape(lambda: jax.random.key(0))
    exported = export.export(jax.jit(lambda x, key: model.apply(model.params, x, key=key)))(*shapes)
    x = np.zeros([3, 2], np.float32)
    np.testing.assert_array_equal(exported.call(x, KEY)[0], model(x, key=KEY)[0])


def test_an_input_may_be_called_key():
    model = parsed("{ r = RandomNormal<shape = [2]>() y = Add(key, r) }", "float[2] key")
    with pytest.raises(ValueError, match="is random"):
        model(key=X)
    assert np.isfinite(model.apply(model.params, X, key=KEY)[0]).all()
    plain = parsed("{ y = Relu(key) }", "float[2] key")
    np.testing.assert_array_equal(plain(key=X)[0], X)


def test_the_interface_of_backends_takes_a_key():
    prepared = backend.prepare(one_node("RandomNormal", shape=[2]))
    with pytest.raises(ValueError, match="is random"):
        prepared.run([])
    assert prepared.run([], key=KEY)[0].shape == (2,)

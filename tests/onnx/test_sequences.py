"""Sequences and optionals, beyond ONNX's own node tests: against onnxruntime, and against lists."""

import jax
import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

import jaxdml.onnx
from jaxdml.onnx import _memory, backend
from jaxdml.onnx.nodes import sequences
from tests.kit import quick
from tests.onnx.broken import refused
from tests.onnx.sessions import session

pytestmark = quick

X = np.float32([[1, 2, 3], [4, 5, 6]])


def parsed(body, inputs="float[2, 3] x", outputs="y"):
    head = f'<ir_version: 8, opset_import: ["": 17]> g ({inputs}) => ({outputs}) '
    return onnx.parser.parse_model(head + body)


def same(found, wanted):
    if isinstance(wanted, list):
        assert isinstance(found, list)
        assert len(found) == len(wanted)
        for each, other in zip(found, wanted, strict=True):
            same(each, other)
    else:
        np.testing.assert_array_equal(found, wanted)


def agrees(body, *inputs, outputs="float[A, B] y", declared="float[2, 3] x"):
    """Require what onnxruntime returns, compiled and at once."""
    model = parsed(body, declared, outputs)
    loaded = jaxdml.onnx.load(model)
    names = [value.name for value in loaded.inputs]
    wanted = session(model)(**dict(zip(names, inputs, strict=True)))
    for results in (loaded(*inputs), loaded.apply(loaded.params, *inputs)):
        for name, found in zip(wanted, results, strict=True):
            same(found, wanted[name])
    assert loaded.report()


@pytest.mark.parametrize(
    "body",
    [
        "{ s = SequenceConstruct(x, x) y = ConcatFromSequence<axis = 0>(s) }",
        "{ s = SequenceConstruct(x, x) y = ConcatFromSequence<axis = -1>(s) }",
        "<int64 p = {-1}> { z = Neg(x) s = SequenceConstruct(x, z) y = SequenceAt(s, p) }",
        "<int64 p = {0}> { z = Neg(x) s = SequenceConstruct(x, z) e = SequenceErase(s, p) "
        "y = ConcatFromSequence<axis = 0>(e) }",
        "{ z = Neg(x) s = SequenceConstruct(x, z) e = SequenceErase(s) y = ConcatFromSequence<axis = 0>(e) }",
        "<int64 p = {-2}> { z = Neg(x) s = SequenceConstruct(x, x) e = SequenceInsert(s, z, p) "
        "y = ConcatFromSequence<axis = 0>(e) }",
        "{ s = SequenceEmpty() e = SequenceInsert(s, x) y = ConcatFromSequence<axis = 0>(e) }",
        "<int64 n = {2}> { s = SplitToSequence<axis = 1>(x, n) y = ConcatFromSequence<axis = 1>(s) }",
        "<int64[2] n = {1, 2}, int64 p = {1}> { s = SplitToSequence<axis = -1>(x, n) y = SequenceAt(s, p) }",
        "<int64 p = {1}> { s = SplitToSequence(x) y = SequenceAt(s, p) }",
    ],
)
def test_agrees_with_onnxruntime(body):
    agrees(body, X)


def test_new_axes():
    body = "{ s = SequenceConstruct(x, x) y = ConcatFromSequence<axis = -1, new_axis = 1>(s) }"
    agrees(body, X, outputs="float[A, B, C] y")


def test_rows_without_their_dimension():
    body = "<int64 p = {1}> { s = SplitToSequence<keepdims = 0>(x) y = SequenceAt(s, p) }"
    agrees(body, X, outputs="float[A] y")


def test_lengths_are_known_while_tracing():
    body = "{ s = SequenceConstruct(x, x, x) n = SequenceLength(s) y = Add(n, n) }"
    agrees(body, X, outputs="int64 y")


def test_inputs_and_outputs():
    body = "{ n = SequenceLength(s) y = Identity(s) }"
    agrees(body, [X, X[:1]], declared="seq(float[A, 3]) s", outputs="seq(float[A, 3]) y, int64 n")
    loaded = jaxdml.onnx.load(parsed(body, "seq(float[A, 3]) s", "seq(float[A, 3]) y, int64 n"))
    assert [str(value) for value in loaded.inputs] == ["s: sequence of float32[A, 3]"]
    same(loaded((X,))[0], [X])
    same(loaded([])[0], [])
    with pytest.raises(TypeError, match="input 's' is a sequence"):
        loaded(X)
    with pytest.raises(ValueError, match="has shape"):
        loaded([X[:, :2]])
    found = backend.prepare(parsed(body, "seq(float[A, 3]) s", "seq(float[A, 3]) y, int64 n")).run([[X, X]])
    same(found[0], [X, X])


def test_elements_that_differ_in_size_pass_programs():
    # NonZero must know its operand, so what is around it are two programs: the list goes from one to the other.
    body = """<int64 p = {1}, int64[2] n = {1, 2}> {
        z = Exp(x) s = SplitToSequence<axis = 1>(z, n)
        a = SequenceAt(s, p) m = Greater(a, x0) i = NonZero(m) k = Cast<to = 1>(i)
        t = SequenceInsert(s, k) y = Identity(t) }"""
    model = jaxdml.onnx.load(parsed(body, "float[2, 3] x, float x0", "seq(float[A, B]) y"))
    (found,) = model(X, np.float32(10))
    z = np.exp(X)
    same(
        [np.round(each, 2) for each in map(np.asarray, found)],
        [np.round(z[:, :1], 2), np.round(z[:, 1:], 2), np.float32(np.nonzero(z[:, 1:] > 10))],
    )


# Loops, branches and functions.

GROWING = """{
    s = SequenceEmpty()
    t = Loop(n, c, s) <body = b (int64 i, bool g, seq(float[A, B]) v) => (bool h, seq(float[A, B]) w) {
        h = Identity(g) f = Cast<to = 1>(i) a = Add(x, f) w = SequenceInsert(v, a) }>
    y = ConcatFromSequence<axis = 0>(t) }"""


@pytest.mark.parametrize("count", [1, 3, 40])
def test_a_loop_that_adds_to_a_sequence(count):
    agrees(f"<int64 n = {{{count}}}, bool c = {{1}}>" + GROWING, X)


def test_how_often_such_a_loop_runs_must_be_known():
    model = jaxdml.onnx.load(parsed("<bool c = {1}>" + GROWING, "float[2, 3] x, int64 n", "float[A, B] y"))
    expected = np.concatenate([X, X + 1])
    np.testing.assert_array_equal(model(X, np.int64(2))[0], expected)
    assert model.static_inputs == {"n"}
    np.testing.assert_array_equal(model.apply(model.params, X, np.asarray(2))[0], expected)
    with pytest.raises(NotImplementedError, match="Loop 't' is 'n', which depends on values"):
        jax.jit(model.apply)(model.params, X, np.asarray(2))


def test_a_loop_that_keeps_a_sequence():
    body = """<int64 n = {40}, bool c = {1}, int64 p = {0}, int64 q = {1}> {
        s = SequenceConstruct(x, x)
        t = Loop(n, c, s) <body = b (int64 i, bool g, seq(float[A, B]) v) => (bool h, seq(float[A, B]) w) {
            h = Identity(g) a = SequenceAt(v, p) d = SequenceAt(v, q) e = Add(a, x) w = SequenceConstruct(d, e) }>
        y = ConcatFromSequence<axis = 0>(t) }"""
    agrees(body, X)
    model = jaxdml.onnx.load(parsed(body, outputs="float[A, B] y"))
    assert "scan" in str(jax.make_jaxpr(model.apply)(model.params, X))


def test_a_loop_that_never_runs_returns_its_sequence():
    agrees("<int64 n = {0}, bool c = {1}>" + GROWING.replace("s = SequenceEmpty()", "s = SequenceConstruct(x)"), X)


BRANCHES = """{
    t = If(c) <then_branch = a () => (seq(float[A, B]) u) { u = SequenceConstruct(x) },
               else_branch = b () => (seq(float[A, B]) v) { z = Neg(x) v = SequenceConstruct(x, z) }>
    y = ConcatFromSequence<axis = 0>(t) }"""


@pytest.mark.parametrize("given", [True, False])
def test_branches_that_return_sequences(given):
    model = parsed(BRANCHES, "float[2, 3] x, bool c", "float[A, B] y")
    wanted = session(model)(x=X, c=np.asarray(given))["y"]
    loaded = jaxdml.onnx.load(model)
    np.testing.assert_array_equal(loaded(X, np.asarray(given))[0], wanted)
    with pytest.raises(NotImplementedError, match="If 't' is 'c', which depends on values"):
        jax.jit(loaded.apply)(loaded.params, X, np.asarray(given))


def test_sequences_that_branches_read():
    body = """<int64 p = {1}> { z = Neg(x) s = SequenceConstruct(x, z)
        y = If(c) <then_branch = a () => (float[2, 3] u) { u = SequenceAt(s, p) },
                   else_branch = b () => (float[2, 3] v) { v = Identity(x) }> }"""
    model = jaxdml.onnx.load(parsed(body, "float[2, 3] x, bool c", "float[2, 3] y"))
    for given, expected in ((True, -X), (False, X)):
        np.testing.assert_array_equal(jax.jit(model.apply)(model.params, X, np.asarray(given))[0], expected)


def test_functions_of_elements():
    body = """{ s = SplitToSequence(x) t, u = SequenceMap(s, s, w)
        <body = b (float[A, B] e, float[A, B] f, float[A, B] g) => (float[A, B] h, float[A, B] k) {
            m = Add(e, f) h = Mul(m, g) k = Neg(e) }>
        y = ConcatFromSequence<axis = 0>(t) z = ConcatFromSequence<axis = 0>(u) }"""
    declared = "float[2, 3] x, float[1, 3] w"
    agrees(body, X, X[:1], declared=declared, outputs="float[A, B] y, float[A, B] z")


def test_elements_of_random_functions_differ():
    body = """{ s = SplitToSequence(x) t = SequenceMap(s)
        <body = b (float[1, 3] e) => (float[1, 3] h) { h = RandomUniformLike(e) }>
        y = ConcatFromSequence<axis = 0>(t) }"""
    model = jaxdml.onnx.load(parsed(body, outputs="float[A, B] y"))
    assert len(set(np.asarray(model(X, key=jax.random.key(0))[0]).ravel().tolist())) == 6


def test_dequantized_elements_are_floats():
    body = """<float q = {0.5}, uint8 o = {3}> { d = DequantizeLinear(x, q, o) s = SequenceConstruct(d, d)
        y = ConcatFromSequence<axis = 0>(s) }"""
    agrees(body, np.uint8([[1, 2, 3], [4, 5, 6]]), declared="uint8[2, 3] x")


# Optionals.


def test_optionals():
    body = """{ o = Optional(x) h = OptionalHasElement(o) e = OptionalGetElement(o) y = Neg(e) }"""
    agrees(body, X, outputs="float[A, B] y, bool h")


def test_an_optional_without_an_element():
    model = parsed("{ o = Optional() y = OptionalHasElement(o) z = Identity(o) }", outputs="bool y, float[2] z")
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    model.graph.node[0].attribute.append(helper.make_attribute("type", kind))
    model.graph.output[1].type.CopyFrom(helper.make_optional_type_proto(kind))
    loaded = jaxdml.onnx.load(model)
    has, nothing = loaded(X)
    assert not has
    assert nothing is None
    model.graph.node[0].attribute[0].ClearField("tp")
    refused(model, "has type TYPE_PROTO, which is not supported, or no value of it")


def test_inputs_that_are_optional():
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2, "B"]))
    model = parsed(
        """{ h = OptionalHasElement(o)
        y = If(h) <then_branch = a () => (float[2, B] u) { u = OptionalGetElement(o) },
                   else_branch = b () => (float[2, B] v) { v = Identity(x) }> }""",
        "float[2, B] x",
        "float[2, B] y",
    )
    model.graph.input.append(onnx.ValueInfoProto(name="o", type=kind))
    loaded = jaxdml.onnx.load(model)
    assert str(loaded.inputs[1]) == "o: optional of float32[2, B]"
    np.testing.assert_array_equal(loaded(X, None)[0], X)
    np.testing.assert_array_equal(loaded(X, -X)[0], -X)
    assert "If" in loaded.report()
    with pytest.raises(TypeError, match="'o' must be float32"):
        loaded(X, X.astype(int))
    with pytest.raises(ValueError, match="has shape"):
        loaded(X, X[:1])
    np.testing.assert_array_equal(backend.prepare(model).run([X, None])[0], X)


# Transformations.


def test_transformations():
    body = "<int64 p = {0}> { s = SplitToSequence(x) a = SequenceAt(s, p) y = Mul(a, a) }"
    model = jaxdml.onnx.load(parsed(body, outputs="float[A, B] y"))
    both = np.stack([X, -X])
    np.testing.assert_array_equal(jax.jit(jax.vmap(lambda x: model.apply(model.params, x)[0]))(both), both[:, :1] ** 2)
    gradient = jax.jit(jax.grad(lambda x: model.apply(model.params, x)[0].sum()))(X)
    np.testing.assert_array_equal(gradient, [2 * X[0], [0, 0, 0]])


# Errors.


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            "<int64 p = {2}> { s = SequenceConstruct(x, x) y = SequenceAt(s, p) }",
            "position 2 is out of range for a seq",
        ),
        ("<int64 p = {-3}> { s = SequenceConstruct(x, x) y = SequenceAt(s, p) }", "position -3 is out of range"),
        (
            "<int64 p = {3}> { s = SequenceConstruct(x, x) t = SequenceInsert(s, x, p) y = SequenceLength(t) }",
            "position 3",
        ),
        ("{ s = SequenceEmpty() t = SequenceErase(s) y = SequenceLength(t) }", "position -1 is out of range"),
        ("{ s = SequenceEmpty() y = ConcatFromSequence<axis = 0>(s) }", "an empty sequence has no dtype"),
        ("{ y = SequenceLength(x) }", r"a sequence is needed, and a tensor of shape \[2, 3\] is given"),
        ("<int64 n = {0}> { s = SplitToSequence(x, n) y = SequenceLength(s) }", "parts of 0 are asked for"),
        ("<int64[2] n = {1, 2}> { s = SplitToSequence(x, n) y = SequenceLength(s) }", "must have 2 together"),
        ("<int64[2] n = {3, -1}> { s = SplitToSequence(x, n) y = SequenceLength(s) }", "must have 2 together"),
        (
            "{ s = SequenceConstruct(x) t = SequenceConstruct(x, x) u = SequenceMap(s, t) "
            "<body = b (float[2, 3] e, float[2, 3] f) => (float[2, 3] h) { h = Add(e, f) }> y = SequenceLength(u) }",
            "different lengths",
        ),
        ("{ o = Optional() y = OptionalGetElement(o) }", "the optional has no element"),
    ],
)
def test_what_is_malformed(body, text):
    model = jaxdml.onnx.load(parsed(body))
    with pytest.raises(ValueError, match=text):
        model(X)
    with pytest.raises(ValueError, match=text):
        model.apply(model.params, X)


def test_parts_of_nothing():
    model = parsed(
        "<int64[n] n> { s = SplitToSequence(x, n) y = SequenceLength(s) }".replace("<int64[n] n>", "<int64[0] n = {}>"),
        "float[0, 3] x",
        "int64 y",
    )
    assert jaxdml.onnx.load(model)(np.zeros([0, 3], np.float32))[0] == 0


def test_positions_must_be_known():
    model = jaxdml.onnx.load(parsed("{ s = SequenceConstruct(x, x) y = SequenceAt(s, p) }", "float[2, 3] x, int64 p"))
    np.testing.assert_array_equal(model(X, np.int64(1))[0], X)
    with pytest.raises(NotImplementedError, match="input 1 of SequenceAt 'y' is 'p'"):
        jax.jit(model.apply)(model.params, X, np.asarray(1))


def test_long_sequences_are_refused():
    rows = sequences.MOST + 1
    for body in (
        "{ s = SplitToSequence(x) y = SequenceLength(s) }",
        f"<int64[{rows}] n = {{{', '.join(['1'] * rows)}}}> {{ s = SplitToSequence(x, n) y = SequenceLength(s) }}",
    ):
        model = jaxdml.onnx.load(parsed(body, "float[N] x", "int64 y"))
        with pytest.raises(NotImplementedError, match=f"a sequence of {rows} tensors"):
            model(np.zeros(rows, np.float32))


def test_what_sequences_may_not_hold():
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    listed = helper.make_sequence_type_proto(tensor)
    mapped = onnx.TypeProto()
    mapped.map_type.key_type = TensorProto.INT64
    mapped.map_type.value_type.CopyFrom(tensor)
    for kind, text in (
        (helper.make_sequence_type_proto(listed), "is a sequence of sequence of tensor"),
        (
            helper.make_sequence_type_proto(helper.make_optional_type_proto(tensor)),
            "is a sequence of optional of tensor",
        ),
        (mapped, "is a map"),
    ):
        model = parsed("{ y = Identity(x) }")
        model.graph.input[0].type.CopyFrom(kind)
        refused(model, text, "'x'", "sequences of them and optionals of both are supported")


def test_results_that_do_not_fit(monkeypatch):
    model = jaxdml.onnx.load(
        parsed("{ s = SequenceConstruct(x, x) y = ConcatFromSequence<axis = 0>(s) }", outputs="float[A, B] y")
    )
    monkeypatch.setattr(_memory, "of_devices", lambda: 24)
    with pytest.raises(ValueError, match="ConcatFromSequence 'y' makes"):
        model(X)

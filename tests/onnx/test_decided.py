"""What decides an If or a Loop: a scalar input is known where tracing shows that it must be, and only there."""

import jax
import numpy as np
import pytest

from jaxdml.onnx import load
from tests.kit import quick
from tests.onnx.floats import by_onnxruntime, close, parsed

pytestmark = quick

X = np.arange(6, dtype=np.float32).reshape(2, 3)
TRUE, FALSE = np.array(True), np.array(False)

TWO_RATES = """g (float[2, N] x, int64 rate{more}) => (y{result})
    <float[3, 2] a = {{1, 2, 3, 4, 5, 6}}, float[2, 2] b = {{1, 2, 3, 4}}> {{
    high = Constant<value_int=16000>()
    c = Equal(rate, high)
    {around}
}}"""
CHOICE = """{} = If(c) <then_branch = t () => (float[2, K] p) {{ p = MatMul({x}, a) }},
                       else_branch = e () => (float[2, L] q) {{ q = MatMul({x}, b) }}>"""

RATES = TWO_RATES.format(more="", result="", around=CHOICE.format("y", x="x"))
NESTED = TWO_RATES.format(
    more=", bool f",
    result="",
    around=f"""y = If(f) <then_branch = t1 () => (o) {{ {CHOICE.format("o", x="x")} }},
                          else_branch = e1 () => (r) {{ r = Neg(x) }}>""",
)
LOOPED = """g (float[2, N] x, int64 at, int64 last) => (y, z) {
    limit = Constant<value_int=100>()
    y, z = Loop(limit, , x) <body = b (int64 i, bool go, float[P, N] s) => (bool on, float[Q, N] r, float[R, N] o) {
        c = Equal(i, at)
        r = If(c) <then_branch = t () => (p) { p = Concat<axis=0>(s, s) }, else_branch = e () => (q) { q = Neg(s) }>
        o = Neg(x)
        on = Less(i, last)
    }>
}"""


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (RATES, [(X, np.int64(16000)), (X[:, :2], np.int64(8000)), (X, np.int64(16000))]),
        (NESTED, [(X, np.int64(16000), TRUE), (X[:, :2], np.int64(8000), TRUE), (X, np.int64(0), FALSE)]),
        (LOOPED, [(X, np.int64(1), np.int64(2)), (X, np.int64(7), np.int64(0))]),
    ],
    ids=["if", "if_in_if", "loop"],
)
def test_a_scalar_input_decides_alone(text, calls):
    proto = parsed(text)
    model = load(proto)
    for given in calls:
        close(model(*given), by_onnxruntime(proto, *given))


def test_calls_alike_are_decided_alike():
    model, arrays = load(parsed(RATES)), (jax.numpy.asarray(X), jax.numpy.int32(16000))
    first, *others = [model(*arrays)[0] for _ in range(3)]
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_one_program_for_each_value_that_decides():
    model = load(parsed(RATES))
    for x, rate in [(X, 16000), (X[:, :2], 8000), (X + 1, 16000), (X[:, :2] + 1, 8000)]:
        model(x, rate)
    assert len(model._calls._later.programs) == 2


def test_one_program_where_both_branches_fit():
    text = RATES.replace("float[2, 2] b = {1, 2, 3, 4}", "float[3, 2] b = {1, 2, 3, 4, 5, 6}")
    proto = parsed(text)
    model = load(proto)
    assert not model.static_inputs  # Though the branches give the dimension other names.
    for rate in (16000, 8000, 1):
        close(model(X, rate), by_onnxruntime(proto, X, rate))
    assert len(model._calls.programs) == 1
    assert model._calls._later is None


def test_a_flag_decides_in_every_call():
    proto = parsed("""g (float[N] x, bool c) => (y) {
        y = If(c) <then_branch = t () => (p) { p = Neg(x) }, else_branch = e () => (q) { q = ReduceSum<keepdims=0>(x) }>
    }""")
    model = load(proto)
    for value in (TRUE, FALSE, TRUE, FALSE):
        close(model(X[0], value), by_onnxruntime(proto, X[0], value))


def test_what_decides_is_known_when_it_is_passed_so():
    model = load(parsed(RATES))
    for rate in (16000, np.int64(16000), np.array(16000)):
        at_16k = jax.jit(lambda x, rate=rate: model.apply(model.params, x, rate))
        close(at_16k(X), by_onnxruntime(parsed(RATES), X, 16000))
    with pytest.raises(NotImplementedError) as caught:
        jax.jit(model.apply)(model.params, X, 16000)
    first, second, third = str(caught.value).splitlines()
    rule = "If 'y': only one of its branches fits what is given; the other: MatMul 'q' cannot be computed: dot_general"
    assert rule in first
    assert second == "  Which branch is taken must then be known while tracing."
    assert third.endswith("jax.jit(model.apply), or pass 'rate' untraced, as a number or a NumPy array.")


def test_branches_that_both_fail_say_why():
    with pytest.raises(TypeError, match="contracting dimensions"):
        load(parsed(RATES))(X[:, :1], 16000)


@pytest.mark.parametrize(
    "condition",
    ["s = ReduceSum<keepdims=0>(x) z = Constant<value_float=0.0>() c = Greater(s, z)", "c = Greater(w, w)"],
    ids=["data", "weight"],
)
def test_data_and_weights_decide_on_the_host(condition):
    text = f"""g (float[2, N] x) => (y) <float[1] w = {{2}}> {{
        {condition}
        y = If(c) <then_branch = t () => (p) {{ p = Neg(x) }},
                   else_branch = e () => (q) {{ q = ReduceSum<keepdims=0>(x) }}>
    }}"""
    proto = parsed(text)
    model = load(proto)
    for x in (X, -X):
        close(model(x), by_onnxruntime(proto, x))
    with pytest.raises(NotImplementedError, match=r"branches return .*\n.*\n  Call the model itself .*apply\)\.\n"):
        jax.jit(model.apply)(model.params, X)


def test_a_loop_on_the_host_may_run_often():
    text = """g (float x) => (y, z) {
        limit = Constant<value_float=1100.0>()
        y, z = Loop(, , x) <body = b (int64 i, bool go, float s) => (bool on, float r, float o) {
            one = Constant<value_float=1.0>()
            r = Add(s, one)
            o = Identity(s)
            on = Less(r, limit)
        }>
    }"""
    last, each = load(parsed(text))(np.float32(0))
    assert last == 1100
    np.testing.assert_array_equal(each, np.arange(1100))


def test_a_bounded_if_knows_what_decides_it():
    text = RATES.replace("{around}", "").replace("=> (y)", "=> (y, n)").replace("c = Equal", "n = NonZero(x) c = Equal")
    proto = parsed(text)
    model = load(proto)
    for given in ((X, 16000), (X[:, :2], 8000)):
        close(model(*given, bounds={"n": 6}), by_onnxruntime(proto, *given))

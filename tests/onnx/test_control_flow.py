"""If, Loop and Scan: what onnx's node tests leave out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdml.onnx import UnsupportedModelError, load
from jaxdml.onnx._graph import Graph, Node, TensorType
from jaxdml.onnx.nodes.control_flow import ENDLESS, FEW, LARGE, MANY
from jaxdml.onnx.running import interpreter
from jaxdml.onnx.running.interpreter import Report, run
from jaxdml.onnx.running.randomness import randomness
from jaxdml.onnx.values.kinds import Dequantized, Quantization
from tests.kit import quick
from tests.onnx.floats import as_onnxruntime, by_onnxruntime, close, parsed

pytestmark = quick

X = np.float32([1, -2, 0.5])

IF = """g ({inputs} float[3] x) => (y) {{
    {before}
    y = If(c) <
        then_branch = t () => (float[3] p) {{ p = Add(x, x) }},
        else_branch = e () => ({kind} q) {{ {other} }}
    >
}}"""

LOOP = """g ({inputs} float[3] x) => (y {scan}) {{
    half = Constant<value_float=0.5>()
    {before}
    y {scan} = Loop({m}, {c}, x) <body = b (int64 i, bool go, float[3] a) => (bool on, float[3] new {sum}) {{
        small = Mul(a, half)
        new = Add(small, x)
        s = ReduceSum<keepdims=0>(new)
        {inside}
    }}>
}}"""
STACKED = {"scan": ", z", "sum": ", float s", "inside": "on = Identity(go)"}
WHILE = {"scan": "", "sum": "", "inside": "most = Constant<value_float=-0.99>() on = Greater(s, most)"}


def text(template, **parts):
    names = ("inputs", "before", "scan", "m", "c", "sum", "inside", "kind", "other")
    return template.format(**(dict.fromkeys(names, "") | {"kind": "float[3]", "other": "q = Neg(x)"} | parts))


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize(
    "parts",
    [
        {"inputs": "bool c,"},
        {"inputs": "bool[1] c,"},
        {"inputs": "bool c,", "kind": "float[1]", "other": "k = Constant<value_ints=[1]>() q = ReduceSum(x, k)"},
    ],
    ids=["scalar", "of_one_element", "other_shapes"],
)
def test_if_runs_one_branch(parts, value):
    parts = parts | {"other": "k = Constant<value_ints=[0]>() q = ReduceSum(x, k)"} if "other" in parts else parts
    given = np.full((1,) if "bool[1]" in parts["inputs"] else (), value)
    as_onnxruntime(parsed(text(IF, **parts)), given, X)


def test_a_condition_that_is_known_leaves_one_branch():
    model = load(parsed(text(IF, before="n = Size(x) k = Constant<value_int=3>() c = Equal(n, k)")))
    assert "cond" not in str(jax.make_jaxpr(model.apply)(model.params, X))
    np.testing.assert_array_equal(model(X)[0], 2 * X)


def test_an_if_maps_over_a_batch_and_has_derivatives():
    model = load(parsed(text(IF, inputs="bool c,")))
    batch = jax.vmap(lambda c, x: jax.grad(lambda x: model.apply({}, c, x)[0].sum())(x))
    found = batch(np.array([True, False]), np.stack([X, X]))
    np.testing.assert_array_equal(found, [[2, 2, 2], [-1, -1, -1]])


def test_branches_that_differ_are_refused_where_the_condition_is_traced():
    parts = {"inputs": "bool c,", "kind": "float", "other": "q = ReduceSum<keepdims=0>(x)"}
    declared = load(parsed(text(IF, **parts)))
    assert declared.static_inputs == {"c"}
    undeclared = parsed(text(IF, **parts))
    undeclared.graph.node[0].attribute[1].g.output[0].type.tensor_type.ClearField("shape")
    model = load(undeclared)
    assert not model.static_inputs
    with pytest.raises(NotImplementedError, match=r"If 'y': its branches return float32\[3\] and float32\[\]\.\n"):
        jax.jit(model.apply)({}, np.array(True), X)
    for value in (True, False):
        close(model(np.array(value), X), by_onnxruntime(undeclared, np.array(value), X))


@pytest.mark.parametrize("count", [0, 3, FEW + 1])
def test_a_loop_of_a_known_number_stacks_what_it_returns(count):
    parts = {"before": f"m = Constant<value_int={count}>()", "m": "m"}
    as_onnxruntime(parsed(text(LOOP, **parts, **STACKED)), X)


def test_a_loop_gets_its_number_and_condition_by_the_caller():
    proto = parsed(text(LOOP, inputs="int64[1] m, bool c,", m="m", c="c", **STACKED))
    model = load(proto)
    assert model.static_inputs == {"m", "c"}
    for count, condition in ((2, True), (2, False), (-1, True)):
        inputs = np.array([count]), np.array(condition), X
        as_onnxruntime(proto, *inputs)
    with pytest.raises(NotImplementedError, match="must be known while tracing"):
        jax.jit(model.apply)({}, *inputs)


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"before": "m = Constant<value_int=2>()", "m": "m"},
        {"before": "m = Constant<value_int=40>() c = Constant<value_int=1>() d = Cast<to=9>(c)", "m": "m", "c": "d"},
        {"before": f"m = Constant<value_int={2**63 - 1}>()", "m": "m"},
        {"inputs": "int64 m, bool c,", "m": "m", "c": "c"},
    ],
    ids=["until", "at_most_2", "at_most_40", "at_most_what_int64_holds", "given"],
)
def test_a_loop_may_end_by_what_it_computes(parts):
    proto = parsed(text(LOOP, **parts, **WHILE))
    inputs = (np.int64(30), np.array(True), X) if "inputs" in parts else (X,)
    as_onnxruntime(proto, *inputs)


def test_what_a_loop_carries_may_grow_and_its_number_may_be_read():
    as_onnxruntime(
        parsed(f"""g (float[3] x) => (y, z) {{
        m = Constant<value_int={FEW + 2}>()
        go = Constant<value_int=1>()
        c = Cast<to=9>(go)
        y = Loop(m, c, x) <body = b (int64 i, bool c, float[n] a) => (bool on, float[k] new) {{
            new = Concat<axis=0>(a, x)
            on = Identity(c)
        }}>
        one = Constant<value_ints=[1]>()
        zero = Constant<value_ints=[0]>()
        z = Loop(m, c) <body = d (int64 i, bool c) => (bool on, float[1] s) {{
            from = Unsqueeze(i, zero)
            to = Add(from, one)
            s = Slice(y, from, to)
            on = Identity(c)
        }}>
    }}"""),
        X,
    )


def test_a_loop_on_known_values_is_computed_while_tracing():
    model = load(
        parsed(
            """g (float[3] x) => (y) {
        m = Constant<value_int=4>()
        one = Constant<value_ints=[1]>()
        n, all = Loop(m, , one) <body = b (int64 i, bool go, int64[1] a) => (bool on, int64[1] new, int64[1] s) {
            new = Add(a, a)
            s = Identity(new)
            five = Constant<value_ints=[5]>()
            on = Less(new, five)
        }>
        y = Expand(x, shape)
        shape = Concat<axis=0>(n, all_of_them)
    }""".replace(
                "y = Expand(x, shape)\n        shape = Concat<axis=0>(n, all_of_them)",
                """flat = Squeeze(all)
        shape = Concat<axis=0>(flat, three)
        y = Expand(x, shape)""",
            ).replace("one = ", "three = Constant<value_ints=[3]>() one = ")
        )
    )
    assert model(X)[0].shape == (2, 4, 8, 3)


UNTIL = """g (float[3] x) => (float[3] last, float[n, 3] all) {
    zero = Constant<value_int = 0>() one = Constant<value_int = 1>() end = Constant<value_int = END>() END_AT
    t = Constant<value_int = 1>() yes = Cast<to = 9>(t) factor = Constant<value_floats = [0.5]>()
    k, last, all = Loop(MOST, yes, zero, x) <body = b (int64 i, bool go, int64 j, float[3] a) =>
        (bool on, int64 next, float[3] new, float[3] s) {
            next = Add(j, one)
            half = Mul(a, factor)
            new = Add(half, x)
            s = Neg(new)
            on = Less(next, end)
        }>
}"""


@pytest.mark.parametrize("most", [None, 7, 30, 3000])
@pytest.mark.parametrize("end", [3, 20, 2000])
def test_a_loop_whose_end_follows_from_what_is_known_is_one_body(most, end):
    """As recurrent networks that are written as loops: written out they compile for each turn."""
    limit = "" if most is None else f"m = Constant<value_int = {most}>()"
    proto = parsed(UNTIL.replace("END_AT", limit).replace("END", str(end)).replace("MOST", "m" if most else ""))
    turns = min(end, most or end)
    model = load(proto)
    text = str(jax.make_jaxpr(model.apply)(model.params, X))
    assert ("scan" in text) == (turns > FEW)
    assert text.count("neg") == (1 if turns > FEW else turns)
    as_onnxruntime(proto, X)


def test_a_loop_whose_end_follows_from_values_runs_on_the_host():
    end = "top = ReduceMax<keepdims = 0>(x) end = Cast<to = 7>(top)"
    proto = parsed(UNTIL.replace("end = Constant<value_int = END>() END_AT", end).replace("MOST", ""))
    for most in (3, 20):
        as_onnxruntime(proto, np.float32([1, most, 2]))


def test_a_loop_whose_result_must_be_known_is_written_out():
    counted = """g (float[3] x) => (float[a, 3] y) {
        zero = Constant<value_int = 0>() one = Constant<value_int = 1>() end = Constant<value_int = 20>()
        t = Constant<value_int = 1>() yes = Cast<to = 9>(t) three = Constant<value_ints = [3]>()
        k, all = Loop(, yes, zero) <body = b (int64 i, bool go, int64 j) => (bool on, int64 next, int64 s) {
            next = Add(j, one)
            s = Identity(next)
            on = Less(next, end)
        }>
        n = ReduceMax<keepdims = 1>(all)
        shape = Concat<axis = 0>(n, three)
        y = Expand(x, shape)
    }"""
    as_onnxruntime(parsed(counted), X)
    assert load(parsed(counted))._calls.parts is None


def test_loops_that_cannot_be_traced_say_why():
    endless = load(parsed(text(LOOP, **STACKED | {"scan": "", "sum": ""})))
    with pytest.raises(NotImplementedError, match=f"Loop 'y' has to be written out.*more than {MANY} times"):
        endless(X)
    scans = {"scan": ", z", "sum": ", float s"}
    for parts in ({}, {"before": "m = Constant<value_int=9>()", "m": "m"}):
        ending = load(parsed(text(LOOP, **parts, **WHILE | scans)))
        with pytest.raises(NotImplementedError, match="Loop 'y': how often it runs depends on traced values"):
            jax.jit(ending.apply)({}, X)
    assert ENDLESS > MANY > FEW


def test_loops_that_cannot_be_traced_run_on_the_host():
    scans = {"scan": ", z", "sum": ", float s"}
    as_onnxruntime(parsed(text(LOOP, **WHILE | scans)), X)
    growing = text(LOOP, **WHILE, inputs="bool c,", c="c").replace(
        "new = Add(small, x)", "new = Concat<axis=0>(small, x)"
    )
    growing = growing.replace("float[3] a", "float[n] a").replace("float[3] new", "float[k] new")
    numbered = (
        text(LOOP, **WHILE, inputs="bool c,", c="c")
        .replace(
            "new = Add(small, x)",
            "k = Constant<value_ints=[1]>() j = Reshape(i, k) l = Add(j, k) r = Expand(one, l)"
            " t = ReduceSum(r) new = Sub(small, t)",
        )
        .replace("half =", "one = Constant<value_floats=[1.0]>() half =")
    )
    for proto in map(parsed, (growing, numbered)):
        as_onnxruntime(proto, np.array(True), X)
    with pytest.raises(NotImplementedError, match="input 1 of Expand 'r' is 'l', which depends on"):
        jax.jit(load(parsed(numbered)).apply)({}, np.array(True), X)


def test_a_scan_goes_along_any_axis_in_either_direction():
    as_onnxruntime(
        parsed("""g (float[2] h, float[2,4] x, float[4,2] w) => (y, z, v) {
        y, z, v = Scan(h, x, w) <
            num_scan_inputs = 2, scan_input_axes = [-1, 0], scan_input_directions = [1, 0],
            scan_output_axes = [-1, 0], scan_output_directions = [1, 0],
            body = b (float[2] a, float[2] p, float[2] q) => (float[2] new, float[2] s, float[2] t) {
                r = Mul(a, p)
                new = Add(r, q)
                s = Identity(new)
                t = Neg(q)
            }
        >
    }"""),
        np.ones(2, np.float32),
        np.arange(8, dtype=np.float32).reshape(2, 4),
        np.arange(8, dtype=np.float32).reshape(4, 2),
    )


def test_what_is_dequantized_outside_a_body_is_valid_after_it():
    wanted, shape = TensorType("y", np.dtype(np.float32), (3,)), (3,)
    body = Graph((), (TensorType("p", None, shape),), {}, (Node("Neg", "", 17, "p", ("x",), ("p",)),))
    twice = Graph((), (TensorType("q", None, shape),), {}, (Node("Add", "", 17, "q", ("x", "x"), ("q",)),))
    choice = Node("If", "", 17, "r", ("c",), ("r",), {"then_branch": body, "else_branch": twice})
    graph = Graph((), (wanted,), {}, (choice, Node("Add", "", 17, "y", ("r", "x"), ("y",))))

    @jax.jit
    def compute(c, integers):
        values = Dequantized(integers, Quantization(np.float32(0.5), None), jnp.float32)
        return run(graph, {"c": c, "x": values}, exact=True, report=Report(), random=randomness(graph, None))

    for condition, factor in ((True, 0), (False, 3)):
        close(compute(condition, np.int8([2, 4, -6])), [np.float32([1, 2, -3]) * factor])


def test_what_onnx_defines_by_other_operators_is_expanded_within_bodies():
    proto = parsed("""g (bool c, float[2,3] x, int64[2] t) => (y) {
        y = If(c) <
            then_branch = a () => (float p) { e = Exp(x) p = SoftmaxCrossEntropyLoss(e, t) },
            else_branch = b () => (float q) <float[1] k = {0.5}> { f = Mul(x, k) q = NegativeLogLikelihoodLoss(f, t) }
        >
    }""")
    for condition in (True, False):
        as_onnxruntime(proto, np.array(condition), np.stack([X, -X]), np.array([1, 2]))


def test_what_cannot_be_expanded_is_refused():
    proto = parsed("""g (bool c, float[2,3] x, int64[2] t) => (y) {
        y = If(c) <
            then_branch = a () => (float p) { e = Exp(x) p = SoftmaxCrossEntropyLoss(e, t) },
            else_branch = b () => (int64[2] q) { e = Neg(t) q = Identity(e) }
        >
    }""")
    with pytest.raises(UnsupportedModelError, match="onnx cannot expand SoftmaxCrossEntropyLoss"):
        load(proto)


def nested(depth, inner, outer):
    """Return a model: ``inner``, within ``outer`` again and again; both read ``a`` and make ``r``."""
    node = inner
    for _ in range(depth):
        node = outer.replace("INNER", node)
    return parsed(
        f"""g (float[3] x, int64 m, bool c) => (r) {{
            least = Constant<value_float=-3.0>()
            go = Constant<value_int=1>()
            yes = Cast<to=9>(go)
            many = Constant<value_int={FEW + 1}>()
            three = Constant<value_int=3>()
            a = Identity(x)
            {node}
        }}"""
    )


BODY = "<body = b (int64 i, bool g, float[3] a) => (bool on, float[3] r) { INNER "
NESTS = {
    "given": f"r = Loop(m, yes, a) {BODY} on = Identity(g) }}>",
    "scanned": f"r = Loop(many, yes, a) {BODY} on = Identity(g) }}>",
    "few": f"r = Loop(three, yes, a) {BODY} on = Identity(g) }}>",
    "until": f"r = Loop(, yes, a) {BODY} s = ReduceSum<keepdims=0>(r) on = Greater(s, least) }}>",
    "branches": "r = If(c) <then_branch = t () => (float[3] r) { INNER }, "
    "else_branch = e () => (float[3] r) { r = Neg(a) }>",
    "scans": "r, w = Scan<num_scan_inputs = 1, "
    "body = b (float[3] a, float u) => (float[3] r, float v) { INNER v = Neg(u) }>(a, a)",
}


@pytest.mark.parametrize("kind", NESTS)
def test_graphs_within_graphs_are_traced_a_number_of_times_that_grows_with_their_depth(kind, monkeypatch):
    computed = []
    once = interpreter._compute
    monkeypatch.setattr(interpreter, "_compute", lambda *operands: computed.append(0) or once(*operands))
    counts = []
    for depth in (2, 4, 8):
        model = load(nested(depth, "r = Add(a, x)", NESTS[kind]))
        computed.clear()
        jax.make_jaxpr(lambda *inputs: model.apply(model.params, *inputs))(X, np.int64(2), np.array(True))  # noqa: B023
        counts.append(len(computed))
    assert counts[2] - counts[1] == 2 * (counts[1] - counts[0])


@pytest.mark.parametrize("kind", ["given", "few", "until", "branches"])
@pytest.mark.parametrize("condition", [True, False])
def test_graphs_within_graphs_compute_what_onnxruntime_does(kind, condition):
    as_onnxruntime(nested(3, "r = Add(a, x)", NESTS[kind]), X, np.int64(2), np.array(condition))


def test_a_loop_of_few_turns_is_written_out_only_if_it_is_small():
    for adds, large in ((10, False), (LARGE // 16, True)):
        lines = " ".join(f"s{n} = Add(s{n - 1}, x)" for n in range(1, adds))
        inside = f"s0 = Neg(a) {lines} r = Neg(s{adds - 1}) on = Identity(g)"
        proto = nested(0, f"n = Constant<value_int=16>() r = Loop(n, yes, a) {BODY.replace('INNER', inside)} }}>", "")
        model = load(proto)
        program = jax.make_jaxpr(model.apply)(model.params, X, np.int64(2), np.array(True))
        assert ("scan" in str(program)) == large
        as_onnxruntime(proto, X, np.int64(2), np.array(True))


@pytest.mark.parametrize(
    ("size", "inside"),
    [
        ("k", "on = Identity(g) t = Add(s, s) r = Concat<axis = 0>(t, x)"),
        ("3", "on = Less(i, one) r = Add(s, x)"),
        (
            "3",
            "on = Identity(g) n = Add(i, ones) k = Expand(column, n) t = ReduceMax<keepdims = 0>(k) r = Add(s, t)",
        ),
    ],
    ids=["it_grows", "its_end_is_known", "its_number_must_be_known"],
)
def test_a_loop_of_few_turns_with_a_loop_in_it_is_written_out_if(size, inside):
    within = """s = Loop(three, yes, a) <body = d (int64 j, bool h, float[l] b) => (bool o, float[l] q) {
        q = Neg(b)
        o = Identity(h)
    }>"""
    loop = f"""one = Constant<value_int = 1>()
        ones = Constant<value_ints = [1]>()
        column = Unsqueeze(x, ones)
        r = Loop(three, yes, a) <body = b (int64 i, bool g, float[{size}] a) => (bool on, float[{size}] r) {{
            {within}
            {inside}
        }}>"""
    as_onnxruntime(nested(0, loop, ""), X, np.int64(2), np.array(True))


def test_loops_within_loops_are_written_out_where_their_result_must_be_known():
    as_onnxruntime(
        parsed("""g (float[3] x) => (y) {
            three = Constant<value_int=3>()
            one = Constant<value_int=1>()
            yes = Cast<to=9>(one)
            n = Loop(three, yes, one) <body = b (int64 i, bool g, int64 p) => (bool on, int64 q) {
                on = Identity(g)
                q = Loop(three, yes, p) <body = d (int64 j, bool h, int64 r) => (bool o, int64 s) {
                    s = Add(r, r)
                    o = Identity(h)
                }>
            }>
            ones = Constant<value_ints=[1]>()
            size = Reshape(n, ones)
            column = Unsqueeze(x, ones)
            y = Expand(column, size)
        }"""),
        X,
    )


PLUS = "{ k = Identity(g) t = Add(s, s) }"
STATE = "(int64 i, bool g, float[2] s) => (bool k, float[2] t)"
BAD_BODIES = {
    "a state too many": (
        f"g (float[2] x, int64 m, bool c) => (y) {{ y, z = Loop<body = b {STATE} {PLUS}>(m, c, x, x) }}",
        "Loop 'y'.*body takes 3 inputs that are no initializers; the node gives it 4",
    ),
    "a state too few": (
        f"g (float[2] x, int64 m, bool c) => (y) {{ y = Loop<body = b {STATE} {PLUS}>(m, c) }}",
        "Loop 'y'.*body takes 3 inputs that are no initializers; the node gives it 2",
    ),
    "a state that is an initializer": (
        "g (float[2] x, int64 m, bool c) => (y)"
        f" {{ y = Loop<body = b {STATE} <float[2] s = {{1, 2}}> {PLUS}>(m, c, x) }}",
        "Loop 'y'.*body takes 2 inputs that are no initializers; the node gives it 3",
    ),
    "an output too few": (
        "g (float[2] x, int64 m, bool c) => (y) { y = Loop<body = b (int64 i, bool g, float[2] s) => (bool k) "
        f"{PLUS}>(m, c, x) }}",
        "Loop 'y'.*body returns 1 values; by the node's outputs it must be 2",
    ),
    "fewer outputs than states": (
        "g (float[2] x, int64 m, bool c) => (y) { y = Loop<body = b (int64 i, bool g, float[2] s, float[2] u) => "
        f"(bool k, float[2] t) {PLUS}>(m, c, x, x) }}",
        "Loop 'y'.*it has 2 states and 1 outputs",
    ),
    "a state left out": (
        f'g (float[2] x, int64 m, bool c) => (y) {{ y = Loop<body = b {STATE} {PLUS}>(m, c, "") }}',
        "Loop 'y'.*a state is left out",
    ),
    "branches that differ": (
        "g (float[2] x, bool c) => (y) { y = If(c) <then_branch = t () => (float[2] a) { a = Neg(x) }, "
        "else_branch = e () => (float[2] b, float[2] d) { b = Neg(x) d = Abs(x) }> }",
        "If 'y'.*else_branch returns 2 values; by the node's outputs it must be 1",
    ),
    "a branch with an input": (
        "g (float[2] x, bool c) => (y) { y = If(c) <then_branch = t (float[2] q) => (float[2] a) { a = Neg(q) }, "
        "else_branch = e () => (float[2] b) { b = Neg(x) }> }",
        "If 'y'.*then_branch takes 1 inputs that are no initializers; the node gives it 0",
    ),
    "a sequence too many": (
        "g (float[2] x) => (y) { q = SequenceConstruct(x, x) y = SequenceMap<body = b (float[2] e) => (float[2] f) "
        "{ f = Neg(e) }>(q, x) }",
        "SequenceMap 'y'.*body takes 1 inputs that are no initializers; the node gives it 2",
    ),
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_bodies_with_other_numbers_of_values_are_refused_at_load(name):
    text, rule = BAD_BODIES[name]
    with pytest.raises(UnsupportedModelError, match=f"(?s){rule}"):
        load(parsed(text))


def test_a_branch_too_many_is_refused_at_load():
    branch = "{} = {} () => (float[2] {}) {{ {} = Neg(x) }}"
    each = ", ".join(branch.format(name, *"abc"[i] * 3) for i, name in enumerate(("then_branch", "else_branch", "or")))
    with pytest.raises(UnsupportedModelError, match="attribute or is not supported"):
        load(parsed(f"g (float[2] x, bool c) => (y) {{ y = If(c) <{each}> }}"))


SCANNED = "body = b (float[2] s, float[2] e) => (float[2] t, float[2] u) { t = Add(s, e) u = Neg(e) }"
BAD_SCANS = {
    "num_scan_inputs = 0": "num_scan_inputs is 0, and must be between 1 and 2",
    "num_scan_inputs = 3": "num_scan_inputs is 3, and must be between 1 and 2",
    "num_scan_inputs = 1, scan_input_axes = [0, 0]": "scan_input_axes has 2 numbers for 1 inputs",
    "num_scan_inputs = 1, scan_input_directions = [2]": "scan_input_directions is .2.; 0 is forward",
    "num_scan_inputs = 1, scan_output_axes = [0, 0]": "scan_output_axes has 2 numbers for 1 outputs",
}


@pytest.mark.parametrize("attributes", BAD_SCANS)
def test_scans_that_read_or_write_otherwise_are_refused_at_load(attributes):
    text = f"g (float[2] x, float[3, 2] r) => (y, z) {{ y, z = Scan<{attributes}, {SCANNED}>(x, r) }}"
    with pytest.raises(UnsupportedModelError, match=f"(?s)Scan 'y'.*{BAD_SCANS[attributes]}"):
        load(parsed(text))


def test_an_initializer_of_a_body_may_be_listed_as_an_input():
    text = """g (float[2] x, int64 m, bool c) => (y) { y = Loop<
        body = b (int64 i, bool g, float[2] s, float[2] w) => (bool k, float[2] t) <float[2] w = {9, 9}>
        { k = Identity(g) t = Add(s, w) }>(m, c, x) }"""
    model = load(parsed(text))
    np.testing.assert_array_equal(model(np.float32([1, 2]), np.int64(3), np.array(True))[0], [28, 29])

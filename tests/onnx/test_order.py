"""Nodes in any order, as some tools write them."""

import itertools

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

import jaxdml.onnx
from jaxdml.onnx import nodes
from tests.kit import quick
from tests.onnx.broken import parsed, refused
from tests.onnx.sessions import session

pytestmark = quick

X = np.float32([-1, 3])


def order_of(model):
    return [node.outputs[0] for node in jaxdml.onnx.load(model).graph.nodes]


def test_every_order_of_a_graph_is_run():
    model = parsed("{ a = Add(x, x) b = Mul(a, x) c = Sub(b, a) y = Add(c, b) }")
    nodes_of = list(model.graph.node)
    for chosen in itertools.permutations(nodes_of):
        other = onnx.ModelProto()
        other.CopyFrom(model)
        del other.graph.node[:]
        other.graph.node.extend(chosen)
        np.testing.assert_array_equal(jaxdml.onnx.load(other)(X)[0], session(other)(x=X)["y"])


def test_what_is_in_order_stays_and_the_rest_follows_the_file():
    assert order_of(parsed("{ d = Add(x, x) b = Add(x, x) a = Add(d, x) y = Add(a, b) }")) == ["d", "b", "a", "y"]
    assert order_of(parsed("{ y = Add(a, b) c = Relu(x) b = Relu(x) a = Relu(b) }")) == ["c", "b", "a", "y"]


BODIES = """{
    y = If(c) <then_branch = t () => (float[2] k) { k = Add(l, z) l = Relu(z) },
               else_branch = e () => (float[2] m) { m = Sub(x, z) }>
    z = Mul(x, x)
    c = Not(n)
}"""


@pytest.mark.parametrize("given", [True, False])
def test_bodies_and_what_they_capture(given):
    model = parsed(BODIES)
    model.graph.input.append(helper.make_tensor_value_info("n", TensorProto.BOOL, []))
    found = jaxdml.onnx.load(model)(X, np.bool_(given))[0]
    np.testing.assert_array_equal(found, X - X * X if given else X * X + np.maximum(X * X, 0))


def test_a_body_may_return_what_a_later_node_of_the_graph_around_it_makes():
    model = parsed(
        "{ y = If(c) <then_branch = t () => (float[2] z) { }, else_branch = e () => (float[2] x) { }> z = Add(x, x) }"
    )
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    np.testing.assert_array_equal(jaxdml.onnx.load(model)(X, np.bool_(True))[0], X + X)


LOOP = """{
    y = Loop(n, t, x) <body = b (int64 i, bool g, float[2] v) => (bool h, float[2] w) {
        w = Add(u, x) h = Identity(g) u = Add(v, v) }>
    n = Constant<value = int64 {3}>()
    t = Constant<value = bool {1}>()
}"""


def test_loops():
    model = parsed(LOOP)
    expected = X
    for _ in range(3):
        expected = 2 * expected + X
    np.testing.assert_array_equal(jaxdml.onnx.load(model)(X)[0], expected)


def test_functions():
    head = '<ir_version: 10, opset_import: ["": 17, "own": 1]> g (float[2] x) => (float[2] y) { y = own.a(x) }'
    body = ' <domain: "own", opset_import: ["": 17]> a (p) => (r) { r = Add(k, p) k = Mul(p, p) }'
    model = onnx.parser.parse_model(head + body)
    np.testing.assert_array_equal(jaxdml.onnx.load(model)(X)[0], X * X + X)


def test_operators_that_are_expanded(monkeypatch):
    kind = ("", "MeanVarianceNormalization")
    monkeypatch.setattr(nodes, "OPERATORS", {key: found for key, found in nodes.OPERATORS.items() if key != kind})
    alone = parsed("{ y = MeanVarianceNormalization<axes = [0]>(z) z = Add(x, x) }")
    head = '<ir_version: 10, opset_import: ["": 17, "own": 1]> g (float[2] x) => (float[2] y) '
    called = parsed("{ y = own.a(z) z = Add(x, x) }", head)
    body = "a (p) => (r) { r = Relu(k) k = MeanVarianceNormalization<axes = [0]>(p) }"
    called.functions.append(onnx.parser.parse_function(f'<domain: "own", opset_import: ["": 17]> {body}'))
    body = "n = MeanVarianceNormalization<axes = [0]>(m) m = Add(x, x)"
    branch = f"then_branch = t () => (float[2] n) {{ {body} }}, else_branch = e () => (float[2] x) {{ }}"
    within = parsed(f"{{ y = If(c) <{branch}> c = Constant<value = bool {{1}}>() }}")
    for model, expected in ((alone, [-1, 1]), (called, [0, 1]), (within, [-1, 1])):
        np.testing.assert_allclose(jaxdml.onnx.load(model)(X)[0], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("body", "cycle"),
    [
        ("{ y = Add(x, y) }", "Add 'y'"),
        ("{ y = Add(x, z) z = Mul(y, x) }", "Add 'y', Mul 'z'"),
        ("{ y = Add(x, a) a = Mul(b, x) b = Sub(x, a) c = Relu(y) }", "Mul 'a', Sub 'b'"),
        (
            "{ y = If(c) <then_branch = t () => (float[2] k) { k = Relu(y) }, else_branch = e () => (float[2] x) { }> "
            "c = Constant<value = bool {1}>() }",
            "If 'y'",
        ),
    ],
)
def test_cycles_are_named(body, cycle):
    refused(parsed(body), f"nodes of a graph form a cycle: {cycle}.\n", "No order is legal.")


def test_long_cycles_are_named_in_part():
    chain = " ".join(f"a{i} = Relu(a{i + 1})" for i in range(30))
    refused(parsed(f"{{ y = Relu(a0) {chain} a30 = Relu(a0) }}"), "Relu 'a19' and 11 more.\n")


def test_cycles_of_functions_are_named():
    head = '<ir_version: 10, opset_import: ["": 17, "own": 1]> g (float[2] x) => (float[2] y) { y = own.a(x) }'
    body = ' <domain: "own", opset_import: ["": 17]> a (p) => (r) { r = Add(k, p) k = Mul(p, r) }'
    refused(onnx.parser.parse_model(head + body), "nodes of the model's function 'a' of domain 'own' form a cycle")

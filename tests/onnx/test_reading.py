"""Names, nodes, versions and functions of broken models: one error that names the place."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import jaxdml.onnx
from jaxdml.onnx import nodes
from jaxdml.onnx.nodes._handler import Handler
from jaxdml.onnx.reading import reader
from tests.kit import quick
from tests.onnx import mutations
from tests.onnx.broken import HEAD, W, parsed, refused, with_tensor

pytestmark = quick


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        ("{ y = Add(x, w) }", ["node Add 'y' reads 'w', which nothing makes", "missing"]),
        ("{ z = Add(x, x) z = Add(z, x) y = Add(z, x) }", ["'z', which exists already"]),
        ("{ x = Add(x, x) y = Add(x, x) }", ["'x', which exists already"]),
        ("{ z = Add(x, x) }", ["output 'y' of a graph is made by no node"]),
        ("{ y = Nope(x) }", ["Nope 'y', domain 'ai.onnx', opset 17: there is no such operator"]),
        ("{ y = other.Nope(x) }", ["domain 'other', of which no version is imported", "'ai.onnx'"]),
        ("{ y = Add(x) }", ["it has 1 inputs; 2 to 2 are expected"]),
        ("{ y, z = Add(x, x) }", ["it has 2 outputs; 1 to 1 are expected"]),
        ("{ y = Concat<axis = 1.5>(x, x) }", ["'axis' is FLOAT instead of INT"]),
        ("{ y = Concat(x, x) }", ["attribute 'axis' is missing"]),
        ('{ y = Concat<axis = "a">(x, x) }', ["'axis' is STRING instead of INT"]),
        (
            "{ y = Constant<value_ints: ints = @axis>() }",
            ["refers to attribute 'axis' of a function, and stands in none"],
        ),
        ('{ y = Constant<value_string = "a">() }', ["node Constant 'y' holds value_string"]),
        ("{ y = Constant() }", ["node Constant 'y' holds nothing"]),
        ("{ y = Constant<value_int = 1, value_float = 1.0>() }", ["holds value_int, value_float"]),
    ],
)
def test_names_and_nodes(body, texts):
    refused(parsed(body), *texts)


def test_nodes_that_are_not_supported_are_told_once_for_each_kind():
    head = HEAD.replace('"": 17', '"": 9, "ai.onnx.ml": 3, "com.microsoft.nchwc": 1')
    scaled = " ".join(f"s{i} = Affine<alpha = 2.0>(x)" for i in range(30))
    text = (
        scaled
        + " t = ai.onnx.ml.CastMap(x) a = Nope(x) b = com.microsoft.nchwc.Conv(x) y = com.microsoft.nchwc.Conv(b)"
    )
    refused(
        parsed(f"{{ {text} }}", head),
        "34 nodes are not supported: Affine (30), ai.onnx.ml.CastMap (1), Nope (1), com.microsoft.nchwc.Conv (2).\n"
        "  Affine 's0' and 29 more, domain 'ai.onnx', opset 9: there is no such operator here.\n"
        "  ai.onnx.ml.CastMap 't', domain 'ai.onnx.ml', opset 3: it reads or makes texts or maps; give the",
        "com.microsoft.nchwc.Conv 'b' and 1 more, domain 'com.microsoft.nchwc', opset 1: "
        "onnxruntime made it for one kind of processor; save with the EXTENDED level instead.",
    )


def test_every_form_of_a_constant():
    for text, expected in (
        ("value = float[1] {2}", [2.0]),
        ("value_int = 2", 2),
        ("value_ints = [2, 3]", [2, 3]),
        ("value_float = 2.0", 2.0),
        ("value_floats = [2.0, 3.0]", [2.0, 3.0]),
    ):
        model = jaxdml.onnx.load(parsed(f"{{ z = Constant<{text}>() y = Add(x, x) }}"))
        np.testing.assert_array_equal({**model.graph.constants, **model.params}["z"], expected)


def test_fields_that_are_broken():
    model = parsed("{ y = Add(x, x) }")
    model.graph.node[0].attribute.add(name="a")
    refused(model, "attribute 'a' of node Add 'y' has type UNDEFINED")
    model.graph.node[0].attribute.add(name="a")
    model.graph.node[0].attribute[0].CopyFrom(helper.make_attribute("a", 1))
    model.graph.node[0].attribute[1].CopyFrom(helper.make_attribute("a", 1))
    refused(model, "has attribute 'a' twice")
    model.graph.node[0].attribute[0].type = onnx.AttributeProto.TENSOR
    refused(model, "has type TENSOR, which is not supported, or no value of it")
    data = parsed("{ y = Add(x, q) }".replace("q", "x")).SerializeToString()
    refused(data.replace(b"Add", b"A\xffd"), "a name in the model is not UTF-8: b'A\\xffd'")
    model = parsed("{ y = Add(x, x) }")
    model.graph.input.add(name="x")
    refused(model, "an input makes 'x', which exists already")
    model = with_tensor(raw_data=W.tobytes())
    model.graph.initializer.append(model.graph.initializer[0])
    refused(model, "an initializer makes 'w', which exists already")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (
            helper.make_sequence_type_proto(helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [2]))),
            "is a sequence of sequence of tensor",
        ),
        (helper.make_tensor_type_proto(TensorProto.STRING, [2]), "has strings"),
        (helper.make_tensor_type_proto(77, [2]), "dtype number 77"),
        (helper.make_tensor_type_proto(1, [2**62]), "larger than any array"),
        (helper.make_tensor_type_proto(1, [2**31, 2**31]), "larger than any array"),
        (helper.make_tensor_type_proto(1, [1] * 65), "larger than any array"),
    ],
)
def test_inputs_that_no_array_can_be(kind, text):
    model = parsed("{ y = Add(x, x) }")
    model.graph.input[0].type.CopyFrom(kind)
    refused(model, text, "'x'")


def test_inputs_that_declare_little():
    model = parsed("{ y = Add(x, x) }")
    model.graph.input[0].type.CopyFrom(helper.make_tensor_type_proto(1, [-1]))
    model.graph.output[0].type.Clear()
    loaded = jaxdml.onnx.load(model)
    assert loaded.inputs[0].shape == (None,)
    assert str(loaded.outputs[0]) == "y: any"
    model.graph.input[0].type.CopyFrom(helper.make_tensor_type_proto(0, None))
    assert str(jaxdml.onnx.load(model).inputs[0]) == "x: any"


def test_versions():
    for opset, text in ((6, "opset is 6; 7 to"), (onnx.defs.onnx_opset_version() + 1, "Install a newer onnx")):
        refused(parsed("{ y = Add(x, x) }", HEAD.replace("17", str(opset))), text, "node Add 'y' is the first")
    model = parsed("{ y = Add(x, x) }")
    model.opset_import[0].version = 2**40
    refused(model, "in version 1099511627776")
    model.opset_import[0].version = 17
    model.opset_import.add(domain="ai.onnx", version=17)
    model.opset_import.add(domain="org.pytorch.aten", version=1)  # No node is of it.
    jaxdml.onnx.load(model)
    model = parsed("{ y = Add(x, x) }")
    model.ir_version = onnx.IR_VERSION + 1
    refused(model, "Install a newer onnx")


def test_initializers_that_are_listed_as_inputs():
    model = with_tensor(raw_data=W.tobytes())
    model.graph.input.append(helper.make_tensor_value_info("w", 1, [2]))
    x = np.float32([1, 1])
    overridable = jaxdml.onnx.load(model)
    assert [value.name for value in overridable.inputs] == ["x"]
    assert [value.name for value in overridable.optional_inputs] == ["w"]
    np.testing.assert_array_equal(overridable(x)[0], W + 1)
    np.testing.assert_array_equal(overridable(x, w=x)[0], x + 1)
    with pytest.raises(ValueError, match="w: float32"):
        overridable(x, w=np.float32([1]))
    with pytest.raises(TypeError, match="2 inputs are given; the model takes 1"):
        overridable(x, x)
    model.ir_version = 3
    constant = jaxdml.onnx.load(model)
    assert constant.optional_inputs == ()
    np.testing.assert_array_equal(constant(x)[0], W + 1)
    with pytest.raises(TypeError, match="'w' is unknown"):
        constant(x, w=x)


# Graphs within graphs, and functions.


def nested(depth):
    model = parsed("{ y = Add(x, x) }")
    graph = onnx.GraphProto(name="inner")
    graph.node.append(helper.make_node("Add", ["x", "x"], ["z"]))
    graph.output.add(name="z")
    for _ in range(depth):
        outer = onnx.GraphProto(name="outer")
        outer.node.append(helper.make_node("If", ["c"], ["z"], then_branch=graph, else_branch=graph))
        outer.output.add(name="z")
        graph = outer
    del model.graph.node[:]
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    model.graph.node.append(helper.make_node("Identity", ["x"], ["y"]))
    model.graph.node.extend(graph.node)
    return model


def test_graphs_within_graphs_without_end(monkeypatch):
    monkeypatch.setattr(reader, "MAX_DEPTH", 4)
    refused(nested(6), "graphs stand within graphs more than 4 deep")


def functions(*definitions, body="{ y = own.a(x) }"):
    head = '<ir_version: 10, opset_import: ["": 17, "own": 1]> g (float[2] x) => (float[2] y) '
    text = "".join(f' <domain: "own", opset_import: ["": 17, "own": 1]> {text}' for text in definitions)
    return onnx.parser.parse_model(head + body + text)


def test_functions():
    model = functions(
        "a <times> (p, q) => (r) { k = Constant<value_float: float = @times>() l = Add(p, k) r = own.b(l, q) }",
        "b (p, q) => (r) { k = Add(p, q) r = Sub(k, p) }",
        body="{ k = Add(x, x) l = own.a<times = 3.0>(x, k) m = own.a<times = 4.0>(l, x) y = Add(m, l) }",
    )
    loaded = jaxdml.onnx.load(model)
    x = np.float32([1, 2])
    np.testing.assert_allclose(loaded(x)[0], x + 2 * x, rtol=1e-6)
    names = [node.name for node in loaded.graph.walk()]
    assert len(set(names)) == len(names)
    assert names[1:4] == ["l/l", "l/r/k", "l/r/r"]


def test_a_function_takes_the_versions_that_it_imports():
    model = functions("a (p) => (r) { r = Add(p, p) }")
    model.functions[0].opset_import[0].version = 13
    assert jaxdml.onnx.load(model).graph.nodes[0].opset == 13
    del model.functions[0].opset_import[:]
    assert jaxdml.onnx.load(model).graph.nodes[0].opset == 17


def test_inputs_and_attributes_of_functions_may_be_left_out():
    model = functions(
        "a <axis> (p, q, u) => (r, s) { r = Add(p, u) s = Concat<axis: int = @axis>(p, p) }",
        body='{ y = own.a<axis = 0>(x, "", x) }',
    )
    node = jaxdml.onnx.load(model).graph.nodes[0]
    assert (node.inputs, node.outputs) == (("x", "x"), ("y",))
    model.graph.node[0].ClearField("attribute")
    refused(model, "attribute 'axis' is missing")
    model.functions[0].attribute_proto.append(helper.make_attribute("axis", 0))
    del model.functions[0].attribute[:]
    assert jaxdml.onnx.load(model).graph.nodes[1].attributes == {"axis": 0}
    model.functions[0].attribute_proto[0].CopyFrom(helper.make_attribute("axis", [0]))
    refused(model, "attribute 'axis' refers to 'axis', which has another type")


def test_a_function_may_return_its_input():
    model = functions("a (p) => (p) { }")
    assert [str(node) for node in jaxdml.onnx.load(model).graph.nodes] == ["Identity 'y/p'"]


def test_names_of_functions_and_bodies_hide_nothing():
    branches = "t () => (float[2] k) { k = Identity(x) }", "e () => (float[2] k) { y = Add(x, x) k = Add(y, y) }"
    body = "{{ y = own.a(x) z = If(c) <then_branch = {}, else_branch = {}> }}".format(*branches)
    model = functions("a (p) => (r) { k = Add(p, p) r = Add(k, p) }", body=body)
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    nodes = jaxdml.onnx.load(model).graph.nodes
    inner = nodes[2].attributes["else_branch"].nodes
    assert [node.outputs for node in inner] == [(inner[0].outputs[0],), ("k",)]
    assert inner[0].outputs[0].startswith("y #")
    assert inner[1].inputs == inner[0].outputs * 2


@pytest.mark.parametrize(
    ("definitions", "text"),
    [
        (["a (p) => (r) { r = own.a(p) }"], "the model's function 'a' of domain 'own' calls itself"),
        (["a (p) => (r) { r = own.b(p) }", "b (p) => (r) { r = own.a(p) }"], "calls itself"),
        (["a (p) => (r) { s = Add(p, p) }"], "output 'r' of a graph is made by no node"),
        (["a () => (r) { r = Constant<value_floats = [1.0, 2.0]>() }"], "with 1 inputs and 1 outputs; it has 0 and 1"),
        (["a (p, p) => (r) { r = Add(p, p) }"], "two of one name"),
        (["a (p) => (r) { r = Add(p, p) }"] * 2, "is there twice"),
        (["a (p) => (r) { r = Add(p, x) }"], "reads 'x'"),
        (["a (p) => (r) { p = Add(p, p) r = Add(p, p) }"], "'p', which exists already"),
    ],
)
def test_functions_that_are_broken(definitions, text):
    refused(functions(*definitions), text)


def test_functions_cannot_become_a_lot_of_nodes():
    # 2**30 nodes in a small file.
    doubling = [f"f{i} (p) => (r) {{ k = own.f{i + 1}(p) r = own.f{i + 1}(k) }}" for i in range(30)]
    model = functions(*doubling, "f30 (p) => (r) { r = Add(p, p) }", body="{ y = own.f0(x) }")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "MAX_NODES", 2**10)
        refused(model, "more than 1024 nodes")
    chain = [f"f{i} (p) => (r) {{ r = own.f{i + 1}(p) }}" for i in range(40)]
    refused(functions(*chain, "f40 (p) => (r) { r = Add(p, p) }", body="{ y = own.f0(x) }"), "more than 32 deep")


def test_functions_cannot_become_a_lot_of_memory():
    model = functions(
        "a (p) => (r) { k = Constant<value = float[2] {1, 2}>() r = Add(p, k) }", body="{ y = Add(x, x) }"
    )
    values = numpy_helper.from_array(np.zeros(2**15, np.float32))
    model.functions[0].node[0].attribute[0].t.CopyFrom(values)
    model.graph.node.extend(helper.make_node("a", ["x"], [f"o{i}"], domain="own") for i in range(100))
    refused(model, "the model's own file", "At most 64 times")


def test_operators_are_expanded_where_onnx_defines_them_by_others(monkeypatch):
    kind = ("", "MeanVarianceNormalization")
    model = parsed("{ z = Add(x, x) y = MeanVarianceNormalization<axes = [0]>(z) }")
    monkeypatch.setattr(nodes, "OPERATORS", {key: found for key, found in nodes.OPERATORS.items() if key != kind})
    loaded = jaxdml.onnx.load(model)
    assert len(loaded.graph.nodes) > 1
    np.testing.assert_allclose(loaded(np.float32([1, 3]))[0], [-1, 1], rtol=1e-5)
    # What a node leaves out has its default: axes 0, 2 and 3.
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2, 1, 1, 1] x) => (float[A, B, C, D] y)'
        "{ y = MeanVarianceNormalization(x) }"
    )
    model.graph.node[0].domain = "ai.onnx"
    x = np.float32([1, 3]).reshape(2, 1, 1, 1)
    np.testing.assert_allclose(jaxdml.onnx.load(model)(x)[0].ravel(), [-1, 1], rtol=1e-5)

    def fail(*_):
        raise RuntimeError("the nodes are odd")

    monkeypatch.setattr(onnx.inliner, "inline_selected_functions", fail)
    refused(model, "onnx cannot expand MeanVarianceNormalization: the nodes are odd.")


def test_operators_that_onnx_no_longer_has():
    refused(parsed("{ y = Scatter(x) }"), "Scatter 'y'")


def test_what_handlers_raise_of_malformed_nodes(monkeypatch):
    def odd(call, x):
        raise KeyError("lost")

    known = {("com.microsoft", "Odd"): (Handler(1, odd),), ("com.microsoft", "One"): (Handler(1, lambda call, x: x),)}
    monkeypatch.setattr(nodes, "OPERATORS", {**nodes.OPERATORS, **known})
    head = HEAD.replace('"": 17', '"": 17, "com.microsoft": 1')
    x = np.float32([1, 2])
    with pytest.raises(ValueError, match=r"com\.microsoft\.Odd 'y' cannot be computed: KeyError: 'lost'"):
        jaxdml.onnx.load(parsed("{ y = com.microsoft.Odd(x) }", head))(x)
    with pytest.raises(ValueError, match="One 'z' makes 1 outputs; the model wants 2"):
        jaxdml.onnx.load(parsed("{ z, y = com.microsoft.One(x) }", head))(x)


def test_numerics_that_do_not_exist():
    with pytest.raises(ValueError, match="numerics is 'fast', and must be one of 'exact', 'literal'"):
        jaxdml.onnx.load(b"", numerics="fast")


@pytest.mark.parametrize("first", range(8))
def test_broken_models_are_refused_or_run(first):
    originals = mutations.models()
    for number in range(first, 200, 8):
        name = list(originals)[number % len(originals)]
        mutations.outcome(mutations.mutated(originals[name], number))


@pytest.mark.parametrize(
    "body", ["y = Nope<ks = [{long}]>(x)", "n = Constant<value_int = 4>() z = HannWindow(n) y = Nope(z)"]
)
def test_what_is_refused_is_refused_before_weights_are_read(body, monkeypatch):
    model = parsed(f"{{ {body.format(long=', '.join(map(str, range(2000))))} t = Add(x, w) }}")
    stored = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[2**40])
    stored.data_location = onnx.TensorProto.EXTERNAL
    stored.external_data.add(key="location", value="missing")
    model.graph.initializer.append(stored)
    monkeypatch.setattr(jaxdml.onnx.reading.reader, "array", lambda *_: pytest.fail("a tensor was read"))
    refused(model, "1 nodes are not supported: Nope (1).\n", "Export the model without them, ")


def test_what_is_refused_may_have_sparse_weights_and_bodies():
    model = parsed(
        "{ c = Cast<to = 9>(x) y = If(c) <then_branch = t () => (p) { p = Nope(x) },"
        " else_branch = e () => (q) { q = Neg(x) }> z = Add(x, s) }"
    )
    model.graph.sparse_initializer.add().values.name = "s"
    model.graph.sparse_initializer[0].values.data_type = onnx.TensorProto.FLOAT
    refused(model, "Nope 'p', domain 'ai.onnx', opset 17: there is no such operator here.")

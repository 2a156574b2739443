"""Operands of shapes that an operator does not take are refused by name, and those that it takes are not.

``operand_shapes.json`` has for each operator shapes that it takes, and single operands that make them wrong or leave
them right. onnxruntime judged those of the operators that it has.
"""

import json
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.export
import numpy as np
import onnx.parser
import pytest
from jax.experimental import checkify
from onnx import helper

from jaxdml.onnx import UnsupportedModelError, load, nodes
from jaxdml.onnx._graph import Node
from jaxdml.onnx.nodes.operands import RULES, objection
from tests.kit import quick
from tests.onnx.one_node import one_node, run_known, run_traced

pytestmark = quick

ROWS = json.loads((Path(__file__).parent / "operand_shapes.json").read_text())
F = np.float32


def value(text):
    """Return an array for a shape such as "2 3 uint8"; None for "-"."""
    sizes = [word for word in text.split() if word.isdecimal()]
    (dtype, *_) = [*(word for word in text.split() if word[0].isalpha()), "float32"]
    return None if text.strip() == "-" else np.zeros(tuple(map(int, sizes)), np.dtype(dtype))


def values(row):
    return [value(text) for text in row["shapes"].split(";")]


def changed(row, what):
    """Yield operands with one of another shape, for each that the row lists."""
    for text in filter(None, row[what].split(";")):
        position, shape = text.split(":")
        given = values(row)
        old = given[int(position)]
        given[int(position)] = value(shape).astype(old.dtype)
        yield text, given


def node_of(row, given):
    domain, _, kind = row["operator"].rpartition(".")
    names = tuple("" if x is None else f"i{place}" for place, x in enumerate(given))
    attributes = {name: tuple(x) if isinstance(x, list) else x for name, x in row["attributes"].items()}
    return Node(kind, domain, row["opset"], "n", names, ("y",), attributes)


def objects_to(row, given, known=None):
    node = node_of(row, given)
    (handler, *_) = [each for each in nodes.OPERATORS[node.domain, node.op_type] if each.since <= node.opset]
    return objection(node, handler, given if known is None else known)


@pytest.mark.parametrize("row", ROWS, ids=[f"{place} {row['operator']}" for place, row in enumerate(ROWS)])
def test_wrong_shapes_are_named_and_right_ones_pass(row):
    given = values(row)
    assert objects_to(row, given) is None
    for text, wrong in changed(row, "refused"):
        found = objects_to(row, wrong)
        assert found is not None, text
        assert " must have the shape " in found[0], text
        assert found[2].startswith("It takes "), text
    for text, right in changed(row, "taken"):
        assert objects_to(row, right) is None, text


@pytest.mark.parametrize("row", ROWS, ids=[f"{place} {row['operator']}" for place, row in enumerate(ROWS)])
def test_what_is_not_known_fits(row):
    given = values(row)
    sizeless = [None if x is None else SimpleNamespace(shape=(None,) * x.ndim, dtype=x.dtype) for x in given]
    assert objects_to(row, given, [None] * len(given)) is None
    assert objects_to(row, given, sizeless) is None
    for place in range(len(given)):
        for unknown in (None, sizeless[place]):
            assert objects_to(row, given, [*given[:place], unknown, *given[place + 1 :]]) is None


def test_each_rule_has_a_row():
    kinds = {tuple(row["operator"].rpartition(".")[::2]) for row in ROWS}
    assert kinds == set(RULES)
    assert set(RULES) <= set(nodes.OPERATORS)


HEAD = '<ir_version: 8, opset_import: ["": 21, "com.microsoft": 1]> g '


def parsed(text):
    return onnx.parser.parse_model(HEAD + text)


def test_shapes_that_are_declared_are_refused_at_load():
    text = """(float[2, 96] a, uint8[4, 3, 16] b, float[4, 3] s, uint8[12, 1] z) => (y) {
        y = com.microsoft.MatMulNBits<K = 96, N = 4, bits = 4, block_size = 32>(a, b, s, z)
    }"""
    with pytest.raises(UnsupportedModelError) as caught:
        load(parsed(text))
    assert str(caught.value) == (
        "jaxdml.onnx.load: com.microsoft.MatMulNBits 'y': zero_points must have the shape [8] or [4, 2], not [12, 1].\n"
        "  A: float32[2, 96], B: uint8[4, 3, 16], scales: float32[4, 3], zero_points: uint8[12, 1]\n"
        "  It takes A: * K; B: N 3 16; scales: 12 | N 3; zero_points: 8 | N 2; g_idx: K | 96; bias: N."
    )


def test_shapes_that_are_not_declared_are_refused_when_they_come():
    model = load(parsed("(float[n, c, h] x, float[m, d, k] w, float[b] b) => (y) { y = Conv(x, w, b) }"))
    x, w = np.ones((1, 2, 5), F), np.ones((3, 2, 3), F)
    assert model(x, w, np.ones(3, F))[0].shape == (1, 3, 3)
    with pytest.raises(ValueError, match="must have the shape") as caught:
        model(x, w, np.ones(1, F))
    assert str(caught.value) == (
        "jaxdml.onnx.Model: Conv 'y': B must have the shape [3], not [1].\n"
        "  X: float32[1, 2, 5], W: float32[3, 2, 3], B: float32[1]\n"
        "  It takes X: N group*C ...; W: M C ...; B: M."
    )


BRANCHES = """(float[2, 3] x, bool c) => (y) {{
    y = If(c) <
        then_branch = t () => (float[?, ?] a) {{ v = Constant<value = float[3] {{1, 1, 1}}>() a = {then} }},
        else_branch = e () => (float[?, ?] b) {{ b = Identity(x) }}>
}}"""


def test_of_a_branch_only_constants_are_refused_at_load():
    wrong = BRANCHES.format(then="LayerNormalization(w, v) w = Constant<value = float[1, 2] {1, 2}>()")
    with pytest.raises(UnsupportedModelError, match="LayerNormalization 'a': Scale must have the shape"):
        load(parsed(wrong))
    fits_no_input = BRANCHES.format(then="Gemm(x, v)")
    with pytest.raises(ValueError, match="Gemm 'a': B must have the shape"):
        load(parsed(fits_no_input))(np.ones((2, 3), F), np.array(True))


def test_other_errors_name_the_node_and_show_its_operands():
    model = one_node("Add", np.ones((2, 3), F), np.ones((2, 4), F))
    for run in (run_known, run_traced):
        with pytest.raises((TypeError, ValueError)) as caught:
            run(load(model), np.ones((2, 3), F), np.ones((2, 4), F))
        first, second, third = str(caught.value).split("\n")
        assert first.startswith("jaxdml.onnx.Model: Add 'o0' cannot be computed: ")
        assert second == "  a: float32[2, 3], b: float32[2, 4]"
        assert third == "  The shapes of these, or an attribute, do not fit the operator."


def test_sizes_that_are_symbols_or_lengths_are_not_checked():
    model = load(parsed("(float[b, 3] x, float[3] s) => (y) { y = LayerNormalization(x, s) }"))
    (size,) = jax.export.symbolic_shape("b")
    shapes = jax.ShapeDtypeStruct((size, 3), F), jax.ShapeDtypeStruct((3,), F)
    exported = jax.export.export(jax.jit(lambda x, s: model.apply({}, x, s)))(*shapes)
    assert exported.out_avals[0].shape == (size, 3)
    text = """(float[4] x, float[k] s) => (y) {
        at = NonZero(x) flat = Constant<value_ints=[-1, 1]>() some = Cast<to=1>(at) rows = Reshape(some, flat)
        y = PRelu(rows, s) }"""
    assert load(parsed(text))(F([1, 0, 2, 3]), np.ones(1, F), bounds={"at": 4})[0].shape == (3, 1)


def test_rows_of_a_table_are_as_many_as_positions():
    x, position = np.ones((1, 6, 8), F), np.zeros(1, np.int64)
    row = {"operator": "com.microsoft.RotaryEmbedding", "opset": 1, "attributes": {"num_heads": 2}, "shapes": ""}
    assert objects_to(row, [x, position, np.ones((6, 2), F), np.ones((6, 2), F)]) is None
    (wrong, *_) = objects_to(row, [x, position, np.ones((5, 2), F), np.ones((5, 2), F)])
    assert "cos_cache must have the shape [R >= 6, 2], not [5, 2]" in wrong
    heads = {"num_heads": 2, "kv_num_heads": 1, "do_rotary": 1}
    row = {"operator": "com.microsoft.GroupQueryAttention", "opset": 1, "attributes": heads, "shapes": ""}
    q, k, seen, total = np.ones((1, 2, 8), F), np.ones((1, 2, 4), F), np.zeros(1, np.int32), np.array(4, np.int32)

    def wrong_by(rows):
        table = np.ones((rows, 2), F)
        return objects_to(row, [q, k, k, None, None, seen, total, table, table])

    assert wrong_by(4) is None
    assert "cos_cache must have the shape [R >= 4, h], not [3, 2]" in wrong_by(3)[0]


@pytest.mark.parametrize("lengths", [[5, 1], [-1, 2]])
@pytest.mark.parametrize("kind", [("ReverseSequence", {}), ("RNN", {"hidden_size": 1})], ids=["ReverseSequence", "RNN"])
def test_lengths_of_sequences_are_no_more_than_there_is(kind, lengths):
    operator, attributes = kind
    x = np.arange(8, dtype=F).reshape(4, 2, 1)
    weights = [np.ones((1, 1, 1), F), np.ones((1, 1, 1), F), None] if operator == "RNN" else []
    dtype = np.int32 if operator == "RNN" else np.int64
    right, wrong = np.array([4, 1], dtype), np.array(lengths, dtype)
    proto = one_node(operator, x, *weights, right, **attributes)
    model = load(proto)
    given = [x, *(w for w in weights if w is not None)]
    with pytest.raises(ValueError, match=f"{operator} 'o0' cannot be computed: sequence_lens must be between 0 and 4"):
        run_known(model, *given, wrong)

    def checked(*inputs):
        return checkify.checkify(lambda *inputs: model.apply({}, *inputs, checks=True), errors=checkify.user_checks)(
            *inputs
        )

    error, found = jax.jit(checked)(*given, wrong)
    assert f"{operator} 'o0' has a length out of range" in error.get()
    assert np.isfinite(found[0]).all()
    jax.jit(checked)(*given, right)[0].throw()


X = np.arange(24, dtype=F).reshape(2, 3, 4)


def i64(*numbers):
    return np.array(numbers, np.int64)


TWICE = {
    "Slice": lambda axes: ([X, i64(0, 1), i64(2, 3), axes], {}),
    "Pad": lambda axes: ([X, i64(1, 1, 1, 1), F(0), axes], {}),
    "Unsqueeze": lambda axes: ([X, axes], {}),
    "Resize": lambda axes: ([X, None, np.full(2, 2, F)], {"axes": axes.tolist()}),
}


@pytest.mark.parametrize("kind", TWICE)
def test_an_axis_twice_is_refused(kind):
    for axes in (i64(1, 1), i64(1, -4 if kind == "Unsqueeze" else -2)):
        inputs, attributes = TWICE[kind](axes)
        with pytest.raises(ValueError, match=f"{kind} 'o0' cannot be computed: .*twice"):
            run_known(load(one_node(kind, *inputs, **attributes)), *inputs)


def test_an_axis_twice_counts_once_where_onnxruntime_takes_it():
    one = np.ones((1, 3, 1), F)
    for opset, axes in ((18, [i64(0, -3)]), (11, [])):
        attributes = {} if axes else {"axes": [0, -3]}
        for kind, x, shape in (("Squeeze", one, (3, 1)), ("ReduceMax", X, (1, 3, 4))):
            model = load(one_node(kind, x, *axes, opset=opset, **attributes))
            assert run_known(model, x, *axes)[0].shape == shape
    model = load(one_node("MeanVarianceNormalization", X, axes=[0, 0]))
    once = load(one_node("MeanVarianceNormalization", X, axes=[0]))
    np.testing.assert_array_equal(run_traced(model, X)[0], run_traced(once, X)[0])


REFUSED = {
    "perm": ("Transpose", [X], {"perm": [0, 1, -1]}, "no order of 3 axes"),
    "axis": ("LayerNormalization", [X, np.ones(4, F)], {"axis": 3}, "axis 3 is out of range for rank 3"),
    "diagonal": ("Einsum", [np.ones((3, 1, 5), F)], {"equation": "...ii -> ...i"}, "dimensions of one letter"),
    "output": (
        "ConvTranspose",
        [np.ones((1, 1, 2), F), np.ones((1, 1, 3), F)],
        {"output_shape": [7], "strides": [2]},
        "reaches no further than \\[6\\]",
    ),
    "axis of a sum": ("CumSum", [X, np.array(2**63 - 1)], {}, "is out of range for rank 3"),
    "axis of a softmax": ("Softmax", [X], {"axis": -(2**63)}, "is out of range for rank 3"),
    "sizes": ("Reshape", [X, i64(-(2**63))], {}, "has a size below -1"),
    "repeats": ("Tile", [X, i64(1, -1, 1)], {}, "has a negative number"),
    "pads": ("Pad", [X, i64(-2, 0, 0, -1, 0, 0), F(0)], {}, "take away more than there is"),
    "depth": ("OneHot", [i64(0), np.array(-1), F([0, 1])], {}, "the depth of a OneHot is -1"),
    "frame": ("STFT", [np.ones((1, 8, 1), F), np.array(2), None, np.array(9)], {}, "a frame has 9 elements"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_an_attribute_makes_wrong_is_refused(name):
    kind, inputs, attributes, text = REFUSED[name]
    with pytest.raises(ValueError, match=f"{kind} 'o0' cannot be computed: .*{text}"):
        run_known(load(one_node(kind, *inputs, **attributes)), *inputs)


def of_microsoft(kind, *inputs, **attributes):
    names = [f"i{place}" if x is not None else "" for place, x in enumerate(inputs)]
    typed = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in zip(names, inputs, strict=True)
        if name
    ]
    node = helper.make_node(kind, names, ["y"], "n", domain="com.microsoft", **attributes)
    graph = helper.make_graph([node], "g", typed, [onnx.ValueInfoProto(name="y")])
    opsets = [helper.make_opsetid("com.microsoft", 1)]
    model = load(helper.make_model(graph, opset_imports=opsets, ir_version=8))
    return run_known(model, *inputs)[0]


def test_what_fused_operators_add_has_the_shape_of_the_result():
    x, w = np.ones((1, 1, 4), F), np.ones((2, 1, 3), F)
    assert of_microsoft("FusedConv", x, w, None, np.ones((1, 2, 2), F)).tolist() == [[[4, 4], [4, 4]]]
    with pytest.raises(ValueError, match="Z must have the shape of the result, \\[1, 2, 2\\]; it has \\[1, 1, 2\\]"):
        of_microsoft("FusedConv", x, w, None, np.ones((1, 1, 2), F))
    with pytest.raises(ValueError, match="both operands must have one rank; they have 3 and 2"):
        of_microsoft("FusedMatMul", np.ones((2, 3, 4), F), np.ones((4, 5), F), transBatchA=1)


@pytest.mark.parametrize("total", [1, 4, 6])
def test_a_cache_holds_what_was_and_what_is_new(total):
    q, k, past = np.ones((1, 2, 32), F), np.ones((1, 2, 16), F), np.ones((1, 1, 3, 16), F)
    with pytest.raises(ValueError, match="total_sequence_length must be 5, or between 2 and 3"):
        of_microsoft(
            "GroupQueryAttention",
            *(q, k, k, past, past, np.zeros(1, np.int32), np.array(total, np.int32)),
            num_heads=2,
            kv_num_heads=1,
        )

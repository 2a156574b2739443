"""With bounds, models whose shapes depend on values are one program: it returns what onnxruntime does, and zeros."""

import re

import jax
import numpy as np
import onnx
import onnx.parser
import pytest
from jax.experimental import checkify
from onnx import numpy_helper

from jaxdml.onnx import Padded, UnsupportedModelError, load
from tests.kit import quick
from tests.onnx.floats import by_onnxruntime, close

pytestmark = quick

X = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
X[2, 1] = X[4, 3] = 0
MASKS = {"none": [], "one": [3], "some": [1, 2, 4], "all": range(6)}
BOUND = 6

CONSTANTS = {
    **{f"i{number}": np.array([number]) for number in (0, 1, 2, 3, 4, 7, 100)},
    **{f"e{number}": np.array([-number]) for number in (1, 2, 3)},
    **{f"s{number}": np.array(number) for number in (0, 1, 2)},
    "far": np.array([2**62]),
    "final": np.array(-1),
    "i01": np.array([0, 1]),
    "flat": np.array([-1]),
    "halves": np.array([-1, 2]),
    "pairs": np.array([0, 2, -1]),
    "tall": np.array([4, -1]),
    "least": np.float32(-0.5),
    "two": np.float32(2),
    "w": np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32),
    "u": np.random.default_rng(4).normal(size=(6, 2)).astype(np.float32),
    "bias": np.random.default_rng(2).normal(size=3).astype(np.float32),
    "filters": np.random.default_rng(3).normal(size=(2, 1, 1, 2)).astype(np.float32),
    "sizes": np.array([1, 1, 2, 4]),
    "scale": np.float32(0.05),
    "zero_point": np.uint8(128),
    "on_off": np.float32([0, 1]),
    "on_off4": np.float32([0, 1, 0, 1]),
    "two1": np.float32([2]),
    "ones3": np.float32([1, 1, 1]),
    "scales": np.float32([1, 1, 2, 1]),
}


def graph(body, outputs="y", opset=17):
    """Return a model of the rows of ``x`` for which ``f`` is positive: ``some``, ``[n, 4]``, at ``row``, ``[n]``."""
    text = f"""g (float[6, 4] x, float[6] f) => ({outputs}) {{
        zero = Constant<value_float=0.0>()
        m = Greater(f, zero)
        at = NonZero(m)
        row = Squeeze(at, i0)
        some = Gather(x, row)
        {body}
    }}"""
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {text}')
    used = {name: array for name, array in CONSTANTS.items() if re.search(rf"\b{re.escape(name)}\b", text)}
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in used.items())
    return proto


def mask(case):
    return np.isin(np.arange(6), list(MASKS[case])).astype(np.float32)


MASKED = {
    "Add": "y = Add(some, some)",
    "Where": "c = Greater(some, two) y = Where(c, some, least)",
    "Clip": "y = Clip(some, least, two)",
    "Cast": "y = Cast<to=6>(some)",
    "Transpose": "y = Transpose(some)",
    "Transpose by perm": "y = Transpose<perm=[0, 1]>(some)",
    "Unsqueeze": "y = Unsqueeze(some, i01)",
    "Squeeze": "a = Unsqueeze(some, i1) y = Squeeze(a, i1)",
    "Reshape in order": "y = Reshape(some, flat)",
    "Reshape to halves": "y = Reshape(some, halves)",
    "Reshape of columns": "a = Transpose(some) y = Reshape(a, flat)",
    "Reshape to rows again": "a = Transpose(some) y = Reshape(a, halves)",
    "Flatten": "a = Unsqueeze(some, i1) y = Flatten<axis=2>(a)",
    "Flatten all": "y = Flatten<axis=0>(some)",
    "Flatten none": "y = Flatten<axis=2>(some)",
    "Shape and Size": "a = Shape(some) b = Size(some) c = Unsqueeze(b, i0) y = Concat<axis=0>(a, c)",
    "sizes": "n = Shape<end=1>(some) a = Min(n, i2) b = Max(n, i3) c = ReduceMin<axes=[0]>(a) d = Mul(a, i2)"
    " e = Div(d, i2) h = Sub(n, i1) g = Add(n, n) y = Concat<axis=0>(a, b, c, d, e, h, g)",
    "sizes that are compared": "n = Shape<end=1>(some) a = Equal(n, i0) b = Where(a, i7, n) k = Cast<to=1>(n)"
    " g = Mul(k, two) h = Cast<to=7>(g) y = Add(b, h)",
    "sizes that are divided": "n = Shape<end=1>(some) a = Mod(i100, i7) b = Mod(n, i2) d = Add(n, i1) c = Div(i100, d)"
    " y = Add(b, c)",
    "least of sizes": "n = Shape(some) y = ReduceMin<keepdims=0>(n)",
    "greatest of sizes": "n = Shape(some) y = ReduceMax(n)",
    "Expand": "n = Shape<end=1>(some) y = Expand(i7, n)",
    "Expand some": "s = Shape(some) a = Unsqueeze(some, i0) y = Expand(a, s)",
    "Expand by ones": "s = Shape(some) e = Equal(s, e1) o = ConstantOfShape(i2) t = Where(e, i1, s) y = Expand(two, t)",
    "ConstantOfShape": "s = Shape(some) y = ConstantOfShape(s)",
    "Range": "n = Shape<end=1>(some) c = Squeeze(n, i0) y = Range(s0, c, s1)",
    "Range from 2": "n = Shape<end=1>(some) c = Squeeze(n, i0) y = Range(s2, c, s1)",
    "Gather a constant": "y = Gather<axis=1>(some, s2)",
    "Gather from some": "a = Concat<axis=0>(some, x) n = Shape<end=1>(some) y = Gather(a, n)",
    "Gather the last": "a = Concat<axis=0>(x, some) y = Gather(a, e1)",
    "GatherElements": "c = Greater(some, two) a = Cast<to=7>(c) y = GatherElements<axis=1>(some, a)",
    "GatherElements of x": "a = Unsqueeze(row, i1) y = GatherElements(x, a)",
    "GatherND": "p = NonZero(x) q = Transpose(p) y = GatherND(x, q)",
    "GatherND of some": "p = NonZero(some) q = Transpose(p) y = GatherND(some, q)",
    "GatherND from the end": "p = NonZero(some) q = Transpose(p) a = Size(some) b = Shape(some) r = Sub(q, b)"
    " y = GatherND(some, r)",
    "GatherND of rows": "a = Unsqueeze(row, i1) y = GatherND(x, a)",
    "ScatterND": "a = Unsqueeze(row, i1) b = Neg(some) y = ScatterND(x, a, b)",
    "ScatterND of elements": "p = NonZero(some) q = Transpose(p) e = GatherND(some, q) k = Neg(e)"
    " y = ScatterND(some, q, k)",
    "ScatterND adding": 'a = Unsqueeze(row, i1) y = ScatterND<reduction="add">(x, a, some)',
    "ScatterElements": "a = Unsqueeze(row, i1) k = Shape(some) b = Expand(a, k) c = Neg(some)"
    " y = ScatterElements(x, b, c)",
    "ScatterElements of some": "c = Greater(some, two) a = Cast<to=7>(c) y = ScatterElements<axis=1>(some, a, some)",
    "TopK": "c = Gather<axis=1>(some, s0) n = Shape(c) k = Min(n, i3) y, z = TopK(c, k)",
    "TopK of the least": "c = Gather<axis=1>(some, s0) n = Shape(c) y, z = TopK<largest=0>(c, n)",
    "TopK of integers": "n = Shape(row) y, z = TopK(row, n)",
    "TopK of the least integers": "n = Shape(row) y, z = TopK<largest=0>(row, n)",
    "TopK of each row": "y, z = TopK(some, i2)",
    "Concat before": "y = Concat<axis=0>(some, x)",
    "Concat after": "y = Concat<axis=0>(x, some)",
    "Concat of three": "y = Concat<axis=0>(some, x, some)",
    "Concat of columns": "y = Concat<axis=1>(some, some)",
    "Split": "y, z = Split<axis=1>(some)",
    "Split by sizes": "s = Concat<axis=0>(i1, i3) y, z = Split<axis=1>(some, s)",
    "Slice the first": "y = Slice(some, i0, i2, i0)",
    "Slice from 1": "y = Slice(some, i1, i100, i0)",
    "Slice to the end": "y = Slice(some, i1, far, i0)",
    "Slice the last": "y = Slice(some, e2, far, i0)",
    "Slice but the last": "y = Slice(some, i0, e1, i0)",
    "Slice of columns": "y = Slice(some, i1, i3, i1)",
    "Slice backwards": "y = Slice(some, e1, e3, i0, e1)",
    "Slice by twos": "y = Slice(some, i0, i100, i0, i2)",
    "Slice x": "n = Shape<end=1>(some) y = Slice(x, i0, n, i0)",
    "Slice x from n": "n = Shape<end=1>(some) y = Slice(x, n, i100)",
    "Slice x from n - 3": "n = Shape<end=1>(some) k = Sub(n, i3) y = Slice(x, k, i100)",
    "Loop": "c = Constant<value_int=1>() g = Cast<to=9>(c) y = Loop(, g, some) <body = b (int64 i, bool on,"
    " float[n, 4] a) => (bool off, float[n, 4] r) { r = Neg(a) s = ReduceSum<keepdims=0>(r) off = Greater(s, two) }>",
    "Range by twos": "n = Shape<end=1>(some) c = Squeeze(n, i0) y = Range(s0, c, s2)",
    "the last of equal": "a = Concat<axis=0>(some, x) b = Mul(a, on_off4) y = ArgMax<select_last_index=1>(b)",
    "OneHot": "y = OneHot(row, i7, on_off)",
    "OneHot before": "y = OneHot<axis=0>(row, i7, on_off)",
    "ReduceSum": "y = ReduceSum(some, i0)",
    "ReduceSum of rows": "y = ReduceSum<keepdims=0>(some, i1)",
    "ReduceSum of all": "y = ReduceSum<keepdims=0>(some)",
    "ReduceSum of nothing": "y = ReduceSum<noop_with_empty_axes=1>(some)",
    "ReduceProd": "y = ReduceProd<axes=[0]>(some)",
    "ReduceL2": "y = ReduceL2<axes=[0]>(some)",
    "ReduceL1": "y = ReduceL1<axes=[0], keepdims=0>(some)",
    "ReduceSumSquare": "y = ReduceSumSquare<axes=[0]>(some)",
    "ArgMax of rows": "y = ArgMax<axis=1>(some)",
    "Softmax": "y = Softmax<axis=0>(some)",
    "Softmax of rows": "y = Softmax(some)",
    "LogSoftmax": "y = LogSoftmax<axis=0>(some)",
    "CumSum": "y = CumSum(some, s0)",
    "CumSum reversed": "y = CumSum<reverse=1>(some, s0)",
    "MatMul": "y = MatMul(some, w)",
    "MatMul summing": "t = Transpose(some) y = MatMul(t, some)",
    "MatMul of a vector": "c = Gather<axis=1>(some, s0) y = MatMul(c, some)",
    "MatMul by a vector": "c = Gather(w, s0) v = Gather<axis=1>(w, s0) y = MatMul(some, v)",
    "MatMul batched": "a = Unsqueeze(some, i1) y = MatMul(a, w)",
    "Gemm": "y = Gemm(some, w, bias)",
    "Gemm transposed": "t = Transpose(some) y = Gemm<transA=1>(t, w)",
    "Gemm by itself": "y = Gemm<transB=1>(some, some)",
    "Conv": "p = Concat<axis=0>(e1, i1, i2, i2) a = Reshape(some, p) y = Conv(a, filters)",
    "Resize": 'a = Unsqueeze(some, i01) t = Transpose<perm=[2, 0, 1, 3]>(a) y = Resize<mode="nearest">(t, , scales)',
    "Resize to sizes": "a = Unsqueeze(some, i01) t = Transpose<perm=[2, 0, 1, 3]>(a) n = Shape<end=1>(t)"
    ' k = Slice(sizes, i1, i7) s = Concat<axis=0>(n, k) y = Resize<mode="nearest">(t, , , s)',
    "LayerNormalization": "g = Gather<axis=1>(w, s0) y = LayerNormalization(some, g)",
    "QuantizeLinear": "q = QuantizeLinear(some, scale, zero_point) r = DequantizeLinear(q, scale, zero_point)"
    " t = Relu(r) y = QuantizeLinear(t, scale, zero_point)",
    "DynamicQuantizeLinear": "y, s, z = DynamicQuantizeLinear(some)",
    "Identity": "y = Identity(some)",
    "Compress": "c = Greater(some, two) y = Compress(some, c)",
    "Compress rows": "c = Gather<axis=1>(some, s0) d = Greater(c, least) y = Compress<axis=0>(some, d)",
    "Compress a column": "c = Gather<axis=1>(some, s0) d = Greater(c, least) y = Compress(c, d)",
    "RoiAlign": "a = Abs(some) p = Concat<axis=0>(i1, i1, e1, i4) b = Reshape(x, p) z = Mul(row, i0)"
    " y = RoiAlign<output_height=2, output_width=2, sampling_ratio=2>(b, a, z)",
}
NEEDS_ROWS = {
    "Slice of all": "y = Slice(some, i0, far, i0)",
    "sizes in columns": "n = Shape(some) a = Unsqueeze(n, i0) y = ReduceMin<axes=[0]>(a)",
    "CastLike": "y = CastLike(some, row)",
    "PRelu": "y = PRelu(some, two)",
    "Reshape to columns": "y = Reshape(some, tall)",
    "Reshape of constants": "n = Shape<end=1>(row) c = ConstantOfShape(n) s = Concat<axis=0>(i1, n) y = Reshape(c, s)",
    "Reshape by a length": "n = Shape<end=1>(some) s = Concat<axis=0>(n, flat) y = Reshape(some, s)",
    "Reshape to pairs": "y = Reshape(some, pairs)",
    **{f"Reduce{kind}": f"y = Reduce{kind}<axes=[0]>(some)" for kind in ("Max", "Min", "Mean", "LogSum", "LogSumExp")},
    "ReduceMean of integers": "a = Unsqueeze(row, i1) y = ReduceMean<axes=[0], keepdims=0>(a)",
    "ReduceMax of integers": "y = ReduceMax(row)",
    "ReduceMin of integers": "y = ReduceMin(row)",
    "ArgMax": "y = ArgMax(some)",
    "ArgMin": "y = ArgMin<keepdims=0>(some)",
    "ArgMin of integers": "y = ArgMin(row)",
    "Gather the first": "y = Gather(some, final)",
    "CumSum exclusive": "y = CumSum<exclusive=1>(some, s0)",
}


def wanted_outputs(body):
    return "y, z" if "y, z =" in body else "y"


@pytest.mark.parametrize("name", [*MASKED, *NEEDS_ROWS])
def test_an_operator_computes_what_counts_as_onnxruntime_does(name):
    body = (MASKED | NEEDS_ROWS)[name]
    proto = graph(body, "y, z" if "y, z =" in body else "y")
    model = load(proto)
    bounds = {name: BOUND if name == "at" else 24 for name in ("at", "p", "y") if has_bound(model, name)}
    for case in MASKS:
        if case != "none" or name in MASKED:  # Of no rows onnxruntime has no result, or an error.
            given = X, mask(case)
            close(model(*given, bounds=bounds), by_onnxruntime(proto, *given))
    assert model._calls.bounded._cache_size() == 1


def has_bound(model, name):
    return any(name in node.outputs and node.op_type in ("NonZero", "Compress") for node in model.graph.nodes)


REFUSED = {
    "ranks": ("y = Squeeze(at)", "Squeeze 'y' needs to know how length of 'at' compares with 1"),
    "no rule": ("a = Unsqueeze(some, i0) y = Det(a)", "Det 'y' has an operand with a length that is not known"),
    "one row": ("y = Squeeze(some, i0)", "whether sizes .* are 1"),
    "scales of rows": (
        "means = ReduceMean<axes=[1], keepdims=0>(some) a = Abs(means) y = QuantizeLinear<axis=0>(some, a)",
        "QuantizeLinear 'y' needs to know the result for an operand of sizes",
    ),
    "channels": ("b = Unsqueeze(some, i0) a = Unsqueeze(b, i2) y = GlobalMaxPool(a)", "GlobalMaxPool 'y' needs"),
    "a sum by another": (
        "n = Shape(row) s = Expand(n, i2) t = Concat<axis=0>(e1, n) a = Concat<axis=0>(some, x) y = Reshape(a, t)",
        "/ length of 'at'",
    ),
    "an image of regions": (
        "b = Reshape(some, p) p = Concat<axis=0>(i1, i1, e1, i4) z = Mul(row, i0) y = RoiAlign(b, x, z)",
        "RoiAlign 'y' needs to know",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_masked_is_refused_by_name(name):
    body, message = REFUSED[name]
    model = load(graph(body, "y"))
    bounds = {name: 4 for name in ("at", "p") if has_bound(model, name)}
    with pytest.raises(UnsupportedModelError, match=message):
        jax.eval_shape(lambda *given: model.apply(model.params, *given, bounds=bounds), X, mask("some"))


def test_outputs_are_followed_by_zeros_and_say_their_lengths():
    model = load(graph("n = Shape(some) q = Neg(some)", "q, row, n"))
    apply = jax.jit(lambda *given: model.apply(model.params, *given, bounds={"at": 5}))
    for case in ("none", "some"):
        q, row, n = apply(X, mask(case))
        rows = list(MASKS[case])
        assert isinstance(q, Padded)
        assert q.array.shape == (5, 4)
        assert row.array.shape == (5,)
        np.testing.assert_array_equal(q.array, np.concatenate([-X[rows], np.zeros((5 - len(rows), 4))]))
        np.testing.assert_array_equal(q.lengths, [len(rows), 4])
        np.testing.assert_array_equal(row.array, rows + [0] * (5 - len(rows)))
        np.testing.assert_array_equal(n, [len(rows), 4])


def test_more_than_a_bound_raises_in_a_call_and_is_reported_under_checkify():
    model = load(graph("y = Neg(some)"))
    message = "NonZero 'at' has a length of 3, more than its bound, 2"
    with pytest.raises(ValueError, match=message):
        model(X, mask("some"), bounds={"at": 2})

    def apply(*given):
        return model.apply(model.params, *given, bounds={"at": 2}, checks=True)

    error, _ = jax.jit(checkify.checkify(apply, errors=checkify.user_checks))(X, mask("some"))
    assert message in error.get()
    (found,) = jax.jit(apply)(X, mask("some"))
    np.testing.assert_array_equal(found.array, -X[[1, 2]])


def test_the_greatest_of_booleans():
    proto = graph("a = Greater(some, two) y = ReduceMax(a, i0)", opset=20)
    for case in MASKS:
        close(load(proto)(X, mask(case), bounds={"at": 6}), [(X[list(MASKS[case])] > 2).any(0, keepdims=True)])


def test_an_operand_that_has_to_be_known_is_named_where_another_has_a_length():
    model = load(
        graph("c = ReduceMax<axes=[1], keepdims=0>(some) g = Cast<to=7>(m) k = ReduceSum(g, i0) y, z = TopK(c, k)")
    )
    with pytest.raises(NotImplementedError, match=r"(?s)input 1 of TopK 'y' is 'k'.*bounds=\{'y': n\}"):
        model(X, mask("some"), bounds={"at": 6})
    lost = load(graph("g = Cast<to=7>(m) k = ReduceSum(g, i0) y = CumSum(some, k)"))
    with pytest.raises(NotImplementedError, match="input 1 of CumSum 'y' is 'k'"):
        lost(X, mask("some"), bounds={"at": 6})


def test_a_missing_bound_is_named():
    model = load(graph("y = Neg(some)"))
    message = r"(?s)input 0 of NonZero 'at' is 'm', which.*bounds=\{'at': n\}\); 6 is always enough"
    with pytest.raises(NotImplementedError, match=message):
        jax.jit(model.apply)(model.params, X, mask("some"))


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"foo": 3}, "bounds has 'foo', which names no node"),
        ({"x": 3}, "bounds has 'x', which names no node"),
        ({"at": 0}, "bounds has 0 for 'at'"),
        ({"at": 2.0}, "bounds has 2.0 for 'at'"),
        ({"at": True}, "bounds has True for 'at'"),
    ],
)
def test_bounds_that_are_none_are_refused(bounds, message):
    model = load(graph("y = Neg(some)"))
    with pytest.raises(ValueError, match=message):
        model(X, mask("some"), bounds=bounds)
    with pytest.raises(ValueError, match=message):
        model.apply(model.params, X, mask("some"), bounds=bounds)


def test_a_bound_may_be_of_a_dimension_that_the_model_declares():
    proto = graph("y = Neg(some)")
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info("at", onnx.TensorProto.INT64, [1, "u0"]))
    close(load(proto)(X, mask("some"), bounds={"u0": 4}), [-X[[1, 2, 4]]])
    named = graph("y = NonZero(x)", "int64[2, many] y")
    assert load(named)(X, mask("all"), bounds={"many": 24, "at": 6})[0].shape == (2, 22)


def test_an_input_may_be_called_bounds():
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] bounds) => (float[2] y) { y = Neg(bounds) }'
    np.testing.assert_array_equal(load(onnx.parser.parse_model(text))(bounds=np.float32([1, 2]))[0], [-1, -2])


IF = """k = Shape<end=1>(some)
    none = Equal(k, {size})
    y = If(none) <then_branch = t () => (float[p, 4] a) {{ {then} }},
        else_branch = e () => (float[q, 4] b) {{ {other} }}>"""


@pytest.mark.parametrize(
    "branches",
    [
        {"size": "i0", "then": "a = Identity(x)", "other": "b = Neg(some)"},
        {"size": "i0", "then": "a = Neg(some)", "other": "b = Concat<axis=0>(some, x, some)"},
        {"size": "i3", "then": "a = Neg(x)", "other": "b = Identity(x)"},
    ],
    ids=["fixed", "lengths", "alike"],
)
def test_branches_may_return_other_sizes(branches):
    proto = graph(IF.format(**branches))
    model = load(proto)
    for case in MASKS:
        close(model(X, mask(case), bounds={"at": 6}), by_onnxruntime(proto, X, mask(case)))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("float[p, 4] a) { a = Identity(x) }, else_branch = e () => (float[q] b) { b = Cast<to=1>(row) }", "the rank"),
        ("s) { s = SequenceConstruct(x) }, else_branch = e () => (s) { s = SequenceConstruct(x) }", "a sequence"),
    ],
)
def test_branches_that_differ_otherwise_are_refused(body, message):
    model = load(graph(f"k = Shape<end=1>(some) none = Equal(k, i0) y = If(none) <then_branch = t () => ({body}>"))
    with pytest.raises(UnsupportedModelError, match=message):
        model(X, mask("some"), bounds={"at": 6})


def test_a_condition_that_is_known_leaves_one_branch():
    proto = graph(IF.format(size="i7", then="a = Identity(x)", other="b = Neg(some)"))
    model = load(proto)
    given = X, mask("some")
    close(model(*given, bounds={"at": 6}), by_onnxruntime(proto, *given))
    assert "cond" not in str(jax.make_jaxpr(lambda *x: model.apply(model.params, *x, bounds={"at": 6}))(*given))


COUNTS = {
    "TopK": ("a = Gather<axis=1>(x, s0)", "y, z = TopK(a, k)"),
    "Range": ("", "c = Squeeze(k, i0) y = Range(s0, c, s1)"),
    "ConstantOfShape": ("", "y = ConstantOfShape(k)"),
}


@pytest.mark.parametrize("name", COUNTS)
def test_a_number_that_is_computed_may_have_a_bound(name):
    before, after = COUNTS[name]
    body = f"g = Cast<to=7>(m) k = ReduceSum(g, i0) {before} {after}"
    proto = graph(body, "y, z" if "y, z" in after else "y")
    model = load(proto)
    read = next(node.inputs[{"TopK": 1, "Range": 1}.get(name, 0)] for node in model.graph.nodes if node.op_type == name)
    for case in MASKS:
        given = X, mask(case)
        for bounds in ({"y": 6}, {read: 6}):
            if read != "y":
                close(model(*given, bounds=bounds), by_onnxruntime(proto, *given))
    with pytest.raises(ValueError, match=f"{name} 'y' has a length of 6, more than its bound, 5"):
        model(X, mask("all"), bounds={"y": 5})
    with pytest.raises(NotImplementedError, match=r"bounds=\{'y': n\}"):
        jax.jit(model.apply)(model.params, X, mask("all"))


def boxes(classes, **attributes):
    rng = np.random.default_rng(classes)
    corner, size = rng.uniform(0, 5, (2, 12, 2)), rng.uniform(0, 4, (2, 12, 2))
    size[0, 3] = 0
    scores = rng.integers(0, 9, (2, classes, 12)) / 8
    second = size if attributes else corner + size
    return np.concatenate([corner, second], -1).astype(np.float32), scores.astype(np.float32)


SUPPRESSED = {
    "plain": ("n", {}),
    "by centres": ("n, o, t", {"center_point_box": 1}),
    "above a score": ("n, o, t", {}),
    "at most": ("s, o", {}),
    "overlapping": (", o, t", {}),
}


@pytest.mark.parametrize("name", SUPPRESSED)
def test_boxes_are_suppressed_as_onnxruntime_does(name):
    operands, attributes = SUPPRESSED[name]
    text = f"""<ir_version: 8, opset_import: ["": 17]>
    g (float[2, 12, 4] b, float[2, 3, 12] c, float[1] many) => (int64[rows, 3] y) {{
        n = Constant<value_ints=[4]>() o = Constant<value_floats=[0.3]>() t = Constant<value_floats=[0.2]>()
        s = Cast<to=7>(many)
        y = NonMaxSuppression{"<center_point_box=1>" if attributes else ""}(b, c, {operands})
    }}"""
    proto = onnx.parser.parse_model(text)
    model = load(proto)
    for many in (0, 2, 40):
        given = *boxes(3, **attributes), np.float32([many])
        wanted = by_onnxruntime(proto, *given)
        for bounds in (None, {"y": 72}, {"rows": 80}):
            close(model(*given, bounds=bounds), wanted)
    with pytest.raises(NotImplementedError, match="input 1 of NonMaxSuppression 'y'"):
        jax.jit(model.apply)(model.params, *given)


def test_boxes_that_do_not_count_are_not_kept():
    body = """b = Unsqueeze(some, i0) r = Cast<to=1>(row) s = Neg(r) c = Unsqueeze(s, i01)
        h = Constant<value_floats=[0.1]>()
        t = NonMaxSuppression(b, c, i100, h) y = Gather<axis=1>(t, s2)"""
    proto = graph(body)
    model = load(proto)
    for case in MASKS:
        close(model(X, mask(case), bounds={"at": 6, "t": 9}), by_onnxruntime(proto, X, mask(case)))


def test_what_is_found_by_one_mask_has_one_length():
    body = "again = NonZero(m) r = Squeeze(again, i0) y = Add(row, r)"
    close(load(graph(body))(X, mask("some"), bounds={"at": 6, "again": 6}), [np.array([2, 4, 8])])


def test_programs_map_over_a_batch_and_have_derivatives():
    model = load(graph("y = ReduceSum<keepdims=0>(some)"))

    def total(x, f):
        return model.apply(model.params, x, f, bounds={"at": 6})[0]

    found = jax.jit(jax.vmap(jax.grad(total)))(np.stack([X, X]), np.stack([mask("some"), mask("none")]))
    np.testing.assert_array_equal(found[0][:, 0], mask("some"))
    assert not found[1].any()


def test_a_body_may_find_something_that_it_does_not_return():
    body = """c = Constant<value_int=20>() d = Constant<value_int=1>() g = Cast<to=9>(d)
        y = Loop(c, g, x) <body = b (int64 i, bool on, float[6, 4] a) => (bool off, float[6, 4] r) {
            s = ReduceSum(some, i0) p = NonZero(a) q = Size(p) z = Cast<to=1>(q) t = Add(s, z) r = Sub(a, t)
            off = Identity(on)
        }>"""
    proto = graph(body)
    model = load(proto)
    given = X, mask("some")
    close(model(*given, bounds={"at": 6, "p": 24}), by_onnxruntime(proto, *given), 1e-4)
    with pytest.raises(ValueError, match="NonZero 'p' has a length of"):
        model(*given, bounds={"at": 6, "p": 20})

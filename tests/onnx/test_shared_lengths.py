"""Operators that index one array by another: arrays that share a length which depends on values, and empty arrays."""

import re
from collections import Counter

import jax
import numpy as np
import onnx
import onnx.parser
import pytest
from jax.experimental import checkify
from onnx import numpy_helper

from jaxdml.onnx import UnsupportedModelError, load
from tests.kit import quick
from tests.onnx import random_lengths
from tests.onnx.floats import by_onnxruntime, close
from tests.onnx.padded import together

pytestmark = quick

MASKS = {"none": [], "one": [3], "some": [1, 2, 4], "all": range(6)}
X = np.random.default_rng(0).integers(-4, 5, (6, 4)).astype(np.float32)
S = np.random.default_rng(1).integers(-4, 5, (6, 4)).astype(np.float32)

CONSTANTS = {
    **{f"i{number}": np.array([number]) for number in range(6)},
    "i01": np.array([0, 1]),
    "i11": np.array([1, 1]),
    "nought": np.float32(0),
    "n0": np.array(0),
    "n1": np.array(1),
    "flat": np.array([-1]),
    "twos": np.array([2, 2]),
    "u3": np.float32([7, 8, 9]),
    "yes": np.array(True),
}


def parsed(text, opset=18):
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {text}')
    used = {name: array for name, array in CONSTANTS.items() if re.search(rf"\b{re.escape(name)}\b", text)}
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in used.items())
    return proto


def graph(body, outputs="y", rows=6):
    """Return a model: ``kept`` are the ``n`` rows of ``x`` for which ``f`` is positive, ``some`` as many of ``s``."""
    return parsed(
        f"""g (float[{rows}, 4] x, float[{rows}] f, float[{rows}, 4] s) => ({outputs}) {{
        m = Greater(f, nought)
        at = NonZero(m)
        row = Squeeze(at, i0)
        index = Transpose(at)
        n = Shape(row)
        some = Slice(s, i0, n, i0)
        kept = Gather(x, row)
        column = Gather<axis=1>(some, n0)
        first = Gather<axis=1>(x, n0)
        {body}
    }}"""
    )


def mask(case):
    return np.isin(np.arange(6), list(MASKS[case])).astype(np.float32)


SHARED = {
    "ScatterND": "y = ScatterND(x, index, some)",
    **{f"ScatterND {how}": f'y = ScatterND<reduction="{how}">(x, index, some)' for how in ("add", "mul", "min", "max")},
    "ScatterND of elements": "p = NonZero(x) q = Transpose(p) r = Reshape(s, flat) o = Shape<start=1>(p)"
    " u = Slice(r, i0, o) y = ScatterND(x, q, u)",
    "ScatterND of what was kept": "o = Range(n0, c, n1) c = Squeeze(n) q = Unsqueeze(o, i1)"
    " y = ScatterND(kept, q, some)",
    "ScatterElements": "e = Shape(some) a = Expand(index, e) y = ScatterElements(x, a, some)",
    "ScatterElements from the end": "e = Shape(some) c = Shape<end=1>(x) b = Sub(index, c) a = Expand(b, e)"
    " y = ScatterElements(x, a, some)",
    "ScatterElements add": 'e = Shape(kept) a = Expand(index, e) y = ScatterElements<reduction="add">(x, a, some)',
    "ScatterElements off the axis": "c = Greater(kept, nought) a = Cast<to=7>(c)"
    ' y = ScatterElements<axis=1, reduction="add">(x, a, some)',
    "GatherElements off the axis": "c = Greater(kept, nought) a = Cast<to=7>(c) y = GatherElements<axis=1>(some, a)",
    "GatherElements of x": "c = Greater(some, nought) a = Cast<to=7>(c) y = GatherElements<axis=1>(x, a)",
    "GatherND of batches": "c = Greater(kept, nought) a = Cast<to=7>(c) b = Slice(a, i0, i1, i1)"
    " y = GatherND<batch_dims=1>(some, b)",
    "ReverseSequence": "g = Mod(row, i4) h = Add(g, i1) y = ReverseSequence<batch_axis=0, time_axis=1>(some, h)",
    "Compress": "c = Greater(kept, nought) g = Cast<to=9>(c) h = Gather<axis=1>(g, n0) y = Compress<axis=0>(some, h)",
    "Add": "y = Add(kept, some)",
    "Add of three": "a = Add(kept, some) y = Add(a, kept)",
    "Add of columns": "k = Gather<axis=1>(kept, n0) y = Add(k, column)",
    "Add of more": "a = Concat<axis=0>(kept, x) b = Concat<axis=0>(some, x) y = Add(a, b)",
    "Where": "c = Greater(some, nought) y = Where(c, kept, nought)",
    "Concat": "y = Concat<axis=1>(kept, some)",
    "Expand": "k = Reshape(column, c) c = Concat<axis=0>(n, i1) e = Shape(kept) y = Expand(k, e)",
    "MatMul": "t = Transpose(kept) y = MatMul(t, some)",
    "MatMul of batches": "a = Unsqueeze(kept, i1) b = Unsqueeze(some, i2) y = MatMul(a, b)",
    "Gemm": "y = Gemm<transA=1>(kept, some)",
    "Reshape": "e = Concat<axis=0>(n, twos) y = Reshape(some, e)",
    "TopK": "k = Gather<axis=1>(some, n0) y, w = TopK(k, n)",
    "RoiAlign": "a = Abs(kept) p = Concat<axis=0>(i1, i1, flat, i4) b = Reshape(x, p) k = Slice(zeros, i0, n)"
    " zeros = Cast<to=7>(void) void = Mul(f, nought)"
    " y = RoiAlign<output_height=1, output_width=1, sampling_ratio=1>(b, a, k)",
    "NonMaxSuppression": "a = Unsqueeze(kept, i0) b = Unsqueeze(column, i01) y = NonMaxSuppression(a, b, i2)",
    "If": "o = Equal(n, i1) v = If(o) <then_branch = t () => (float[p, 4] a) { a = Neg(kept) },"
    " else_branch = e () => (float[q, 4] b) { b = Identity(kept) }> y = Add(v, some)",
    "a length of a length": "c = Greater(column, nought) p = NonZero(c) r = Squeeze(p, i0) a = Gather(kept, r)"
    " b = Gather(some, r) d = Add(a, b) y = Concat<axis=0>(d, kept)",
}
"""By name: what has its result in ``y``."""


def bounds_of(model, bound):
    kinds = "NonZero", "Compress", "NonMaxSuppression"
    return {name: bound for node in model.graph.walk() if node.op_type in kinds for name in node.outputs}


def check(bodies, calls, bound, **options):
    """Require what onnxruntime returns: of calls, and within bounds; no program gets its true shapes."""
    proto = graph(*together(bodies.values()), **options)
    model = load(proto)
    bounds = bounds_of(model, bound)
    for inputs in calls:
        wanted = by_onnxruntime(proto, *inputs)
        for found in model(*inputs), model(*inputs, bounds=bounds):
            for name, one, other in zip(bodies, found, wanted, strict=True):
                assert one.shape == other.shape, name
                np.testing.assert_allclose(one, other, 1e-5, 1e-5, err_msg=name)
    assert not any(part.in_the_way for _, part in model._calls.parts)


def test_arrays_that_share_a_length_are_brought_to_one_capacity():
    check(SHARED, [(X, mask(case), S) for case in MASKS], 24)


EMPTY = {
    "Gather": "y = Gather(x, row)",
    "GatherElements": "e = Shape(kept) a = Expand(index, e) y = GatherElements(x, a)",
    "GatherND": "y = GatherND(x, index)",
    "ScatterND": "y = ScatterND(x, index, kept)",
    "ScatterElements": 'e = Shape(kept) a = Expand(index, e) y = ScatterElements<reduction="add">(x, a, some)',
    "a selection of a selection": "c = Greater(column, nought) p = NonZero(c) r = Squeeze(p, i0) y = Gather(kept, r)",
    "of no columns": "a = Slice(x, i0, i0, i1) p = NonZero(a) q = Transpose(p) b = GatherND(a, q)"
    " y = ScatterND(a, q, b)",
    "Compress": "y = Compress<axis=0>(x, m)",
    "TopK": "y, w = TopK<axis=0>(x, n)",
    "Reshape": "e = Concat<axis=0>(n, twos) y = Reshape(kept, e)",
    "OneHot": "v = Concat<axis=0>(u, u) u = Cast<to=1>(i1) y = OneHot(row, i3, v)",
    "CumSum": "y = CumSum(kept, n0)",
    "Where": "c = Greater(kept, nought) y = Where(c, some, x)",
}


@pytest.mark.parametrize("rows", [0, 6])
def test_indices_that_do_not_count_are_not_used_on_an_array_without_elements(rows):
    bodies = EMPTY if not rows else {name: body for name, body in EMPTY.items() if name != "Where"}
    x = X[:rows]
    check(bodies, [(x, np.full(rows, -1, np.float32), x)], 5, rows=rows)


COUNTED = """g = Cast<to=7>(m) c = ReduceSum(g, i0) u = Slice(first, i0, c) y = ScatterND(f, index, u)
    z = Slice(x, i1, c)"""


def test_a_slice_up_to_a_number_that_is_computed_may_have_a_bound():
    proto = graph(COUNTED, "y, z")
    model = load(proto)
    for case in MASKS:
        given = X, mask(case), S
        wanted = by_onnxruntime(proto, *given)
        close(model(*given), wanted)
        close(model(*given, bounds={"at": 6, "c": 6}), wanted)
    model = load(graph("v = ReduceMax<keepdims=0>(s) k = Cast<to=7>(v) e = Reshape(k, flat) y = Slice(first, i0, e)"))
    with pytest.raises(ValueError, match="Slice 'y' has a bound, but -1 counts from the end"):
        model(X, mask("some"), -abs(S) - 1, bounds={"at": 6, "y": 6})


SIZES = {
    "written at an index": ("e = Shape(x) d = ScatterElements(e, i0, n) y = Expand(i1, d)", False),
    "written at tuples": (
        'q = Reshape(i0, i11) e = Shape(x) d = ScatterND<reduction="mul">(e, q, i2)'
        " b = Concat<axis=0>(n, d) y = Expand(i1, b)",
        False,
    ),
    "that no rule follows": ("e = Shape(some) d = CumSum(e, n0) y = Expand(i1, d)", True),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_known_or_a_program_gets_true_shapes(name):
    body, refusing = SIZES[name]
    proto = graph(body)
    model = load(proto)
    for case in ("none", "some"):
        close(model(X, mask(case), S), by_onnxruntime(proto, X, mask(case), S))
    assert bool(model._calls.parts[-1][1].in_the_way) == refusing


BROKEN = {
    "u = Slice(s, i0, n, i0) y = ScatterND(x, index, u)": "ScatterND 'y' has sizes 6 and 3, which must be equal",
    "y = ScatterND(first, index, u3)": "ScatterND 'y' has sizes 6 and 3, which must be equal",
    "c = Greater(kept, nought) a = Cast<to=7>(c) y = GatherElements<axis=1>(s, a)": "GatherElements 'y' has"
    " sizes 6 and 3, of which the first must not be the larger one",
    "y = Add(kept, some)": "Add 'y' has sizes 6 and 3, of which one must be 1, or both equal",
    "v = Slice(first, i0, i3) k = Gather<axis=1>(kept, n0) y = Add(v, k)": "Add 'y' has sizes 3 and 6, of which",
}
"""Bodies that fit where three rows are kept, and what is said where it is six."""


@pytest.mark.parametrize("body", BROKEN)
def test_a_promise_that_is_not_kept_raises_in_a_call_and_is_reported_under_checkify(body):
    proto, message = graph(body), BROKEN[body]
    proto.graph.input[2].type.tensor_type.shape.dim[0].dim_value = 3
    model = load(proto)
    fitting, others = (X, mask("some"), S[:3]), (X, mask("all"), S[:3])
    bounds = {"at": 6}
    for given in ({}, {"bounds": bounds}):
        close(model(*fitting, **given), by_onnxruntime(proto, *fitting))
        with pytest.raises(ValueError, match=message):
            model(*others, **given)
    assert not any(part.in_the_way for _, part in model._calls.parts)


def test_a_promise_is_reported_only_where_the_caller_asks_for_checks():
    model = load(graph("y = ScatterND(first, index, u3)"))

    def apply(checks, *given):
        return model.apply(model.params, *given, bounds={"at": 6}, checks=checks)

    checked = jax.jit(checkify.checkify(lambda *given: apply(True, *given), errors=checkify.user_checks))
    error, _ = checked(X, mask("all"), S)
    assert BROKEN["y = ScatterND(first, index, u3)"] in error.get()
    error, (found,) = checked(X, mask("some"), S)
    assert error.get() is None
    np.testing.assert_array_equal(found, apply(False, X, mask("some"), S)[0])


NEVER = {
    "y = ScatterND(first, index, u3)": r"sizes 3 and length of 'at' \(at most 2\), which must be equal",
    "y = ScatterND(x, index, first)": r"updates must have the shape \[any, 4\], not \[6\]",
    "e = Concat<axis=0>(n, i5) a = Expand(index, e) y = GatherElements(x, a)": "sizes 5 and 4, of which the",
    "y = GatherND(x, at)": "GatherND 'y' needs to know tuples of length of 'at' indices",
}


def test_sizes_that_never_fit_are_refused_while_tracing():
    for body, message in NEVER.items():
        with pytest.raises((ValueError, UnsupportedModelError), match=message):
            load(graph(body))(X, mask("some"), S, bounds={"at": 2})


def test_a_dimension_of_one_is_repeated_also_where_its_size_is_a_length():
    proto = graph(
        "k = Slice(row, i0, i1) c = Cast<to=1>(k) y = Sub(c, first) a = Slice(row, i1, i2) z = Add(row, a)", "y, z"
    )
    model = load(proto)
    for given in ((X, mask("some"), S), (X, mask("all"), S)):
        wanted = by_onnxruntime(proto, *given)
        close(model(*given), wanted)
        close(model(*given, bounds={"at": 6}), wanted)


def test_a_body_relies_on_no_promise_in_a_call():
    """It gets true shapes; within bounds it is reported."""
    proto = graph(
        "v = ReduceSum<keepdims=0>(x) c = Greater(v, nought) y = If(c) <then_branch = t () => (float[6, 4] a)"
        " { a = ScatterND(x, index, some) }, else_branch = e () => (float[6, 4] b) { b = Neg(x) }>"
    )
    model = load(proto)
    for x in (X, -X):
        given = x, mask("some"), S
        wanted = by_onnxruntime(proto, *given)
        close(model(*given), wanted)
        close(model(*given, bounds={"at": 6}), wanted)
    assert model._calls.parts[-1][1].in_the_way


BODIES = {
    "a loop": """c = Squeeze(n) y = Loop(c, yes, nought) <body = b (int64 i, bool on, float t) => (bool off, float r)
        { q = Gather(first, i) p = Gather(column, i) w = Add(p, q) r = Add(t, w) off = Identity(on) }>""",
    "a loop without turns": """c = Squeeze(i0) y = Loop(c, yes, nought) <body = b (int64 i, bool on, float t) =>
        (bool off, float r) { q = Gather(first, i) r = Add(t, q) off = Identity(on) }>""",
    "a branch": """v = ReduceSum<keepdims=0>(s) c = Greater(v, nought) y = If(c) <then_branch = t () => (float[o, p] a)
        { e = Concat<axis=0>(i1, i4) d = Expand(i0, e) q = GatherElements(x, d) k = Unsqueeze(i0, i1)
        w = GatherND(x, k) a = Add(q, w) }, else_branch = e () => (float[q, r] b) { b = Unsqueeze(f, i1) }>""",
}
"""What would read an array without elements, were it run."""


@pytest.mark.parametrize("name", BODIES)
def test_bodies_that_do_not_run_may_read_arrays_without_elements(name):
    proto = graph(BODIES[name], rows=0)
    given = X[:0], np.zeros(0, np.float32), S[:0]
    close(load(proto)(*given), by_onnxruntime(proto, *given))


@pytest.mark.parametrize("number", range(4))
def test_random_graphs_return_what_onnxruntime_does(number):
    assert not random_lengths.problems(random_lengths.draw(11, number), Counter())

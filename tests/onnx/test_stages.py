"""Models whose shapes depend on values run in stages, with weights as parameters and results of their true shapes."""

from functools import partial

import jax
import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

from jaxdml.onnx import load
from jaxdml.onnx._memory import on_host
from jaxdml.onnx.running.interpreter import Report
from jaxdml.onnx.values.bounded import NONE
from tests.kit import quick
from tests.onnx.floats import as_onnxruntime, by_onnxruntime
from tests.onnx.padded import without_rule

pytestmark = quick


def graph(text, **initializers):
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in initializers.items())
    return proto


WEIGHTS = np.random.default_rng(0).normal(size=(2, 3, 3, 3)).astype(np.float32)
IMAGES = [np.random.default_rng(seed).normal(size=(1, 3, 6, 6)).astype(np.float32) for seed in range(4)]

CHOSEN = """chosen (float[1, 3, 6, 6] x) => (float[n] y, int64[4, n] at, int64[1] count) {
    c = Conv(x, w)
    seen = Greater(c, one)
    at = NonZero(seen)
    places = Transpose<perm = [1, 0]>(at)
    found = GatherND(c, places)
    d = Mul(found, scale)
    y = Relu(d)
    count = Shape(y)
}"""


CONSTANTS = {"w": WEIGHTS, "one": np.float32(1), "scale": np.float32([2.5])}


def chosen():
    return graph(CHOSEN, **CONSTANTS)


def programs(proto):
    parts = load(proto)._calls.parts or ()
    return [(stage.on_host, [node.op_type for node in stage.graph.nodes]) for stage, _ in parts]


def test_a_node_that_must_know_its_operand_runs_between_programs():
    assert programs(chosen()) == [
        (False, ["Conv", "Greater"]),
        (True, ["NonZero"]),
        (False, ["Transpose", "GatherND", "Mul", "Relu", "Shape"]),
    ]
    model = load(chosen())
    for image in IMAGES:
        found, wanted = model(image), by_onnxruntime(chosen(), image)
        assert [x.shape for x in found] == [x.shape for x in wanted]
        np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5)
        np.testing.assert_array_equal(found[1], wanted[1])


def test_programs_have_room_for_more_than_the_first_call_finds():
    model = load(chosen())
    counts = {model(image)[0].shape[0] for image in IMAGES}
    assert len(counts) == 4
    (_, first), _, (_, last) = model._calls.parts
    assert len(first) == 1
    assert len(last) == 1
    assert not last.in_the_way


def test_lengths_of_one_stage_are_those_of_an_earlier_call_if_these_are_enough_and_not_far_too_much():
    text = """g (float[512] x) => (float[a] p, float[b] q) {
        positive = Greater(x, least)
        at = NonZero(positive)
        some = Squeeze(at, first)
        few = Gather(x, some)
        p = Neg(few)
        large = Greater(x, much)
        there = NonZero(large)
        others = Squeeze(there, first)
        more = Gather(x, others)
        q = Neg(more)
    }"""
    model = load(graph(text, least=np.float32(0), much=np.float32(9), first=np.array([0])))

    def found(positive, large):
        x = np.repeat(np.float32([10, 1, -1]), [large, positive - large, 512 - positive])
        p, q = model(x)
        np.testing.assert_array_equal(p, -x[:positive])
        np.testing.assert_array_equal(q, -x[:large])
        *_, (_, last) = model._calls.parts
        return len(last)

    assert found(100, 60) == 1
    assert found(110, 20) == 1
    assert found(30, 20) == 1
    assert found(500, 10) == 2
    assert [found(16, 10) for _ in range(9)][::8] == [2, 3]
    assert [found(40, 20) for _ in range(9)] == [3] * 9
    assert found(40, 20) == found(41, 18) == found(100, 60) == 4  # What is called often gets one of its own.


PASTED = """pasted (float[4, 3, 3] masks, int64[4, 2] sizes) => (float[k, 9, 9] y) {
    kept = ReduceMax<keepdims = 0, axes = [1, 2]>(masks)
    seen = Greater(kept, least)
    at = NonZero(seen)
    count = Size(at)
    y = Loop(count, , none) <body = b (int64 i, bool go, float[j, 9, 9] before) => (bool on, float[l, 9, 9] after) {
        on = Identity(go)
        mask = Gather(masks, i)
        size = Gather(sizes, i)
        image = Unsqueeze(mask, axes)
        whole = Concat<axis = 0>(ones, size)
        resized = Resize<mode = "linear">(image, , , whole)
        flat = Squeeze(resized, axes)
        rest = Sub(nine, size)
        pads = Concat<axis = 0>(noughts, rest)
        padded = Pad(flat, pads)
        one = Unsqueeze(padded, first)
        after = Concat<axis = 0>(before, one)
    }>
}"""


def test_a_loop_on_the_host_compiles_nothing_for_what_each_turn_resizes():
    values = {"least": np.float32(0), "none": np.zeros((0, 9, 9), np.float32), "axes": np.array([0, 1])}
    values |= {"ones": np.array([1, 1]), "nine": np.array([9, 9]), "noughts": np.array([0, 0]), "first": np.array([0])}
    proto = graph(PASTED, **values)
    masks = np.random.default_rng(0).normal(size=(4, 3, 3)).astype(np.float32)
    sizes = np.array([[2, 9], [7, 5], [1, 3], [8, 8]])
    (wanted,) = by_onnxruntime(proto, masks, sizes)
    model = load(proto)
    np.testing.assert_allclose(model(masks, sizes)[0], wanted, rtol=1e-5, atol=1e-6)
    stage, part = model._calls.parts[-1]
    assert stage.on_host
    assert stage.graph.nodes[-1].op_type == "Loop"
    given = {name: np.asarray(array) for name, array in model.params.items()}
    given |= {"masks": masks, "sizes": sizes, "at": np.arange(4)[None]}
    with on_host():
        (pasted,) = part._program.computed(lambda value: value, given, None, Report(), NONE)
    assert type(pasted) is np.ndarray


@without_rule("LpNormalization")
def test_programs_that_cannot_mask_are_compiled_once_for_each_shape():
    model = load(graph(CHOSEN.replace("Relu(d)", "LpNormalization(d)"), **CONSTANTS))
    counts = {model(image)[0].shape[0] for image in [*IMAGES, *IMAGES]}
    (_, first), _, (_, last) = model._calls.parts
    assert len(first) == 1
    assert all("LpNormalization" in reason for reason in last.in_the_way.values())
    assert len(last) == len(counts) == 4


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 64])
def test_what_is_found_keeps_its_length_through_further_programs(count):
    text = """g (float[64, 2] x) => (float[n, 2] y, float[m, 2] z, int64[a, b] u, float[c] w) {
        column = Gather<axis = 1>(x, nought)
        positive = Greater(column, least)
        at = NonZero(positive)
        row = Squeeze(at, zero)
        y = Gather(x, row)
        sign = Less(y, least)
        u = NonZero(sign)
        last = Gather(u, nought)
        both = Add(y, y)
        some = Gather(both, last)
        z = Concat<axis = 0>(some, y, x)
        many = Size(last)
        none = Equal(many, nought)
        w = If(none) <then_branch = p () => (float[2] a) { a = Identity(pair) },
            else_branch = q () => (float[2] b) { b = ReduceSum<keepdims = 0>(y, zero) }>
    }"""
    values = {"nought": np.array(0), "zero": np.array([0]), "least": np.float32(0), "pair": np.float32([7, 8])}
    rng = np.random.default_rng(count)
    x = np.stack([np.where(rng.permutation(64) < count, 1, -1), rng.normal(size=64)], 1).astype(np.float32)
    proto = graph(text, **values)
    as_onnxruntime(proto, x)
    model = load(proto)
    model(x)
    assert [on_host for on_host, _ in programs(proto)] == [False, True, False, True, False]
    assert not any(part.in_the_way for _, part in model._calls.parts)


BRANCHES = """branches (float[6] x) => (y, int64[v] kinds) {
    positive = Greater(x, least)
    at = NonZero(positive)
    row = Squeeze(at, zero)
    some = Gather(x, row)
    total = ReduceSum<keepdims = 0>(some)
    much = Greater(total, least)
    found = If(much) <then_branch = p () => (FIRST a) { a = Identity(some) },
        else_branch = q () => (SECOND b) { OTHER }>
    y = Neg(found)
    rounded = Cast<to = 7>(x)
    kinds = Unique(rounded)
}"""


@pytest.mark.parametrize(
    ("first", "second", "other"),
    [
        ("float[n]", "float[m]", "b = Concat<axis = 0>(some, x)"),
        ("float[n]", "float[1, 6]", "b = Unsqueeze(x, zero)"),
        ("float[n]", "float[0]", "b = Constant<value = float[0] {}>()"),
    ],
)
def test_branches_on_the_host_may_return_other_sizes(first, second, other):
    text = BRANCHES.replace("FIRST", first).replace("SECOND", second).replace("OTHER", other)
    proto = graph(text, least=np.float32(0), zero=np.array([0]))
    for x in ([1, -2, 3, 0, 5, -1], [-1, -2, -3, 0, -5, -1]):
        as_onnxruntime(proto, np.float32(x))


def test_a_branch_on_the_host_may_return_a_sequence():
    text = """g (float[2] x) => (float[n] y) {
        many = ReduceMax<keepdims = 0>(x)
        yes = Greater(many, least)
        list = If(yes) <then_branch = p () => (seq(float[n]) a) { a = SequenceConstruct(x) },
            else_branch = q () => (seq(float[n]) b) { b = SequenceConstruct(x, x) }>
        y = ConcatFromSequence<axis = 0>(list)
    }"""
    proto = graph(text, least=np.float32(0))
    for x in ([1, 2], [-1, -2]):
        as_onnxruntime(proto, np.float32(x))


def test_a_sequence_passes_between_stages():
    text = """g (float[4] x) => (seq(float[n]) y, float[m] z) {
        positive = Greater(x, least)
        at = NonZero(positive)
        row = Squeeze(at, zero)
        some = Gather(x, row)
        y = SequenceConstruct(some, x)
        z = Neg(some)
    }"""
    model = load(graph(text, least=np.float32(0), zero=np.array([0])))
    (some, x), z = model(np.float32([1, -2, 3, 0]))
    np.testing.assert_array_equal(some, [1, 3])
    np.testing.assert_array_equal(x, [1, -2, 3, 0])
    np.testing.assert_array_equal(z, [-1, -3])


def test_weights_stay_parameters():
    model = load(chosen())
    model(IMAGES[0])
    (_, first), *_ = parts = model._calls.parts
    assert [part._program.params.keys() for _, part in parts] == [
        model.params_of(stage.given).keys() for stage, _ in parts
    ]
    text = jax.jit(partial(first.traced, ())).lower(first._program.leaves, {"x": IMAGES[0]}, None).as_text()
    (main,) = (line for line in text.splitlines() if "@main" in line)
    assert "tensor<3x3x3x2xf32>" in main


def test_nothing_chosen():
    model = load(chosen())
    found = model(np.zeros((1, 3, 6, 6), np.float32))
    assert [x.shape for x in found] == [(0,), (4, 0), (1,)]


def test_a_compiled_function_says_what_it_must_know():
    model = load(chosen())
    with pytest.raises(NotImplementedError, match="NonZero 'at' is 'seen', which depends on values that are traced"):
        jax.jit(model.apply)(model.params, IMAGES[0])


def test_a_model_without_such_nodes_is_one_program():
    assert (
        load(graph("plain (float[1, 3, 6, 6] x) => (float[n, m, h, w1] y) { y = Conv(x, w) }", w=WEIGHTS))._calls.parts
        is None
    )


BOXES = """boxes (float[n, 4] boxes, float[n] scores) => (float[m, 4] kept, float[m] best) {
    sure = Greater(scores, least)
    at = NonZero(sure)
    row = Squeeze(at, zero)
    some = Gather(boxes, row)
    theirs = Gather(scores, row)
    count = Shape(theirs)
    none = Equal(count, zero)
    empty = Squeeze(none)
    places = If(empty) <then_branch = nothing () => (int64[k] a) {
        a = Constant<value = int64[0] {}>()
    }, else_branch = suppress () => (int64[k2] b) {
        batch = Unsqueeze(some, zero)
        classes = Unsqueeze(theirs, both)
        found = NonMaxSuppression(batch, classes, many, overlap)
        last = Gather<axis = 1>(found, two)
        b = Squeeze(last, one)
    }>
    limit = Min(count, many)
    kept_scores = Gather(theirs, places)
    enough = Shape(kept_scores)
    k = Min(limit, enough)
    best, order = TopK(kept_scores, k)
    final = Gather(places, order)
    kept = Gather(some, final)
}"""


def boxes():
    values = {"zero": [0], "one": [1], "two": [2], "both": [0, 1], "many": [3]}
    return graph(
        BOXES, least=np.float32(0.4), overlap=np.float32([0.5]), **{n: np.array(v, np.int64) for n, v in values.items()}
    )


@pytest.mark.parametrize("case", ["many", "none", "one"])
def test_boxes_are_suppressed_where_there_are_some(case):
    rng = np.random.default_rng(5)
    corner, size = rng.uniform(0, 5, (12, 2)), rng.uniform(1, 4, (12, 2))
    scores = rng.uniform(size=12).astype(np.float32)
    scores = {"many": scores, "none": scores * 0, "one": np.eye(12, dtype=np.float32)[3]}[case]
    as_onnxruntime(boxes(), np.concatenate((corner, corner + size), 1).astype(np.float32), scores)


def test_shapes_of_what_was_found_are_known_in_the_next_program():
    stages = programs(boxes())
    assert [on_host for on_host, _ in stages] == [False, True, False, True, False]
    assert all("TopK" not in kinds for _, kinds in stages[:4])
    assert "If" in stages[3][1]


def test_an_input_that_says_a_shape_is_a_constant_and_data_is_not():
    text = (
        "g (float[2, 3] x, int64[2] shape) => (float[a, b] y, int64[2, n] at) { y = Reshape(x, shape) at = NonZero(x) }"
    )
    proto = graph(text)
    model = load(proto)
    assert model.static_inputs == {"x", "shape"}
    assert model._calls.constants == {"shape"}
    as_onnxruntime(proto, np.float32([[0, 1, 2], [3, 0, 4]]), np.array([3, 2]))


SPOKEN = """spoken (float[1, N] x, int64[1] length) => (float[1, M] y) {
    s = Shape(x) n = Gather(s, last)
    steps = Range(zero, n, one) counts = Less(steps, length)
    known = Where(counts, x, nothing)
    long = Round(known) total = CumSum(long, last) much = ReduceMax<keepdims = 0>(total) end = Cast<to = 7>(much)
    frames = Range(zero, end, one)
    t = Shape(frames) u = Cast<to = 1>(t) v = Squeeze(u)
    times = Range(nought, v, whole) w = Mul(times, half)
    y = Unsqueeze(w, first)
}"""


def test_programs_serve_lengths_that_follow_from_data():
    """An input of lengths from which, with data, a size follows is data too."""
    numbers = {"zero": np.array(0), "one": np.array(1), "last": np.array(1), "first": np.array([0])}
    floats = {"nothing": 0, "nought": 0, "whole": 1, "half": 0.5}
    proto = graph(SPOKEN, **numbers, **{name: np.float32(value) for name, value in floats.items()})
    model = load(proto)
    assert model._calls.constants == set()
    for n, length in ((6, 4), (9, 9), (7, 2), (8, 5), (6, 6)):
        x = np.random.default_rng(n).uniform(1, 3, (1, n)).astype(np.float32)
        as_onnxruntime(proto, x, np.array([length]))
        (y,), (wanted,) = model(x, np.array([length])), by_onnxruntime(proto, x, np.array([length]))
        np.testing.assert_array_equal(y, wanted)
    assert [len(part) for stage, part in model._calls.parts if not stage.on_host] == [2, 1]


def test_a_report_traces_all_stages():
    for proto in (chosen(), boxes()):
        model = load(proto)
        lines = model.report().splitlines()
        assert [line.split()[0] for line in lines[1 : 1 + len(model.graph.needed)]] == [
            node.name for node in model.graph.needed
        ]


def test_random_nodes_of_different_stages_draw_differently():
    proto = graph(
        "g (float[8] x) => (float[8] a, float[n] b) { a = RandomNormalLike(x) at = NonZero(x) row = Squeeze(at)"
        " y = Gather(x, row) b = RandomNormalLike(y) }"
    )
    model = load(proto)
    a, b = model(np.ones(8, np.float32), key=jax.random.key(1))
    again, _ = model(np.ones(8, np.float32), key=jax.random.key(1))
    assert a.shape == b.shape
    assert not np.intersect1d(a, b).size
    np.testing.assert_array_equal(a, again)


def test_outputs_that_are_left_out_are_not_waited_for():
    text = """g (float[1, 2, 4] x, float[1, 2, 4] z) => (float[a, b, c] y, float[a, b, c] t) {
        y, , , s = com.microsoft.SkipLayerNormalization(x, z, gamma)
        t = Resize<mode = "nearest">(s, , scales)
    }"""
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> {text}')
    initializers = {"gamma": np.ones(4, np.float32), "scales": np.float32([1, 1, 2])}
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in initializers.items())
    model = load(proto)
    assert model._calls.parts is None
    assert model.static_inputs == set()
    x = np.arange(8, dtype=np.float32).reshape(1, 2, 4)
    np.testing.assert_array_equal(jax.jit(model.apply)(model.params, x, x)[1], np.repeat(2 * x, 2, axis=2))


def test_a_stage_takes_only_the_weights_that_it_reads():
    model = load(chosen())
    stages = [(stage.on_host, sorted(set(stage.given) & set(model.params))) for stage, _ in model._calls.parts]
    assert stages == [(False, ["w"]), (True, []), (False, ["scale"])]

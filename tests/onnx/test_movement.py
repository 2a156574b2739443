"""Operators that move elements, and that make tensors from shapes: what onnx's node tests leave out."""

import itertools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx.parser
import pytest
from jax import export
from onnx import TensorProto, helper

from jaxdml.onnx import load
from jaxdml.onnx.nodes import _sizes
from tests.kit import quick
from tests.onnx.one_node import check, check_both, check_with_onnxruntime, one_node, run_known, run_traced

pytestmark = quick

BIG = np.iinfo(np.int64)


def i64(*values):
    return np.array(values, np.int64)


def numbers(*shape, dtype=np.float32):
    return (np.arange(np.prod(shape, dtype=int)) - 7).reshape(shape).astype(dtype)


CASES = {
    "flatten_all": ("Flatten", [numbers(2, 3, 4)], {"axis": 3}),
    "flatten_negative": ("Flatten", [numbers(2, 3, 4)], {"axis": -1}),
    "squeeze_attribute": ("Squeeze", [numbers(1, 3, 1)], {"axes": [-1], "opset": 11}),
    "squeeze_all": ("Squeeze", [numbers(1, 3, 1)], {}),
    "unsqueeze_attribute": ("Unsqueeze", [numbers(3)], {"axes": [2, 0], "opset": 12}),
    "unsqueeze_unsorted": ("Unsqueeze", [numbers(3), i64(-1, 0)], {}),
    "expand_both_ways": ("Expand", [numbers(3, 1), i64(2, 1, 4)], {}),
    "expand_to_nothing": ("Expand", [numbers(1, 3), i64(0, 1)], {}),
    "tile_to_nothing": ("Tile", [numbers(2, 3), i64(0, 2)], {}),
    "concat_nothing": ("Concat", [numbers(2, 0, 3), numbers(2, 4, 3)], {"axis": -2}),
    "split_equally": ("Split", [numbers(2, 6)], {"axis": 1, "outputs": 3, "opset": 11}),
    "split_attribute": ("Split", [numbers(2, 6)], {"axis": -1, "outputs": 2, "split": [2, 4], "opset": 12}),
    "split_to_nothing": ("Split", [numbers(3), i64(0, 3)], {"outputs": 2}),
    "split_number": ("Split", [numbers(7, 2)], {"num_outputs": 3, "outputs": 3}),
    "slice_attributes": ("Slice", [numbers(4, 5)], {"starts": [1, -9], "ends": [1000, -1], "opset": 9}),
    "slice_attribute_axes": ("Slice", [numbers(4, 5)], {"starts": [1], "ends": [3], "axes": [1], "opset": 8}),
    "slice_backwards": (
        "Slice",
        [numbers(4, 5), i64(BIG.max, -100), i64(BIG.min, -100), i64(0, -1), i64(-1, -2)],
        {"opset": 10},
    ),
    "slice_forwards": ("Slice", [numbers(4, 5), i64(-100, 3), i64(BIG.max, 1)], {}),
    "pad_attributes": ("Pad", [numbers(3, 2)], {"pads": [1, 0, -1, 2], "value": 2.5, "opset": 10}),
    "pad_edge_attributes": ("Pad", [numbers(3, 2)], {"pads": [1, 0, -1, 2], "mode": "edge", "opset": 2 + 5}),
    "pad_axes": ("Pad", [numbers(3, 4, dtype=np.int8), i64(1, -1), np.array(9, np.int8), i64(-1)], {}),
    "pad_and_crop_more": ("Pad", [numbers(3), i64(5, -7)], {}),
    "pad_nothing": ("Pad", [numbers(0, 3), i64(1, 0, 2, 0), np.array(1, np.float32)], {}),
    "crop_before_reflection": ("Pad", [numbers(4, 5), i64(-1, 2, 2, -1)], {"mode": "reflect"}),
    "crop_before_wrapping": ("Pad", [numbers(4, 5), i64(-1, 2, 2, -1)], {"mode": "wrap"}),
    "crop_before_edges": ("Pad", [numbers(4, 5), i64(-1, 2, 2, -1)], {"mode": "edge"}),
    "depth_to_space": ("DepthToSpace", [numbers(2, 8, 2, 3)], {"blocksize": 2, "mode": "CRD"}),
    "space_to_depth": ("SpaceToDepth", [numbers(2, 3, 4, 6)], {"blocksize": 2, "opset": 7}),
    "reverse_sequence": ("ReverseSequence", [numbers(4, 3, 2), i64(0, 4, 3)], {}),
    "reverse_batch_first": ("ReverseSequence", [numbers(3, 4), i64(1, 4, 2)], {"batch_axis": 0, "time_axis": 1}),
    "shape_clamps": ("Shape", [numbers(2, 3, 4)], {"start": -9, "end": 9}),
    "shape_crossing": ("Shape", [numbers(2, 3, 4)], {"start": 2, "end": 1}),
    "size_of_nothing": ("Size", [numbers(2, 0)], {}),
    "constant_scalar": ("ConstantOfShape", [i64()], {}),
    "range_backwards": ("Range", [np.array(5), np.array(-5), np.array(-3)], {}),
    "range_of_nothing": ("Range", [np.array(5), np.array(4), np.array(2)], {}),
    "range_rounded_up": ("Range", [np.float32([0])[0] + np.zeros(()), *np.array([0.3, 0.125])], {}),
    "eye_like_type": ("EyeLike", [numbers(3, 4)], {"dtype": TensorProto.INT64, "k": -1}),
    "trilu_no_k": ("Trilu", [numbers(2, 3, 3)], {"upper": 0}),
    "one_hot_negative": ("OneHot", [i64(2, -4, -1, 3), np.array(3), np.array([5, 9])], {"axis": 0}),
}


@pytest.mark.parametrize("name", CASES)
def test_known_and_traced_operands_give_what_onnxruntime_gives(name):
    kind, inputs, options = CASES[name]
    inputs = [np.asarray(value) for value in inputs]
    check_with_onnxruntime(kind, *inputs, **options)


def test_a_start_before_a_reversed_axis_is_its_first_element():
    check_both(one_node("Slice", *(a := [numbers(4), i64(-100), i64(-200), i64(0), i64(-1)])), [numbers(4)[:1]], *a)


def test_indices_of_one_hot_are_whole_and_unsigned_ones_never_negative():
    hot = np.float32([0, 1])
    for indices, wanted in (
        (np.float32([1.9, -1.7]), [[0, 1, 0], [0, 0, 1]]),
        (np.uint32([2**32 - 1, 2]), [[0, 0, 0], [0, 0, 1]]),
    ):
        inputs = indices, np.array([3.0], np.float32), hot
        check_both(one_node("OneHot", *inputs), [np.array(wanted, np.float32)], *inputs)


def test_space_to_depth_undoes_depth_to_space():
    x = numbers(2, 8, 2, 3, dtype=np.uint8)
    for mode in ("DCR", "CRD"):
        (spread,) = run_known(load(one_node("DepthToSpace", x, blocksize=2, mode=mode)), x)
        check([x], run_known(load(one_node("SpaceToDepth", spread, blocksize=2, mode=mode, opset=28)), spread))


def test_small_floats_count_in_float32():
    start, limit, delta = (np.array(v, ml_dtypes.bfloat16) for v in (0, 300, 1))
    inputs = start, limit, delta
    (found,) = run_known(load(one_node("Range", *inputs, opset=27)), *inputs)
    np.testing.assert_array_equal(
        found.astype(np.float32), np.arange(300).astype(ml_dtypes.bfloat16).astype(np.float32)
    )


def test_what_moves_keeps_every_dtype():
    for dtype in (np.bool_, np.int8, np.uint16, ml_dtypes.bfloat16, np.float16):
        x = numbers(2, 3).astype(dtype)
        for inputs, options in (([x, i64(1, 2)], {}), ([x], {"perm": [1, 0]})):
            kind = "Tile" if len(inputs) == 2 else "Transpose"
            wanted = np.tile(x, (1, 2)) if kind == "Tile" else x.T
            (found,) = run_traced(load(one_node(kind, *inputs, **options)), *inputs)
            assert found.dtype == x.dtype
            assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("kind", "inputs", "options", "why"),
    [
        ("Flatten", [numbers(2, 3)], {"axis": -3}, "axis -3 is out of range for rank 2"),
        ("Reshape", [numbers(0, 3), i64(0, -1)], {"allowzero": 1}, "both 0 and -1"),
        ("Expand", [numbers(3), i64(-1)], {}, "do not broadcast"),
        ("Expand", [numbers(1), i64(-2)], {}, "do not broadcast"),
        ("Expand", [numbers(3), i64(2)], {}, "do not broadcast"),
        ("Tile", [numbers(3), i64(2, 2)], {}, "2 repeats are given for rank 1"),
        ("Split", [numbers(5)], {"outputs": 2, "opset": 13}, "does not split into 2 parts of"),
        ("Split", [numbers(5)], {"outputs": 4, "num_outputs": 4}, "does not split into 4 parts of"),
        ("Split", [numbers(5), i64(6, -1)], {"outputs": 2}, "does not split into 2 parts of"),
        ("Pad", [numbers(5), i64(1, 1)], {"mode": "mirror"}, "the mode of a Pad is 'mirror'"),
        ("Pad", [numbers(5), i64(1)], {}, "1 pads are given for 1 axes"),
        ("DepthToSpace", [numbers(1, 4, 1, 1)], {"blocksize": 2, "mode": "RCD"}, "neither 'DCR' nor 'CRD'"),
        ("Range", [np.array(0), np.array(3), np.array(0)], {}, "the delta of a Range is 0"),
    ],
)
def test_what_does_not_fit_is_refused(kind, inputs, options, why):
    with pytest.raises(ValueError, match=why):
        run_known(load(one_node(kind, *inputs, **options)), *inputs)


@pytest.mark.parametrize(
    ("kind", "inputs", "options"),
    [
        ("ConstantOfShape", [i64(2**20, 2**20, 2**20)], {}),
        ("Expand", [numbers(1), i64(2**60)], {}),
        ("Tile", [numbers(2), i64(2**60)], {}),
        ("Range", [np.array(0), np.array(2**60), np.array(1)], {}),
        ("OneHot", [i64(1), np.array(2**60), np.float32([0, 1])], {}),
        ("Pad", [numbers(1), i64(2**60, 0)], {}),
    ],
)
def test_what_no_machine_holds_is_refused_before_memory_is_taken(kind, inputs, options):
    with pytest.raises(ValueError, match="No memory was taken"):
        run_known(load(one_node(kind, *inputs, **options)), *inputs)


def test_a_large_result_is_computed_by_the_program(monkeypatch):
    monkeypatch.setattr(_sizes, "ON_HOST", 4)
    value = helper.make_tensor("value", TensorProto.INT64, [1], [5])
    for kind, given, options, wanted in (
        ("ConstantOfShape", [i64(2, 2)], {"value": value}, np.full((2, 2), 5, np.int32)),
        ("Range", [np.array(3), np.array(9), np.array(2)], {}, np.int32([3, 5, 7])),
        ("Range", list(np.float32([3, 4, 0.5])), {}, np.float32([3, 3.5])),
        ("EyeLike", [numbers(2, 2)], {}, np.eye(2, dtype=np.float32)),
        ("OneHot", [i64(1), np.array(2), np.float32([0, 1])], {}, np.float32([[0, 1]])),
    ):
        inputs = [np.asarray(value) for value in given]
        model = load(one_node(kind, *inputs, **options))
        program = jax.jit(lambda model=model, inputs=inputs: model.apply({}, *inputs)[0]).lower().as_text()
        assert "constant dense<[" not in program or kind == "OneHot"  # Its two values.
        check([wanted], run_known(model, *inputs))


def exported(text, *shapes, inputs):
    """Run what a model of this text becomes when its sizes are symbols, and the model."""
    model = load(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}'))
    scope = export.SymbolicScope()
    specs = [
        jax.ShapeDtypeStruct(export.symbolic_shape(shape, scope=scope), value.dtype)
        for shape, value in zip(shapes, inputs, strict=True)
    ]
    program = export.export(jax.jit(lambda *values: model.apply(model.params, *values)))(*specs)
    return program.call(*inputs), model(*inputs)


def test_far_ends_of_a_slice_are_the_edge_of_a_symbolic_size():
    found, wanted = exported(
        """g (float[B, 3] x) => (float[B, 3] y, float[B, 3] z) {
            first = Constant <value = int64[1] {0}> ()
            far = Constant <value = int64[1] {1000000000}> ()
            before = Constant <value = int64[1] {-1000000000}> ()
            back = Constant <value = int64[1] {-1}> ()
            a = Slice (x, first, far, first)
            b = Slice (x, before, far, first)
            y = Mul (a, b)
            c = Slice (x, far, before, first, back)
            z = Add (c, y)
        }""",
        "b, 3",
        inputs=[numbers(4, 3)],
    )
    check([np.asarray(x) for x in wanted], [np.asarray(x) for x in found])


def test_chains_of_shapes_take_symbolic_sizes():
    found, wanted = exported(
        """g (float[B, 3, 4] x) => (float[B, N] y, int64[3] s, int64 n, int64[B] r, float[B, 3] c, float[B, 3, 4] e) {
            zero = Constant <value = int64 {0}> ()
            one = Constant <value = int64 {1}> ()
            first = Constant <value = int64[1] {0}> ()
            rest = Constant <value = int64[1] {-1}> ()
            three = Constant <value = int64[1] {3}> ()
            row = Constant <value = float[1, 1, 4] {1, 2, 3, 4}> ()
            s = Shape (x)
            n = Size (x)
            size = Gather (s, zero)
            batch = Unsqueeze (size, first)
            target = Concat <axis = 0> (batch, rest)
            y = Reshape (x, target)
            r = Range (zero, size, one)
            table = Concat <axis = 0> (batch, three)
            c = ConstantOfShape (table)
            e = Expand (row, s)
        }""",
        "b, 3, 4",
        inputs=[numbers(2, 3, 4)],
    )
    check([np.asarray(value) for value in wanted], [np.asarray(value) for value in found])
    assert found[0].shape == (2, 12)


def test_slices_of_symbolic_sizes_reach_their_edges():
    found, wanted = exported(
        """g (float[B, C] x) => (float[B, C] forwards, float[B, C] back, float[B, C] most) {
            start = Constant <value = int64[2] {1, 0}> ()
            end = Constant <value = int64[2] {9223372036854775807, 9223372036854775807}> ()
            before = Constant <value = int64[2] {-9223372036854775807, -9223372036854775807}> ()
            last = Constant <value = int64[2] {-1, -1}> ()
            axes = Constant <value = int64[2] {0, 1}> ()
            zero = Constant <value = int64[1] {0}> ()
            rows = Shape <start = 0, end = 1> (x)
            forwards = Slice (x, start, end)
            back = Slice (x, last, before, axes, last)
            most = Slice (x, zero, rows, zero)
        }""",
        "b, c",
        inputs=[numbers(3, 4)],
    )
    check([np.asarray(value) for value in wanted], [np.asarray(value) for value in found])
    np.testing.assert_array_equal(found[1], numbers(3, 4)[::-1, ::-1])


def test_a_known_size_is_cut_at_a_symbolic_place():
    found, wanted = exported(
        """g (float[B] x, float[6] y) => (float[N] upto, float[M] behind) {
            size = Shape (x)
            zero = Constant <value = int64[1] {0}> ()
            far = Constant <value = int64[1] {9223372036854775807}> ()
            upto = Slice (y, zero, size)
            behind = Slice (y, size, far)
        }""",
        *("b", "6"),
        inputs=[numbers(4), numbers(6)],
    )
    check([np.asarray(value) for value in wanted], [np.asarray(value) for value in found])


def test_moves_are_differentiable_and_batched():
    model = load(one_node("Pad", x := numbers(2, 3), i64(1, -1, 0, 2), mode="reflect"))
    pads = i64(1, -1, 0, 2)
    gradient = jax.jit(jax.grad(lambda x: model.apply({}, x, pads)[0].sum()))(jnp.asarray(x))
    np.testing.assert_array_equal(gradient, [[0, 2, 2], [0, 4, 4]])
    batched = jax.jit(jax.vmap(lambda x: model.apply({}, x, pads)[0]))(jnp.stack([x, -x]))
    np.testing.assert_array_equal(batched[1], -batched[0])


def test_slices_near_the_ends_of_int64():
    low, high = -(2**63), 2**63 - 1
    x = np.arange(5, dtype=np.float32)
    places = [low, low + 1, -6, -5, -2, 0, 3, 5, high - 1, high]
    steps = [low, -(2**31), -2, -1, 1, 2, 2**31, high]
    # ONNX clamps where a slice begins to an element; with a step back, before the first one is the first one.
    wanted = {
        (first, end, step): x[slice(max(first, -5) if step < 0 else first, end, step)]
        for first, end, step in itertools.product(places, places, steps)
    }
    model = load(one_node("Slice", x, i64(0), i64(5), i64(0), i64(1)))
    for (first, end, step), result in wanted.items():
        (found,) = model.apply({}, x, i64(first), i64(end), i64(0), i64(step))
        np.testing.assert_array_equal(found, result, err_msg=f"{first}:{end}:{step}")
    some = list(wanted)[::17]
    traced = jax.jit(lambda x: [model.apply({}, x, *(i64(n) for n in (a, b, 0, c)))[0] for a, b, c in some])(x)
    for key, found in zip(some, traced, strict=True):
        np.testing.assert_array_equal(found, wanted[key], err_msg=str(key))
    narrow = load(one_node("Slice", x, *(i64(n).astype(np.int32) for n in (0, 5, 0, 1))))
    limits = np.iinfo(np.int32)
    for numbers, result in (((limits.max, limits.min, 0, limits.min), x[4:]), ((0, limits.max, 0, limits.max), x[:1])):
        (found,) = jax.jit(lambda x, n=numbers: narrow.apply({}, x, *(i64(k).astype(np.int32) for k in n)))(x)
        np.testing.assert_array_equal(found, result)

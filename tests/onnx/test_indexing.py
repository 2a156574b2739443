"""Operators that read and write at indices, and those whose shapes depend on values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdml.onnx import load
from jaxdml.onnx.nodes import _sizes
from tests.kit import quick
from tests.onnx.one_node import check, check_both, check_with_onnxruntime, one_node, run_known, run_traced

pytestmark = quick


def i64(*values):
    return np.array(values, np.int64)


def numbers(*shape, dtype=np.float32):
    return (np.arange(np.prod(shape, dtype=int)) * 5 % 17 - 7).reshape(shape).astype(dtype)


BOXES = np.float32([[[0, 0, 1, 1], [1, 1, 0, 0.1], [0, 2, 1, 3], [0, 2, 0, 3], [0.5, 2, 1.5, 3]]])
SCORES = np.float32([[[0.5, 0.75, 0.5, 0.9, 0.5], [0.1, 0.1, 0.2, -np.inf, 0.3]]])

CASES = {
    "gather_nothing": ("Gather", [numbers(0, 3), np.zeros((0, 2), np.int64)], {}),
    "gather_negative": ("Gather", [numbers(2, 3), i64(-1, 0)], {"axis": -1}),
    "gather_scalar": ("Gather", [numbers(2, 3, dtype=np.int8), np.array(-2)], {"axis": 1}),
    "gather_fewer_elements": ("GatherElements", [numbers(3, 4), i64([2, -1, 0])], {"axis": -1}),
    "gather_batches": ("GatherND", [numbers(2, 3, 4), i64([1, -1], [2, 0])], {"batch_dims": 1}),
    "scatter": ("Scatter", [numbers(3, 2), i64([0, 2]), np.float32([[8, 9]])], {"opset": 9}),
    "scatter_last_wins": ("ScatterElements", [numbers(4), i64(1, 1, -3), np.float32([5, 6, 7])], {}),
    "scatter_mul": (
        "ScatterElements",
        [numbers(3, 4), i64([1, 1, -3]), np.float32([[5, 6, 7]])],
        {"axis": 1, "reduction": "mul", "opset": 16},
    ),
    "scatter_slices": ("ScatterND", [numbers(3, 2), i64([-1]), np.float32([[8, 9]])], {"opset": 11}),
    "scatter_min": ("ScatterND", [numbers(3, 2), i64([-1], [2]), numbers(2, 2)], {"reduction": "min"}),
    "top_k_attribute": ("TopK", [numbers(2, 5)], {"k": 2, "outputs": 2, "opset": 9, "axis": 0}),
    "top_k_of_integers": ("TopK", [numbers(6, dtype=np.int32), i64(3)], {"outputs": 2, "largest": 0}),
    "top_none": ("TopK", [numbers(2, 5), i64(0)], {"outputs": 2}),
    "zeros_are_equal": ("TopK", [np.float32([0, -0.0, 0, 1, -0.0, -1]), i64(4)], {"outputs": 2}),
    "zeros_are_equal_up": ("TopK", [np.float32([0, -0.0, 0, 1, -0.0, -1]), i64(4)], {"outputs": 2, "largest": 0}),
    "non_zero_of_nothing": ("NonZero", [numbers(0, 3)], {}),
    "extremes_of_no_sequences": ("ArgMin", [numbers(0, 0, 3)], {"axis": 1}),
    "extremes_of_no_sequences_dropped": ("ArgMax", [numbers(0, 3, 0)], {"axis": -1, "keepdims": 0}),
    "compress_fewer": ("Compress", [numbers(2, 3), np.array([False, True])], {"axis": -1}),
    "compress_flat": ("Compress", [numbers(2, 3), np.array([False, True, True, False, True])], {}),
    "unique_as_they_come": ("Unique", [np.float32([[3, 1], [3, 2], [3, 1]])], {"sorted": 0, "axis": 0, "outputs": 4}),
    "unique_along_axis": ("Unique", [np.int64([[3, 1, 3], [1, 0, 1]])], {"axis": -1, "outputs": 4}),
    "suppression": ("NonMaxSuppression", [BOXES, SCORES, i64(4), np.float32([0.3])], {}),
    "suppression_by_score": ("NonMaxSuppression", [BOXES, SCORES, i64(2), None, np.float32([0.1])], {}),
    "suppression_by_centers": ("NonMaxSuppression", [BOXES, SCORES, i64(9)], {"center_point_box": 1}),
    "suppression_of_all": ("NonMaxSuppression", [BOXES, SCORES], {"opset": 10}),
}


@pytest.mark.parametrize("name", CASES)
def test_known_and_traced_operands_give_what_onnxruntime_gives(name):
    kind, inputs, options = CASES[name]
    check_with_onnxruntime(kind, *inputs, **options)


def test_a_scalar_has_no_indices_of_non_zeros_but_is_counted():
    for value, count in ((3, 1), (0, 0)):
        x = np.array(value, np.float32)
        check_both(one_node("NonZero", x), [np.zeros((0, count), np.int64)], x)


def test_the_largest_of_what_is_not_a_number_is_not_a_number():
    x, updates = np.float32([1, np.nan, 3]), np.float32([np.nan, 1, 5])
    inputs = x, i64(0, 1, 2), updates
    check_both(one_node("ScatterElements", *inputs, reduction="max"), [np.float32([np.nan, np.nan, 5])], *inputs)


def test_caches_are_written_where_each_batch_says():
    cache, update = numbers(2, 4, 3), 100 + numbers(2, 2, 3)
    wanted = cache.copy()
    wanted[0, [3, 0]], wanted[1, [1, 2]] = update
    starts = i64(3, 1)
    inputs = cache, update, starts
    check_both(one_node("TensorScatter", *inputs, mode="circular", opset=24), [wanted], *inputs)
    inputs = cache, update
    wanted = np.concatenate([update, cache[:, 2:]], axis=1)
    check_both(one_node("TensorScatter", *inputs, axis=1, opset=24), [wanted], *inputs)
    for options in ({"axis": 0}, {"mode": "reflect"}):
        with pytest.raises(ValueError, match="is the batch, or mode"):
            run_known(load(one_node("TensorScatter", *inputs, opset=24, **options)), *inputs)


def test_an_index_out_of_range_is_an_error_where_it_is_known_and_else_clipped():
    x, index = numbers(3), i64(5)
    model = load(one_node("Gather", x, index))
    with pytest.raises(ValueError, match=r"Gather .* out of bounds"):
        run_known(model, x, index)
    check([x[2:]], run_traced(model, x, index))


@pytest.mark.parametrize(
    ("kind", "inputs", "options", "why"),
    [
        ("Compress", [numbers(2, 3), np.array([True] * 3)], {"axis": 0}, "3 conditions are given for 2 elements"),
        ("ScatterND", [numbers(3), i64([0]), numbers(1)], {"reduction": "xor"}, "reduction 'xor' is none of"),
    ],
)
def test_what_does_not_fit_is_refused(kind, inputs, options, why):
    with pytest.raises(ValueError, match=why):
        run_known(load(one_node(kind, *inputs, **options)), *inputs)


def test_what_no_machine_holds_is_refused_before_memory_is_taken():
    inputs = np.broadcast_to(np.float32(1), (2**20, 1, 2**20)), np.zeros(4, np.int64)
    with pytest.raises(ValueError, match="No memory was taken"):
        run_known(load(one_node("Gather", *inputs, axis=1)), *inputs)


def test_a_large_result_is_computed_by_the_program(monkeypatch):
    monkeypatch.setattr(_sizes, "ON_HOST", 4)
    inputs = numbers(2, 3), i64(1)
    model = load(one_node("Gather", *inputs))
    assert "gather" in jax.jit(lambda: model.apply({}, *inputs)).lower().as_text()
    check([numbers(2, 3)[1:]], run_known(model, *inputs))


def test_known_operands_of_what_jax_alone_computes_stay_known():
    inputs = numbers(2, 3), i64([1, -1], [0, 2])
    model = load(one_node("GatherND", *inputs))
    found = jax.jit(lambda: model.apply({}, *inputs)[0] + 1).lower().as_text()
    assert "gather" not in found
    check([inputs[0][[1, 0], [-1, 2]]], run_known(model, *inputs))


def test_gradients_reach_what_top_k_takes():
    model = load(one_node("TopK", x := np.float32([0, 3, -0.0, 1]), i64(3), outputs=2))
    gradient = jax.jit(jax.grad(lambda x: (model.apply({}, x, i64(3))[0] * jnp.float32([1, 2, 4])).sum()))(
        jnp.asarray(x)
    )
    np.testing.assert_array_equal(gradient, [4, 1, 0, 2])


def test_a_shape_that_depends_on_traced_values_is_refused():
    model = load(one_node("NonZero", x := numbers(3)))
    with pytest.raises(NotImplementedError, match="NonZero"):
        jax.jit(lambda x: model.apply({}, x))(x)

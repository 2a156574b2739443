"""The interpreter against the oracles of single operators, and against onnxruntime on whole models."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from jaxdml import reference
from tests.onnx import microsoft, models, oracle, plain
from tests.onnx.exact import rationals, rounded
from tests.onnx.sessions import session

SCALES = (np.float32(0.25), np.float32(0.5), np.float32(0.0371), np.float32(1.25))


def integers(rng, shape, dtype):
    return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype)


def parameters(rng, dtype):
    return rng.choice(SCALES), integers(rng, (), dtype)


# The parts


def test_a_sum_is_rounded_once_in_real_numbers():
    rng = np.random.default_rng(0)
    for scales in ((0.5, 0.25, 1.0), (0.1, 0.2, 0.3), (3e-5, 1.7, 0.013), (0.7, 2.0**-9, 0.0625)):
        a, b, c = map(np.float32, scales)
        x, y = rng.integers(-700, 700, (2, 300))
        terms = [(x, rationals(a)), (y, rationals(b))]
        real = [
            (int(i) * Fraction(float(a)) + int(j) * Fraction(float(b))) / Fraction(float(c))
            for i, j in zip(x, y, strict=True)
        ]
        want = np.clip([round(value) + 3 for value in real], -128, 127)
        np.testing.assert_array_equal(rounded(terms, rationals(c), 3, np.int8), want)


def test_a_single_number_is_rounded_too():
    one = rationals(np.float32(1))
    assert [rounded([(np.asarray(n), one)], rationals(np.float32(2)), 0, np.int8)[()] for n in (1, 3, -5)] == [0, 2, -2]


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_products_and_sums_are_those_of_the_oracles(dtype):
    rng = np.random.default_rng(1)
    a, b = integers(rng, (4, 5), dtype), integers(rng, (5, 3), dtype)
    (sa, za), (sb, zb), (sc, zc) = (parameters(rng, dtype) for _ in range(3))
    sc = np.float32(sc * 16)
    arguments = (a, sa, za, b, sb, zb, sc, zc)
    want = reference.quantized_linear_matrix_multiply(*arguments)
    np.testing.assert_array_equal(microsoft.q_linear_mat_mul(*arguments), want)
    np.testing.assert_array_equal(microsoft.q_gemm(*arguments[:6], None, sc, zc), want)
    np.testing.assert_array_equal(plain.mat_mul_integer(a, b, za, zb), reference.matrix_multiply_integer(a, za, b, zb))
    arguments = (a, sa, za, integers(rng, (5,), dtype), sb, zb, sc, zc)
    np.testing.assert_array_equal(microsoft.q_linear_add(*arguments), reference.quantized_linear_add(*arguments))


@pytest.mark.parametrize("group", [1, 2])
def test_convolutions_are_those_of_the_oracle(group):
    rng = np.random.default_rng(2)
    x, w = integers(rng, (2, 4, 6, 5), np.uint8), integers(rng, (6, 4 // group, 3, 2), np.int8)
    sw, zw = rng.choice(SCALES, 6), integers(rng, 6, np.int8)
    bias, out = rng.integers(-9999, 9999, 6).astype(np.int32), (np.float32(64), np.uint8(120))
    made = microsoft.q_linear_conv(
        x,
        SCALES[1],
        np.uint8(7),
        w,
        sw,
        zw,
        *out,
        bias,
        group=group,
        strides=[2, 1],
        pads=[1, 0, 2, 1],
        dilations=[1, 2],
    )
    options = {"strides": (2, 1), "start_padding": (1, 0), "end_padding": (2, 1), "dilations": (1, 2)}
    want = reference.quantized_linear_convolution(
        x, SCALES[1], np.uint8(7), w, sw, zw, bias, *out, group_count=group, **options
    )
    np.testing.assert_array_equal(made, want)


@pytest.mark.parametrize("include", [0, 1])
def test_poolings_are_those_of_the_oracle(include):
    rng = np.random.default_rng(3)
    x = integers(rng, (2, 3, 7, 6), np.uint8)
    options = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 1, 1, 0], "count_include_pad": include}
    arguments = (x, SCALES[0], np.uint8(99), SCALES[1], np.uint8(3))
    want = reference.quantized_linear_average_pooling(
        *arguments, window=(3, 2), strides=2, start_padding=1, end_padding=(1, 0), include_padding=bool(include)
    )
    np.testing.assert_array_equal(microsoft.q_linear_average_pool(*arguments, **options), want)
    window = {"window": x.shape[2:]}
    want = reference.quantized_linear_average_pooling(*arguments, **window)
    np.testing.assert_array_equal(microsoft.q_linear_global_average_pool(*arguments), want)


def test_a_range_is_chosen_as_by_the_oracle():
    rng = np.random.default_rng(4)
    for x in (rng.normal(0, 1, 50), rng.uniform(1, 2, 50), np.zeros(3)):
        floats = x.astype(np.float32)
        made, want_all = plain.dynamic_quantize_linear(floats), reference.dynamic_quantize_linear(floats)
        for got, want in zip(made, want_all, strict=True):
            np.testing.assert_array_equal(got, want)


def test_windows_reach_beyond_the_padding_where_sizes_are_rounded_up():
    x = np.ones((1, 1, 4, 4), np.float32)
    options = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4, "ceil_mode": 1}
    corner = plain.average_pool(x, count_include_pad=1, **options)[0, 0, -1, -1]
    assert corner == 1 / 4  # The window holds one element, and the padded input has four places in it.
    assert plain.average_pool(x, **options)[0, 0, -1, -1] == 1
    assert plain.max_pool(x - 5, **options).max() == -4


@pytest.mark.parametrize("how", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_padding_is_found(how):
    x, w = np.arange(5, dtype=np.float32)[None, None], np.ones((1, 1, 2), np.float32)
    want = {"SAME_UPPER": [1, 3, 5, 7, 4], "SAME_LOWER": [0, 1, 3, 5, 7], "VALID": [1, 3, 5, 7]}[how]
    np.testing.assert_array_equal(plain.conv(x, w, auto_pad=how)[0, 0], want)


# Whole models

EXPLAINED = {
    "QLinearAdd": "adds the zero point before rounding",
    "QLinearMul": "adds the zero point before rounding",
    "QLinearAveragePool": "adds the zero point before rounding",
    "QLinearLeakyRelu": "rounds alpha * x to float32 first",
    "QLinearSoftmax": "divides by the scale by way of an integer",
    "LeakyRelu": "rounds alpha * x to float32 first",
    "AveragePool": "rounds the mean to float32 first",
}
"""What onnxruntime does otherwise, each off by one, where the scales are such that real quotients are halves."""


@pytest.mark.parametrize(("name", "form", "opset"), models.FLOAT_CASES + models.QUANTIZED_CASES + models.SAVED_CASES)
def test_every_integer_of_onnxruntime_that_differs_is_explained(name, form, opset):
    model, inputs = models.model(name, form, opset), models.inputs(name)
    names = oracle.run(model, inputs).observed
    theirs = session(models.with_outputs(model, names))(**inputs)
    # Every node gets what onnxruntime computed, so each is judged alone.
    ours = oracle.run(model, inputs, theirs)
    makers = {output: node for node in model.graph.node for output in node.output}
    differ = Counter()
    for name_ in ours.integers:
        node = makers[name_]
        while node.op_type == "QuantizeLinear" and node.input[0] in makers:
            node = makers[node.input[0]]
        difference = abs(ours.computed[name_].astype(np.float64) - theirs[name_])
        assert difference.max(initial=0) <= 1, (name_, node.op_type)
        differ[node.op_type] += int((difference > 0).sum())
    if form != "qdq_16":  # Where float32 holds no quotient exactly.
        assert {kind for kind, count in differ.items() if count} <= EXPLAINED.keys(), differ
    for name_ in {*ours.roots, *ours.outputs}:
        got = ours.computed.get(name_, ours.outputs.get(name_))
        np.testing.assert_allclose(got, theirs[name_], rtol=1e-5, atol=1e-5 * abs(theirs[name_]).max(initial=1))


def test_a_given_value_takes_the_place_of_what_is_computed():
    model, inputs = models.model("resnet", "qdq"), models.inputs("resnet")
    free = oracle.run(model, inputs)
    first = free.integers[0]
    forced = oracle.run(model, inputs, {first: np.zeros_like(free.computed[first])})
    np.testing.assert_array_equal(forced.computed[first], free.computed[first])
    assert (forced.outputs["output_0"] != free.outputs["output_0"]).any()


def test_functions_are_tables_of_float64():
    made = plain.sigmoid(np.float64([0.5]))
    assert made == 1 / (1 + math.exp(-0.5))
    assert plain.erf(np.float32([0.5])).dtype == np.float32

"""ONNX Runtime's CPU provider as a second judge of convolutions, on random data; and where it is no judge."""

import jax
import numpy as np
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as errors

import jaxdml
from jaxdml import reference
from tests.kit import OneOf, assert_same_bits, grid, quick
from tests.test_onnxruntime import (
    DECIMALS,
    MULTIPLIED,
    NOT_MULTIPLIED,
    POWERS,
    dtypes,
    not_saturated,
    quantized,
    session,
)

CALLS = 20
# The shapes of x and w, and the options.
SHAPES = {
    "padding and strides": ((2, 8, 11, 10), (12, 8, 3, 3), {"strides": (2, 1), "start_padding": 1, "end_padding": 2}),
    "groups and dilations": ((2, 8, 11, 10), (12, 4, 2, 3), {"dilations": (2, 3), "group_count": 2}),
    "depthwise": ((3, 16, 9, 9), (16, 1, 3, 3), {"start_padding": 1, "end_padding": 1, "group_count": 16}),
    "depthwise, two filters for each channel": ((3, 16, 9, 9), (32, 1, 3, 3), {"strides": 2, "group_count": 16}),
    "filters of one element": ((2, 24, 9, 9), (20, 24, 1, 1), {}),
    "one spatial dimension": ((2, 8, 50), (12, 8, 5), {"strides": 2, "start_padding": 3}),
    "three spatial dimensions": ((2, 6, 5, 6, 4), (8, 6, 2, 3, 2), {"end_padding": 1}),
}  # fmt: skip


def attributes(rank, strides=1, dilations=1, start_padding=0, end_padding=0, group_count=1):
    """Return the options as ONNX writes them."""
    each = {"strides": strides, "dilations": dilations}
    of_windows = {name: tuple(np.broadcast_to(value, rank).tolist()) for name, value in each.items()}
    start, end = (tuple(np.broadcast_to(value, rank).tolist()) for value in (start_padding, end_padding))
    return {**of_windows, "pads": start + end, "group": group_count}


def theirs(operator, given, output, options):
    kinds = tuple(array.dtype for array in given)
    judge = session(operator, 10, kinds, (np.dtype(output),), **attributes(given[0].ndim - 2, **options))
    return judge(*given)[0]


@quick
@grid(shapes=list(SHAPES), x=[OneOf(*dtypes("uint8", "int8"))], w=[OneOf(*dtypes("int8", "uint8"))])
def test_sums_are_those_of_onnxruntime(shapes, x, w):
    (of_x, of_w, options), rng = SHAPES[shapes], np.random.default_rng(0)
    for _ in range(5):
        arrays, zeros = (
            [quantized(rng, shape, dtype, fraction) for shape, dtype in zip(of, (x, w), strict=True)]
            for of, fraction in (((of_x, of_w), 1.0), (((), ()), 0.2))
        )
        interleaved = jax.device_put((arrays[0], zeros[0], arrays[1], zeros[1]))
        ours = jaxdml.convolution_integer(*interleaved, **options)
        assert_same_bits(ours, theirs("ConvInteger", [np.asarray(one) for one in arrays + zeros], "int32", options))


def test_onnxruntime_has_one_zero_point_for_all_filters():
    given = np.ones((1, 2, 3), np.uint8), np.ones((4, 2, 2), np.int8), np.uint8(1), np.ones(4, np.int8)
    with pytest.raises(errors.Fail):
        theirs("ConvInteger", [np.asarray(one) for one in given], "int32", {})


def a_call(rng, decimals, types, shapes):
    """Draw arguments in the order of jaxdml for which most outputs do not saturate."""
    (x_dtype, w_dtype, output_dtype), (of_x, of_w, _) = dtypes(*types), shapes
    x, w = quantized(rng, of_x, x_dtype), quantized(rng, of_w, w_dtype)
    x_zero, w_zero = quantized(rng, (), x_dtype, 0.2), quantized(rng, of_w[:1], w_dtype, 0.2)
    output_zero = quantized(rng, (), output_dtype, 0.2)
    x_scale, w_scale = rng.choice(decimals[:6]), rng.choice(decimals[:6], of_w[:1])
    sums = np.sqrt(np.prod(of_w[1:])) * x.std() * w.std()
    wanted = x_scale * w_scale.max() * sums / 60
    output_scale = decimals[np.abs(np.log(decimals / wanted)).argmin()]
    bias = np.rint(rng.uniform(-sums, sums, of_w[:1])).astype(np.int32)
    return x, x_scale, x_zero, w, w_scale, w_zero, bias, output_scale, output_zero


def theirs_of(given, options):
    """Return the answer of ONNX Runtime, whose bias comes last."""
    *operands, bias, output_scale, output_zero = (np.asarray(one) for one in given)
    return theirs("QLinearConv", [*operands, output_scale, output_zero, bias], output_zero.dtype, options)


@quick
@grid(shapes=list(SHAPES), types=[OneOf(*MULTIPLIED)])
def test_onnxruntime_differs_only_by_one_and_only_where_it_is_wrong(shapes, types):
    options, rng = SHAPES[shapes][2], np.random.default_rng(0)
    compared = different = 0
    for _ in range(CALLS):
        given = a_call(rng, DECIMALS, types, SHAPES[shapes])
        ours = np.asarray(jaxdml.quantized_linear_convolution(*jax.device_put(given), **options))
        answer = theirs_of(given, options)
        assert (ours.dtype, ours.shape) == (answer.dtype, answer.shape)
        differs = ours != answer
        if differs.any():
            true = reference.quantized_linear_convolution(*given, **options)
            assert_same_bits(ours, true)
            assert (np.abs(ours.astype(int) - answer.astype(int)) <= 1).all()
        compared += not_saturated(ours).sum()
        different += differs.sum()
    assert compared > 0.7 * CALLS * ours.size
    assert different


@grid(shapes=list(SHAPES), types=[OneOf(*MULTIPLIED)])
def test_where_the_multiplier_is_exact_so_is_onnxruntime(shapes, types):
    options, rng = SHAPES[shapes][2], np.random.default_rng(0)
    for _ in range(CALLS):
        given = a_call(rng, POWERS, types, SHAPES[shapes])
        ours = jaxdml.quantized_linear_convolution(*jax.device_put(given), **options)
        assert not_saturated(np.asarray(ours)).mean() > 0.5
        assert_same_bits(ours, theirs_of(given, options))


@pytest.mark.parametrize("types", NOT_MULTIPLIED, ids=str)
def test_onnxruntime_has_three_combinations_of_dtypes(types):
    float32, (x, w, output) = np.dtype("float32"), dtypes(*types)
    with pytest.raises(errors.NotImplemented):
        session("QLinearConv", 10, (x, float32, x, w, float32, w, float32, output), (output,))

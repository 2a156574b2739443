"""The laws of the convolution of integers, against the oracle, against stock JAX, and by themselves."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from jax import lax

import jaxdml
from jaxdml import directml as dml
from jaxdml import reference
from jaxdml._cases._convolving import CHANNELS_LAST
from tests.directml_descs import INT8, UINT8, tensor
from tests.kit import OneOf, assert_same_bits, grid, quick, seeds
from tests.test_quantized_linear_matrix_multiply import METHODS, ON_CPU, QUANTIZED, integers

convolve = jaxdml.convolution_integer
few_draws = settings(max_examples=settings().max_examples // 5)

STRIDED = {"strides": (2, 3), "dilations": (3, 2), "start_padding": (1, 0), "end_padding": (0, 5)}
# The shapes of x and w, and the options.
SHAPES = {
    "strides, dilations and padding": ((3, 3, 7, 6), (4, 3, 2, 2), STRIDED),
    "groups": ((3, 4, 4, 5), (6, 2, 2, 1), {"group_count": 2, "start_padding": 1}),
    "depthwise": ((2, 5, 4, 4), (5, 1, 2, 2), {"group_count": 5, "end_padding": 1}),
    "one spatial dimension": ((3, 2, 9), (3, 2, 3), {"strides": 2, "start_padding": 2}),
    "three spatial dimensions": ((2, 2, 3, 4, 3), (3, 2, 1, 2, 2), {"dilations": (1, 3, 1), "end_padding": (1, 0, 1)}),
    "four spatial dimensions": ((2, 2, 2, 3, 2, 2), (2, 2, 1, 2, 1, 2), {"start_padding": (0, 1, 0, 1)}),
    "filters of one element": ((3, 19, 3, 3), (17, 19, 1, 1), {}),
    "channels last": ((3, 5, 6, 3), (2, 2, 3, 17), {"dimension_numbers": CHANNELS_LAST, "start_padding": 1}),
    "any order": ((5, 4, 3, 6), (2, 3, 2, 2), {"dimension_numbers": ("WNCH", "HIOW", "CHNW"), "strides": (1, 2),
        "group_count": 1, "end_padding": (1, 0)}),
}  # fmt: skip


def order_of(shapes):
    """Return where the dimensions of x, of w and of the result are."""
    x, w, options = shapes
    return lax.conv_dimension_numbers(x, w, options.get("dimension_numbers"))


def of_channels(shapes, form):
    """Return the shape of a parameter: ``one``, a vector ``each`` channel, or ``full`` rank."""
    order, filters = order_of(shapes), shapes[1][order_of(shapes).rhs_spec[0]]
    full = [1] * len(shapes[1])
    full[order.out_spec[1]] = filters
    return {"one": (), "vector of one": (1,), "each": (filters,), "full": tuple(full)}[form]


def drawn(rng, dtype, shape):
    """Draw an argument; None without a shape."""
    return None if shape is None else integers(rng, dtype, shape)


@partial(jax.jit, static_argnames=("options", "method"))
def jitted(x, zx, w, zw, options, method=None):
    return convolve(x, zx, w, zw, **dict(options), implementation=method)


def agrees(given, options, method=None):
    # A NumPy array takes a program of its own to copy.
    got = jitted(*jax.device_put(given), tuple(options.items()), method)
    assert_same_bits(got, reference.convolution_integer(*given, **options))


FORMS = ["one", "vector of one", "each", "full"]


@grid(
    kind=list(SHAPES), x=[OneOf(*QUANTIZED)], w=[OneOf(*QUANTIZED)], method=[OneOf(*METHODS)],
    zx=[OneOf(None, "one", "vector of one")], zw=[OneOf(None, *FORMS)],
)  # fmt: skip
@few_draws
@given(seed=seeds)
def test_agrees_with_the_oracle(kind, x, w, method, zx, zw, seed):
    shapes = SHAPES[kind]
    rng = np.random.default_rng(seed)
    of_x, of_w = (None if form is None else of_channels(shapes, form) for form in (zx, zw))
    given = drawn(rng, x, shapes[0]), drawn(rng, x, of_x), drawn(rng, w, shapes[1]), drawn(rng, w, of_w)
    agrees(given, shapes[2], method)


@pytest.mark.parametrize(("kind", "method"), [("depthwise", "shifted_slices"), ("channels last", "native_convolution")])
def test_a_method_for_some_shapes_agrees_with_the_oracle(kind, method):
    if not ON_CPU and method == "native_convolution":
        pytest.skip("only CPUs have it")
    (of_x, of_w, options), rng = SHAPES[kind], np.random.default_rng(0)
    for _ in range(5):
        given = (
            *(integers(rng, np.uint8, of_x), integers(rng, np.uint8, ())),
            *(integers(rng, np.int8, of_w), integers(rng, np.int8, of_channels(SHAPES[kind], "each"))),
        )
        agrees(given, options, method)


@pytest.mark.parametrize("kind", SHAPES)
def test_the_oracle_is_what_stock_jax_computes_in_floats(kind):
    shapes = SHAPES[kind]
    x, w = (
        integers(np.random.default_rng(0), np.uint8, shapes[0]),
        integers(np.random.default_rng(1), np.int8, shapes[1]),
    )
    order, rank = order_of(shapes), x.ndim - 2
    options = {"strides": 1, "dilations": 1, "start_padding": 0, "end_padding": 0, "group_count": 1, **shapes[2]}
    strides, dilations, start, end = (np.broadcast_to(options[name], rank).tolist() for name in list(options)[:4])
    filters = [1] * x.ndim
    filters[order.rhs_spec[0]] = -1
    zw = np.arange(-3, w.shape[order.rhs_spec[0]] - 3, dtype=np.int8)
    # All sums are integers that a float32 holds, whatever their order.
    want = lax.conv_general_dilated(
        x.astype(np.float32) - np.float32(77), w.astype(np.float32) - zw.astype(np.float32).reshape(filters), strides,
        list(zip(start, end, strict=True)), rhs_dilation=dilations, dimension_numbers=order,
        feature_group_count=options["group_count"], precision="highest",
    )  # fmt: skip
    for dimension_numbers in {order, shapes[2].get("dimension_numbers", order)}:
        ordered = {**shapes[2], "dimension_numbers": dimension_numbers}
        got = reference.convolution_integer(x, np.uint8(77), w, zw, **ordered)
        assert_same_bits(got, np.asarray(want).astype(np.int32))


# 33,025 is the greatest number of products of 255 * 255 that int32 holds.
@quick
@grid(
    method=[OneOf(*METHODS)], x=[OneOf(*QUANTIZED)], w=[OneOf(*QUANTIZED)], channels=[6_605, OneOf(6_606, 14_000)],
)  # fmt: skip
def test_sums_wrap_around(method, x, w, channels):
    rng = np.random.default_rng(0)
    left, right = integers(rng, x, (1, channels, 6)), integers(rng, w, (2, channels, 5))
    left[..., :5], right[0] = np.iinfo(x).max, np.iinfo(w).max
    zx, zw = x.type(np.iinfo(x).min), np.array([np.iinfo(w).min, 3], w)
    for sign, *of_x in ((1, left, zx), (-1, ~left, ~zx)):
        got = jitted(*jax.device_put((*of_x, right, zw)), (), method)
        assert_same_bits(got, reference.convolution_integer(*of_x, right, zw))
        greatest = sign * 255 * 255 * 5 * channels
        assert (int(got[0, 0, 0]) - greatest) % 2**32 == 0
        assert (int(got[0, 0, 0]) == greatest) == (channels == 6_605)


@pytest.mark.parametrize("zero", [0, 1, 127, 255])
def test_padding_is_the_zero_point(zero):
    x, w = np.full((1, 1, 3, 3), zero, np.uint8), np.full((1, 1, 2, 2), 7, np.uint8)
    options = (("start_padding", 2), ("end_padding", 1))
    assert not jitted(x, np.uint8(zero), w, np.uint8(5), options).any()


# The kinds of windows that read nothing of x, or that are as large as the padded x.
EMPTY = {
    "no images": ((0, 2, 4, 4), (3, 2, 2, 2), {}, (0, 3, 3, 3)),
    "no channels": ((2, 0, 4, 4), (3, 0, 2, 2), {}, (2, 3, 3, 3)),
    "no filters": ((2, 2, 4, 4), (0, 2, 2, 2), {}, (2, 0, 3, 3)),
    "no width": ((2, 2, 4, 0), (3, 2, 2, 2), {"start_padding": 1, "end_padding": 1}, (2, 3, 5, 1)),
    "one window": ((2, 2, 3, 3), (3, 2, 2, 2), {"dilations": 2, "strides": 9}, (2, 3, 1, 1)),
}


@quick
@pytest.mark.parametrize("kind", EMPTY)
def test_empty_dimensions_and_single_windows(kind):
    of_x, of_w, options, shape = EMPTY[kind]
    given = np.ones(of_x, np.int8), np.int8(-128), np.ones(of_w, np.int8), np.int8(9)
    got = convolve(*given, **options)
    assert got.shape == shape
    assert_same_bits(got, reference.convolution_integer(*given, **options))
    for platform in ("cuda", "tpu"):  # Lowering needs no device.
        jax.jit(partial(jaxdml.convolution_integer, **options)).trace(*given).lower(lowering_platforms=(platform,))


@quick
@grid(axes=[(0, None, None, 0), (None, None, 4, None), (3, 0, 1, 1)])
def test_vmap_over_any_argument_is_a_loop(axes):
    rng = np.random.default_rng(0)
    shapes = ((3, 2, 4, 5, 4), np.uint8), ((3,), np.uint8), ((3, 6, 2, 2, 1), np.int8), ((3, 6), np.int8)
    whole = [integers(rng, dtype, shape) for shape, dtype in shapes]
    moved = [part[0] if axis is None else np.moveaxis(part, 0, axis) for part, axis in zip(whole, axes, strict=True)]
    options = {"group_count": 2, "start_padding": 1}
    got = jax.jit(jax.vmap(partial(convolve, **options), in_axes=axes))(*moved)
    for i in range(3):
        one = [part[0 if axis is None else i] for part, axis in zip(whole, axes, strict=True)]
        assert_same_bits(got[i], reference.convolution_integer(*one, **options))


@quick
@pytest.mark.parametrize("x64", [False, True])
def test_python_numbers_are_zero_points_of_the_dtype_of_their_array(x64):
    x, w = np.uint8([[[9, 255]]]), np.int8([[[-7, 127]]])
    with jax.enable_x64(x64):
        got = convolve(x, 200, w, -3)
    assert_same_bits(got, reference.convolution_integer(x, np.uint8(200), w, np.int8(-3)))
    assert got.tolist() == [[[(9 - 200) * (-7 + 3) + (255 - 200) * (127 + 3)]]]


@quick
def test_options_may_be_numpy_integers_and_lists():
    x, w = np.ones((1, 2, 5, 5), np.int8), np.ones((2, 2, 2, 2), np.int8)
    got = convolve(x, None, w, None, strides=[np.int64(2), 1], start_padding=np.array([1, 0]), group_count=np.int8(1))
    assert_same_bits(got, reference.convolution_integer(x, None, w, None, strides=(2, 1), start_padding=(1, 0)))


@quick
def test_nothing_flows_back_from_a_result():
    w = np.ones((2, 2, 2), np.int8)

    def loss(x):
        return (convolve(x.astype(jnp.int8), None, w, None).astype(jnp.float32) * x.sum()).sum()

    # Only the factor that is a float has a derivative.
    np.testing.assert_array_equal(jax.jit(jax.grad(loss))(np.ones((1, 2, 4), np.float32)), np.full((1, 2, 4), 24.0))


def test_a_description_of_three_dimensions_is_of_one_image_and_one_filter():
    x, w = integers(np.random.default_rng(0), np.uint8, (3, 5, 4)), np.ones((3, 2, 3), np.int8)
    desc = dml.ConvolutionIntegerOperatorDesc(
        input_tensor=tensor(UINT8, 3, 5, 4),
        input_zero_point_tensor=tensor(UINT8, 1),
        filter_tensor=tensor(INT8, 3, 2, 3),
        filter_zero_point_tensor=tensor(INT8, 1),
        output_tensor=tensor(dml.TensorDataType.INT32, 1, 4, 2),
        **dict.fromkeys(("strides", "dilations"), (1, 1)),
        **dict.fromkeys(("start_padding", "end_padding"), (0, 0)),
        group_count=1,
    )
    got = dml.compile_operator(desc)(x, np.uint8([9]), w, np.int8([-2]))
    assert_same_bits(got, reference.convolution_integer(x[None], np.uint8(9), w[None], np.int8(-2))[0])

"""Every refusal of both convolutions, its whole text: call and rule, shapes and dtypes, what to write instead."""

import re

import jax
import numpy as np
import pytest
from jax import lax

import jaxdml
from tests.kit import quick

X, W = np.zeros((2, 4, 5, 6), np.uint8), np.zeros((6, 4, 3, 2), np.int8)
ONE = np.float32(1)
CI, QL = "jaxdml.convolution_integer: ", "jaxdml.quantized_linear_convolution: "
BOTH = "x: uint8[2, 4, 5, 6], w: int8[6, 4, 3, 2]"
ALL = "x: uint8[2, 4, 5, 6], x_zero_point: None, w: int8[6, 4, 3, 2], w_zero_point: None"
FIT = "Give w [M, C / group_count, *spatial] with M a multiple of group_count."
RANKS = "Give x as [N, C, *spatial] and w as [M, C / group_count, *spatial]."
ORDER = 'Pass three strings, such as ("NHWC", "HWIO", "NHWC"), or None for channels first.'
WHERE = "dimension_numbers must say where the 4 dimensions of x, w and the result are; got "
EACH = "must be one value, or one per output channel, 6, or broadcast to [1, 6, 1, 1]; got "
EIGHT_BITS = "must be one of int8, uint8; got "


def integers(x=X, zx=None, w=W, zw=None, **options):
    return lambda: jaxdml.convolution_integer(x, zx, w, zw, **options)


def traced(option, value=lambda number: number):
    return lambda: jax.jit(lambda number: integers(**{option: value(number)})())(1)


def sharded(name, *spec):
    """Return a call on arrays of which one is sharded over an Explicit axis."""

    def call():
        array = {"x": X, "w": W}[name]
        placed = jax.device_put(array, jax.NamedSharding(jax.make_mesh((1,), ("d",)), jax.P(*spec)))
        return integers(**{name: placed})()

    return call


def quantized(x=X, sx=ONE, zx=None, w=W, sw=ONE, zw=None, bias=None, so=ONE, zo=None, **options):
    return lambda: jaxdml.quantized_linear_convolution(x, sx, zx, w, sw, zw, bias, so, zo, **options)


REFUSALS = {
    "x of floats": (integers(x=X.astype(np.float32)), TypeError, CI + "x " + EIGHT_BITS + "float32.",
        "x: float32[2, 4, 5, 6]", "Quantize it: round(x / x_scale) + x_zero_point, clipped, as int8 or uint8."),
    "w of another width": (integers(w=W.astype(np.int32)), TypeError, CI + "w " + EIGHT_BITS + "int32.",
        "w: int32[6, 4, 3, 2]", "Convert w with .astype first."),
    "a list": (integers(x=[[1]]), TypeError, CI + "x must be an array.", "x: list", "Pass jnp.asarray(x)."),
    "other ranks": (integers(w=W[0]), TypeError, CI + "x and w must have one rank, at least 3; got 4 and 3.",
        "x: uint8[2, 4, 5, 6], w: int8[4, 3, 2]", RANKS),
    "no spatial dimension": (integers(x=X[0, 0], w=W[0, 0]), TypeError,
        CI + "x and w must have one rank, at least 3; got 2 and 2.", "x: uint8[5, 6], w: int8[3, 2]", RANKS),
    "channels": (integers(w=W[:, :3]), TypeError,
        CI + "x must have group_count times as many channels as a filter, 3; got 4.",
        "x: uint8[2, 4, 5, 6], w: int8[6, 3, 3, 2]", FIT),
    "channels of groups": (integers(group_count=2), TypeError,
        CI + "x must have group_count times as many channels as a filter, 8; got 4.", BOTH, FIT),
    "filters of groups": (integers(w=W[:, :1], group_count=4), TypeError,
        CI + "group_count must divide the number of filters, 6; got 4.",
        "x: uint8[2, 4, 5, 6], w: int8[6, 1, 3, 2]", FIT),
    "no groups": (integers(group_count=0), ValueError, CI + "group_count must be at least 1; got 0.", BOTH,
        "Pass group_count=1."),
    "group_count a float": (integers(group_count=1.0), TypeError, CI + "group_count must be an integer; got 1.0.", ALL,
        "Pass group_count as a Python int."),
    "group_count traced": (traced("group_count"), TypeError, CI + "group_count must be static; got a traced value.",
        ALL, "Name group_count in jax.jit's static_argnames, or close over it."),
    "no stride": (integers(strides=0), ValueError, CI + "strides must be at least 1; got 0.", BOTH,
        "Pass strides=1."),
    "three strides": (integers(strides=(1, 2, 3)), ValueError,
        CI + "strides must be one integer, or one for each of the 2 spatial dimensions; got 3.", BOTH,
        "Pass strides as one integer if all are equal."),
    "strides a float": (integers(strides=(1, 1.5)), TypeError, CI + "strides must be an integer; got 1.5.", ALL,
        "Pass strides as a Python int."),
    "strides missing": (integers(strides=None), TypeError, CI + "strides must be an integer; got None.", ALL,
        "Pass strides as a Python int."),
    "strides traced": (traced("strides"), TypeError, CI + "strides must be static; got a traced value.", ALL,
        "Name strides in jax.jit's static_argnames, or close over it."),
    "one stride traced": (traced("strides", lambda number: (1, number)), TypeError,
        CI + "strides must be static; got a traced value.", ALL,
        "Name strides in jax.jit's static_argnames, or close over it."),
    "no dilation": (integers(dilations=(1, 0)), ValueError, CI + "dilations must be at least 1; got 0.", BOTH,
        "Pass dilations=1."),
    "negative padding": (integers(end_padding=-1), ValueError, CI + "end_padding must be at least 0; got -1.", BOTH,
        "Pass end_padding=0."),
    "a string for dimension_numbers": (integers(dimension_numbers="NHWC"), ValueError, CI + WHERE + "'NHWC'.", BOTH,
        ORDER),
    "dimension_numbers of another rank": (integers(dimension_numbers=("NCW", "OIW", "NCW")), ValueError,
        CI + WHERE + "('NCW', 'OIW', 'NCW').", BOTH, ORDER),
    "dimension_numbers with a letter twice": (integers(dimension_numbers=("NCHH", "OIHW", "NCHW")), ValueError,
        CI + WHERE + "('NCHH', 'OIHW', 'NCHW').", BOTH, ORDER),
    "a dimension twice": (integers(dimension_numbers=lax.ConvDimensionNumbers((0, 1, 2, 2), *((0, 1, 2, 3),) * 2)),
        ValueError, CI + WHERE + "ConvDimensionNumbers(lhs_spec=(0, 1, 2, 2), rhs_spec=(0, 1, 2, 3), "
        "out_spec=(0, 1, 2, 3)).", BOTH, ORDER),
    "a zero point of x for each channel": (integers(zx=np.zeros(4, np.uint8)), TypeError,
        CI + "x_zero_point must be one value; got [4].", "x_zero_point: uint8[4]",
        "Pass x_zero_point with shape ()."),
    "a zero point of another dtype": (integers(zx=np.int8(1)), TypeError, CI + "x_zero_point must be uint8; got int8.",
        "x_zero_point: int8[]", "Pass x_zero_point as uint8."),
    "a zero point out of range": (integers(zw=-129), ValueError,
        CI + "w_zero_point must be an integer from -128 to 127; got -129.", "w_zero_point: int",
        "Pass w_zero_point as int8."),
    "zero points of other filters": (integers(zw=np.zeros(4, np.int8)), TypeError, CI + "w_zero_point " + EACH + "[4].",
        "w: int8[6, 4, 3, 2], w_zero_point: int8[4]", "Pass w_zero_point with shape () or (6,)."),
    "zero points as the filters lie": (integers(zw=np.zeros((6, 1, 1, 1), np.int8)), TypeError,
        CI + "w_zero_point " + EACH + "[6, 1, 1, 1].", "w: int8[6, 4, 3, 2], w_zero_point: int8[6, 1, 1, 1]",
        "Pass w_zero_point with shape () or (6,)."),
    "axis_name not bound": (integers(axis_name="d"), ValueError,
        CI + "axis_name must name mesh axes that are bound here; got 'd'.", ALL,
        "Call it inside jax.shard_map over these axes, or leave axis_name out for an array that is whole."),
    "a spatial dimension of x sharded": (sharded("x", None, None, "d"), ValueError,
        CI + "spatial dimension 0 of x must be whole on every device; it is sharded over 'd'.", BOTH,
        "Reshard x or w with jax.sharding.reshard."),
    "a spatial dimension of w sharded": (sharded("w", None, None, None, "d"), ValueError,
        CI + "spatial dimension 1 of w must be whole on every device; it is sharded over 'd'.", BOTH,
        "Reshard x or w with jax.sharding.reshard."),
    "a scale missing": (quantized(sw=None), TypeError, QL + "w_scale must be an array.", "w_scale: None",
        "Pass an array of numbers."),
    "a scale of x for each channel": (quantized(sx=np.ones(4, np.float32)), TypeError,
        QL + "x_scale must be one value; got [4].", "x_scale: float32[4]", "Pass x_scale with shape ()."),
    "a scale of integers": (quantized(sx=np.int32(1)), TypeError, QL + "x_scale must be float32; got int32.",
        "x_scale: int32[]", "Pass x_scale as float32."),
    "scales of other filters": (quantized(sw=np.ones(4, np.float32)), TypeError, QL + "w_scale " + EACH + "[4].",
        "w: int8[6, 4, 3, 2], w_scale: float32[4]", "Pass w_scale with shape () or (6,)."),
    "a scale of zero": (quantized(so=0.0), ValueError,
        QL + "output_scale must be a finite float32, not 0 and not subnormal; got 0.0.", "output_scale: float",
        "Pass a scale from 1.1754943508222875e-38 to 3.4028234663852886e+38 in magnitude."),
    "a bias of floats": (quantized(bias=np.zeros(6, np.float32)), TypeError, QL + "bias must be int32; got float32.",
        "bias: float32[6]", "Pass bias as int32."),
    "a bias of other filters": (quantized(bias=np.zeros(5, np.int32)), TypeError, QL + "bias " + EACH + "[5].",
        "w: int8[6, 4, 3, 2], bias: int32[5]", "Pass bias with shape () or (6,)."),
    "a bias for each image": (quantized(bias=np.zeros((2, 6, 1, 1), np.int32)), TypeError,
        QL + "bias " + EACH + "[2, 6, 1, 1].", "w: int8[6, 4, 3, 2], bias: int32[2, 6, 1, 1]",
        "Pass bias with shape () or (6,)."),
    "a bias that int32 cannot hold": (quantized(bias=2**31), ValueError,
        QL + "bias must be an integer from -2147483648 to 2147483647; got 2147483648.", "bias: int",
        "Pass bias as int32."),
    "an output of int32": (quantized(output_dtype="int32"), TypeError,
        QL + "the output's dtype " + EIGHT_BITS + "'int32'.", "output_zero_point: None",
        "Pass output_dtype='int8' or 'uint8'."),
    "an output zero point for each filter": (quantized(zo=np.zeros(6, np.uint8)), TypeError,
        QL + "output_zero_point must be one value; got [6].", "output_zero_point: uint8[6]",
        "Pass output_zero_point with shape ()."),
}  # fmt: skip


@quick
@pytest.mark.parametrize("name", REFUSALS)
def test_refuses_with_the_whole_text(name):
    call, error, rule, operands, advice = REFUSALS[name]
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    text = str(caught.value)
    assert text == f"{rule}\n  {operands}\n  {advice}"
    assert re.fullmatch(r"jaxdml\.\w+: [^\n]+\.\n  [^\n]+\n  [^\n]+\.", text)  # Three lines, two of them sentences.


@quick
def test_a_window_that_does_not_fit_is_refused():
    for options in ({"dilations": (1, 9)}, {"w": W[:, :, :0]}):
        with pytest.raises(ValueError, match=r"must have 1 to|must reach"):
            integers(**options)()

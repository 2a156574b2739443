"""Arithmetic, comparisons, logic and bits, element by element."""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._networks.integers import power, to_integers
from jaxdml.directml._enums import FeatureLevel, IsInfinityMode, RoundingMode
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._operator import Operator, activated
from jaxdml.directml.operators._pointwise import number_of, pointwise, typed

_SAME, _BOTH, _RESULT = "input_tensor output_tensor", "a_tensor b_tensor output_tensor", "output_tensor"
_FOUR_OR_FIVE = "1_0 4-5, 3_0 1-8"
_TRUTH = "1_0 UINT32, 2_0 UINT32+UINT8"

_Function = Callable[..., Any]


def _of(function: _Function) -> _Function:
    """Make a function of arrays one of a description and arrays."""
    return lambda desc, *arrays: function(*arrays)


def _unary(number: int, doc: str, compute: _Function, types: str = "1_0 F", **facts: Any) -> Operator:
    return pointwise(number, f"Compute {doc}.", compute, (_SAME, types), **facts)


def _binary(number: int, doc: str, function: _Function, types: str, **facts: Any) -> Operator:
    return pointwise(number, f"Compute {doc}.", _of(function), (_BOTH, types), **facts)


def _told(compute: _Function) -> _Function:
    """Make results numbers of the output's type."""
    return lambda desc, *arrays: compute(desc, *arrays).astype(desc.output_tensor.data_type.dtype)


def _test(number: int, doc: str, compute: _Function, fields: str, types: str, results: str) -> Operator:
    return pointwise(number, f"Tell whether {doc}: 1 or 0.", _told(compute), (fields, types), (_RESULT, results))


def _comparison(number: int, doc: str, function: _Function, types: str) -> Operator:
    return _test(number, doc, _of(function), "a_tensor b_tensor", types, _TRUTH)


def _logical(number: int, doc: str, function: _Function) -> Operator:
    def run(a: Any, b: Any) -> Any:
        return function(a != 0, b != 0).astype(a.dtype)

    return _binary(number, f"{doc}, where all but 0 is true: 1 or 0", run, _TRUTH)


def _on_bits(function: _Function) -> _Function:
    """Compute on the bits of elements, and return bits of the same type."""

    def run(*arrays: Any) -> Any:
        return lax.bitcast_convert_type(function(*map(_bits, arrays)), arrays[0].dtype)

    return run


def _bits(x: Any) -> Any:
    return lax.bitcast_convert_type(x, f"uint{8 * x.dtype.itemsize}")


def _round(desc: Any, x: Any) -> Any:
    if desc.rounding_mode == RoundingMode.TOWARD_ZERO:
        return jnp.trunc(x)
    nearest_even = desc.rounding_mode == RoundingMode.HALVES_TO_NEAREST_EVEN
    return jnp.round(x) if nearest_even else lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO)


def _sign(x: Any) -> Any:
    return jnp.where(x > 0, 1, jnp.where(x < 0, -1, 0)).astype(x.dtype)


def _mean(a: Any, b: Any) -> Any:
    return lax.div(a + b, jnp.full_like(a, 2))


def _clip(desc: Any, x: Any) -> Any:
    return jnp.maximum(number_of(desc.min, x.dtype), jnp.minimum(x, number_of(desc.max, x.dtype)))


def _clip_grad(desc: Any, x: Any, gradient: Any) -> Any:
    outside = (x <= number_of(desc.min, x.dtype)) | (x >= number_of(desc.max, x.dtype))
    return jnp.where(outside, jnp.zeros_like(gradient), gradient)


def _power(desc: Any, x: Any, exponent: Any) -> Any:
    return power(jnp, x, exponent)


def _constant_power(desc: Any, x: Any) -> Any:
    return power(jnp, x, jnp.full_like(x, desc.exponent, jnp.float32))


def _is_infinity(desc: Any, x: Any) -> Any:
    kinds = {IsInfinityMode.EITHER: jnp.isinf, IsInfinityMode.POSITIVE: jnp.isposinf}
    return kinds.get(desc.infinity_mode, jnp.isneginf)(x)


def _if(desc: Any, condition: Any, a: Any, b: Any) -> Any:
    return jnp.where(condition != 0, a, b)


_ARITHMETIC = "1_0 F, 2_1 F+INT32+UINT32, 4_1 F+INT32+UINT32+L, 5_1 F+I+L"
_DIVIDED = "1_0 F, 2_1 F+INT32+UINT32, 5_1 F+I, 6_0 F+I+L"
_ORDERED = "1_0 F, 2_1 F+I, 5_0 F+I+L"
_MODULUS = "2_1 F+I, 6_0 F+I+L"
_COMPARED = "1_0 F, 2_1 F+I, 4_1 F+I+L"
_COMPARED_FROM_3_0 = "3_0 F+I, 4_1 F+I+L"
_BITS = "3_0 U, 4_1 A"
_SHIFTED = "2_1 U, 4_1 U+UINT64"
_POWER = "1_0 F, 3_0 F+I"
_CLIPPED = "Return 0 where x <= Min or x >= Max, else the gradient."
_GRADIENT = "input_tensor input_gradient_tensor output_gradient_tensor"
_FLOAT_FUNCTIONS: Mapping[str, tuple[int, str, _Function]] = {
    "ACOS": (3, "the arc cosine, in radians", jnp.arccos),
    "ACOSH": (86, "the inverse hyperbolic cosine", jnp.arccosh),
    "ASIN": (5, "the arc sine, in radians", jnp.arcsin),
    "ASINH": (85, "the inverse hyperbolic sine", jnp.arcsinh),
    "ATAN": (6, "the arc tangent, in radians", jnp.arctan),
    "ATANH": (87, "the inverse hyperbolic tangent", jnp.arctanh),
    "CEIL": (7, "the next integer that is not less", jnp.ceil),
    "COS": (9, "the cosine, of radians", jnp.cos),
    "COSH": (83, "the hyperbolic cosine", jnp.cosh),
    "ERF": (81, "the error function", lax.erf),
    "EXP": (11, "e**x", jnp.exp),
    "FLOOR": (12, "the next integer that is not greater", jnp.floor),
    "LOG": (13, "the natural logarithm", jnp.log),
    "RECIP": (27, "1 / x", lambda x: 1 / x),
    "SIN": (28, "the sine, of radians", jnp.sin),
    "SINH": (82, "the hyperbolic sine", jnp.sinh),
    "SQRT": (29, "the square root", jnp.sqrt),
    "TAN": (31, "the tangent, of radians", jnp.tan),
    "TANH": (84, "the hyperbolic tangent", jnp.tanh),
}
_FROM_2_0 = ["ACOSH", "ASINH", "ATANH", "COSH", "ERF", "SINH", "TANH"]

_UNARY: Mapping[str, Operator] = {
    **{
        name: _unary(number, doc, _of(function), "2_0 F" if name in _FROM_2_0 else "1_0 F")
        for name, (number, doc, function) in _FLOAT_FUNCTIONS.items()
    },
    "IDENTITY": _unary(1, "x", _of(lambda x: x), "1_0 F, 2_1 F+I, 4_1 A", counts=_FOUR_OR_FIVE),
    "ABS": _unary(2, "abs(x)", _of(jnp.abs), "1_0 F, 2_1 F+S, 4_1 F+S+INT64"),
    "NEGATE": _unary(156, "-x", _of(jnp.negative), "5_0 F+S+INT64"),
    "SIGN": _unary(79, "1, -1 or 0, as x > 0, x < 0 or neither", _of(_sign), "2_0 F, 2_1 F+I, 4_1 F+I+L"),
    "ROUND": _unary(99, "the nearest integer, or that towards 0, by RoundingMode", _round, "2_1 F"),
    "CLIP": _unary(
        8,
        "max(Min, min(x, Max))",
        _clip,
        _ORDERED,
        fused_from=FeatureLevel.LEVEL_6_0,
        fused_into=("CONVOLUTION", "GEMM"),
    ),
    "CLIP1": _unary(153, "max(Min, min(x, Max))", _clip, "5_0 F+I+L", constraints=typed("min_max_data_type")),
    "THRESHOLD": _unary(
        32, "max(x, Min)", lambda desc, x: jnp.maximum(x, number_of(desc.min, x.dtype)), "1_0 F, 2_1 F+I"
    ),
    "CONSTANT_POW": _unary(26, "x**Exponent", _constant_power, _POWER),
    "LOGICAL_NOT": _unary(18, "x == 0: 1 or 0", _of(lambda x: (x == 0).astype(x.dtype)), _TRUTH),
    "BIT_NOT": _unary(124, "the inverted bits", _of(_on_bits(lax.bitwise_not)), _BITS),
    "IS_NAN": _test(80, "x is NaN", _of(jnp.isnan), "input_tensor", "2_0 F", "2_0 UINT32+UINT8"),
    "IS_INFINITY": _test(
        100, "x is infinite, as InfinityMode says", _is_infinity, "input_tensor", "2_1 F", "2_1 UINT8"
    ),
    "BIT_COUNT": pointwise(
        125,
        "Count the bits that are set.",
        _told(_of(lambda x: lax.population_count(_bits(x)))),
        ("input_tensor", _BITS),
        (_RESULT, "3_0 UINT32+UINT8"),
    ),
}

_OF_SEVERAL: Mapping[str, Operator] = {
    "ADD": _binary(4, "a + b", lax.add, _ARITHMETIC, counts=_FOUR_OR_FIVE),
    "ADD1": pointwise(
        89,
        "Compute a + b, and then the fused activation.",
        lambda desc, a, b: activated(desc.fused_activation, a + b),
        (_BOTH, "2_0 F"),
        counts=_FOUR_OR_FIVE,
    ),
    "MULTIPLY": _binary(24, "a * b", lax.mul, _ARITHMETIC, counts=_FOUR_OR_FIVE),
    "SUBTRACT": _binary(30, "a - b", lax.sub, _ARITHMETIC),
    "DIVIDE": _binary(10, "a / b; of integers without the fraction", lax.div, _DIVIDED),
    "MEAN": _binary(22, "(a + b) / 2", _mean, "1_0 F, 2_1 F+INT32+UINT32"),
    "MAX": _binary(21, "the greater of a and b", jnp.maximum, _ORDERED),
    "MIN": _binary(23, "the lesser of a and b", jnp.minimum, _ORDERED),
    "MODULUS_TRUNCATE": _binary(101, "the remainder of a / b that has the sign of a", lax.rem, _MODULUS),
    "MODULUS_FLOOR": _binary(102, "the remainder of a / b that has the sign of b", jnp.remainder, _MODULUS),
    "DIFFERENCE_SQUARE": _binary(143, "(a - b)**2", lambda a, b: (a - b) * (a - b), "3_1 F+INT32+UINT32"),
    "ATAN_YX": _binary(141, "the angle of the point x = b, y = a, in radians", jnp.arctan2, "3_1 F"),
    "LOGICAL_AND": _logical(14, "a and b", lax.bitwise_and),
    "LOGICAL_OR": _logical(19, "a or b", lax.bitwise_or),
    "LOGICAL_XOR": _logical(20, "a or b but not both", lax.bitwise_xor),
    "LOGICAL_EQUALS": _comparison(15, "a == b", lax.eq, _COMPARED),
    "LOGICAL_GREATER_THAN": _comparison(16, "a > b", lax.gt, _COMPARED),
    "LOGICAL_LESS_THAN": _comparison(17, "a < b", lax.lt, _COMPARED),
    "LOGICAL_GREATER_THAN_OR_EQUAL": _comparison(126, "a >= b", lax.ge, _COMPARED_FROM_3_0),
    "LOGICAL_LESS_THAN_OR_EQUAL": _comparison(127, "a <= b", lax.le, _COMPARED_FROM_3_0),
    "BIT_AND": _binary(121, "the bits that are set in a and b", _on_bits(lax.bitwise_and), _BITS),
    "BIT_OR": _binary(122, "the bits that are set in a or b", _on_bits(lax.bitwise_or), _BITS),
    "BIT_XOR": _binary(123, "the bits that differ in a and b", _on_bits(lax.bitwise_xor), _BITS),
    "BIT_SHIFT_LEFT": _binary(97, "the bits of a, shifted left by b", lax.shift_left, _SHIFTED),
    "BIT_SHIFT_RIGHT": _binary(98, "the bits of a, shifted right by b", lax.shift_right_logical, _SHIFTED),
    "POW": pointwise(25, "Compute x**Exponent.", _power, (_SAME, _POWER), ("exponent_tensor", _POWER)),
    "IF": pointwise(
        88,
        "Choose a where the condition is not 0, else b.",
        _if,
        (_BOTH, "2_0 F, 2_1 F+I, 5_0 A"),
        ("condition_tensor", "2_0 UINT8"),
    ),
    "CLIP_GRAD": pointwise(142, _CLIPPED, _clip_grad, (_GRADIENT, "3_1 F+I, 5_0 F+I+L")),
    "CLIP_GRAD1": pointwise(
        154, _CLIPPED, _clip_grad, (_GRADIENT, "5_0 F+I+L"), constraints=typed("min_max_data_type")
    ),
}


def _cast(desc: Any, x: Any) -> Any:
    dtype = desc.output_tensor.data_type.dtype
    drops = jnp.issubdtype(x.dtype, jnp.floating) and jnp.issubdtype(dtype, jnp.integer)
    return to_integers(jnp, x, dtype) if drops else x.astype(dtype)


def _value_scale(desc: Any, x: Any) -> Any:
    return desc.scale * x + np.asarray(desc.bias, x.dtype).reshape(1, -1, 1, 1)


def _of_channels(desc: Any) -> Violations:
    if desc.channel_count not in (1, 3):
        yield Violation("ChannelCount", "must be 1 or 3", desc.channel_count)
    for channels in desc.input_tensor.sizes[1:2]:
        if channels != desc.channel_count:
            yield Violation("InputTensor.Sizes[1]", f"must be {desc.channel_count}, ChannelCount", channels)


_CAST = "1_0 F+INT16+INT8+UINT16+UINT8, 3_0 F+I+L, 4_1 A"

OPERATORS: Mapping[str, Operator] = {
    **{f"ELEMENT_WISE_{name}": one for name, one in {**_UNARY, **_OF_SEVERAL}.items()},
    "CAST": pointwise(
        61,
        "Convert to another data type: floats without the fraction and saturated, integers to integers by their bits.",
        _cast,
        ("input_tensor", _CAST),
        (_RESULT, _CAST),
        counts="1_0 4, 3_1 1-8",
    ),
    "VALUE_SCALE_2D": _unary(
        65, "Scale x + Bias, with a bias for each channel", _value_scale, counts="1_0 4", constraints=_of_channels
    ),
}

"""Groups of nodes between DequantizeLinear and QuantizeLinear: the integers that real numbers mean, or why none."""

import itertools
import math
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from tests.onnx.quantized import Groups, draw
from tests.quick import quick

pytestmark = quick

U8, S8, S32 = np.uint8, np.int8, np.int32


# Functions of one operand, on all 256 integers


def rational(value):
    """Return a number that float32 holds as a Decimal: exact, with enough digits."""
    return Decimal(value.numerator) / Decimal(value.denominator)


def float32(attribute):
    return Fraction(float(np.float32(attribute)))


def erf(x):
    """Sum the series with terms of one sign: nothing cancels."""
    x = rational(x)
    if abs(x) > 9:
        return Decimal(1).copy_sign(x)
    term = total = x
    for n in itertools.count(1):
        term *= 2 * x * x / (2 * n + 1)
        if abs(term) <= Decimal("1e-50"):
            break
        total += term
    return 2 * total * (-x * x).exp() / (4 * arctangents()).sqrt()


def arctangents():
    """Return a quarter of pi, by Machin."""
    def arctan(inverse):
        terms = (Decimal(-1) ** n / (2 * n + 1) / Decimal(inverse) ** (2 * n + 1) for n in range(40))
        return sum(terms)

    return 4 * arctan(5) - arctan(239)


def tanh(x):
    power = (-2 * abs(rational(x) if isinstance(x, Fraction) else x)).exp()
    return ((1 - power) / (1 + power)).copy_sign(rational(x) if isinstance(x, Fraction) else x)


def softplus(x):
    return max(rational(x), Decimal(0)) + (1 + (-abs(rational(x))).exp()).ln()


def gelu(x, approximate="none"):
    number = rational(x)
    if approximate == "none":
        return number * (1 + erf(x / ROOT_OF_2)) / 2
    root = (2 / (4 * arctangents())).sqrt()
    return number * (1 + tanh(root * (number + Decimal("0.044715") * number**3))) / 2


with localcontext() as context:
    context.prec = 60
    ROOT_OF_2 = Fraction(Decimal(2).sqrt())


def clip(x, low, high):
    x = x if low is None else max(x, low)
    return x if high is None else min(x, high)


FUNCTIONS = {
    ("Relu",): lambda x: max(x, Fraction(0)),
    ("Clip", ("min", -1.5), ("max", 2.5)): lambda x: clip(x, Fraction(-3, 2), Fraction(5, 2)),
    ("Clip", ("max", 0.1)): lambda x: clip(x, None, float32(0.1)),
    ("LeakyRelu",): lambda x: x if x >= 0 else float32(0.01) * x,
    ("LeakyRelu", ("alpha", 0.5)): lambda x: x if x >= 0 else x / 2,
    ("HardSigmoid",): lambda x: clip(float32(0.2) * x + Fraction(1, 2), 0, 1),
    ("HardSigmoid", ("alpha", 0.25), ("beta", 0.125)): lambda x: clip(x / 4 + Fraction(1, 8), 0, 1),
    ("HardSwish",): lambda x: x * clip(x / 6 + Fraction(1, 2), 0, 1),
    ("Sigmoid",): lambda x: 1 / (1 + (-rational(x)).exp()),
    ("Tanh",): tanh,
    ("Erf",): erf,
    ("Gelu",): gelu,
    ("Gelu", ("approximate", "tanh")): lambda x: gelu(x, "tanh"),
    ("Elu",): lambda x: x if x >= 0 else rational(x).exp() - 1,
    ("Elu", ("alpha", 0.5)): lambda x: x if x >= 0 else (rational(x).exp() - 1) / 2,
    ("Softplus",): softplus,
}
SETTINGS = (
    (U8, 0.0625, 128, U8, 2.0**-7, 3),
    (S8, 0.0625, 0, S8, 0.125, -1),
    (S8, 0.03125, 7, U8, 0.25, 128),
    (U8, 0.0371, 111, S8, 0.0173, -5),
)


def quantized(value, scale, zero, dtype):
    limits = np.iinfo(dtype)
    if isinstance(value, Decimal):
        nearest = int((value / rational(scale)).to_integral_value(ROUND_HALF_EVEN))
    else:
        nearest = round(value / scale)
    return min(max(nearest + zero, limits.min), limits.max)


@pytest.mark.parametrize("setting", SETTINGS)
def test_functions_of_one_operand_are_right_on_every_integer(setting):
    dtype, scale, zero, out_dtype, out_scale, out_zero = setting
    every = np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1).astype(dtype)
    groups = Groups()
    x = groups.dq(groups.input(every), scale, dtype(zero))
    names = {}
    for kind, *attributes in FUNCTIONS:
        given = dict(attributes)
        bounds = [np.float32(given.pop(side)) if side in given else None for side in ("min", "max")]
        made = groups(kind, x, *(bounds if kind == "Clip" else ()), **given)
        names[groups.q(made, out_scale, out_dtype(out_zero))] = FUNCTIONS[kind, *attributes]
    got = groups.run(compiled=False)
    values = [float32(scale) * (int(q) - zero) for q in every]
    with localcontext() as context:
        context.prec = 60
        for name, function in names.items():
            want = [quantized(function(value), float32(out_scale), out_zero, out_dtype) for value in values]
            np.testing.assert_array_equal(got[name], np.asarray(want, out_dtype), err_msg=name)

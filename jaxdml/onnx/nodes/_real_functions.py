"""Real functions of one operand, for tables that are rounded once."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np

from jaxdml.onnx.integers import tables


def number(attribute: float) -> Fraction | float:
    """Return an attribute's exact value; infinities and NaN as they are."""
    number = float(np.float32(attribute))
    return Fraction(number) if math.isfinite(number) else number


def _leaky_relu(alpha: float = 0.01) -> tables.Real:
    slope = number(alpha)
    return lambda value: value if value >= 0 else slope * value


def _hard_sigmoid(alpha: float = 0.2, beta: float = 0.5) -> tables.Real:
    slope, offset = number(alpha), number(beta)
    return lambda value: min(max(slope * value + offset, Fraction(0)), Fraction(1))


def _hard_swish() -> tables.Real:
    return lambda value: value * min(max(value / 6 + Fraction(1, 2), Fraction(0)), Fraction(1))


def _exp(number: float) -> float:
    """Return an exponential, which is never 0: a limit from below is not the limit, and may round otherwise."""
    return max(math.exp(number), math.ulp(0.0))


def _sigmoid(value: Fraction) -> float:
    power = _exp(-abs(float(value)))
    return (1.0 if value >= 0 else power) / (1.0 + power)


def _gelu(approximate: str = "none") -> tables.Real:
    """Return x times a number from 0 to 1; that is exact where it is close to 1."""

    def exactly(number: float) -> float:
        return max(math.erfc(number / math.sqrt(2.0)) / 2.0, math.ulp(0.0))

    def by_tanh(number: float) -> float:
        cubic = number + 0.044715 * number * number * number  # A power of a large number would raise an error.
        power = _exp(-2.0 * math.sqrt(2.0 / math.pi) * cubic)
        return power / (1.0 + power)

    below_one = exactly if approximate == "none" else by_tanh

    def real(value: Fraction) -> Fraction:
        rest = Fraction(below_one(abs(float(value))))
        return value * (1 - rest if value >= 0 else rest)

    return real


def _elu(alpha: float = 1.0) -> tables.Real:
    factor = number(alpha)

    def less_one(number: float) -> Fraction:
        return Fraction(math.expm1(number)) if number > -1 else Fraction(_exp(number)) - 1

    return lambda value: value if value >= 0 else factor * less_one(float(value))


def _softplus(value: Fraction) -> Fraction:
    return max(value, Fraction(0)) + Fraction(math.log1p(_exp(-abs(float(value)))))


REAL: Mapping[str, Callable[..., tables.Real]] = {
    "Elu": _elu,
    "Erf": lambda: math.erf,
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "LeakyRelu": _leaky_relu,
    "Sigmoid": lambda: _sigmoid,
    "Softplus": lambda: _softplus,
    "Tanh": lambda: math.tanh,
}
"""Functions of one operand: each takes its node's attributes and returns the function of real numbers."""

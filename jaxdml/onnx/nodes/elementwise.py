"""Operators that compute each element from the elements at its place: arithmetic, comparisons, logic, bits."""

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxdml._networks.coordinates import quotient
from jaxdml._networks.integers import is_integer, power, truncating_divide
from jaxdml.onnx.nodes._handler import FIRST, Handler, NodeCall, Table
from jaxdml.onnx.nodes.drawing import dropout

_everywhere = partial(Handler, host=True, elementwise=True)


def _unary(name: str) -> Callable[..., Any]:
    """Return the function of this name in NumPy and jax.numpy, of one operand."""

    def run(call: NodeCall, x: Any) -> Any:
        return getattr(call.xp, name)(x)

    return run


def _binary(name: str) -> Callable[..., Any]:
    """Return the function of this name in NumPy and jax.numpy, of two operands."""

    def run(call: NodeCall, a: Any, b: Any) -> Any:
        return getattr(call.xp, name)(a, b)

    return run


def _variadic(name: str) -> Callable[..., Any]:
    """Return what the function of this name in NumPy and jax.numpy makes of one operand after another."""

    def run(call: NodeCall, first: Any, *others: Any) -> Any:
        return reduce(getattr(call.xp, name), others, first)

    return run


def _mean(call: NodeCall, first: Any, *others: Any) -> Any:
    return reduce(call.xp.add, others, first) / (1 + len(others))


def _divide(call: NodeCall, a: Any, b: Any) -> Any:
    if is_integer(a):
        return truncating_divide(call.xp, a, b)
    return quotient(a, b) if call.xp is jnp else np.divide(a, b)


def _mod(call: NodeCall, a: Any, b: Any, *, fmod: int = 0) -> Any:
    if fmod:
        return call.xp.fmod(a, b)
    remainder = call.xp.mod(a, b)
    if is_integer(a):
        return remainder
    return call.xp.where(remainder == 0, call.xp.copysign(remainder, b), remainder)


def _power(call: NodeCall, x: Any, y: Any) -> Any:
    return power(call.xp, x, y)


def _shift(call: NodeCall, x: Any, y: Any, *, direction: str) -> Any:
    return call.xp.left_shift(x, y) if direction == "LEFT" else call.xp.right_shift(x, y)


def _is_infinite(call: NodeCall, x: Any, *, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    wanted = call.xp.where(x < 0, bool(detect_negative), bool(detect_positive))
    return call.xp.isinf(x) & wanted


def _where(call: NodeCall, condition: Any, x: Any, y: Any) -> Any:
    return call.xp.where(condition, x, y)


def _identity(call: NodeCall, x: Any) -> Any:
    return x


def _dropout_7(call: NodeCall, x: Any, *, ratio: float = 0.5) -> Any:
    return x, call.xp.ones(x.shape, x.dtype)


def _dropout_10(call: NodeCall, x: Any, *, ratio: float = 0.5) -> Any:
    return x, call.xp.ones(x.shape, bool)


_UNARY = {
    "Abs": (6, "abs"),
    "Acos": (7, "acos"),
    "Acosh": (9, "acosh"),
    "Asin": (7, "asin"),
    "Asinh": (9, "asinh"),
    "Atan": (7, "atan"),
    "Atanh": (9, "atanh"),
    "BitwiseNot": (18, "bitwise_not"),
    "Ceil": (6, "ceil"),
    "Cos": (7, "cos"),
    "Cosh": (9, "cosh"),
    "Exp": (6, "exp"),
    "Floor": (6, "floor"),
    "IsNaN": (9, "isnan"),
    "Log": (6, "log"),
    "Neg": (6, "negative"),
    "Not": (1, "logical_not"),
    "Reciprocal": (6, "reciprocal"),
    "Round": (11, "rint"),
    "Sign": (9, "sign"),
    "Sin": (7, "sin"),
    "Sinh": (9, "sinh"),
    "Sqrt": (6, "sqrt"),
    "Tan": (7, "tan"),
}

_BINARY = {
    "Add": (7, "add"),
    "And": (7, "logical_and"),
    "BitwiseAnd": (18, "bitwise_and"),
    "BitwiseOr": (18, "bitwise_or"),
    "BitwiseXor": (18, "bitwise_xor"),
    "Equal": (7, "equal"),
    "Greater": (7, "greater"),
    "GreaterOrEqual": (12, "greater_equal"),
    "Less": (7, "less"),
    "LessOrEqual": (12, "less_equal"),
    "Mul": (7, "multiply"),
    "Or": (7, "logical_or"),
    "Sub": (7, "subtract"),
    "Xor": (7, "logical_xor"),
}

_VARIADIC = {"Max": (6, "maximum"), "Min": (6, "minimum"), "Sum": (6, "add")}

TABLE: Table = {
    **{name: (_everywhere(since, _unary(function)),) for name, (since, function) in _UNARY.items()},
    **{name: (_everywhere(since, _binary(function)),) for name, (since, function) in _BINARY.items()},
    **{name: (_everywhere(since, _variadic(function)),) for name, (since, function) in _VARIADIC.items()},
    "BitShift": (_everywhere(11, _shift),),
    "Div": (_everywhere(7, _divide),),
    "Dropout": (
        _everywhere(7, _dropout_7, moves=FIRST),
        _everywhere(10, _dropout_10, moves=FIRST),
        Handler(12, dropout, raw=True, static="ratio training_mode"),
    ),
    "Identity": (Handler(1, _identity, raw=True, moves=FIRST),),
    "IsInf": (_everywhere(10, _is_infinite),),
    "Mean": (_everywhere(6, _mean),),
    "Mod": (_everywhere(10, _mod),),
    "Pow": (_everywhere(7, _power, constant="y"),),
    "Where": (_everywhere(9, _where),),
}

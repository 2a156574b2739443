"""Every operator that computes element by element, in every data type, against NumPy and onnxruntime."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
import scipy.special

from jaxdml import directml as dml
from jaxdml.directml._structs import struct_of
from tests.directml.calls import Call, check, compare, onnx, wide
from tests.kit import quick

pytestmark = quick

DTYPES = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


class Row(NamedTuple):
    """What judges an operator.

    Attributes:
      numpy: takes the inputs, floats as float64, and returns the output before it is rounded.
      onnx: the operator of ONNX that computes the same, its attributes and more operands, if there is one.
      fields: the operator's fields.
      exact: whether even floats have to be the same bits.
      as_is: whether NumPy takes floats as they are.
    """

    numpy: Callable[..., Any]
    onnx: Any = None
    fields: Mapping[str, Any] = {}
    exact: bool = False
    as_is: bool = False


def node(
    kind: str,
    *operands: float,
    ints: str = "",
    floats: str = "float16 float32",
    without: Callable[..., Any] | None = None,
    **attributes: Any,
) -> Any:
    """Return a function that asks onnxruntime.

    Args:
      kind: the node's.
      operands: more of them, of the inputs' type.
      ints: the types of integers that it computes.
      floats: the types of floats; float16 is computed in float32.
      without: where it gives another answer.
      attributes: the node's.
    """

    def run(*inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        dtype = inputs[0].dtype
        if dtype.name not in (ints if dtype.kind in "iu" else floats).split():
            return None
        given = [x.astype(np.float32) if x.dtype == np.float16 else x for x in inputs]
        given = [x != 0 for x in given] if kind in ("And", "Not", "Or", "Xor") else given
        given += [np.asarray(operand, given[0].dtype) for operand in operands]
        judged = np.ones(inputs[0].shape, bool) if without is None else ~without(*inputs)
        return onnx(kind, *given, **attributes)[0], judged

    return run


def on_bits(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*xs):
        return function(*(x.view(f"uint{8 * x.itemsize}") for x in xs)).view(xs[0].dtype)

    return run


def truncated(a, b):
    if a.dtype.kind == "f":
        return a / b
    quotient = a // b
    return quotient + ((quotient * b != a) & ((a < 0) != (b < 0))).astype(a.dtype)


def where_above_0(x, y):
    return np.where(x > 0, y, np.zeros_like(y))


def softplus(x):
    return np.logaddexp(x, 0)


def sigmoid(x):
    return scipy.special.expit(x)


def clipped(x):
    return np.maximum(x.dtype.type(1), np.minimum(x, x.dtype.type(5)))


def inside(x, gradient):
    return np.where((x <= 1) | (x >= 5), np.zeros_like(gradient), gradient)


def hard_sigmoid(x):
    return np.maximum(0, np.minimum(np.float32(0.3) * x + np.float32(0.6), 1))


def elu(x):
    return np.where(x >= 0, x, np.float32(0.7) * np.expm1(np.minimum(x, 0)))


def shrunk(x):
    wide = x.astype(np.float64)
    moved = np.where(wide > 2, wide - 10, np.where(wide < -2, wide + 10, 0))
    if x.dtype.kind == "f":
        return np.where(np.isnan(x), 0, moved)
    return np.clip(moved.astype(np.float32).astype(np.float64), np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)


def half_of_twice(x):
    answer = node("Softplus")(2 * x)
    return answer and (answer[0] / 2, answer[1])


BOUNDS = {"min": 1.0, "max": 5.0}
TRUTH, INTS, WIDE_INTS = "uint8 uint32", "int32 int64", "int8 int16 int32 int64 uint8 uint16 uint32 uint64"
ALPHA, BETA = {"alpha": 0.7}, {"alpha": 0.3, "beta": 0.6}

ELEMENT_WISE = {
    "IDENTITY": Row(
        lambda x: x, node("Identity", ints=WIDE_INTS, floats="float16 float32 float64"), exact=True, as_is=True
    ),
    "ABS": Row(np.abs, node("Abs", ints=WIDE_INTS), exact=True),
    "NEGATE": Row(np.negative, node("Neg", ints="int8 int32 int64"), exact=True),
    "SIGN": Row(
        lambda x: (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype),
        node("Sign", ints=WIDE_INTS, without=np.isnan),
        exact=True,
    ),
    "ACOS": Row(np.arccos, node("Acos")),
    "ACOSH": Row(np.arccosh, node("Acosh")),
    "ASIN": Row(np.arcsin, node("Asin")),
    "ASINH": Row(np.arcsinh, node("Asinh")),
    "ATAN": Row(np.arctan, node("Atan")),
    "ATANH": Row(np.arctanh, node("Atanh")),
    "CEIL": Row(np.ceil, node("Ceil"), exact=True),
    "COS": Row(np.cos, node("Cos")),
    "COSH": Row(np.cosh, node("Cosh")),
    "ERF": Row(scipy.special.erf, node("Erf")),
    "EXP": Row(np.exp, node("Exp")),
    "FLOOR": Row(np.floor, node("Floor"), exact=True),
    "LOG": Row(np.log, node("Log")),
    "RECIP": Row(lambda x: 1 / x, node("Reciprocal")),
    "SIN": Row(np.sin, node("Sin")),
    "SINH": Row(np.sinh, node("Sinh")),
    "SQRT": Row(np.sqrt, node("Sqrt")),
    "TAN": Row(np.tan, node("Tan")),
    "TANH": Row(np.tanh, node("Tanh")),
    "ROUND": Row(np.round, node("Round"), {"rounding_mode": 0}, exact=True),
    "CLIP": Row(clipped, node("Clip", 1, 5, ints="int8 int32 int64 uint8 uint32 uint64"), BOUNDS, exact=True),
    "CLIP1": Row(clipped, node("Clip", 1, 5, ints="int8 int32 int64 uint8 uint32 uint64"), BOUNDS, exact=True),
    "CLIP_GRAD": Row(inside, None, BOUNDS, exact=True),
    "CLIP_GRAD1": Row(inside, None, BOUNDS, exact=True),
    "THRESHOLD": Row(lambda x: np.maximum(x, x.dtype.type(1)), node("Max", 1, ints=INTS), {"min": 1.0}, exact=True),
    "CONSTANT_POW": Row(lambda x: x**3, node("Pow", 3, ints=INTS), {"exponent": 3.0}),
    "POW": Row(lambda x, y: x**y, node("Pow")),
    "IS_NAN": Row(np.isnan, node("IsNaN")),
    "IS_INFINITY": Row(np.isposinf, node("IsInf", detect_negative=0), {"infinity_mode": 1}),
    "LOGICAL_NOT": Row(lambda x: x == 0, node("Not", ints=TRUTH), as_is=True),
    "BIT_NOT": Row(on_bits(np.invert), node("BitwiseNot", ints=WIDE_INTS, floats="", opset=18), as_is=True, exact=True),
    "BIT_COUNT": Row(lambda x: np.bitwise_count(x.view(f"uint{8 * x.itemsize}")), as_is=True),
    "ADD": Row(np.add, node("Add", ints=INTS)),
    "ADD1": Row(np.add, node("Add"), {"fused_activation": None}),
    "SUBTRACT": Row(np.subtract, node("Sub", ints=INTS)),
    "MULTIPLY": Row(np.multiply, node("Mul", ints=INTS)),
    "DIVIDE": Row(truncated, node("Div", ints=INTS)),
    "MEAN": Row(lambda a, b: truncated(a + b, np.full_like(b, 2)), node("Mean")),
    "MAX": Row(np.maximum, node("Max", ints=INTS), exact=True),
    "MIN": Row(np.minimum, node("Min", ints=INTS), exact=True),
    "MODULUS_TRUNCATE": Row(np.fmod, node("Mod", ints=WIDE_INTS, fmod=1)),
    "MODULUS_FLOOR": Row(np.remainder, node("Mod", ints=WIDE_INTS, floats="")),
    "DIFFERENCE_SQUARE": Row(lambda a, b: (a - b) * (a - b)),
    "ATAN_YX": Row(np.arctan2),
    "LOGICAL_AND": Row(lambda a, b: (a != 0) & (b != 0), node("And", ints=TRUTH)),
    "LOGICAL_OR": Row(lambda a, b: (a != 0) | (b != 0), node("Or", ints=TRUTH)),
    "LOGICAL_XOR": Row(lambda a, b: (a != 0) ^ (b != 0), node("Xor", ints=TRUTH)),
    "LOGICAL_EQUALS": Row(np.equal, node("Equal", ints=INTS)),
    "LOGICAL_GREATER_THAN": Row(np.greater, node("Greater", ints=INTS)),
    "LOGICAL_LESS_THAN": Row(np.less, node("Less", ints=INTS)),
    "LOGICAL_GREATER_THAN_OR_EQUAL": Row(np.greater_equal, node("GreaterOrEqual", ints=INTS)),
    "LOGICAL_LESS_THAN_OR_EQUAL": Row(np.less_equal, node("LessOrEqual", ints=INTS)),
    "BIT_AND": Row(
        on_bits(np.bitwise_and), node("BitwiseAnd", ints=WIDE_INTS, floats="", opset=18), as_is=True, exact=True
    ),
    "BIT_OR": Row(
        on_bits(np.bitwise_or), node("BitwiseOr", ints=WIDE_INTS, floats="", opset=18), as_is=True, exact=True
    ),
    "BIT_XOR": Row(
        on_bits(np.bitwise_xor), node("BitwiseXor", ints=WIDE_INTS, floats="", opset=18), as_is=True, exact=True
    ),
    "BIT_SHIFT_LEFT": Row(np.left_shift, node("BitShift", ints="uint8 uint32 uint64", direction="LEFT")),
    "BIT_SHIFT_RIGHT": Row(np.right_shift, node("BitShift", ints="uint8 uint32 uint64", direction="RIGHT")),
}

ACTIVATIONS = {
    "CELU": Row(lambda x: np.maximum(0, x) + np.minimum(0, 0.7 * np.expm1(x / 0.7)), node("Celu", alpha=0.7), ALPHA),
    "ELU": Row(elu, node("Elu", alpha=0.7), ALPHA),
    "GELU": Row(lambda x: x / 2 * (1 + scipy.special.erf(x / np.sqrt(2))), node("Gelu", opset=20)),
    "HARD_SIGMOID": Row(hard_sigmoid, node("HardSigmoid", **BETA), BETA),
    "HARD_SWISH": Row(lambda x: x * np.clip(x / 6 + 0.5, 0, 1), node("HardSwish"), {"alpha": 1 / 6, "beta": 0.5}),
    "IDENTITY": Row(lambda x: x, node("Identity"), exact=True, as_is=True),
    "LEAKY_RELU": Row(lambda x: np.where(x >= 0, x, np.float32(0.7) * x), node("LeakyRelu", **ALPHA), ALPHA),
    "LINEAR": Row(lambda x: np.float32(0.3) * x + np.float32(0.6), node("Affine", opset=6, **BETA), BETA),
    "PARAMETERIZED_RELU": Row(lambda x, slope: np.where(x >= 0, x, slope * x), node("PRelu", ints=INTS)),
    "PARAMETRIC_SOFTPLUS": Row(lambda x: 0.3 * softplus(0.6 * x), node("ParametricSoftplus", opset=6, **BETA), BETA),
    "RELU": Row(lambda x: np.maximum(x, 0), node("Relu", ints="int8 int32 int64"), exact=True),
    "RELU_GRAD": Row(where_above_0, exact=True),
    "SCALED_ELU": Row(lambda x: 1.5 * elu(x), node("Selu", alpha=0.7, gamma=1.5), {"alpha": 0.7, "gamma": 1.5}),
    "SCALED_TANH": Row(lambda x: 0.3 * np.tanh(np.float32(0.6) * x), node("ScaledTanh", opset=6, **BETA), BETA),
    "SHRINK": Row(shrunk, node("Shrink", bias=10.0, lambd=2.0), {"bias": 10.0, "threshold": 2.0}),
    "SIGMOID": Row(sigmoid, node("Sigmoid")),
    "SOFTPLUS": Row(lambda x: softplus(2 * x) / 2, half_of_twice, {"steepness": 2.0}),
    "SOFTSIGN": Row(lambda x: x / (1 + np.abs(x)), node("Softsign")),
    "SWISH": Row(lambda x: x * sigmoid(x * 1.5), node("Swish", alpha=1.5, opset=24), {"sigmoid_input_scale": 1.5}),
    "TANH": Row(np.tanh, node("Tanh")),
    "THRESHOLDED_RELU": Row(
        lambda x: np.where(x > 2, x, 0), node("ThresholdedRelu", alpha=2.0), {"alpha": 2.0}, exact=True
    ),
}

ROWS = {
    **{f"ELEMENT_WISE_{name}": row for name, row in ELEMENT_WISE.items()},
    **{f"ACTIVATION_{name}": row for name, row in ACTIVATIONS.items()},
}

FLOATS = [0.0, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 5, 7, 20, 1e3, np.inf]


def values(dtype):
    """Return numbers of both signs, those that roundings and thresholds tell apart, and the ends of the type."""
    if dtype.kind == "f":
        return np.array([*FLOATS, *(-x for x in FLOATS), np.nan], dtype)
    ends = np.iinfo(dtype)
    small = [0, 1, 2, 3, 4, 5, 7, 11, 100, ends.max - 1, ends.max]
    return np.array(small + ([-1, -2, -3, -8, ends.min + 1, ends.min] if dtype.kind == "i" else []), dtype)


def operands(name, count, dtype):
    """Return every combination of up to two numbers that the operator defines."""
    one = values(dtype)
    if count == 1:
        return [one]
    a, b = np.repeat(one, len(one)), np.tile(one, len(one))
    if dtype.kind != "f" and ("DIVIDE" in name or "MODULUS" in name):
        b = np.where(b == 0, b.dtype.type(3), b)
        a = np.where((a == np.iinfo(dtype).min) & (~b == 0), a.dtype.type(7), a)
    if dtype.kind != "f" and name == "ELEMENT_WISE_POW":
        b = b & b.dtype.type(7)
    if "SHIFT" in name:
        b = b % b.dtype.type(8 * dtype.itemsize)
    return [a, b]


def call(name, row, dtype):
    """Return a call, or None if the operator does not take the type; and its inputs."""
    struct = struct_of(dml.OperatorType[name])
    roles, support = struct.roles(), list(struct.operator.levels.values())[-1]
    inputs = [field for field, role in roles.items() if not role.output]
    (output,) = (field for field, role in roles.items() if role.output)
    if dtype.name.upper() not in [kind.name for kind in support[inputs[0]].data_types]:
        return None
    given = operands(name, len(inputs), dtype)
    with np.errstate(all="ignore"):
        wide = [x.astype(np.float64) if dtype.kind == "f" and not row.as_is else x for x in given]
        wanted = row.numpy(*wide)
        kinds = [kind.dtype for kind in support[output].data_types]
        result = dtype if dtype in kinds else kinds[dtype.itemsize % len(kinds)]
        wanted = wanted.astype(result)
    fields = dict(row.fields)
    if name.endswith(("CLIP1", "CLIP_GRAD1")):
        fields = {"min_max_data_type": ..., "min": dtype.type(1), "max": dtype.type(5)}
    tolerance = 0 if row.exact else 4 * float(np.finfo(dtype).eps) if dtype.kind == "f" else None
    return Call(name, given, [wanted], fields, None if row.as_is or result.kind != "f" else tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_operators_agree_with_numpy_and_onnxruntime(dtype):
    dtype = np.dtype(dtype)
    with wide(dtype):
        calls = [made for name, row in ROWS.items() if (made := call(name, row, dtype))]
        found = check(calls)
    for made, got in zip(calls, found, strict=True):
        judge = ROWS[made.name].onnx
        answer = judge and judge(*made.inputs)
        if answer:
            theirs, where = answer
            with np.errstate(all="ignore"):
                compare(np.asarray(got)[where], theirs.astype(got.dtype)[where], made.tolerance and 2 * made.tolerance)


X = np.float32([[-2.5, -1.75, -1.5, -1.25]])
ROUNDED = {0: [-2, -2, -2, -1], 1: [-2, -1, -1, -1], 2: [-3, -2, -2, -1]}
INFINITE = np.float32([np.inf, -np.inf, 3, np.nan])
A, B = np.int32([-4, 7, 5, 4, -7, 8]), np.int32([2, -3, 8, -2, 3, 5])
SMALL = np.array([-3, -1, 1, 4], np.float32)
LARGE = np.float32([3, -200, 70, 1e9])


def unary(name, x, wanted, dtype=None, **fields):
    return Call(name, [x], [np.asarray(wanted, dtype or x.dtype)], fields)


PICTURE = np.float32(range(12)).reshape(1, 3, 2, 2)

PUBLISHED = [
    *(unary("ELEMENT_WISE_ROUND", X, [wanted], rounding_mode=mode) for mode, wanted in ROUNDED.items()),
    *(
        unary("ELEMENT_WISE_IS_INFINITY", INFINITE, wanted, np.uint8, infinity_mode=mode)
        for mode, wanted in enumerate(([1, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]))
    ),
    unary("ELEMENT_WISE_BIT_COUNT", np.uint32([0, 123, 456, 789]), [0, 6, 4, 5]),
    Call("ELEMENT_WISE_MODULUS_FLOOR", [A, B], [np.int32([0, -2, 5, 0, 2, 3])]),
    Call("ELEMENT_WISE_MODULUS_TRUNCATE", [A, B], [np.int32([0, 1, 5, 0, -1, 3])]),
    unary("ACTIVATION_SHRINK", SMALL, [7, 0, 0, -6], bias=10.0, threshold=2.0),
    unary("ACTIVATION_SHRINK", np.uint8([37, 1, 1, 11]), [27, 0, 0, 1], bias=10.0, threshold=2.0),
    Call(
        "ELEMENT_WISE_IF",
        [np.uint8([[1, 0], [1, 1]]), np.float16([[1, 2], [3, 4]]), np.float16([[9, 8], [7, 6]])],
        [np.float16([[1, 8], [3, 4]])],
    ),
    Call(
        "VALUE_SCALE_2D",
        [PICTURE],
        onnx("ImageScaler", PICTURE, scale=2.0, bias=[1.0, 0.5, -3.0], opset=6),
        {"scale": 2.0, "bias": (1.0, 0.5, -3.0)},
    ),
]
"""What DirectML's pages print, what its own tests expect, and what onnxruntime computes."""

DECIDED = [
    unary("ELEMENT_WISE_CLIP", X, np.full_like(X, 3), min=3.0, max=-3.0),
    unary("ELEMENT_WISE_CLIP", np.int8([-128, 0, 127]), [-128, 0, 127], min=-3e38, max=np.inf),
    unary("ELEMENT_WISE_CLIP", np.int8([-9, 0, 9]), [-2, 0, 2], min=-2.9, max=2.9),
    unary("ELEMENT_WISE_THRESHOLD", np.int8([-9, 0, 9]), [0, 0, 9], min=np.nan),
    unary("ELEMENT_WISE_CLIP", np.float16([-np.inf, 1, np.inf]), [-np.inf, 1, np.inf], min=-3e38, max=3e38),
    unary("ELEMENT_WISE_SIGN", np.float32([np.nan, -0.0]), [0, 0]),
    Call("ELEMENT_WISE_DIVIDE", [np.int32([5, -(2**31)]), np.int32([0, -1])], [np.int32([-1, -(2**31)])]),
    Call("ELEMENT_WISE_MODULUS_TRUNCATE", [np.int32([5]), np.int32([0])], [np.int32([5])]),
    Call("ELEMENT_WISE_MODULUS_FLOOR", [np.int32([5]), np.int32([0])], [np.int32([0])]),
    Call("ELEMENT_WISE_BIT_SHIFT_LEFT", [np.uint8([255]), np.uint8([8])], [np.uint8([0])]),
    Call("ELEMENT_WISE_ATAN_YX", [np.float32([0, -0.0, 0]), np.float32([0, 0, -0.0])], [np.float32([0, -0.0, np.pi])]),
    unary("ELEMENT_WISE_CONSTANT_POW", np.int32([-2, -1, 0, 1, 3]), [0, -1, 2**31 - 1, 1, 0], exponent=-1.0),
    unary("ELEMENT_WISE_CONSTANT_POW", np.int32([9, 10, 2]), [3, 3, 1], exponent=0.5),
    Call(
        "ELEMENT_WISE_POW",
        [np.uint8([255, 2, 3, 1]), np.int32([-2, 300, 2, 2**31 - 1])],
        [np.uint8([0, 0, 9, 1])],
    ),
    Call("ELEMENT_WISE_POW", [np.float16([2, 9]), np.float32([3, 0.5])], [np.float16([8, 3])]),
    unary("ELEMENT_WISE_IDENTITY", np.int8([-100, 0, 3, 100]), [-128, 0, 4, 127], scale_bias=(1.5, 0.25)),
    unary("ELEMENT_WISE_RECIP", np.float32([1, 3]), [0.25, 0.125], scale_bias=(2.0, 2.0)),
    Call("ELEMENT_WISE_POW", [np.float32([1]), np.float32([3])], [np.float32([64])], {"scale_bias": (2.0, 2.0)}),
    Call(
        "ELEMENT_WISE_ADD1",
        [np.float32([1, -3]), np.float32([1, 1])],
        [np.float32([4, 0])],
        {"fused_activation": dml.ActivationLinearOperatorDesc(alpha=1.0, beta=2.0)},
    ),
    Call("CAST", [LARGE], [np.uint8([3, 0, 70, 255])]),
    Call("CAST", [np.float32([300.7, -1.2, np.nan, -0.9, np.inf])], [np.int8([127, -1, 0, 0, 127])]),
    Call(
        "CAST",
        [np.float32([2**31, -(2.0**31), -1e30, 2.0**32])],
        [np.int32([2**31 - 1, -(2**31), -(2**31), 2**31 - 1])],
    ),
    Call("CAST", [np.int32([257, -1, -129])], [np.uint8([1, 255, 127])]),
    Call("CAST", [np.int32([2049, -1])], [np.float16([2048, -1])]),
    Call("CAST", [np.float32([1e9, 2049])], [np.float16([np.inf, 2048])]),
]
"""What docs/departures.md says of what the pages leave open, and conversions that C and NumPy leave open."""


def test_what_the_pages_print():
    check(PUBLISHED)


def test_what_the_pages_leave_open():
    zeros = [call for call in DECIDED if call.name == "ELEMENT_WISE_ATAN_YX"]
    check([call for call in DECIDED if call not in zeros])
    check([call._replace(tolerance=1e-6) for call in zeros])


@pytest.mark.parametrize("x64", [False, True])
def test_conversions_between_all_types(x64):
    kinds = [np.dtype(name) for name in DTYPES if x64 or np.dtype(name).itemsize < 8]
    numbers = [np.array([0, 1, 2, 3, 100], kind) for kind in kinds]
    with jax.enable_x64(x64):
        check([Call("CAST", [x], [x.astype(kind)]) for x in numbers for kind in kinds])
        if x64:
            ends = np.array([-1e30, 2.0**63, 2.0**64, -1.5])
            check([Call("CAST", [ends], [np.array([-(2**63), 2**63 - 1, 2**63 - 1, -1])])])
            check([Call("CAST", [ends], [np.array([0, 2**63, 2**64 - 1, 0], np.uint64)])])
            wide_ints = np.array([2**62 + 1, -5])
            check([unary("ELEMENT_WISE_IDENTITY", wide_ints, wide_ints, scale_bias=(1.0, 0.0))])


def softmaxes(dtype):
    """Return calls judged by onnxruntime, which computes along one axis: two are the last of a transposed array."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3, 4, 5)).astype(dtype)
    x[0, 0, 0, :2] = 9  # Of equal greatest elements Hardmax takes the first.
    flat = x[:1, :1]
    calls = []
    for kind, name in (("Softmax", "SOFTMAX"), ("LogSoftmax", "LOG_SOFTMAX"), ("Hardmax", "HARDMAX")):
        tolerance = 0 if kind == "Hardmax" else 2 * float(np.finfo(dtype).eps)

        def judged(x, axis, kind=kind):
            return onnx(kind, x.astype(np.float32), axis=axis)[0].astype(dtype)

        calls.append(Call(f"ACTIVATION_{name}", [flat], [judged(flat, -1)], {}, tolerance))
        calls += [Call(f"ACTIVATION_{name}1", [x], [judged(x, d)], {"axes": (d,)}, tolerance) for d in range(4)]
        together = judged(x.transpose(1, 3, 0, 2).reshape(15, 8), -1).reshape(3, 5, 2, 4).transpose(2, 0, 3, 1)
        calls.append(Call(f"ACTIVATION_{name}1", [x], [together], {"axes": (0, 2)}, tolerance))
    return calls


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_softmax_and_its_like(dtype):
    check(softmaxes(dtype))


def test_the_example_of_hardmax():
    x = np.float32([[[12, 0], [-101, 11]], [[3, 234], [0, -101]]])
    along_1, along_0_and_2 = [[[1, 0], [0, 1]], [[1, 1], [0, 0]]], [[[0, 0], [0, 1]], [[0, 1], [0, 0]]]
    check(
        [
            unary("ACTIVATION_HARDMAX1", x, along_1, axes=(1,)),
            unary("ACTIVATION_HARDMAX1", x, along_0_and_2, axes=(0, 2)),
        ]
    )

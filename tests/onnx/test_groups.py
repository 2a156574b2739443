"""Groups of nodes between DequantizeLinear and QuantizeLinear: the integers that real numbers mean, or why none."""

import itertools
import re
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from functools import partial

import jax
import numpy as np
import pytest
from jax import export
from onnx import numpy_helper

from jaxdml import reference
from jaxdml._networks.softmax import _of_limbs, _of_words, bits_of_exponentials
from tests.kit import assert_same_bits, quick
from tests.onnx.quantized import Groups, draw

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
    for (kind, *attributes), function in FUNCTIONS.items():
        given = dict(attributes)
        bounds = [np.float32(given.pop(side)) if side in given else None for side in ("min", "max")]
        made = groups(kind, x, *(bounds if kind == "Clip" else ()), **given)
        names[groups.q(made, out_scale, out_dtype(out_zero))] = function
    got = groups.run(compiled=False)
    values = [float32(scale) * (int(q) - zero) for q in every]
    with localcontext() as context:
        context.prec = 60
        for name, function in names.items():
            want = [quantized(function(value), float32(out_scale), out_zero, out_dtype) for value in values]
            np.testing.assert_array_equal(got[name], np.asarray(want, out_dtype), err_msg=name)


def test_a_limit_is_not_reached():
    groups = Groups()
    x = groups.dq(groups.input(np.int8([45, 47, -100, -1])), 1)
    wanted = {
        groups.q(groups("Gelu", x), 2, S8(0)): [22, 23, 0, 0],
        groups.q(groups("Gelu", x, approximate="tanh"), 2, S8(0)): [22, 23, 0, 0],
        groups.q(groups("Softplus", x), 2, S8(0)): [23, 24, 0, 0],
        groups.q(groups("Elu", x, alpha=1.5), 1, S8(0)): [45, 47, -1, -1],
    }
    for name, got in groups.run(compiled=False).items():
        np.testing.assert_array_equal(got, wanted[name])


HUGE = float(np.finfo(np.float32).max)


def test_numbers_beyond_all_bounds_saturate_as_floats_do():
    groups = Groups()
    x = groups.dq(groups.input(np.int8([-128, -1, 0, 1, 127])), HUGE / 128)
    one = groups.dq(S8(1), 1)
    for alpha in (np.inf, -np.inf, np.nan, HUGE):
        for kind in ("LeakyRelu", "Elu"):
            groups.q(groups(kind, x, alpha=alpha), 1, S8(3))
        groups.q(groups("HardSigmoid", x, alpha=alpha, beta=0.5), 0.01, U8(3))
    for approximate in ("none", "tanh"):
        groups.q(groups("Gelu", x, approximate=approximate), HUGE / 128, S8(3))
    for bounds in ((np.inf, None), (None, -np.inf), (-np.inf, np.inf), (7.0, -7.0), (np.inf, 1.0)):
        limits = [None if b is None else np.float32(b) for b in bounds]
        groups.q(groups("Clip", x, *limits), 1, S8(-5))
        groups.q(groups("Clip", groups("Mul", x, one), *limits), 1, S8(-5))
    exact, literal = groups.run(compiled=False), groups.run("literal", compiled=False)
    for name, got in exact.items():
        np.testing.assert_array_equal(got, literal[name], err_msg=name)


# Sums and products


def all_pairs():
    """Return groups of two operands whose integers meet in all ways, and these operands."""
    groups = Groups()
    one, other = np.arange(256).astype(U8), np.arange(-128, 128, 3).astype(S8)
    return groups, groups.input(one[:, None]), groups.input(other), groups.input(other.view(U8))


@pytest.mark.parametrize("scales", [(0.5, 0.25, 1.0), (0.125, 0.125, 0.25), (0.0371, 0.0213, 0.0871)])
def test_sums_and_products_are_rounded_once_where_halves_abound(scales):
    groups, x, y, z = all_pairs()
    sa, sb, sc = scales
    a, b, c = groups.dq(x, sa, U8(128)), groups.dq(y, sb, S8(-3)), groups.dq(z, sb)
    for kind in ("Add", "Sub", "Mul"):
        groups.q(groups(kind, a, b), sc, U8(131))
        groups.q(groups(kind, c, a), sc * 8, S8(-7))
    groups.check()
    assert "float" not in " ".join(groups.notes().values())


def test_scales_that_are_traced_give_the_same_sums_and_products():
    groups = Groups()
    rng = np.random.default_rng(0)
    x, y = groups.input(draw(rng, (9, 40), U8)), groups.input(draw(rng, 40, U8))
    scale, out = groups.input(np.float32(0.25)), groups.input(np.float32(0.5))
    zero, out_zero = groups.input(U8(100)), groups.input(U8(3))
    a, b = groups.dq(x, scale, zero), groups.dq(y, 0.5, U8(7))
    for kind in ("Add", "Sub", "Mul"):
        groups.q(groups(kind, b, a), out, out_zero)
    matrix = groups.dq(draw(rng, (40, 3), S8), np.float32([0.25, 0.5, 1]), axis=1)
    product = groups("MatMul", a, matrix)
    groups.q(product, groups.input(np.float32(64)), out_zero)
    image = groups("Unsqueeze", a, np.int64([0]))
    filters = groups.dq(draw(rng, (2, 9, 3), S8), np.float32([0.25, 0.5]), axis=0)
    groups.q(groups("Conv", image, filters), 64, out_zero)
    groups.q(groups("AveragePool", image, kernel_shape=[3]), out, out_zero)
    groups.check()


TOO_FINE = "float: its scales or sizes are not known while tracing, or out of range"
UNKNOWN = "float: a scale or zero point is not known while tracing"


def test_tables_want_scales_that_are_known():
    """Where a scale is traced, these run in floats."""
    groups = Groups()
    rng = np.random.default_rng(1)
    x, scale = groups.input(draw(rng, (4, 6), U8)), groups.input(np.float32(0.25))
    a, b = groups.dq(x, scale, U8(100)), groups.dq(x, 0.25, U8(100))
    joined = groups("Concat", a, b, axis=-1)
    made = [groups("Relu", a), groups("Softmax", a), joined]
    filters = groups.dq(draw(rng, (2, 6, 1), S8), 0.25)
    bias = groups.dq(np.int32([100, -100]), 0.0625)
    made.append(groups("Conv", groups("Unsqueeze", a, np.int64([2])), filters, bias))
    for y in made:
        groups.q(y, 0.5, U8(3))
    groups.q(a, 0.5, U8(3))
    made.append(groups("Relu", groups("Concat", a, b, axis=-1)))
    groups.q(made[-1], 0.5, U8(3))
    made.append(groups("Relu", groups("Add", b, b)))
    groups.q(made[-1], scale, U8(3))
    notes = groups.notes()
    assert [notes[y] for y in made] == [UNKNOWN, TOO_FINE, *[UNKNOWN] * 4]
    groups.nearly()


# Exponentials


def softmax(integers, scale, zero, out):
    """Return a row's softmax, quantized, from exponentials of 60 digits."""
    with localcontext() as context:
        context.prec = 60
        powers = [(rational(float32(scale)) * (int(q) - zero)).exp() for q in integers]
        total = sum(powers)
        return [quantized(power / total, float32(out[0]), out[1], out[2]) for power in powers]


@pytest.mark.parametrize(
    ("dtype", "scale", "out"),
    [(U8, 0.0625, (1 / 256, 0, U8)), (S8, 0.0371, (1 / 256, -128, S8)), (S8, 0.002, (0.00037, 3, U8))],
)
def test_softmax_is_right_in_rows_of_up_to_1000(dtype, scale, out):
    rng = np.random.default_rng(2)
    groups, wanted = Groups(), {}
    for length in (1, 2, 7, 100, 1000):
        x = draw(rng, (2, length), dtype)
        x[1] = dtype(5)  # All are equal: the quotient is rational, and may be a half.
        made = groups("Softmax", groups.dq(groups.input(x), scale, dtype(7)), axis=1)
        wanted[groups.q(made, out[0], out[2](out[1]))] = [softmax(row, scale, 7, out) for row in x]
    got = groups.run()
    for name, want in wanted.items():
        np.testing.assert_array_equal(got[name], want)
    assert "exponentials from a table" in groups.notes().values()


def test_softmax_needs_no_integers_of_64_bits():
    groups = Groups()
    groups.q(groups("Softmax", groups.dq(groups.input(np.zeros((2, 9), U8)), 0.0371), axis=1), 1 / 255, U8(0))
    shape = jax.ShapeDtypeStruct((2, 9), U8)
    program = jax.jit(groups.load().apply).trace({}, shape).lower(lowering_platforms=("tpu",)).as_text()
    assert "xui32>" in program
    assert not re.search(r"[<x]u?i64>", program)


@pytest.mark.parametrize("scale", [1 / 256, 1 / 255, 0.00037, 2.0**-20, 3.0])
def test_softmax_divides_in_words_as_it_does_in_limbs(scale):
    rng, terms, out = np.random.default_rng(4), 64, float32(scale)
    bits = bits_of_exponentials(terms, out)
    term = rng.integers(0, 2**bits + 1, (50, terms), np.uint32)
    term[:10] = 2**bits >> rng.integers(0, bits, (10, terms))  # Many quotients are halves.
    term[10:20, 1:] = 0
    ways = [jax.jit(partial(how, axes=(1,), terms=terms, scale=out)) for how in (_of_words, _of_limbs)]
    words, limbs = (way(term) for way in ways)
    np.testing.assert_array_equal(words, limbs)
    for row, got in zip(term, np.asarray(words), strict=True):
        quotients = [int(each) / (out * int(row.sum(dtype=np.int64))) for each in row]
        np.testing.assert_array_equal(np.minimum(got, 300), [min(round(each), 300) for each in quotients])


def test_softmax_of_old_models_is_over_all_that_follows():
    rng = np.random.default_rng(3)
    x, groups = draw(rng, (2, 3, 4), U8), Groups(11)
    value = groups.dq(groups.input(x), 0.125)
    shapes = {groups.q(groups("Softmax", value, **axis), 1 / 256, U8(0)): shape for axis, shape in (
        ({}, (2, 12)), ({"axis": 2}, (6, 4)), ({"axis": -1}, (6, 4)), ({"axis": 0}, (1, 24))
    )}  # fmt: skip
    got = groups.run()
    for name, shape in shapes.items():
        want = [softmax(row, 0.125, 0, (1 / 256, 0, U8)) for row in x.reshape(shape)]
        np.testing.assert_array_equal(got[name].reshape(shape), want)


def test_softmax_of_what_is_not_there_or_too_fine_or_of_unknown_size():
    groups = Groups()
    for axis in (0, 1):
        groups.q(groups("Softmax", groups.dq(groups.input(np.zeros((2, 0), U8)), 0.5), axis=axis), 0.5)
    fine = groups("Softmax", groups.dq(groups.input(np.arange(4, dtype=U8), "n"), 0.5))
    groups.q(fine, 2.0**-100)
    assert [x.shape for x in groups.run().values()] == [(2, 0), (2, 0), (4,)]
    assert groups.notes()[fine] == TOO_FINE
    groups.outputs.pop()
    groups.q(fine, 2.0**-8)
    model, (size,) = groups.load(), export.symbolic_shape("n")
    shapes = [*(jax.ShapeDtypeStruct((2, 0), U8),) * 2, jax.ShapeDtypeStruct((size,), U8)]
    exported = export.export(jax.jit(model.apply))({}, *shapes)
    got = exported.call({}, *groups.inputs.values())[-1]
    np.testing.assert_array_equal(got, model(*groups.inputs.values())[-1])


# Products


def test_convolutions_of_all_ranks():
    rng = np.random.default_rng(4)
    groups = Groups()
    for rank, dtype in ((3, U8), (4, S8), (5, U8)):
        sizes = (5, 4, 3)[: rank - 2]
        x = groups.dq(groups.input(draw(rng, (2, 4, *sizes), dtype)), 0.25, dtype(9))
        for group, by_channel in ((1, True), (2, False)):
            w = draw(rng, (6, 4 // group, *(2,) * (rank - 2)), S8)
            scales = np.exp2(rng.integers(-4, 0, 6)).astype(np.float32) if by_channel else np.float32([0.5])
            zeros = draw(rng, scales.shape, S8)
            filters = groups.dq(w, scales, zeros, axis=0)
            bias = groups.dq(rng.integers(-999, 999, 6).astype(S32), scales / 4, np.zeros_like(scales, S32), axis=0)
            pads = [1, 0] * (rank - 2)
            for operands in ((filters,), (filters, bias)):
                made = groups("Conv", x, *operands, group=group, pads=pads, strides=[2] * (rank - 2))
                groups.q(made, 8, dtype(100))
    groups.check()
    assert [*groups.notes().values()].count("quantized_linear_convolution") == 12


def test_what_follows_a_product_clamps_it():
    rng = np.random.default_rng(5)
    groups = Groups()
    x = groups.dq(groups.input(draw(rng, (2, 3, 5, 5), U8)), 0.25, U8(128))
    product = groups("Conv", x, groups.dq(draw(rng, (4, 3, 3, 3), S8), 0.125))
    total = groups("Add", x, x)
    for made in (product, total):
        groups.q(groups("Relu", made), 0.5, S8(-100))
        groups.q(groups("Relu", made), 0.5, U8(0))
        groups.q(groups("Clip", made, np.float32(0), np.float32(6)), 0.0371, U8(7))
        groups.q(groups("Clip", groups("Relu", made), None, np.float32(6)), 0.5, S8(-3))
        groups.q(groups("Clip", made, np.float32(3), np.float32(-3)), 0.5, S8(-3))  # The upper bound wins.
    got = groups.check()
    assert (got[groups.outputs[4]] == -9).all()
    assert set(groups.notes().values()) >= {"a clamp", "quantized_linear_convolution", "quantized_linear_add"}


def test_matrices():
    rng = np.random.default_rng(6)
    groups = Groups()
    for dtype, other in ((U8, S8), (S8, U8)):
        a = groups.dq(groups.input(draw(rng, (3, 5, 40), dtype)), 0.25, dtype(77))
        flat = groups.dq(groups.input(draw(rng, (5, 40), dtype)), 0.25, dtype(77))
        scales, zeros = np.float32([0.5, 0.25, 0.0371]), draw(rng, 3, other)
        b = groups.dq(draw(rng, (40, 3), other), scales, zeros, axis=1)
        stacked = groups.dq(groups.input(draw(rng, (3, 40, 6), other)), 0.5, other(3))
        turned = groups.dq(draw(rng, (3, 40), other), scales, zeros, axis=0)
        bias = groups.dq(rng.integers(-9999, 9999, (1, 3)).astype(S32), scales * np.float32(0.25), axis=1)
        # A bias of as many rows as columns is one all the same where there is one row.
        one = groups.dq(S32([4000]), 0.125)
        for made in (
            groups("MatMul", a, b),
            groups("MatMul", a, stacked),
            groups("Gemm", flat, b, bias),
            groups("Gemm", flat, turned, bias, transB=1),
            groups("Gemm", flat, groups.dq(draw(rng, (40, 7), other), 0.5, other(1)), one),
            groups("Gemm", flat, turned, beta=2.0, transB=1),
        ):
            groups.q(made, 32, dtype(5))
    groups.check()
    assert "float" not in " ".join(groups.notes().values())


def test_products_without_quantization_are_scaled_once():
    rng = np.random.default_rng(7)
    groups = Groups()
    x, w = draw(rng, (2, 3, 5), U8), draw(rng, (4, 3, 2), S8)
    scales = np.float32([0.1, 0.2, 0.3, 0.4])
    image, filters = groups.dq(groups.input(x), 0.1, U8(3)), groups.dq(w, scales, axis=0)
    bias = np.int32([1, -2, 3, 4000])
    product = groups("Conv", image, filters, groups.dq(bias, np.float32(0.1) * scales, axis=0))
    whole = groups("Conv", image, groups.dq(w, 0.1))
    a, b = groups.dq(groups.input(x), 0.1, U8(3)), groups.dq(draw(rng, (5, 4), S8), scales, axis=1)
    made = groups("MatMul", a, b)
    for value in (product, whole, made):
        groups.out(groups("Identity", value))
    got = list(groups.run().values())
    sums = np.asarray([
        [[np.sum((x[n, :, i : i + 2].astype(int) - 3) * w[o]) for i in range(4)] for o in range(4)] for n in range(2)
    ])  # fmt: skip
    factors = (np.float32(0.1) * scales)[:, None]
    np.testing.assert_array_equal(got[0], (sums + bias[:, None]).astype(np.float32) * factors)
    np.testing.assert_array_equal(got[1], sums.astype(np.float32) * (np.float32(0.1) * np.float32(0.1)))
    (matrix,) = (numpy_helper.to_array(t) for t in groups.constants if list(t.dims) == [5, 4])
    integers = (x.astype(int) - 3) @ matrix.astype(int)
    np.testing.assert_array_equal(got[2], integers.astype(np.float32) * factors[:, 0])
    notes = groups.notes()
    assert notes[product] == notes[whole] == "convolution_integer, scaled to float"
    assert notes[made] == "matrix_multiply_integer_to_float"


def biases():
    """Yield what makes products with biases that are no integers in units of both scales, the bias, and why."""
    rng = np.random.default_rng(8)
    w, b, bias = draw(rng, (4, 4, 3), S8), draw(rng, (4, 4), S8), np.int32([1, -2, 3, 4])
    real, four = np.float32([0.3, -7.7, 100.1, 3e4]), np.float32([0.5, 0.25, 0.5, 1])
    not_32, other = "is not dequantized from int32", "the scale of its bias is not that of image and filters"

    def convolved(bias, scale=0.5):
        return lambda g, x: g("Conv", x, g.dq(w, scale, axis=0), bias(g)), w, scale

    yield *convolved(lambda g: real), real, not_32
    yield *convolved(lambda g: g.input(real)), real, not_32
    yield *convolved(lambda g: real, four), real, not_32
    yield *convolved(lambda g: g.dq(S8(bias), 0.125)), bias * np.float32(0.125), not_32
    yield *convolved(lambda g: g.dq(bias, 0.125), four), bias * np.float32(0.125), other
    yield *convolved(lambda g: g.dq(bias, 0.125, S32(1))), (bias - 1) * np.float32(0.125), "has a zero point"
    traced = np.float32(0.125)
    yield *convolved(lambda g: g.dq(bias, g.input(traced))), bias * traced, UNKNOWN[7:]

    def multiplied(bias):
        return lambda g, a: g("Gemm", a, g.dq(b, 0.5), bias(g)), b, 0.5

    yield *multiplied(lambda g: real), real, not_32
    yield *multiplied(lambda g: g.input(real)), real, not_32
    yield *multiplied(lambda g: np.float32(2.2)), np.float32(2.2), not_32
    rows = "its bias has more than one row"
    yield *multiplied(lambda g: g.dq(bias[:, None], 0.125)), bias[:, None] * np.float32(0.125), rows


def test_biases_of_floats_are_added_to_products_of_integers():
    rng, groups = np.random.default_rng(9), Groups()
    image, wide = draw(rng, (2, 4, 5), U8), draw(rng, (4, 4), U8)
    wanted, notes = [], {}
    for make, weights, scale, bias, reason in biases():
        x = image if weights.ndim > 2 else wide
        name = make(groups, groups.dq(groups.input(x), 0.25, U8(9)))
        notes[name] = reason
        by_column = [np.float32(0.25) * np.float32(scale), np.float32(bias)]
        if weights.ndim > 2:
            windows = np.lib.stride_tricks.sliding_window_view(x.astype(int) - 9, 3, 2)
            sums = np.einsum("nilk,oik->nol", windows, weights.astype(int))
            by_column = [each.reshape(-1, 1) for each in by_column]
        else:
            sums = (x.astype(int) - 9) @ weights.astype(int)
        wanted.append(sums.astype(np.float32) * by_column[0] + by_column[1])
        groups.out(groups("Identity", name))
    for got, want in zip(groups.run().values(), wanted, strict=True):
        assert_same_bits(got, want)
    noted = groups.notes()
    for name, reason in notes.items():
        operator = "convolution_integer, scaled to float" if "Conv" in name else "matrix_multiply_integer_to_float"
        assert noted[name].startswith(f"{operator}: ")
        assert noted[name].endswith(reason)


def test_a_gemm_that_is_not_rounded_is_a_product_of_integers():
    rng, groups = np.random.default_rng(10), Groups()
    wide, b, bias = draw(rng, (4, 4), U8), draw(rng, (4, 3), S8), np.int32([5, -7, 900])
    a, right = groups.dq(groups.input(wide), 0.25, U8(9)), groups.dq(b, 0.5)
    names = [groups("Gemm", a, right), groups("Gemm", a, right, groups.dq(bias, 0.125))]
    for name in names:
        groups.out(groups("Identity", name))
    alone, biased = groups.run().values()
    product = ((wide.astype(int) - 9) @ b.astype(int)).astype(np.float32) * np.float32(0.125)
    assert_same_bits(alone, product)
    assert_same_bits(biased, product + bias.astype(np.float32) * np.float32(0.125))
    assert {groups.notes()[name] for name in names} == {"matrix_multiply_integer_to_float"}


def test_products_in_half_precision_stay_floats():
    rng, groups = np.random.default_rng(11), Groups()
    wide, b, bias = draw(rng, (4, 4), U8) % 16, draw(rng, (4, 3), S8) % 16, np.float16([1, 2, 3])
    a, right = groups.dq(groups.input(wide), np.float16(0.25)), groups.dq(b, np.float16(0.5))
    names = [groups("Gemm", a, right), groups("Gemm", a, right, bias)]
    for name in names:
        groups.out(groups("Identity", name))
    product = ((wide.astype(int) @ b) * 0.125).astype(np.float16)
    for got, want in zip(groups.run().values(), (product, product + bias), strict=True):
        assert_same_bits(got, want)
    assert groups.notes()[names[1]] == "float: its bias is not dequantized from int32"


def reasons():
    """Yield groups that stay float: what makes them, and why."""
    rng = np.random.default_rng(8)
    image, wide = draw(rng, (2, 4, 5), U8), draw(rng, (4, 4), U8)
    x, a = (lambda g: g.dq(g.input(image), 0.25, U8(9))), (lambda g: g.dq(g.input(wide), 0.25))
    w, b = draw(rng, (4, 4, 3), S8), draw(rng, (4, 4), S8)
    four, bias = np.float32([0.5, 0.25, 0.5, 1]), np.int32([1, 2, 3, 4])
    of_8 = "its image and filters are not both dequantized from 8 bits"
    yield lambda g: g("Conv", x(g), np.float32(w)), of_8
    yield lambda g: g("Conv", x(g), g.dq(w.astype(np.int16), 0.5)), of_8
    yield lambda g: g("Conv", x(g), g.dq(w, np.ones((4, 2, 3), np.float32), axis=1, block_size=2)), of_8
    by_input = "its filters have scales along another axis than output channels"
    yield lambda g: g("Conv", x(g), g.dq(w, four, axis=1)), by_input
    not_32 = "its bias is not dequantized from int32"
    yield lambda g: g("Conv", g.dq(g.input(image), g.input(np.float32(0.25))), g.dq(w, 0.5), np.float32(bias)), not_32
    both = "its operands are not both dequantized from 8 bits"
    columns = "its second operand has scales along another axis than columns"
    yield lambda g: g("MatMul", a(g), np.float32(b)), both
    yield lambda g: g("MatMul", g.dq(g.input(wide), four, axis=0), g.dq(b, 0.5)), both
    yield lambda g: g("MatMul", a(g), g.dq(b[0], 0.5)), "an operand is a vector"
    yield lambda g: g("MatMul", a(g), g.dq(b, four, axis=0)), columns
    yield lambda g: g("Gemm", a(g), np.float32(b)), both
    yield lambda g: g("Gemm", a(g), g.dq(b, 0.5), alpha=2.0), "it has alpha, beta or transA"
    yield lambda g: g("Gemm", a(g), g.dq(b, 0.5), transA=1), "it has alpha, beta or transA"
    yield lambda g: g("Gemm", a(g), g.dq(b, 0.5), np.float32(bias), beta=2.0), "it has alpha, beta or transA"
    yield lambda g: g("Gemm", a(g), g.dq(b, four, axis=1), transB=1), columns
    one = "its operands are not both dequantized with one scale"
    yield lambda g: g("Add", x(g), np.float32(1)), one
    yield lambda g: g("Sub", np.float32(1), x(g)), one
    yield lambda g: g("Mul", g.dq(g.input(image), four, axis=1), x(g)), one
    all_ = "its operands are not all dequantized with one scale"
    yield lambda g: g("Concat", x(g), np.ones((2, 4, 5), np.float32), axis=1), all_
    traced = lambda g: g.input(np.float32(1))  # noqa: E731
    yield lambda g: g("Clip", x(g), traced(g)), "its bounds are not known while tracing"
    yield lambda g: g("Clip", x(g), None, traced(g)), "its bounds are not known while tracing"
    overhang = {"kernel_shape": [2], "strides": [2], "ceil_mode": 1, "count_include_pad": 1}
    yield lambda g: g("AveragePool", x(g), **overhang), "its last windows overhang the padding that they count"
    others = "it averages other dimensions than the spatial ones"
    yield lambda g: g("ReduceMean", x(g), np.int64([1, 2])), others
    yield lambda g: g("ReduceMean", x(g)), others


def test_every_reason_to_stay_float():
    groups, reported = Groups(), {}
    for make, reason in reasons():
        name = make(groups)
        reported[name] = f"float: {reason}"
        groups.q(name, 4, S8(3))
    notes = groups.notes()
    assert {name: notes[name] for name in reported} == reported
    groups.nearly()


def test_a_bound_that_is_nan_stays_float():
    groups = Groups()
    clipped = groups("Clip", groups.dq(groups.input(U8([0, 200])), 1), np.float32(np.nan))
    groups.q(clipped, 1, U8(7))
    assert groups.notes()[clipped] == "float: a bound is NaN"
    assert next(iter(groups.run(compiled=False).values())).tolist() == [7, 7]


@pytest.mark.parametrize(("opset", "axes"), [(21, [2, 3]), (21, [-1, 2]), (17, [-2, -1])])
def test_a_mean_of_the_spatial_dimensions_is_a_global_average(opset, axes):
    groups = Groups(opset)
    x = groups.dq(groups.input(draw(np.random.default_rng(3), (2, 5, 7, 6), U8)), 0.3, U8(100))
    kept, dropped = (
        groups("ReduceMean", x, np.int64(axes), keepdims=keep)
        if opset > 17
        else groups("ReduceMean", x, axes=axes, keepdims=keep)
        for keep in (1, 0)
    )
    pooled = groups("GlobalAveragePool", x)
    outputs = [groups.q(y, 0.05, U8(3)) for y in (pooled, kept, dropped)]
    found = groups.nearly()
    assert [groups.notes()[y] for y in (kept, dropped)] == ["quantized_linear_average_pooling"] * 2
    for y in outputs[1:]:
        assert_same_bits(found[y].reshape(2, 5), found[outputs[0]].reshape(2, 5))


def test_a_mean_with_a_traced_scale_is_that_of_floats():
    groups = Groups()
    x = groups.dq(groups.input(draw(np.random.default_rng(3), (2, 5, 4), U8)), groups.input(np.float32(0.3)), U8(100))
    groups.q(groups("ReduceMean", x, np.int64([2]), keepdims=0), 0.05, U8(3))
    by_channel = groups.dq(groups.input(draw(np.random.default_rng(3), (2, 2, 4), U8)), np.float32([0.1, 0.2]), axis=1)
    groups.q(groups("ReduceMean", by_channel, np.int64([2])), 0.05, U8(3))
    groups.nearly()


# What moves and orders


def test_what_only_moves_keeps_its_integers():
    rng = np.random.default_rng(9)
    groups = Groups()
    x = groups.dq(groups.input(draw(rng, (2, 4, 6), U8)), 0.25, U8(7))
    first, second = groups("Split", x, outputs=2, axis=1)
    for made in (
        groups("Transpose", x, perm=[2, 0, 1]),
        groups("Reshape", x, np.int64([8, 6])),
        groups("Gather", x, np.int64([2, 0]), axis=1),
        groups("Slice", x, np.int64([4]), np.int64([0]), np.int64([2]), np.int64([-2])),
        groups("Expand", x, np.int64([2, 2, 4, 6])),
        first,
        second,
    ):
        groups.q(made, 0.25, U8(7))
        groups.q(made, 0.5, S8(-7))
    groups.check()
    assert groups.notes()[first] == "the same on integers"


@pytest.mark.parametrize("scale", [0.25, -0.25, None])
def test_the_greatest_is_that_of_the_integers_where_the_scale_is_positive(scale):
    rng = np.random.default_rng(10)
    groups = Groups()
    factor = groups.input(np.float32(-0.25)) if scale is None else scale
    x = groups.dq(groups.input(draw(rng, (2, 3, 6, 4), S8)), factor, S8(3))
    pooled = groups("MaxPool", x, kernel_shape=[2, 2])
    made = (pooled, groups("GlobalMaxPool", x), groups("ReduceMax", x), groups("ReduceMin", x))
    for value in made:
        groups.q(value, 0.125, S8(-3))
    assert (groups.notes()[pooled] == "the same on integers") == (scale == 0.25)
    groups.nearly()


def test_nothing_is_left_of_what_changes_nothing():
    groups = Groups()
    scale, zero = groups.input(np.float32(0.3)), groups.input(S8(3))
    x, y = groups.input(np.arange(-128, 128).astype(S8)), groups.input(np.arange(256).astype(U8))
    moved = groups("Unsqueeze", groups.dq(x, scale, zero), np.int64([0]))
    groups.q(moved, scale, zero)  # Traced, but the same.
    groups.q(groups.dq(x, 0.3), 0.3, S8(0))
    groups.q(groups.dq(x, 0.3, S8(0)), np.float32([0.3]), S8([0]))
    groups.q(groups("Relu", groups.dq(y, 0.3)), 0.3)
    groups.q(groups.dq(y, 0.3, U8(1)), 0.3)  # This one is another.
    groups.check()
    groups.outputs.pop()
    model = groups.load()
    jaxpr = jax.make_jaxpr(model.apply)({}, *groups.inputs.values())
    assert {str(eqn.primitive) for eqn in jaxpr.eqns} <= {"reshape", "broadcast_in_dim", "convert_element_type"}


def test_second_outputs_are_no_quantized_values():
    groups = Groups()
    kept, mask = groups("Dropout", groups.dq(groups.input(U8([3])), 0.5), outputs=2)
    groups.out(kept), groups.out(mask)
    x = np.arange(12, dtype=np.int32).reshape(1, 1, 12)[..., ::-1].copy()
    greatest, places = groups("MaxPool", groups.dq(groups.input(x), 0.5), outputs=2, kernel_shape=[3], strides=[3])
    groups.out(greatest), groups.out(places)
    got = groups.run(compiled=False)
    assert (got[kept], got[mask]) == (1.5, True)
    np.testing.assert_array_equal(got[greatest][0, 0], [5.5, 4, 2.5, 1])
    np.testing.assert_array_equal(got[places][0, 0], [0, 3, 6, 9])


def test_channels_stay_last_from_step_to_step():
    rng = np.random.default_rng(11)
    groups = Groups()
    image, zero = groups.dq(groups.input(draw(rng, (2, 3, 8, 8), U8)), 0.25, U8(128)), U8(100)

    def step(made):
        return groups.dq(groups.q(made, 4, zero), 0.25, zero)

    x = step(groups("Conv", image, groups.dq(draw(rng, (4, 3, 3, 3), S8), 0.125), pads=[1] * 4))
    y = step(groups("Relu", groups("Conv", x, groups.dq(draw(rng, (4, 4, 1, 1), S8), 0.5))))
    rows = groups.dq(draw(rng, (4, 1, 1), U8), 0.5, U8(9))
    z = step(groups("Add", x, step(groups("Sub", rows, y))))
    z = step(groups("Mul", rows, z))
    z = step(groups("Concat", x, z, y, axis=1))
    z = step(groups("Concat", z, groups.dq(draw(rng, (2, 1, 8, 8), U8), 0.25), axis=-3))
    z = step(groups("Concat", z, z, axis=2))
    z = step(groups("MaxPool", z, kernel_shape=[2, 2], strides=[2, 2]))
    z = step(groups("AveragePool", z, kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1))
    z = step(groups("AveragePool", z, kernel_shape=[2, 2], strides=[3, 3], ceil_mode=1))
    z = step(groups("LeakyRelu", z))
    groups.q(groups("Softmax", z, axis=1), 1 / 256)
    z = step(groups("GlobalAveragePool", z))
    groups.q(groups("Flatten", z), 0.5, S8(3))
    groups.check()
    assert "float" not in " ".join(groups.notes().values())


def test_what_has_no_meaning_on_integers_is_computed_in_floats():
    rng = np.random.default_rng(12)
    groups = Groups()
    by_channel = groups.dq(groups.input(draw(rng, (2, 3, 6), S8)), np.float32([0.5, 0.25, 1]), axis=1)
    x = groups.dq(groups.input(draw(rng, (2, 3, 6), S8)), 0.25, S8(3))
    groups.q(groups("AveragePool", by_channel, kernel_shape=[2]), 0.5)
    groups.q(groups("GlobalAveragePool", by_channel), 0.5)
    groups.q(groups("Softmax", by_channel), 1 / 256)
    groups.q(groups("Relu", by_channel), 0.5)
    groups.q(groups("Exp", x), 2)
    groups.q(groups("com.microsoft.Gelu", x), 2, S8(3))
    groups.q(x, np.float32([1, 2, 4]), axis=1)
    groups.nearly()
    wide = groups.dq(groups.input(draw(rng, (1, 1, 2, 2, 2, 2), U8)), 0.5)
    product = groups("Conv", wide, groups.dq(np.ones((1, 1, 2, 2, 2, 2), S8), 0.5))
    groups.outputs = [groups("Identity", product)]
    assert groups.notes()[product] == "float: it has more than three spatial dimensions"


def test_what_moves_by_conditions_and_lengths_keeps_its_integers():
    given = draw(np.random.default_rng(12), (3, 4, 2), U8)
    groups = Groups()
    x = groups.dq(groups.input(given), 0.25, U8(7))
    made = [
        groups("Compress", x, np.array([True, False, True, True]), axis=1),
        groups("ReverseSequence", x, np.int64([3, 2, 1, 3]), batch_axis=1, time_axis=0),
    ]
    for name in made:
        groups.q(name, 0.25, U8(7))
    results = [*groups.run().values()]
    reversed_ = given.copy()
    for column, length in enumerate([3, 2, 1, 3]):
        reversed_[:length, column] = given[:length, column][::-1]
    np.testing.assert_array_equal(results[0], given[:, [0, 2, 3]])
    np.testing.assert_array_equal(results[1], reversed_)
    assert {groups.notes()[name] for name in made} == {"the same on integers"}


def test_a_bias_is_known_on_either_side():
    rng, groups = np.random.default_rng(8), Groups()
    x, bias = draw(rng, (3, 40), U8), draw(rng, (40,), U8)
    given, scales = groups.input(x), (np.float32(0.03), U8(9), np.float32(0.02), U8(120), np.float32(0.04), U8(128))
    one = groups.out(groups("com.microsoft.QLinearAdd", given, *scales[:2], bias, *scales[2:]))
    other = groups.out(groups("com.microsoft.QLinearAdd", bias, *scales[2:4], given, *scales[:2], *scales[4:]))
    got = groups.run()
    assert_same_bits(got[one], got[other])
    assert not groups.load().params


def test_a_bias_of_channels_is_added_to_channels():
    rng, groups = np.random.default_rng(9), Groups()
    x, w, bias = draw(rng, (2, 3, 4, 4), U8), draw(rng, (4, 3, 1, 1), S8), draw(rng, (4,), U8)
    scales = [np.float32(scale) for scale in (0.03, 0.02, 0.05, 0.04, 0.06)]
    convolved = groups("QLinearConv", groups.input(x), scales[0], U8(3), w, scales[1], S8(0), scales[2], U8(128))
    added = scales[2], U8(128), scales[3], U8(120), scales[4], U8(125)
    # Its shape is known when the model is loaded, and so are its numbers; results of convolutions have channels last.
    reshaped = groups("Reshape", bias, np.array([1, 4, 1, 1]))
    made = groups.out(groups("com.microsoft.QLinearAdd", convolved, *added[:2], reshaped, *added[2:]))
    groups.out(convolved)
    got = groups.run()
    want = reference.quantized_linear_add(got[convolved], *added[:2], bias.reshape(1, 4, 1, 1), *added[2:])
    assert_same_bits(got[made], want)

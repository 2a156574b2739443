"""The laws of quantized_linear_add, against the oracle, in rational numbers, and by themselves."""

import math
from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdml
from jaxdml import directml as dml
from jaxdml import reference
from jaxdml._kernels.quantized_sum import float32_sum, float64_sum
from jaxdml._kernels.quantized_sum.fixed_point_sum import addends, rounded_sum
from jaxdml._kernels.quantized_sum.kernel import FEW_OUTPUTS, MOST_WITHIN
from jaxdml._networks import quantized_sums
from tests.kit import assert_same_bits, quick
from tests.kit.forms import forms_of
from tests.test_quantized_linear_matrix_multiply import integers

add = jaxdml.quantized_linear_add
BYTES = np.arange(256)


@jax.jit
def of_all_pairs(scales, zero_points):
    """Round the sums of all pairs of bytes, with four limbs, with two and in float64; tell whether two suffice."""
    p, q = (jnp.arange(256, dtype=jnp.int32) - zero for zero in zero_points)
    by = addends(scales)
    rounded = (
        *(rounded_sum(p[:, None], q[None], by, limbs) for limbs in (4, 2)),
        in_float64(p[:, None], q[None], scales),
    )
    return *(jnp.clip(each, -255, 255) for each in rounded), by.two_suffice


def in_float64(p, q, scales):
    with jax.enable_x64(True):
        return float64_sum.rounded_sum(p, q, float64_sum.factors_of(scales))


def exactly(scales, zero_points):
    """Do the same in integers of any size, in units of the common denominator."""
    a, b, o = (Fraction(float(scale)) for scale in scales)
    unit = math.lcm((a / o).denominator, (b / o).denominator)
    p, q = (
        (BYTES - zero).astype(object) * int(ratio * unit)
        for zero, ratio in zip(zero_points, (a / o, b / o), strict=True)
    )
    twice = 2 * (p[:, None] + q[None]) + unit
    above, rest = twice // (2 * unit), twice % (2 * unit)
    return np.clip(above - ((rest == 0) & (above % 2 == 1)), -255, 255).astype(np.int32), (rest == 0).sum()


def scale(mantissa, exponent):
    return np.float32(np.ldexp(mantissa, int(np.clip(exponent, -126, 127))))


def drawn_scales(rng, number):
    """Draw scales of any exponents, or of such that sums have halves, nearly cancel, or tie but for a tiny scale."""
    o = int(rng.integers(-126, 128))
    a, b = [
        rng.integers(-126, 128, 2),
        o + rng.integers(-13, 13, 2),
        o + rng.integers(6, 70) + rng.integers(-10, 11, 2),
        o + np.array([rng.integers(-9, 10), rng.integers(-60, -10)]),
        o + np.array([rng.integers(8, 22), rng.integers(-12, 24)]),
    ][number % 5]
    a, b = (a, b) if rng.random() < 0.5 else (b, a)
    few = [1.0, 1.5, 1 + 2.0**-23, 2 - 2.0**-23, *rng.uniform(1, 2, 3).astype(np.float32).tolist()]
    mantissas = np.ones(3) if number % 7 == 0 else rng.choice(few, 3)
    if number % 3 == 0:
        mantissas[1], b = -mantissas[0], a
    return tuple(scale(m, e) for m, e in zip(mantissas * rng.choice([1, 1, -1]), (a, b, o), strict=True))


def test_every_pair_of_bytes_is_rounded_correctly():
    rng = np.random.default_rng(0)
    ties = sufficed = 0
    for number in range(20):
        scales, zero_points = drawn_scales(rng, number), rng.integers(0, 256, 2).astype(np.int32)
        four, two, floats, suffice = of_all_pairs(scales, tuple(zero_points))
        want, count = exactly(scales, zero_points)
        for got in (four, floats):
            np.testing.assert_array_equal(got, want, err_msg=f"{scales=} {zero_points=}")
        if suffice:
            np.testing.assert_array_equal(two, want, err_msg=f"{scales=} {zero_points=}")
        ties, sufficed = ties + count, sufficed + bool(suffice)
    assert ties > 1000
    assert sufficed >= 3


def next_to_ties(rng, side):
    """Draw differences and scales with a sum that is as close to a half as it can be, or a half if ``side`` is 0."""
    while True:
        gap, shift = (int(n) for n in rng.integers((0, -9), (36, 9)))
        p, q = (int(n) for n in rng.integers(1, 256, 2) * rng.choice([-1, 1], 2))
        mo, ma, mb = (int(n) for n in rng.integers(2**23, 2**24, 3))
        # In units of 2**(shift - gap) the sum is p * ma * 2**gap + q * mb over mo.
        if gap <= shift:
            continue
        whole = mo << gap - shift - 1
        half = (p * ma * 2**gap + q * mb) // whole | 1
        for ma in range((half * whole - q * mb) // (p << gap) - 20, (half * whole - q * mb) // (p << gap) + 20):
            mb, rest = divmod(half * whole + side - (p * ma << gap), q)
            if not rest and abs(half) < 500 and all(2**23 <= m < 2**24 for m in (ma, mb)):
                e = int(rng.integers(-60, 60))
                yield p, q, (scale(ma, shift + e), scale(mb, shift - gap + e), scale(mo, e))
                break


@pytest.mark.parametrize("side", [0, 1, -1])
def test_sums_next_to_ties_are_no_ties(side):
    rng, source = np.random.default_rng(3), next_to_ties(np.random.default_rng(2), side)
    cases = [next(source) for _ in range(128)]
    p, q, (a, b, o) = columns(cases)
    swapped = rng.random(len(p)) < 0.5
    p, q, a, b = (np.where(swapped, one, other) for one, other in ((q, p), (p, q), (b, a), (a, b)))
    two, four, floats, suffice = near(p, q, (a, b, o))
    for i in range(len(p)):
        ratio_a, ratio_b = (Fraction(float(x[i])) / Fraction(float(o[i])) for x in (a, b))
        exact = int(p[i]) * ratio_a + int(q[i]) * ratio_b
        missed = abs(exact - math.floor(exact) - Fraction(1, 2))
        assert missed == 0 if side == 0 else 0 < missed < Fraction(1, 2**20)
        assert four[i] == floats[i] == round(exact)
        assert two[i] == round(exact) or not suffice[i]
    assert 10 < suffice.sum() < len(p) - 10


def columns(cases):
    p, q = (np.array([case[i] for case in cases], np.int32) for i in range(2))
    return p, q, tuple(np.array([case[2][i] for case in cases]) for i in range(3))


@jax.jit
def near(p, q, scales):
    by = addends(scales)
    return rounded_sum(p, q, by, 2), rounded_sum(p, q, by), in_float64(p, q, scales), by.two_suffice


LAST, MOST = 2 - 2.0**-23, 2 - 2.0**-22
# Differences, the mantissa and the exponent of each scale, and the rounded sum.
AT_BOUNDS = {
    "the greatest exponents that round to 0": (255, 255, (LAST, -11), (LAST, -11), (1, 0), 0),
    "just above a half, and less than that is missing": (1, 255, (1, 0), (-MOST, -34), (LAST, 0), 1),
    "a half and a little more": (1, 1, (1, -1), (1, -126), (1, 0), 1),
    "a half and a little less": (3, -1, (1, -1), (1, -126), (1, 0), 1),
    "the greater scale saturates by itself": (1, -255, (1, 10), (LAST, 0), (1, 0), 255),
    "the least sum of the greatest scales": (3, -2, (LAST, 32), (1.5 - 2.0**-23, 33), (LAST, 0), 255),
    "just above a half, as near as two limbs tell": (
        *(118, 217, (22126536 / 2**23, 0), (16774121 / 2**23, -8), (16774121 / 2**23, 0), 157),
    ),
    "just above a half, nearer than two limbs tell": (
        *(107, 59, (29535328 / 2**23, 0), (16775667 / 2**23, -9), (16775667 / 2**23, 0), 189),
    ),
}


@pytest.mark.parametrize("name", AT_BOUNDS)
def test_sums_at_the_bounds_of_exponents_are_right(name):
    p, q, *scales, want = AT_BOUNDS[name]
    a, b, o = (scale(*part) for part in scales)
    exact = (p * Fraction(float(a)) + q * Fraction(float(b))) / Fraction(float(o))
    assert np.clip(round(exact), -255, 255) == want
    (two,), (four,), (floats,), (suffice,) = near(
        *(np.int32([n]) for n in (p, q)), tuple(np.array([x]) for x in (a, b, o))
    )
    assert np.clip(four, -255, 255) == np.clip(floats, -255, 255) == want
    assert np.clip(two, -255, 255) == want or not suffice


@pytest.mark.parametrize(("dtypes", "wide"), [(("int8", "uint8", "int8"), False), (("uint8", "uint8", "uint8"), True)])
def test_agrees_with_the_oracle(dtypes, wide):
    rng = np.random.default_rng(wide)
    size = FEW_OUTPUTS // 64 + 1 if wide else 3
    jitted = jax.jit(partial(add, output_dtype=dtypes[2]))
    a, b = integers(rng, dtypes[0], (64, size)), integers(rng, dtypes[1], (size,))
    rows = slice(None, None, 16)
    for number in range(5):
        scales = drawn_scales(rng, number)
        zeros = [None if number == 4 else integers(rng, dtype, ()) for dtype in dtypes]
        given = a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]
        want = reference.quantized_linear_add(a[rows], *given[1:], output_dtype=dtypes[2])
        assert_same_bits(jitted(*given)[rows], want)


def test_subnormal_scales_are_scales_in_float64():
    # A CPU would read them as zeros.
    tiny, least = np.float32(2.0**-149), np.float32(2.0**-126)
    p, q = np.int32([[3], [-255], [1]]), np.int32([[1, 2]])
    got = jax.jit(in_float64)(p, q, (tiny * 5, tiny, tiny * 2))
    assert got.tolist() == [[8, 8], [-637, -636], [3, 4]]
    assert jax.jit(in_float64)(p, q, (tiny, least, -least)).tolist() == [[-1, -2]] * 3


@pytest.mark.parametrize(
    ("rows", "of_a", "of_zero", "without"),
    [
        (2, (), (), ()),
        (MOST_WITHIN // 64 + 1, (), (), (1,)),
        (MOST_WITHIN // 64 + 1, (64,), (64,), ()),
        (MOST_WITHIN // 64 + 1, (), (64,), ()),
        (2, (64,), (64,), (0, 1, 2)),
    ],
)
def test_the_form_of_cuda_agrees_with_the_oracle(rows, of_a, of_zero, without):
    rng = np.random.default_rng(rows)
    a, b = integers(rng, "uint8", (rows, 64)), integers(rng, "int8", (64,))
    a_scale, some = rng.uniform(0.5, 2, of_a).astype(np.float32), slice(None, None, max(1, rows // 4))
    zeros = [integers(rng, "uint8", of_zero), np.int8(3), np.uint8(7)]
    zeros = [None if number in without else zero for number, zero in enumerate(zeros)]
    given = a, a_scale, zeros[0], b, np.float32(1.7), zeros[1], np.float32(-1.3), zeros[2]
    with forms_of("cuda"):
        lowered = jax.jit(add).lower(*given)
    assert "f64" in lowered.as_text()
    # What depends on scales alone is computed once for many outputs.
    assert ("optimization_barrier" in lowered.as_text()) == (rows > 2)
    assert_same_bits(lowered.compile()(*given)[some], reference.quantized_linear_add(a[some], *given[1:]))


IN_WORDS = "x4xi8>) ->"
"""The text of programs in which words of four int8 are numbers."""


@pytest.mark.parametrize(
    ("dtypes", "in_words"),
    [
        (("int8", "int8", "int8"), True),
        (("int8", "int8", "uint8"), True),
        (("uint8", "uint8", "uint8"), False),
        (("int8", "uint8", "int8"), False),
    ],
)
def test_words_of_a_gpu_have_the_same_bits(dtypes, in_words, monkeypatch):
    monkeypatch.setattr(float32_sum, "MIN_OUTPUTS_IN_WORDS", {2: 2**16})
    rng = np.random.default_rng(7)
    a, b = (np.arange(2**16).reshape(256, 256) // step % 256 for step in (1, 256))
    a, b = a.astype(dtypes[0]), b.astype(dtypes[1])
    zeros = [integers(rng, dtype, ()) for dtype in dtypes]
    given = a, np.float32(0.031), zeros[0], b, np.float32(0.0507), zeros[1], np.float32(0.0613), zeros[2]
    want = jaxdml.quantized_linear_add(*given)
    with forms_of("cuda"):
        lowered = jax.jit(lambda a, b: add(a, *given[1:3], b, *given[4:])).lower(a, b)
    assert (IN_WORDS in lowered.as_text()) == in_words
    assert "f64" not in lowered.as_text()
    assert_same_bits(lowered.compile()(a, b), want)
    assert_same_bits(want[::37], reference.quantized_linear_add(a[::37], *given[1:3], b[::37], *given[4:]))


@pytest.mark.parametrize(
    ("shape", "in_words"),
    [
        ((8, 28, 28, 512), True),
        ((1, 56, 56, 256), False),
        ((32, 28, 28, 511), False),
        ((64, 128, 768), False),
        ((8192, 768), True),
        ((4096, 768), False),
    ],
)
def test_large_images_are_added_in_words_and_texts_never(shape, in_words):
    given = jax.ShapeDtypeStruct(shape, np.int8)
    with forms_of("cuda"):
        lowered = jax.jit(lambda a, b: add(a, np.float32(0.031), None, b, np.float32(0.0507), None, 0.0613, np.int8(5)))
        assert (IN_WORDS in lowered.lower(given, given).as_text()) == in_words


@pytest.mark.parametrize(
    "scales", [(0.5, 0.5, 1), (1, 0.03125, 1), (0.14547847, 0.06943458, 0.099966906), (0.3, 1.7, 1)]
)
@pytest.mark.parametrize("zeros", [(-61, -78, 0), (17, -128, -7), (0, 127, 5)])
def test_a_constant_and_ties_have_the_same_bits_on_cuda(scales, zeros):
    """XLA adds what is constant first, and an odd zero point turns ties of what is rounded together with it."""
    scales, zeros = np.float32(scales), np.int8(zeros)
    a = np.arange(-128, 128, dtype=np.int8)
    rest = scales[1], zeros[1], scales[2], zeros[2]
    with forms_of("cuda"):
        of_all = jax.jit(lambda a, b: add(a, scales[0], zeros[0], b, *rest)).lower(a[:, None], a[None]).compile()
    want = reference.quantized_linear_add(a[:, None], scales[0], zeros[0], a[None], *rest)
    assert_same_bits(of_all(a[:, None], a[None]), want)
    for number in (-128, -12, 17, 127):
        b = np.full_like(a, number)
        with forms_of("cuda"):
            first = jax.jit(lambda a, b=b: add(a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2]))
            second = jax.jit(lambda a, b=b: add(b, scales[1], zeros[1], a, scales[0], zeros[0], scales[2], zeros[2]))
            got = [each.lower(a).compile()(a) for each in (first, second)]
        want = reference.quantized_linear_add(a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zeros[2])
        for each in got:
            assert_same_bits(each, want)


@pytest.mark.parametrize("dtypes", [("uint8", "uint8", "uint8"), ("int8", "uint8", "int8"), ("uint8", "int8", "uint8")])
@pytest.mark.parametrize("without", [(), (0,), (1, 2)])
def test_between_operators_large_sums_are_int8(dtypes, without, monkeypatch):
    monkeypatch.setattr(float32_sum, "MIN_OUTPUTS_IN_WORDS", {2: 2**12})
    rng = np.random.default_rng(11)
    a, b = (integers(rng, dtype, (64, 64)) for dtype in dtypes[:2])
    zeros = [None if number in without else integers(rng, dtype, ()) for number, dtype in enumerate(dtypes)]
    given = np.float32(0.031), zeros[0], b, np.float32(0.0507), zeros[1], np.float32(0.0613), zeros[2]

    def between(a, b):
        return quantized_sums.add(a, *given[:2], b, *given[3:], output_dtype=dtypes[2])

    want = reference.quantized_linear_add(a, *given, output_dtype=dtypes[2])
    assert_same_bits(between(jnp.asarray(a), jnp.asarray(b)), want)
    with forms_of("cuda"):
        lowered = jax.jit(between).lower(a, b)
    assert IN_WORDS in lowered.as_text()
    assert_same_bits(lowered.compile()(a, b), want)
    monkeypatch.undo()
    assert between(jnp.asarray(a), jnp.asarray(b)).dtype == dtypes[2]
    as_they_are = partial(add, a, *given[:2], b, *given[3:], output_dtype=dtypes[2])
    assert str(jax.make_jaxpr(partial(between, a, b))()) == str(jax.make_jaxpr(as_they_are)())  # Where there are few.


BIASES = [
    *(((4,), (2, 3, 4)), ((3, 1), (2, 3, 4)), ((1, 1, 4), (2, 1, 4)), ((), (3,)), ((2, 1, 4), (3, 4)), ((0,), (2, 0))),
    ((2, 3), (2, 3)),
]


@quick
@pytest.mark.parametrize(("of_b", "of_a"), BIASES)
@pytest.mark.parametrize("dtypes", [("uint8", "uint8", "uint8"), ("int8", "uint8", "int8")])
def test_a_bias_that_is_known_gives_the_same_bits(of_b, of_a, dtypes):
    rng = np.random.default_rng(len(of_a))
    a, b = (integers(rng, dtype, shape) for dtype, shape in zip(dtypes[:2], (of_a, of_b), strict=True))
    zeros = [integers(rng, dtype, ()) for dtype in dtypes]
    given = a, np.float32(0.031), zeros[0], b, np.float32(0.017), zeros[1], np.float32(-0.029), zeros[2]
    known = jax.jit(lambda a: add(a, *given[1:]))
    assert_same_bits(known(a), reference.quantized_linear_add(*given))
    assert_same_bits(known(a), add(a, *given[1:3], jnp.asarray(b), *given[4:]))
    # One sum and one product in float32 for each, on all platforms; an array of the shape of the result is data, and a
    # sum and two products on CUDA.
    is_broadcast = b.reshape((1,) * (len(of_a) - b.ndim) + of_b).shape != jnp.broadcast_shapes(of_a, of_b)
    for platform in ("cpu", "cuda", "tpu"):
        text = known.trace(a).lower(lowering_platforms=(platform,)).as_text()
        in_float32 = "xf64>" not in text and ("round_nearest_even" if platform == "tpu" else "0x4B400000") in text
        assert in_float32 == (is_broadcast or platform == "cuda") or 0 in of_b


@quick
def test_parameters_broadcast():
    rng = np.random.default_rng(0)
    a, b = integers(rng, np.uint8, (2, 3, 1)), integers(rng, np.int8, (3, 4))
    of_rows, of_all = (rng.uniform(0.1, 1, shape).astype(np.float32) for shape in ((3, 1), (2, 3, 4)))
    given = a, of_rows, integers(rng, np.uint8, (1,)), b, of_all, integers(rng, np.int8, (4,)), of_rows[0], np.int8(3)
    got = add(*given)
    assert_same_bits(got, reference.quantized_linear_add(*given))
    assert got.dtype == np.int8
    # One value may have any rank.
    ones = tuple(x.reshape(1, 1, 1, 1) if x.ndim == 0 else x for x in (np.float32(0.5), np.uint8(3)))
    assert_same_bits(add(b[0], 0.25, 1, b[1], *ones[:1], None, 0.5, 3), add(b[0], 0.25, 1, b[1], 0.5, None, 0.5, 3))


@quick
@pytest.mark.parametrize("shape", [(2, 0), ()])
def test_empty_and_scalar_arrays(shape):
    a, b = np.full(shape, 5, np.int8), np.full(shape, 4, np.int8)
    assert_same_bits(add(a, 0.5, None, b, 1.0, None, 0.5), np.full(shape, 13, np.int8))


def test_a_description_without_zero_points():
    one, byte = (dml.BufferTensorDesc(dml.TensorDataType[kind], (1,)) for kind in ("FLOAT32", "INT8"))
    scales = dict.fromkeys(("a_scale_tensor", "b_scale_tensor", "output_scale_tensor"), one)
    tensors = dict.fromkeys(("a_tensor", "b_tensor", "output_tensor"), byte)
    desc = dml.ElementWiseQuantizedLinearAddOperatorDesc(**scales, **tensors)
    five, half = np.int8([5]), np.float32([0.5])
    assert dml.compile_operator(desc)(five, half, None, five, half, None, half, None).tolist() == [10]


@quick
def test_nothing_flows_back_from_a_result():
    a = np.ones(3, np.int8)

    def loss(scale):
        return (scale * add(a, scale, None, a, 1.0, None, 1.0).astype(jnp.float32)).sum()

    # Only the factor that is a float has a derivative.
    assert jax.jit(jax.grad(loss))(jnp.float32(2)) == 9


S, I8 = np.float32(1), np.zeros((2, 3), np.int8)
CALL = "jaxdml.quantized_linear_add: "


def refused(**given):
    names = ("a", "a_scale", "a_zero_point", "b", "b_scale", "b_zero_point", "output_scale", "output_zero_point")
    defaults = dict(zip(names, (I8, S, None, I8, S, None, S, None), strict=True))
    options = {name: given.pop(name) for name in ("output_dtype",) if name in given}
    with pytest.raises((TypeError, ValueError)) as caught:
        add(**{**defaults, **given}, **options)
    return f"{caught.type.__name__}: {caught.value}".split("\n  ")


@quick
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"b": np.zeros((2, 2), np.int8)}, [
            "TypeError: " + CALL + "a and b must broadcast; got [2, 3] and [2, 2].", "a: int8[2, 3], b: int8[2, 2]",
            "Give a and b equal shapes."]),
        ({"a": I8.astype(np.int16)}, [
            "TypeError: " + CALL + "a must be one of int8, uint8; got int16.", "a: int16[2, 3]",
            "Convert a with .astype first."]),
        ({"b_scale": np.ones(2, np.float32)}, [
            "TypeError: " + CALL + "b_scale must be one value, or broadcast to [2, 3]; got [2].",
            "a: int8[2, 3], b: int8[2, 3], b_scale: float32[2]", "Pass b_scale with shape ()."]),
        ({"a_zero_point": np.zeros((2, 2, 3), np.int8)}, [
            "TypeError: " + CALL + "a_zero_point must be one value, or broadcast to [2, 3]; got [2, 2, 3].",
            "a: int8[2, 3], b: int8[2, 3], a_zero_point: int8[2, 2, 3]", "Pass a_zero_point with shape ()."]),
        ({"output_scale": None}, [
            "TypeError: " + CALL + "output_scale must be an array.", "output_scale: None",
            "Pass an array of numbers."]),
        ({"b_zero_point": np.uint8(1)}, [
            "TypeError: " + CALL + "b_zero_point must be int8; got uint8.", "b_zero_point: uint8[]",
            "Pass b_zero_point as int8."]),
        ({"a_scale": 0.0}, [
            "ValueError: " + CALL + "a_scale must be a finite float32, not 0 and not subnormal; got 0.0.",
            "a_scale: float", "Pass a scale from 1.1754943508222875e-38 to 3.4028234663852886e+38 in magnitude."]),
        ({"output_dtype": "int32"}, [
            "TypeError: " + CALL + "the output's dtype must be one of int8, uint8; got 'int32'.",
            "output_zero_point: None", "Pass output_dtype='int8' or 'uint8'."]),
    ],
)  # fmt: skip
def test_refusals(given, said):
    assert refused(**given) == said


@quick
def test_different_shardings_are_refused():
    mesh = jax.make_mesh((1, 1), ("x", "y"))
    a, b = (jax.device_put(np.zeros((2, 2), np.int8), jax.NamedSharding(mesh, jax.P(axis))) for axis in "xy")
    assert refused(a=a, b=b) == [
        "ValueError: " + CALL + "dimension 0 is sharded over 'x' and over 'y'.", "a: int8[2, 2], b: int8[2, 2]",
        "Reshard a or b with jax.sharding.reshard.",
    ]  # fmt: skip

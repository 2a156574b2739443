"""What is rounded with a proof, because the scales are known: every case by integers and rational numbers."""

import math
import zlib
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdml
from jaxdml import reference
from jaxdml._kernels.quantized_sum.fixed_point_sum import clear_limbs, rounded_sum
from jaxdml._kernels.requantization import (
    ON_CPU,
    ON_CUDA,
    pair_sum,
    proved,
    proved_sum,
    proved_terms,
    round_products,
    round_sums,
    round_terms,
)
from jaxdml._kernels.requantization.digit_products import round_digits
from jaxdml._kernels.requantization.proofs import MARGIN
from jaxdml._placement.materialized import materialized
from tests.kit import as_shipped, assert_same_bits, quick

pytestmark = quick

RNG = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def _own_draws(request):
    """Let each test draw numbers of its own, whatever tests ran before."""
    RNG.bit_generator.state = np.random.default_rng(zlib.crc32(request.node.name.encode())).bit_generator.state


ALL = np.arange(-128, 128)


def rounded(sums, scales, zero_point, dtype):
    """Round every sum times the scales as rational numbers. ``scales``: one multiplier, or one for each channel."""
    limits = np.iinfo(dtype)
    channels = len(scales)
    results = [
        min(max(round(int(x) * scales[i % channels]) + zero_point, int(limits.min)), int(limits.max))
        for i, x in enumerate(sums.reshape(-1))
    ]
    return np.reshape(results, sums.shape).astype(dtype)


def quotient(a, b, output):
    return Fraction(float(a)) * Fraction(float(b)) / Fraction(float(output))


def near_halves(multiplier, greatest):
    """Return the accumulators around all halves and ends that are in range."""
    around = [int((k + Fraction(1, 2)) / multiplier) + d for k in range(-257, 257) for d in (-1, 0, 1)]
    ends = [*range(-3, 4), greatest, -greatest]
    return np.array([x for x in around + ends if abs(x) <= greatest] + [0] * 2048, np.int32)[:1600]


def multiplier_of(a, b, output, greatest, count=1):
    """Return what is proved for these scales."""
    return proved([np.asarray(scale, np.float32) for scale in (a, b, output)], greatest, count)


ARITHMETICS = {"on_cuda": ON_CUDA}
if jax.default_backend() == "cpu":  # Here both are right; on a GPU XLA takes a step of the other for another one.
    ARITHMETICS["on_cpu"] = ON_CPU

STORED = ((0, np.int8), (3, np.uint8), (255, np.uint8), (-128, np.int8))


def powers():
    return [np.float32(2.0 ** RNG.integers(-12, 3)) for _ in range(3)]


def usual():
    return [np.float32(RNG.uniform(*ends)) for ends in ((0.01, 0.1), (0.001, 0.01), (0.01, 0.1))]


def any_size():
    return [np.float32(np.exp(RNG.uniform(-25, 25))) for _ in range(3)]


def with_ties():
    return [
        np.float32(2.0 ** RNG.integers(-9, 0)),
        np.float32(RNG.integers(1, 99)),
        np.float32(RNG.integers(1, 99) * 256),
    ]


def negative():
    a, b, output = usual()
    return [a, -b, output]


@pytest.mark.parametrize("scales", [powers, usual, any_size, with_ties, negative])
@pytest.mark.parametrize(("zero_point", "dtype"), STORED)
@pytest.mark.parametrize("on", ARITHMETICS)
def test_what_is_proved_is_right_around_every_half(on, scales, zero_point, dtype):
    count = 0
    for _ in range(3):
        greatest = int(2 ** RNG.uniform(4, 31) - 1)
        a, b, output = scales()
        by = multiplier_of(a, b, output, greatest)
        if by is None:
            continue
        count += 1
        multiplier = quotient(a, b, output)
        sums = near_halves(multiplier, greatest)
        round_them = jax.jit(lambda sums, by, zero: round_products(ARITHMETICS[on], sums, by, zero, dtype))
        got = round_them(sums, by, np.int32(zero_point))
        np.testing.assert_array_equal(got, rounded(sums, [multiplier], zero_point, dtype))
    assert count or scales is with_ties


@pytest.mark.parametrize("scales", [usual, any_size, negative])
@pytest.mark.parametrize(("zero_point", "dtype"), STORED)
def test_digits_are_right_around_every_half_if_they_are_proved(scales, zero_point, dtype):
    count = 0
    for _ in range(6):
        greatest = int(2 ** RNG.uniform(4, 31) - 1)
        a, b, output = scales()
        by = multiplier_of(a, b, output, greatest)
        if by is None or not by.digits:
            continue
        count += 1
        multiplier = quotient(a, b, output)
        sums = near_halves(multiplier, greatest)
        got = jax.jit(round_digits, static_argnums=(3, 5))(sums, by.high, by.low, by.digits, zero_point, dtype)
        np.testing.assert_array_equal(got, rounded(sums, [multiplier], zero_point, dtype))
    assert count or scales is any_size


def digits_for(multiplier, greatest=10**7):
    by = multiplier_of(np.float32(1), np.float32(multiplier), np.float32(1), greatest)
    return by.digits


def test_more_digits_for_smaller_multipliers_and_none_beyond_some_size():
    assert digits_for(0.01234) == 2
    assert digits_for(0.0003456789) == 3
    # A sum beyond 2**24 would be clamped to one that is rounded to another number.
    assert digits_for(1e-6, 2**30) == 0
    assert digits_for(1e-9, 2**27) > 0
    assert digits_for(600.1, 1000) == 0
    # A tie: it is left to residuals.
    assert digits_for(0.5) == 0


def test_the_greatest_multipliers_and_the_least_distances_have_digits():
    for size in (257.3, 300.7, 511.9, 1.00001, 2.0**-16 * 1.3):
        multiplier = Fraction(float(np.float32(size)))
        by = multiplier_of(np.float32(1), np.float32(size), np.float32(1), 2**12)
        assert by.digits, size
        sums = near_halves(multiplier, 2**12)
        got = round_digits(sums, by.high, by.low, by.digits, np.int32(3), np.dtype("uint8"))
        np.testing.assert_array_equal(got, rounded(sums, [multiplier], 3, np.uint8))


def test_powers_of_two_and_usual_scales_are_always_proved():
    for scales in (powers, usual):
        assert all(multiplier_of(*scales(), 10**7) is not None for _ in range(200))


def test_many_channels_have_one_proof():
    by = multiplier_of(np.float32(0.02), RNG.uniform(0.001, 0.01, 512).astype(np.float32), np.float32(0.05), 2**22)
    assert by.high.shape == by.low.shape == (512,)
    assert by.high.dtype == by.low.dtype == np.float32


@pytest.mark.parametrize("scale", [0, np.inf, np.nan, 1e-38, 1e38])
def test_scales_without_a_meaning_or_far_from_1_are_not_proved(scale):
    scale = np.float32(scale)
    assert multiplier_of(scale, np.float32(1e-3 if scale < 1 else 1e3), np.float32(1), 1000) is None


def test_sums_beyond_int32_are_not_proved():
    assert multiplier_of(np.float32(0.5), np.float32(0.5), np.float32(1), 2**31) is None


def test_a_sum_that_is_too_close_to_a_half_is_not_proved():
    # An odd number times mo * 2**15 is 1 more than a multiple of ma: an accumulator misses a half by its 1 / ma.
    ma = 2**24 - 3
    mo = next(mo for k in range(256) if 2**23 <= (mo := pow((2 * k + 1) << 15, -1, ma)) < 2**24)
    a, b, output = np.float32(ma * 2.0**-24), np.float32(2.0**-16), np.float32(mo * 2.0**-24)
    assert multiplier_of(a, b, output, 2**30) is None
    assert multiplier_of(a, b, output, 100) is not None


@pytest.mark.parametrize(
    ("total", "ma", "mb", "mo"),
    [(2140920423, 15074821, 15980801, 12380829), (134371349, 10825347, 8766547, 11326019)],
)
def test_a_great_sum_that_is_too_close_to_a_half_is_not_proved(total, ma, mb, mo):
    # Multipliers so small that few sums reach a half.
    a, b, output = np.float32(ma * 2.0**-24), np.float32(mb * 2.0**-24), np.float32(mo * 2.0**3)
    product = total * quotient(a, b, output)
    assert 0 < abs(product % 1 - Fraction(1, 2)) < Fraction(MARGIN)
    assert multiplier_of(a, b, output, total) is None
    # Smaller ones are not as close.
    assert multiplier_of(a, b, output, total // 2) is not None


def test_a_tie_that_float64_misses_is_not_proved():
    declined = [scales for _ in range(300) if multiplier_of(*(scales := with_ties()), 2**24) is None]
    assert declined
    for a, b, output in declined:
        multiplier = quotient(a, b, output)
        assert any(((k + Fraction(1, 2)) / multiplier).denominator == 1 for k in range(256))


P, Q = ALL - 17, ALL + 128
SUMMED = (17, -128), (np.int8, np.int8)
"""The zero points and dtypes of these."""


@pytest.mark.parametrize(
    ("a", "b", "output"),
    [
        (0.5, 0.25, 1),
        (0.1, 0.1, 0.1),
        (0.023, 0.041, 0.05),
        (-0.013, 0.02, 0.031),
        (1e-6, 0.2, 0.1),
        (3, 5, 0.25),
        (5, 5, 6),
        (3, -5, 7),
    ],
)
@pytest.mark.parametrize("on", ARITHMETICS)
@as_shipped
def test_all_sums_of_two_are_right(on, a, b, output):
    a, b, output = map(np.float32, (a, b, output))
    by = proved_sum((a, b, output), *SUMMED)
    add = jax.jit(lambda p, q, by: round_sums(ARITHMETICS[on], p[:, None], q[None], by, jnp.int32(5), np.uint8))
    got = add(np.int32(P), np.int32(Q), by)
    np.testing.assert_array_equal(got, np.clip(sums_of_two(a, b, output) + 5, 0, 255))


def sums_of_two(a, b, output):
    """Return all sums, rounded, by integers."""
    first, second = (Fraction(float(x)) / Fraction(float(output)) for x in (a, b))
    unit = math.lcm(first.denominator, second.denominator)
    total = P[:, None].astype(object) * int(first * unit) + Q.astype(object) * int(second * unit)
    lower, rest = total // unit, 2 * (total % unit)
    up = (rest > unit) | ((rest == unit) & (lower % 2 == 1))
    return (lower + up).astype(np.int64)


def draws_of_two():
    """Return scales of sums: any, powers of two, fractions with many ties, and far apart."""
    return [
        *(np.exp2(RNG.uniform(-5, 0, 3)) for _ in range(8)),
        *(np.exp2(RNG.integers(-3, 1, 3)) for _ in range(8)),
        *(RNG.integers(1, 64, 3) / 64 for _ in range(4)),
        *([2.0 ** -RNG.integers(8, 40), RNG.uniform(0.1, 1), -1] for _ in range(4)),
    ]


def test_two_limbs_add_what_is_clear():
    summed = jax.jit(lambda p, q, by: rounded_sum(p[:, None], q[None], clear_limbs(by.factors), 2))
    counts = {True: 0, False: 0}
    for scales in map(np.float32, draws_of_two()):
        by = proved_sum(scales.tolist(), *SUMMED)
        if by is not None and by.clear:
            counts[by.with_halves] += 1
            got = summed(np.int32(P), np.int32(Q), by)
            np.testing.assert_array_equal(np.clip(got, -256, 256), np.clip(sums_of_two(*scales), -256, 256))
    assert min(counts.values()) > 2


@pytest.mark.parametrize("lesser_first", [False, True])
@pytest.mark.parametrize("fused", [None, (False, False), (True, False), (False, True), (True, True)])
def test_all_sums_of_two_in_float32_are_right(fused, lesser_first):
    """Compute as this device does, or round products or not, as a device does that multiplies and adds at once.

    A compiler adds a constant to another one first, rounded.
    """
    if lesser_first and (fused is None or fused[0]):
        pytest.skip("there a constant is rounded")
    stored, turned = np.int8(ALL), 0
    for scales in map(np.float32, draws_of_two()):
        by = proved_sum(scales.tolist(), *SUMMED)
        if by is None or by.pair is None:
            continue
        assert not (by.with_halves and by.pair.without_ties)
        turned += by.pair.without_ties
        if fused is None:
            total = np.float64(jax.jit(pair_sum, static_argnums=2)(stored[:, None], stored[None], by.pair))
        else:
            *factors, offset = by.pair[:3]
            products = [ALL[:, None] * np.float64(factors[0]), ALL * np.float64(factors[1])]
            order = sorted((0, 1), key=lambda which: -abs(factors[which]), reverse=lesser_first)
            total = np.float64(offset)
            for which, whole in zip(order, fused, strict=True):
                product = products[which] if whole else np.float64(np.float32(products[which]))
                total = np.float64(np.float32(product + total))
        wanted = np.clip(sums_of_two(*scales), -256, 256)
        np.testing.assert_array_equal(np.clip(np.rint(total), -256, 256), wanted)
        if by.pair.without_ties:
            np.testing.assert_array_equal(np.clip(np.rint(total + 1) - 1, -256, 256), wanted)
    assert turned > 6


@pytest.mark.parametrize(
    ("a", "b", "output"),
    # Many sums next to halves, a tiny factor, a large one.
    [(0.03, 0.05, 0.06), (2.0**-20, 0.3, 1), (0.7, 100, 1)],
)
def test_what_is_not_rounded_in_float32(a, b, output):
    by = proved_sum([np.float32(scale) for scale in (a, b, output)], *SUMMED)
    assert by is not None
    assert by.pair is None


@pytest.mark.parametrize(("a", "b", "output"), [(5, 80, 12), (1, 1, 2.0**-4), (1, 2.0**-33, 2)])
def test_what_is_not_clear(a, b, output):
    by = proved_sum([np.float32(scale) for scale in (a, b, output)], *SUMMED)
    assert by is None or not by.clear


@pytest.mark.parametrize(("a", "b", "output"), [(0, 1, 1), (1, np.inf, 1), (5, 80, 12), (1, 1e-12, 2)])
def test_sums_that_are_not_proved(a, b, output):
    assert proved_sum([np.float32(scale) for scale in (a, b, output)], *SUMMED) is None


@pytest.mark.parametrize("contracted", [False, True])
@pytest.mark.parametrize("by_addition", [False, True])
def test_all_sums_with_a_known_one_are_right(contracted, by_addition):
    """Round as float32 does, and as a device that does not round the product before it adds."""

    @jax.jit
    def of_all(p, by):
        return round_terms(p[:, None], by, dtype=np.dtype(np.uint8), by_addition=by_addition)

    found = 0
    for scales in map(np.float32, draws_of_two()):
        by = proved_terms(scales.tolist(), (*SUMMED[0], 5), (*SUMMED[1], np.uint8), ALL[None])
        if by is not None:
            found += 1
            got = of_all(np.int8(ALL), by)
            if contracted:
                at_once = (ALL[:, None] * np.float64(by.factor) + np.float64(by.terms)).astype(np.float32)
                got = np.clip(np.rint(at_once) + 128, 0, 255)
            np.testing.assert_array_equal(got, np.clip(sums_of_two(*scales) + 5, 0, 255))
    assert found > 12


def test_what_no_known_sum_is_proved_of():
    # Where sums are halves they go up and down in turn, and no term lies on both sides of them.
    for scales in ((0, 1, 1), (1, np.inf, 1), (2.0**90, 1, 1)):
        assert proved_terms(scales, (0, 0, 0), [np.int8] * 3, ALL) is None
    halves = proved_terms((1, 1, 2), (0, 0, 0), [np.int8] * 3, np.int8([1]))
    assert halves is None
    even = proved_terms((2, 1, 2), (0, 0, 0), [np.int8] * 3, np.int8([1]))
    assert even is None
    assert proved_terms((2, 1, 3), (0, 0, 0), [np.int8] * 3, np.int8([1])) is not None


@pytest.mark.parametrize("count", [1, 2, 3, 9, 49, 64, 2**16])
def test_means_are_right_around_every_half(count):
    for scales in (usual, any_size):
        for _ in range(5):
            a, _, output = scales()
            greatest = 255 * count
            by = multiplier_of(a, 1, output, greatest, np.full((1, 1), count))
            if by is None:
                continue
            multiplier = quotient(a, 1, output) / count
            sums = near_halves(multiplier, greatest)[None]
            got = jax.jit(lambda sums, by: round_products(ON_CUDA, sums, by, None, np.dtype("int8")))(sums, by)
            np.testing.assert_array_equal(got, rounded(sums, [multiplier], 0, np.int8))
    assert multiplier_of(np.float32(0.5), 1, np.float32(0.25), 1000, np.full((1, 1), count)) is not None


def test_an_average_of_too_many_is_not_proved():
    assert multiplier_of(np.float32(0.5), 1, np.float32(0.25), 1000, 2**16 + 1) is None


# What the public functions make of it.

SCALES = np.float32(0.02), np.float32(0.01), np.float32(0.5)


def product(a, b, scales, bias=None):
    sa, sb, so = scales
    return jaxdml.quantized_linear_matrix_multiply(a, sa, 3, b, sb, None, so, bias=bias)


def pooled(x, _, scales):
    return jaxdml.quantized_linear_average_pooling(x[:, None], scales[0], 3, scales[2], window=3, start_padding=1)


def convolved(a, b, scales):
    x, w = a[None], b[:, :, None]
    return jaxdml.quantized_linear_convolution(x, scales[0], 3, w, scales[1], None, np.int32([5]), scales[2])


def added(a, b, scales):
    return jaxdml.quantized_linear_add(a, scales[0], 3, b, scales[1], 0, scales[2], 5)


def requantized(a, b, scales):
    return jaxdml.requantize(a.astype(jnp.int32) * b.astype(jnp.int32), *scales, output_dtype="uint8")


def quantized(a, b, scales):
    return jaxdml.quantize_linear(a.astype(jnp.float32), scales[0], np.uint8(3))


A, B = RNG.integers(0, 256, (16, 16), np.uint8), RNG.integers(-128, 128, (16, 16), np.int8)
CALLS = [product, convolved, pooled, added, requantized, quantized]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("platform", ["cpu", "cuda", "rocm", "tpu"])
def test_platforms_with_float64_round_with_it_where_scales_are_known(call, platform):
    def text(call, *arguments):
        return jax.jit(call).trace(*arguments).lower(lowering_platforms=(platform,)).as_text()

    known = text(lambda a, b: call(a, b, SCALES), A, B)
    # Where one multiplier serves all sums, CUDA rounds in float32, in the kernel of a product.
    without = {"cpu": [added], "cuda": [product, convolved, added]}
    assert ("f64" in known) == (platform in without and call not in without[platform])
    # A sum of two needs no proof there.
    assert ("f64" in text(call, A, B, tuple(map(jnp.asarray, SCALES)))) == (platform == "cuda" and call is added)


@pytest.mark.parametrize("call", CALLS)
def test_known_and_traced_scales_have_the_same_bits(call):
    traced = jax.jit(call)(A, B, tuple(map(jnp.asarray, SCALES)))
    assert_same_bits(call(A, B, SCALES), traced)
    assert_same_bits(jax.jit(lambda a, b: call(a, b, tuple(map(float, SCALES))))(A, B), traced)
    assert_same_bits(call(A, B, tuple(map(jnp.asarray, SCALES))), traced)


@pytest.mark.parametrize(
    "scales",
    [
        (np.float32(1e-30), np.float32(1e-30), np.float32(1)),
        (np.full((16, 1), 0.5, np.float32), np.float32(1), np.float32(2)),
        (np.full(2**16 + 1, 0.5, np.float32)[:16, None], np.full(16, 0.25, np.float32), np.float32(2)),
    ],
)
def test_what_is_not_proved_or_large_has_the_same_bits(scales):
    want = jax.jit(product)(A, B, tuple(map(jnp.asarray, scales)))
    assert_same_bits(product(A, B, scales), want)


@pytest.mark.parametrize("bias", [np.int32(7), np.arange(16, dtype=np.int32), np.full(16, 2**31 - 1, np.int32)])
@pytest.mark.parametrize("known", [False, True])
def test_a_bias_is_added_before_the_rounding(bias, known):
    given = bias if known else jnp.asarray(bias)
    want = reference.quantized_linear_matrix_multiply(
        A, SCALES[0], np.uint8(3), B, SCALES[1], None, SCALES[2], bias=bias
    )
    assert_same_bits(jax.jit(lambda a, b: product(a, b, SCALES, given))(A, B), want)
    deep = np.full((2, 40_000), 255, np.uint8), np.full((40_000, 16), 127, np.int8)
    scales = np.float32(1), np.float32(1), np.float32(2.0**24)
    want = reference.quantized_linear_matrix_multiply(
        deep[0], scales[0], np.uint8(3), deep[1], scales[1], None, scales[2], bias=bias
    )
    assert_same_bits(product(*deep, scales, given), want)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_scales_of_16_bits_are_those_of_float32(call, known, dtype):
    narrow = [np.array(scale, dtype) for scale in (0.013, 0.3, 2.6)]
    of = (lambda scales: scales) if known else (lambda scales: [*map(jnp.asarray, scales)])
    assert_same_bits(call(A, B, of(narrow)), call(A, B, of([scale.astype(np.float32) for scale in narrow])))


def test_a_large_parameter_is_data():
    x = np.zeros((1, 2**16 + 1), np.int32)
    many = np.full(x.shape, 0.5, np.float32)
    text = jax.jit(lambda x: jaxdml.requantize(x, many, 1.0, 1.0, np.uint8(0))).lower(x).as_text()
    assert "f64" not in text


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="reads what XLA's CPU backend compiled")
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32])
def test_what_is_materialized_is_computed_once(dtype):
    def program(keep):
        def run(x):
            y = keep(jax.lax.round(x).astype(dtype))
            return [(y + dtype(i))[i:] for i in range(5)]

        return jax.jit(run).lower(jnp.ones((64, 64))).compile().as_text()

    # Once for all elements, and once for the first element, which the branch looks at.
    once, anew = (program(keep).count(" round-nearest") for keep in (materialized, lambda y: y))
    assert once <= 2
    assert anew == 5


def test_what_is_empty_or_symbolic_is_not_materialized():
    assert materialized(jnp.zeros((0, 3), jnp.int8)).shape == (0, 3)

"""The laws of the quantized matrix multiply, against the oracle, in rational numbers, and by themselves."""

import itertools
import math
from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import jaxdml
from jaxdml import reference
from jaxdml._arithmetic import float_parts
from jaxdml._arithmetic.residuals import by_residuals as round_by_residuals
from jaxdml._kernels.integer_product import integer_dot, tensor_core_dot
from jaxdml._kernels.integer_product import kernel as lowering
from jaxdml._kernels.integer_product.row_product import row_product
from jaxdml._kernels.integer_sums import raw as raw_product
from jaxdml._kernels.requantization.multiplier import may_be_doubtful, multiplier_of, rounded_products
from tests.kit import OneOf, assert_same_bits, grid, quick, seeds
from tests.kit.exact_rounding import begins, one_multiply, rounded_quotients, scale_triples
from tests.kit.forms import rounded_on_cpu

multiply = jaxdml.quantized_linear_matrix_multiply
jitted_multiply = jax.jit(multiply, static_argnames=("output_dtype", "implementation"))
QUANTIZED = [np.dtype(np.int8), np.dtype(np.uint8)]
ONE = np.float32(1)
# What only CPUs have is not for other devices.
ON_CPU = jax.default_backend() == "cpu"
METHODS = [None, *(name for name in lowering.METHODS if ON_CPU or name != "mixed_dot")]
DISTINCT_METHODS = [OneOf(None, "integer_dot"), *METHODS[2:]]
"""None chooses one of the others."""
SIZES = [1, 7, 8]  # On both sides of where rows of ones are filled in.
BATCHES = [((), ()), ((2,), (2,)), ((3,), ()), ((), (2,)), ((2, 1), (1, 3)), ((0,), (1,))]
STYLES = ["power of two", "decimal", "any", "extreme"]


def integers(rng, dtype, shape):
    info = np.iinfo(dtype)
    drawn = rng.integers(info.min, info.max, shape, endpoint=True)
    extremes = rng.choice([info.min, info.max], shape)
    return np.where(rng.random() < 0.2, extremes, drawn).astype(dtype)


def scales(rng, shape, style):
    if style == "power of two":
        return (2.0 ** rng.integers(-6, 3, shape)).astype(np.float32)
    if style == "decimal":
        return rng.choice(np.array([0.1, 0.02, 0.05, 0.25, 0.003, -0.7], np.float32), shape)
    exponents = rng.integers(-126, 127, shape) if style == "extreme" else rng.integers(-3, 3, shape)
    return (rng.uniform(1, 2, shape) * 2.0**exponents).astype(np.float32)


# Shapes and dtypes are static: each set of them is compiled once, and checked with many data.
few_draws = settings(max_examples=settings().max_examples // 5)

# By what axes of the result, [batch, m, n], a parameter has: "m" has one value a row, "bm1" is of the result's rank.
ROWS = ["", "m", "bm1", "1", "m1", "b11"]
COLUMNS = ["", "n", "b1n", "1", "1n"]


def shape_of(axes, batch, m, n):
    sizes = {"m": (m,), "n": (n,), "1": (1,), "b": batch}
    return sum((sizes[axis] for axis in axes), ())


def problem(seed, dtypes, sizes, batches, scale_axes, zero_axes):
    """Draw all arguments; a zero point whose axes are None is absent, and a scale is of any style."""
    rng = np.random.default_rng(seed)
    m, k, n = sizes
    batch = np.broadcast_shapes(*batches)
    style = rng.choice(STYLES)
    of_matrices = integers(rng, dtypes[0], (*batches[0], m, k)), integers(rng, dtypes[1], (*batches[1], k, n))
    of_scales = [scales(rng, shape_of(axes, batch, m, n), style) for axes in scale_axes]
    of_zeros = [
        None if axes is None else integers(rng, dtype, shape_of(axes, batch, m, n))
        for axes, dtype in zip(zero_axes, dtypes, strict=True)
    ]
    (a, b), (sa, sb, so), (za, zb, zo) = of_matrices, of_scales, of_zeros
    # A NumPy array takes a program of its own to copy.
    return jax.device_put((a, sa, za, b, sb, zb, so, zo))


def agrees(given, method, jitted, **options):
    got = (jitted_multiply if jitted else multiply)(*given, implementation=method, **options)
    given = [None if x is None else np.asarray(x) for x in given]
    assert_same_bits(got, reference.quantized_linear_matrix_multiply(*given, **options))


@grid(
    method=DISTINCT_METHODS, m=SIZES, k=[0, OneOf(1, 7, 8), 40], n=SIZES,
    batches=[BATCHES[0], OneOf(*BATCHES[1:4]), OneOf(*BATCHES[4:])],
    a=QUANTIZED, b=QUANTIZED, output=QUANTIZED, inferred=[False, True],
    sa=[ROWS[0], OneOf(*ROWS[1:])], sb=[COLUMNS[0], OneOf(*COLUMNS[1:])], so=[ROWS[0], OneOf(*ROWS[1:])],
    za=[None, OneOf(*ROWS)], zb=[None, OneOf(*COLUMNS)], zo=[None, OneOf(*ROWS)],
    jitted=[False, True],
)  # fmt: skip
@few_draws
@given(seed=seeds)
def test_agrees_with_the_oracle(method, m, k, n, batches, a, b, output, inferred, sa, sb, so, za, zb, zo, jitted, seed):
    given = problem(seed, (a, b, output), (m, k, n), batches, (sa, sb, so), (za, zb, zo))
    # Without an output_dtype it is that of the output's zero point, and without that of a.
    agrees(given, method, jitted, **({} if inferred else {"output_dtype": output}))


@quick
@grid(
    method=DISTINCT_METHODS, k=[33_025, 33_026, OneOf(65_794, 131_071), 131_072, 200_000],
    a=QUANTIZED, b=QUANTIZED, za=[None, OneOf("", "m")], zb=[None, OneOf("", "n")], m=[1, 3],
)  # fmt: skip
@settings(max_examples=settings().max_examples // 12)
@given(seed=seeds)
def test_no_depth_overflows(method, k, a, b, za, zb, m, seed):
    given = problem(seed, (a, b, a), (m, k, 2), ((), ()), ("", "n", ""), (za, zb, None))
    agrees(given, method, False)
    lowest = jax.device_put(np.full((m, k), np.iinfo(a).min, a))
    agrees((lowest, *given[1:]), method, False)


@grid(method=DISTINCT_METHODS, k=[33_025, 33_026, 70_000])
def test_the_greatest_sums_are_exact(method, k):
    # Every product is 255 * 255, or its negative: the worst that zero points allow.
    a, greatest = np.full((1, k), 255, np.uint8), np.full((k, 1), 127, np.int8)
    divisor = np.float32(255 * 255 * k / 100.0)
    for b, zero_b, want in ((greatest, np.int8(-128), 100), (~greatest, np.int8(127), -100)):
        given = a, ONE, np.uint8(0), b, ONE, zero_b, divisor
        got = multiply(*jax.device_put(given), output_dtype="int8", implementation=method)
        assert_same_bits(got, reference.quantized_linear_matrix_multiply(*given, output_dtype="int8"))
        assert got.item() == want


@grid(method=DISTINCT_METHODS, k=[2**17 - 1, 2**17])
def test_the_first_sum_that_int32_cannot_hold_is_exact(method, k):
    # Every product is 128 * 128, the greatest without zero points.
    a, b = np.full((1, k), -128, np.int8), np.full((k, 1), -128, np.int8)
    given = a, ONE, None, b, ONE, None, np.float32(2.0**31 / 100)
    assert multiply(*jax.device_put(given), implementation=method).item() == 100


def residuals(low, high, *scales, zero_point):
    return round_by_residuals(low, high, scales, zero_point, np.dtype(np.int8))


def multipliers(low, high, *scales, zero_point):
    assert high is None
    shape = (1,) * (2 - low.ndim) + low.shape
    raw = raw_product.RawProduct(low.reshape(shape))
    return rounded_on_cpu(raw, scales, zero_point, shape).reshape(low.shape)


AT_ONCE = 4096
jitted_residuals = jax.jit(residuals)


def many_residuals(x, *scales, zero_point):
    """Round each number by its residual, with scales of its own: so one program, of one size, does for all shapes."""
    flat = [np.resize(part, -(-part.size // AT_ONCE) * AT_ONCE).reshape(-1, AT_ONCE) for part in (x, *scales)]
    parts = [
        jitted_residuals(low, None, *of_it, zero_point=np.int32(zero_point)) for low, *of_it in zip(*flat, strict=True)
    ]
    return np.concatenate(parts)[: x.size].reshape(x.shape)


@pytest.mark.parametrize(("way", "deep"), [(residuals, False), (residuals, True), (multipliers, False)])
def test_every_quotient_is_correctly_rounded(way, deep):
    rng = np.random.default_rng(1)
    greatest = 2**46 if deep else 2**31 - 1
    quantize = jax.jit(way)
    compared = wrong = 0
    for span in (300, 2**20, greatest):
        for triple in scale_triples(rng, 24, span):
            accumulators = rng.integers(-span, span, 50_000, endpoint=True)
            low, high = (accumulators & 0xFFFF, accumulators >> 16) if deep else (accumulators, None)
            parts = [None if part is None else jnp.asarray(part.astype(np.int32)) for part in (low, high)]
            exact = rounded_quotients(accumulators, triple)
            for zero_point in (-128, 0, 127):
                got = quantize(*parts, *(jnp.float32(s) for s in triple), zero_point=jnp.int32(zero_point))
                want = np.clip(exact + zero_point, -128, 127)
                np.testing.assert_array_equal(got, want, err_msg=f"{triple=} {zero_point=}")
                compared += want.size
            by_one = one_multiply(accumulators, triple)
            wrong += (np.clip(by_one, -128, 127) != np.clip(exact, -128, 127)).sum()
    assert compared > 5_000_000
    assert wrong > 0  # Else these numbers would be too easy to tell the two apart.


def next_to_ties(rng, side):
    """Draw accumulators of up to 47 bits, and scales with quotients next to a half, closer than half words tell."""
    while True:
        shift, u = int(rng.integers(56, 62)), 2 * int(rng.integers(2**7, 2**8)) + 1
        ma, mb = u << 15, 2 * int(rng.integers(2**22, 2**23)) + 1
        accumulator = side * pow(u * mb, -1, 2 ** (shift - 15)) % 2 ** (shift - 15)
        halves = accumulator * u * mb - side >> shift - 15
        # The quotient is half of an odd number, but for the side.
        for odd in range(1, 250, 2):
            mo, rest = divmod(halves, odd)
            if not rest and 2**23 <= mo < 2**24:
                yield accumulator, (ma * 2.0**-30, mb * 2.0**-31, mo * 2.0 ** (shift - 60))


@pytest.mark.parametrize("side", [1, -1])
def test_deep_quotients_next_to_ties_are_no_ties(side):
    quantize = jax.jit(residuals)
    decided = 0
    for accumulator, triple in itertools.islice(next_to_ties(np.random.default_rng(5), side), 60):
        a, b, o = map(Fraction, triple)
        quotient = accumulator * a * b / o
        half = math.floor(quotient) + Fraction(1, 2)
        assert 0 < side * (quotient - half) < Fraction(1, 2**30)
        for sign in (1, -1):
            low, high = sign * accumulator & 0xFFFF, sign * accumulator >> 16
            got = quantize(jnp.int32(low), jnp.int32(high), *map(jnp.float32, triple), zero_point=None)
            assert got == round(sign * quotient)
        decided += round(quotient) != round(half)
    assert decided > 10  # So many ties would have gone the other way.


def test_halves_are_those_of_the_estimate_or_far_out_on_its_side():
    near = np.concatenate([np.arange(-(2**11), 2**11, 0.125), np.arange(-(2**21) + 1, 2**21, 12.34)]).astype(np.float32)
    far = (2.0**21 * 1.001 ** np.arange(73_000)).astype(np.float32)  # Up to 2**126.
    far = np.concatenate([far, -far])
    lower, half = map(np.asarray, jax.jit(float_parts.lower_and_half)(jnp.asarray(near)))
    assert (half == lower + 0.5).all()
    assert (near - lower >= -0.25).all()
    assert (near - lower <= 0.75).all()
    lower, _ = map(np.asarray, jax.jit(float_parts.lower_and_half)(jnp.asarray(far)))
    assert (np.sign(lower) == np.sign(far)).all()
    assert (np.abs(lower.astype(np.int64)) >= 2**20).all()


@jax.jit
def look_closely(accumulators, *scales):
    multiplier = multiplier_of(scales)
    rounded, doubtful = rounded_products(accumulators, multiplier)
    return rounded, doubtful, may_be_doubtful(multiplier)


SPANS = (2**10, 2**20, 2**31 - 1)
TRIPLES = [
    *((span, triple) for span in SPANS for triple in scale_triples(np.random.default_rng(2), 60, span)),
    *((2**20, tuple(np.float32(s) for s in triple)) for triple in itertools.product([1e-45, 3e38, -0.1, 3], repeat=3)),
    *((2**20, (1.0, np.float32(scale), 1.0)) for scale in np.float32(2.0) ** np.arange(-31, 12)),
    *((2**20, (1 + 2.0**-18, 1 + 2.0**-18, 2.0**exponent)) for exponent in range(15)),
    *((2**20, (np.float32(scale), 1.0, 1.0)) for scale in 2.0 ** np.random.default_rng(3).uniform(-19, -12, 150)),
    *((2**20, (np.float32(0.02), np.float32(0.05), np.float32(o))) for o in (0.001, 0.01, 0.1, 1, 100)),
]  # fmt: skip


def test_multipliers_decide_wherever_they_do_not_doubt():
    # The accumulators on both sides of every half are the hard ones.
    doubts, sure = 0, 0
    for span, triple in TRIPLES:
        at = begins(triple, limit=260)
        accumulators = (at[:, None] + np.arange(-2, 2)).clip(-(2**31) + 1, 2**31 - 1).ravel()
        rounded, doubtful, may = map(np.asarray, look_closely(accumulators.astype(np.int32), *map(jnp.float32, triple)))
        want = rounded_quotients(accumulators, triple, limit=260)
        np.testing.assert_array_equal(rounded.clip(-256, 256)[~doubtful], want.clip(-256, 256)[~doubtful], f"{triple=}")
        within = (np.abs(want) < 256) & (np.abs(accumulators) < 2**31 - 2)
        assert may or not doubtful[within].any(), f"{triple=} {span=}"
        doubts, sure = doubts + may, sure + (not may)
    assert doubts > 20
    assert sure > 100


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("exponent", range(-30, 8))
def test_powers_of_two_leave_no_doubt(exponent, negative):
    scale = np.float32(2.0**exponent) * (-1 if negative else 1)
    reach = int(min(300 / abs(scale) + 3, 2**31 - 1))
    step = max(1, int(0.5 / abs(scale)))  # From tie to tie, and to what lies beside it.
    accumulators = (np.arange(-600, 601)[:, None] * step + np.arange(-1, 2)).clip(-reach, reach).ravel()
    rounded, doubtful, may = map(np.asarray, look_closely(accumulators.astype(np.int32), ONE, scale, ONE))
    assert not may
    assert not doubtful.any()
    want = rounded_quotients(accumulators, (1.0, scale, 1.0))
    np.testing.assert_array_equal(rounded.clip(-256, 256), want.clip(-256, 256))


def test_multipliers_are_what_their_parts_say():
    multiplier = jax.jit(multiplier_of)
    for _, triple in TRIPLES:
        real = Fraction(float(triple[0])) * Fraction(float(triple[1])) / Fraction(float(triple[2])) * 2**30
        if not 2**-20 < abs(real) < 2**38:
            continue
        by = multiplier(tuple(map(jnp.float32, triple)))
        integer, fraction, limit = int(by.integer), Fraction(float(by.fraction)), int(by.limit)
        rest = (real - integer + 2**31) % 2**32 - 2**31
        assert abs(fraction - rest) <= Fraction(3, 2**23)
        assert abs(fraction) <= Fraction(9, 8) if abs(real) > 2**34 else Fraction(5, 8)
        assert abs(Fraction(float(by.estimate)) * 2**30 / real - 1) < Fraction(1, 2**20)
        assert limit == 2**31 - 1 or limit * abs(real) / 2**30 > 256
        assert (by.tolerance < 0) == (real.denominator == 1)
        assert by.tolerance < 0 or by.tolerance >= 2 + limit / 2**20 * 0.999


@grid(
    # A few multipliers, or one, are examined by themselves, and many with all accumulators.
    given=[
        (("row", "one", "one"), (3, 4000)),
        (("row", "one", "row"), (400, 300)),
        (("one", "column", "one"), (3, 4000)),
        (("one", "column", "one"), (91, 91)),
        (("one",) * 3, (91, 91)),
        (("one",) * 3, (400, 300)),
    ],
    zero_point=[OneOf(None, -3)],
)
def test_multipliers_and_residuals_agree(given, zero_point):
    shapes, size = given
    of = {"row": (size[0], 1), "column": (1, size[1]), "one": (1, 1)}
    by_multipliers = jax.jit(
        partial(multipliers, zero_point=None if zero_point is None else np.full((1, 1), zero_point))
    )
    for style in ("power of two", "any", "extreme"):
        rng = np.random.default_rng(0)
        a, b, o = (scales(rng, of[shape], style) for shape in shapes)
        x = rng.integers(-(2**12), 2**12, size).astype(np.int32)
        want = many_residuals(*np.broadcast_arrays(x, a, b, o), zero_point=zero_point or 0)
        assert_same_bits(by_multipliers(x, None, a, b, o), want)


def test_doubts_of_single_outputs_are_settled():
    # With so many multipliers all outputs are examined. Ties abound, and no multiplier of these is exact.
    triples = [(1.0, 1.0, float(output_scale)) for output_scale in range(6, 126, 8)]
    a, b, o = (np.array(part, np.float32)[:, None] for part in zip(*triples, strict=True))
    x = np.stack([(begins(triple, limit=130)[:, None] + np.arange(-2, 2)).ravel() for triple in triples])
    want = np.stack([rounded_quotients(row, triple) for row, triple in zip(x, triples, strict=True)]).clip(-128, 127)
    x = x.astype(np.int32)
    assert_same_bits(jax.jit(partial(multipliers, zero_point=None))(x, None, a[:1], b[:1], o), want.astype(np.int8))
    alone = np.stack([look_closely(row, *triple)[0] for row, triple in zip(x, np.float32(triples), strict=True)])
    assert (alone.clip(-128, 127) != want).any()


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_vmapped_multipliers_are_a_loop(axes):
    rng = np.random.default_rng(0)
    x = rng.integers(-(2**12), 2**12, (3, 100, 100)).astype(np.int32)
    a = np.float32([0.02, 0.5, 0.037])  # The first leaves doubts.
    o = np.float32(0.02 * 2**6)

    def call(x, a):
        return multipliers(x, None, a, ONE, o, zero_point=None)

    given = [jnp.asarray(part if axis == 0 else part[0]) for part, axis in zip((x, a), axes, strict=True)]
    got = jax.jit(jax.vmap(call, in_axes=axes))(*given)
    for i in range(3):
        one = [part[i if axis == 0 else 0] for part, axis in zip((x, a), axes, strict=True)]
        np.testing.assert_array_equal(got[i], rounded_quotients(one[0], (one[1], 1.0, o)).clip(-128, 127))


@pytest.mark.parametrize("scale", [0.5, 0.003, -0.1])
def test_a_larger_product_agrees_with_the_oracle(scale):
    rng = np.random.default_rng(0)
    a, b = integers(rng, np.uint8, (96, 5)), integers(rng, np.int8, (5, 96))
    given = (a, np.float32(scale), np.uint8(3), b, ONE, np.int8(-5), np.float32(7), np.uint8(128))
    assert_same_bits(multiply(*given), reference.quantized_linear_matrix_multiply(*given))


@quick
@grid(
    depth=[1, 7, 8, 9, 31, 32, 33, 100, 1000], zero_points=[OneOf((None, None), (-128, None), (None, 127), (127, -128))]
)
def test_one_row_is_multiplied_exactly(depth, zero_points):
    if not ON_CPU:
        pytest.skip("XLA's GPU backend gets plain int8 products of some sizes wrong")
    rng = np.random.default_rng(depth)
    a, b = integers(rng, np.int8, (3, 1, depth)), integers(rng, np.int8, (3, depth, 5))
    wide = [x.astype(np.int64) - (zero or 0) for x, zero in zip((a, b), zero_points, strict=True)]

    def product(a, b):
        za, zb = (None if zero is None else jnp.full((1,) * a.ndim, zero) for zero in zero_points)
        return row_product(a, za, b, zb)

    @jax.jit
    def products(a, b):
        mapped = ((0, 0), (a, b)), ((0, None), (a, b[0])), ((None, 0), (a[0], b))
        return product(a, b), *(jax.vmap(product, in_axes=axes)(*given) for axes, given in mapped)

    wanted = wide[0] @ wide[1], wide[0] @ wide[1], wide[0] @ wide[1][0], wide[0][0] @ wide[1]
    for got, want in zip(products(a, b), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


DEEPEST = tensor_core_dot.LONGEST_FLOAT_SUM
SHALLOW_DEPTHS, DEEP_DEPTHS = (1, 7, DEEPEST), (DEEPEST + 1, DEEPEST + 16, 5000)
PRODUCTS = [
    *((integer_dot.dot_with_ones, depths) for depths in (SHALLOW_DEPTHS, DEEP_DEPTHS)),
    (tensor_core_dot.bfloat16_dot, SHALLOW_DEPTHS),
    (tensor_core_dot.transposed_dot, DEEP_DEPTHS),
    (tensor_core_dot.padded_dot, DEEP_DEPTHS),
]
BROADCAST = [
    ((), ()),
    OneOf(((2, 3), (1, 1)), ((2, 8), (1, 1))),
    OneOf(((2, 1), (1, 3)), ((1,), (2,))),
    ((0,), (1,)),
    ((2, 3), (2, 3)),
]


def skip_if_known_wrong(multiply_by):
    if multiply_by is integer_dot.dot_with_ones and not ON_CPU:
        pytest.skip("XLA's GPU backend gets plain int8 products of some sizes wrong")


@quick
@pytest.mark.parametrize(("zero_points", "deepest"), [((-128, -128), 258), ((-128, None), 514), ((None, 127), 514)])
@pytest.mark.parametrize("more", [0, 1])
def test_zero_points_are_subtracted_before_a_product_that_float32_holds(zero_points, deepest, more):
    a, b = np.full((2, 3, deepest + more), 127, np.int8), np.full((2, deepest + more, 18), -128, np.int8)
    a[:, 1:], b[..., 1:] = -128, 127
    za, zb = (None if zero is None else np.full((1, 1, 1), zero, np.int32) for zero in zero_points)
    want = (a.astype(np.int64) - (zero_points[0] or 0)) @ (b.astype(np.int64) - (zero_points[1] or 0))
    raw = jax.jit(tensor_core_dot.bfloat16_dot)(a, za, b, zb)
    assert (raw.rows is None and raw.columns is None) == (more == 0)
    np.testing.assert_array_equal(raw_product.accumulator(raw, want.shape), want)


@quick
@grid(
    product=[OneOf(*itertools.product([product], depths)) for product, depths in PRODUCTS],
    batches=BROADCAST,
    zero_points=[(None, None), (5, None), (None, -128), (127, 9)],
)
def test_products_broadcast_as_matmul_does(product, batches, zero_points):
    multiply_by, depth = product
    skip_if_known_wrong(multiply_by)
    rng = np.random.default_rng(depth)
    a, b = integers(rng, np.int8, (*batches[0], 3, depth)), integers(rng, np.int8, (*batches[1], depth, 18))
    want = (a.astype(np.int64) - (zero_points[0] or 0)) @ (b.astype(np.int64) - (zero_points[1] or 0))
    za, zb = (None if zero is None else np.full((1,) * want.ndim, zero, np.int32) for zero in zero_points)
    got = jax.jit(lambda *operands: raw_product.accumulator(multiply_by(*operands), want.shape))(a, za, b, zb)
    np.testing.assert_array_equal(got, want)


@quick
@pytest.mark.parametrize("rows", [16, 17])
@pytest.mark.parametrize("depth", [DEEPEST + 16, DEEPEST + 17])
def test_a_transposed_product_is_exact_whether_sizes_are_aligned_or_not(rows, depth):
    rng = np.random.default_rng(depth)
    a, b = integers(rng, np.int8, (rows, depth)), integers(rng, np.int8, (depth, 18))
    za, zb = (np.full((1, 1), zero, np.int32) for zero in (-7, 100))
    got = jax.jit(lambda *x: raw_product.accumulator(tensor_core_dot.transposed_dot(*x), (rows, 18)))(a, za, b, zb)
    np.testing.assert_array_equal(got, (a.astype(np.int64) + 7) @ (b.astype(np.int64) - 100))


@quick
@pytest.mark.parametrize(
    ("multiply_by", "depth"), [(product, depth) for product, depths in PRODUCTS for depth in (min(depths), max(depths))]
)
def test_products_and_split_products_are_exact(multiply_by, depth):
    skip_if_known_wrong(multiply_by)
    za, zb = np.int32([[-128], [127], [5]]), np.int32([[-128, 127, 0, 9]])
    lengths = [longest for longest in {1, 100, depth} if longest <= depth <= 100 * longest]

    def product(*operands):
        return raw_product.accumulator(multiply_by(*operands), (3, 4))

    @jax.jit
    def whole_and_split(*operands):
        split = [integer_dot.sum_of_slices(*operands, product, longest) for longest in lengths]
        return product(*operands), split

    for fill in (None, 127, -128):
        rng = np.random.default_rng(depth)
        a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((3, depth), (depth, 4)))
        if fill is not None:
            a[:], b[:] = fill, fill
        want = (a.astype(np.int64) - za) @ (b.astype(np.int64) - zb)
        whole, split = whole_and_split(a, za, b, zb)
        np.testing.assert_array_equal(whole, want)
        for low, high in split:
            assert ((low >= 0) & (low < 2**16)).all()
            np.testing.assert_array_equal(np.asarray(high, np.int64) * 2**16 + np.asarray(low), want)


def test_true_ties_go_to_even():
    a = np.arange(-9, 10, dtype=np.int8)[:, None]
    got = multiply(a, ONE, None, np.ones((1, 1), np.int8), ONE, None, np.float32(2))
    assert got[:, 0].tolist() == [-4, -4, -4, -3, -2, -2, -2, -1, 0, 0, 0, 1, 2, 2, 2, 3, 4, 4, 4]


def test_the_zero_point_is_added_after_rounding():
    # 0.5 rounds to 0 and 1.5 to 2, whatever is added then.
    got = multiply(np.int8([[1], [3]]), ONE, None, np.int8([[1]]), ONE, None, np.float32(2), np.int8(1))
    assert got[:, 0].tolist() == [1, 3]


def test_clamping_is_last():
    got = multiply(np.uint8([[255]]), ONE, None, np.int8([[1], [-1]]).T, ONE, None, ONE, np.uint8(10))
    assert got.tolist() == [[255, 0]]


@quick
@pytest.mark.parametrize(
    "shapes",
    [((2, 0), (0, 3)), ((9, 0), (0, 9)), ((1, 0), (0, 3)), ((0, 4), (4, 3)), ((2, 4), (4, 0)), ((0, 2, 4), (4, 3))],
)
def test_empty_dimensions(shapes):
    a, b = (np.ones(shape, np.int8) for shape in shapes)
    got = multiply(a, ONE, np.int8(1), b, ONE, None, ONE, np.uint8(7))
    assert_same_bits(got, np.full((*shapes[0][:-1], shapes[1][-1]), 7, np.uint8))


@quick
@pytest.mark.parametrize("name", ["a_scale", "b_scale", "output_scale"])
@pytest.mark.parametrize("value", [0.0, -0.0, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("dtype", QUANTIZED)
def test_meaningless_scales_do_no_harm(name, value, dtype):
    arguments = {"a_scale": ONE, "b_scale": ONE, "output_scale": ONE, name: np.float32(value)}
    rng = np.random.default_rng(0)
    a, b = integers(rng, np.int8, (4, 6)), integers(rng, np.uint8, (6, 4))
    given = a, arguments["a_scale"], None, b, arguments["b_scale"], None, arguments["output_scale"]
    answers = [multiply(*given, output_dtype=dtype, implementation=method) for method in METHODS]
    for got in answers:
        assert got.shape == (4, 4)
        assert_same_bits(got, answers[0])
    assert answers[0].dtype == dtype


@pytest.mark.parametrize("name", ["a_scale", "b_scale", "output_scale"])
@pytest.mark.parametrize("bits", [1, 3, 0x400000, 0x7FFFFF, 0x80000001])
def test_subnormal_scales_count_too(name, bits):
    tiny = np.uint32(bits).view(np.float32)
    arguments = {"a_scale": ONE, "b_scale": ONE, "output_scale": ONE}
    arguments["output_scale" if name != "output_scale" else "a_scale"] = np.float32(np.abs(tiny) * 32)
    arguments[name] = tiny
    a, b = np.int8([[7, -3], [100, 2]]), np.int8([[11, 5], [-6, 90]])
    given = (a, arguments["a_scale"], None, b, arguments["b_scale"], None, arguments["output_scale"])
    assert_same_bits(multiply(*given), reference.quantized_linear_matrix_multiply(*given))


@quick
@pytest.mark.parametrize("axes", [(0, None, None), (None, 0, None), (None, None, 0), (1, 1, 0), (2, 0, None)])
def test_vmap_over_any_argument_is_a_loop(axes):
    rng = np.random.default_rng(0)
    whole = [integers(rng, np.uint8, (3, 4, 5)), integers(rng, np.int8, (3, 5, 6)), scales(rng, (3, 4), "decimal")]
    moved = [part[0] if axis is None else np.moveaxis(part, 0, axis) for part, axis in zip(whole, axes, strict=True)]

    def call(a, b, output_scale):
        return multiply(a, ONE, np.uint8(3), b, ONE, np.int8(-5), output_scale, np.uint8(128))

    got = jax.vmap(call, in_axes=axes)(*moved)
    for i in range(3):
        a, b, s = (part[0 if axis is None else i] for part, axis in zip(whole, axes, strict=True))
        want = reference.quantized_linear_matrix_multiply(a, ONE, np.uint8(3), b, ONE, np.int8(-5), s, np.uint8(128))
        assert_same_bits(got[i], want)


# Sizes and layouts for which stock int8 products have been seen to be wrong on a GPU.
@grid(
    sizes=[(2, 2, 2), (2, 3, 2), (5, 3, 2), (4, 5, 6), (17, 33, 9), (16, 31, 16)],
    dtype=[OneOf(*QUANTIZED)],
    layout=[OneOf(*itertools.product([False, True], repeat=2))],
)
def test_ragged_sizes_in_any_layout(sizes, dtype, layout):
    (m, k, n), (transposed, mapped) = sizes, layout
    rng = np.random.default_rng(0)
    a, b = integers(rng, dtype, (30, m, k)), integers(rng, dtype, (30, k, n))
    zero, scale = np.array(3, dtype), np.float32(0.01)

    def call(a, b):
        a, b = (jnp.swapaxes(x, -1, -2) for x in (a, b)) if transposed else (a, b)
        return multiply(a, scale, zero, b, ONE, None, ONE)

    given = (a.swapaxes(1, 2), b.swapaxes(1, 2)) if transposed else (a, b)
    got = jax.jit(jax.vmap(call) if mapped else call)(*given)
    assert_same_bits(got, reference.quantized_linear_matrix_multiply(a, scale, zero, b, ONE, None, ONE))


@quick
@pytest.mark.parametrize("x64", [False, True])
def test_python_numbers_take_the_dtype_that_is_wanted(x64):
    with jax.enable_x64(x64):
        got = multiply(np.uint8([[9]]), 0.5, 200, np.int8([[-7]]), 3, -3, 0.25, 4, output_dtype="int8")
    want = reference.quantized_linear_matrix_multiply(
        np.uint8([[9]]), ONE / 2, np.uint8(200), np.int8([[-7]]), 3 * ONE, np.int8(-3), ONE / 4, np.int8(4)
    )
    assert_same_bits(got, want)


@quick
def test_one_row_is_differentiated_too():
    a, b = np.ones((1, 3), np.int8), np.ones((3, 2), np.int8)
    assert jax.jit(jax.grad(lambda s: multiply(a, s, None, b, s, None, s).astype(jnp.float32).sum()))(ONE) == 0


def test_the_oracle_refuses_meaningless_scales():
    for bad in (0, np.inf, np.nan):
        with pytest.raises((ArithmeticError, ValueError)):
            reference.quantized_linear_matrix_multiply(
                np.int8([[1]]), ONE, None, np.int8([[1]]), ONE, None, np.float32(bad)
            )

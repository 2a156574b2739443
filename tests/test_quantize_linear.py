"""The laws of quantizing, against the oracle and by themselves."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdml
from jaxdml import reference
from jaxdml._cases._quantizing import dtype_of, near_ties, scales, special
from jaxdml._kernels.quantization import float64_quotient
from tests.kit import OneOf, assert_same_bits, data, grid, quick

quantize = jax.jit(jaxdml.quantize_linear, static_argnames=("axis", "block_size", "output_dtype"))
N = 6000


def agrees(x, scale, zero_point=None, **options):
    got = quantize(*jax.device_put((x, scale, zero_point)), **options)
    assert_same_bits(got, reference.quantize_linear(x, scale, zero_point, **options))
    return np.asarray(got)


@grid(
    x=["float32", OneOf("float16", "bfloat16"), "int32"], output=[OneOf("uint8", "int8"), OneOf("uint16", "int16")],
    scale=["float32", OneOf("float16", "bfloat16")],
)  # fmt: skip
def test_agrees_with_the_oracle_on_and_beside_ties(x, output, scale):
    rng = np.random.default_rng(0)
    of_x, of_scale = dtype_of(x), dtype_of(scale)
    info = np.iinfo(output)
    divisors = scales(rng, (N,), of_scale)
    ties = near_ties(rng, divisors, of_x, 2 * (info.max - info.min))
    third = N // 3
    ties[:third], divisors[:third] = data("mixed", 1, (third,), of_x), special(rng, (third,), of_scale)
    agrees(ties, divisors, data("mixed", 2, (N,), output))


@pytest.mark.parametrize("output", ["int8", "uint16"])
def test_a_real_quotient_beside_a_half_may_be_a_half_in_float32(output):
    rng = np.random.default_rng(3)
    scale = rng.uniform(0.01, 3, N).astype(np.float32)
    half = rng.integers(-200, 200, N) + 0.5
    x = (half * scale.astype(np.float64)).astype(np.float32)
    steps = np.arange(N) % 5 - 2
    x = (x.view(np.int32) + steps.astype(np.int32)).view(np.float32)
    got = agrees(x, scale, np.array(0, output))
    quotient = x / scale
    # A double holds the real quotient closely enough to tell it from a half.
    beside = (quotient == half) & (x.astype(np.float64) / scale != half)
    above = x.astype(np.float64) / scale > half
    inside = np.abs(half) < 100 if output == "int8" else half > 0
    for odd in (False, True):
        for is_above in (False, True):
            chosen = beside & inside & (above == is_above) & (np.floor(half) % 2 == odd)
            assert chosen.sum() > 20
            # IEEE's quotient is a half, and that goes to the even side, wherever the real one is.
            assert (got[chosen] % 2 == 0).all()


SPECIAL = np.array([0, -0.0, 1e-45, -1e-40, 1.1754944e-38, 1, -2.5, 3.4e38, np.inf, -np.inf, np.nan], np.float32)


def test_infinities_saturate_and_nan_gives_the_zero_point():
    x, scale = (part.ravel() for part in np.meshgrid(SPECIAL, SPECIAL))
    got = agrees(x, scale, np.uint8(7))
    with np.errstate(all="ignore"):
        quotient = x / scale
    assert (got[np.isnan(quotient)] == 7).all()
    assert (got[quotient == np.inf] == 255).all()
    assert (got[quotient == -np.inf] == 0).all()
    assert got[(x == 1) & np.isinf(scale)].tolist() == [7, 7]


def test_the_zero_point_is_added_after_rounding():
    got = quantize(np.float32([0.5, 1.5, 2.5, -0.5, -1.5]), np.float32(1), np.int8(1))
    assert got.tolist() == [1, 3, 3, 1, -1]


def test_integers_above_float32_are_rounded_to_it_first():
    x = np.array([2**24 + 1, 2**24 + 3, 2**31 - 1, -(2**31), -(2**24) - 3], np.int32)
    got = agrees(x, np.float32(2**18), np.int16(0))
    assert got.tolist() == [64, 64, 8192, -8192, -64]
    agrees(x, np.float32(2), np.uint16(9))


QUOTIENTS = [float64_quotient.quantize_on_gpu]
if jax.default_backend() == "cpu":  # The other one reads the bits of a sum, which XLA for CUDA mistakes.
    QUOTIENTS.append(float64_quotient.quantize)


@pytest.mark.parametrize("form", QUOTIENTS)
@pytest.mark.parametrize("output", ["int8", "uint16"])
@pytest.mark.parametrize("zero_point", [None, 100])
def test_ordinary_scales_need_no_exact_products(form, output, zero_point):
    rng = np.random.default_rng(7)
    scale = (2.0 ** rng.uniform(-120, 60, N) * rng.choice([-1, 1], N)).astype(np.float32)
    info = np.iinfo(output)
    x = near_ties(rng, scale, np.dtype("f4"), 2 * (info.max - info.min))
    x[: SPECIAL.size] = SPECIAL
    assert float64_quotient.are_ordinary(scale)
    assert not any(float64_quotient.are_ordinary(one[None]) for one in SPECIAL if one not in (1, -2.5))
    zero = None if zero_point is None else np.int32(zero_point)
    got = jax.jit(partial(form, dtype=np.dtype(output)))(x, scale, zero)
    want = reference.quantize_linear(x, scale, zero if zero is None else zero.astype(output), output_dtype=output)
    assert_same_bits(got, want)


# Mantissas of x and of a scale, and the power of two between them: their quotient is next to what float32 rounds to an
# even integer plus 1/2, or to its neighbour.
NEXT_TO_MIDPOINTS = [
    (16777213, 16777212, 25), (8388608, 16777215, 25), (10485763, 8388610, 22), (15728637, 12582909, 23),
    (15728642, 12582913, 22), (9437189, 8388612, 21), (11796484, 10485763, 20), (14155779, 12582914, 20),
]  # fmt: skip


@pytest.mark.parametrize("known", [True, False])
def test_great_and_small_scales_give_quotients_next_to_midpoints(known):
    x, scale, down = np.array(NEXT_TO_MIDPOINTS * 2048).T
    for exponent in (-144, -100, 0, 40, 60, 80):
        divisors = np.ldexp(scale.astype(np.float32), exponent).astype(np.float32)
        dividends = np.ldexp(x.astype(np.float32), exponent - down + 24).astype(np.float32)
        call = partial(jaxdml.quantize_linear, scale=divisors) if known else partial(quantize, scale=divisors)
        got = call(dividends, axis=0, output_dtype="int16")
        assert_same_bits(got, reference.quantize_linear(dividends, divisors, axis=0, output_dtype="int16"))


@pytest.mark.parametrize("ordinary", [True, False])
@grid(output=["uint8", "int16"], zero=[None, "one", "vector"])
def test_large_arrays_agree_whatever_their_scales_are(ordinary, output, zero):
    rng = np.random.default_rng(6)
    rows, columns = 60, 300
    divisors = (2.0 ** rng.uniform(-120, 60, (rows, 1)) * rng.choice([-1, 1], (rows, 1))).astype(np.float32)
    if not ordinary:
        divisors[::3] = special(rng, (rows // 3, 1), np.dtype("f4"))
    info = np.iinfo(output)
    x = near_ties(rng, np.broadcast_to(divisors, (rows, columns)), np.dtype("f4"), 2 * (info.max - info.min))
    x[:, : SPECIAL.size] = SPECIAL
    shape = {"one": (), "vector": (rows, 1)}.get(zero)
    zero_point = None if zero is None else data("any bits", 3, shape, output)
    agrees(x, divisors, zero_point, output_dtype=output)


SHAPES = (5, 7, 6)


@grid(
    axis=[0, OneOf(1, 2, -1)], scale=[OneOf("one", "of one"), "vector"], zero=[None, OneOf("one", "vector")],
)  # fmt: skip
def test_vectors_belong_to_an_axis(axis, scale, zero):
    rng = np.random.default_rng(4)
    shapes = {"one": (), "of one": (1,), "vector": (SHAPES[axis],)}
    zero_point = None if zero is None else data("any bits", 3, shapes[zero], np.int8)
    agrees(near_ties(rng, np.ones(SHAPES), np.dtype("f4"), 99), scales(rng, shapes[scale], np.dtype("f4")), zero_point,
        axis=axis, output_dtype="int8")  # fmt: skip


BLOCKS = {
    "one axis": (1, 3, (5, 3, 6), (5, 3, 6)),
    "a single block": (0, 99, (1, 7, 6), (1, 7, 1)),
    "two axes": ((0, -1), (1, 4), (5, 1, 2), (1, 1, 1)),
    "two axes with one size": ((0, 2), 5, (1, 7, 2), (1, 1, 2)),
}


@pytest.mark.parametrize("case", BLOCKS)
def test_blocks_have_a_scale_each(case):
    axis, block_size, scale, zero = BLOCKS[case]
    rng = np.random.default_rng(5)
    x = near_ties(rng, np.ones(SHAPES), np.dtype("f4"), 99)
    zero_point = data("any bits", 3, zero, np.uint8)
    agrees(x, rng.uniform(0.5, 2, scale).astype("f4"), zero_point, axis=axis, block_size=block_size)


def test_one_element_and_none():
    agrees(np.float32(2.5), np.float32(1), output_dtype="int8")
    none = quantize(np.zeros((0, 3), np.float32), np.ones((1, 3), np.float32), np.uint8(3))
    assert_same_bits(none, np.zeros((0, 3), np.uint8))


def test_the_dtype_of_the_output():
    x = np.float32([300, -300])
    assert quantize(x, 1.0, output_dtype="uint8").tolist() == [255, 0]
    assert quantize(x, 1.0, output_dtype="int16").tolist() == [300, -300]
    for zero_point, output_dtype, dtype in (
        *((np.int8(0), None, np.int8), (5, "uint8", np.uint8), (-3, np.int8, np.int8), (None, "uint16", np.uint16)),
    ):
        assert jax.eval_shape(partial(quantize, output_dtype=output_dtype), x, 1.0, zero_point).dtype == dtype


@quick
@pytest.mark.parametrize("x64", [False, True])
def test_python_numbers_are_float32_scales(x64):
    x = np.float32([0.35, -1.25, 8])
    with jax.enable_x64(x64):
        call = quantize if x64 else jaxdml.quantize_linear
        assert_same_bits(
            call(x, 0.1, 3, output_dtype="uint8"), reference.quantize_linear(x, np.float32(0.1), np.uint8(3))
        )


def test_what_the_caller_has_rounded_stays_rounded():
    x = np.linspace(-3, 3, 999, dtype=np.float32)
    for dtype in (jnp.float16, jnp.bfloat16):
        got = jax.jit(lambda x, dtype=dtype: jaxdml.quantize_linear(x.astype(dtype), 0.013, np.uint8(128)))(x)
        assert_same_bits(got, reference.quantize_linear(x.astype(dtype), np.float32(0.013), np.uint8(128)))


def test_no_quotient_of_an_element_is_computed():
    lowered = quantize.lower(jnp.ones(77), jnp.float32(3), np.int8(0)).as_text()
    divisions = [line for line in lowered.splitlines() if "divide" in line]
    assert divisions
    assert not any("77" in line for line in divisions)


@quick
@grid(axes=[(0, None, None), (None, 0, 0), (1, 0, None)])
def test_vmap_over_any_argument_is_a_loop(axes):
    rng = np.random.default_rng(6)
    whole = rng.standard_normal((3, 4)).astype("f4"), rng.uniform(1, 2, (3, 4)).astype("f4"), np.int8(np.arange(3))
    given = [x[0] if axis is None else np.moveaxis(x, 0, axis) for x, axis in zip(whole, axes, strict=True)]
    got = jax.jit(jax.vmap(partial(jaxdml.quantize_linear), in_axes=axes))(*given)
    for i in range(3):
        one = (x[0 if axis is None else i] for x, axis in zip(whole, axes, strict=True))
        assert_same_bits(got[i], reference.quantize_linear(*one))


@quick
def test_derivatives_are_zero():
    x = np.float32([1.4, 2.6])

    def loss(x, scale):
        return (x * jaxdml.quantize_linear(x, scale, output_dtype="uint8").astype(jnp.float32)).sum()

    of_x, of_scale = jax.jit(jax.grad(loss, (0, 1)))(x, np.float32(0.5))
    assert_same_bits(of_x, np.float32([3, 5]))
    assert_same_bits(of_scale, np.float32(0))


Q = "jaxdml.quantize_linear: "
X = np.zeros((2, 5), np.float32)
NUMBER = "x: float32[2, 5], scale: float, zero_point: None"
SHOWN = "x: float32[2, 5], scale: float32[{}], zero_point: None"


def call(x=X, scale=1.0, zero_point=None, output_dtype="uint8", **options):
    return lambda: jaxdml.quantize_linear(x, scale, zero_point, output_dtype=output_dtype, **options)


REFUSALS = {
    "float64": (call(np.zeros(3, bool)), TypeError,
        "x must be one of float32, float16, bfloat16, int32; got bool.", "x: bool[3]",
        "Convert x with .astype first."),
    "a scale of integers": (call(scale=np.int32(3)), TypeError,
        "scale must be one of float32, float16, bfloat16; got int32.", "scale: int32[]",
        "Convert scale with .astype first."),
    "a scale that is a list": (call(scale=[1.0]), TypeError, "scale must be an array.", "scale: list",
        "Pass jnp.asarray(scale)."),
    "a scale of 0": (call(scale=0.0), ValueError,
        "scale must be a finite float32, not 0 and not subnormal; got 0.0.",
        "scale: float",
        "Pass a scale from 1.1754943508222875e-38 to 3.4028234663852886e+38 in magnitude."),
    "a zero point that does not fit": (call(zero_point=256), ValueError,
        "zero_point must be an integer from 0 to 255; got 256.",
        "zero_point: int", "Pass zero_point as uint8."),
    "a zero point of another dtype": (call(zero_point=np.int8(3), output_dtype="uint8"), TypeError,
        "zero_point must be uint8; got int8.", "zero_point: int8[]", "Pass zero_point as uint8."),
    "a wide zero point": (call(zero_point=np.int32(3), output_dtype=None), TypeError,
        "the output's dtype must be one of int8, uint8, int16, uint16; got int32.", "zero_point: int32[]",
        "Pass zero_point as int8 or uint8."),
    "a wide output": (call(output_dtype="int32"), TypeError,
        "the output's dtype must be one of int8, uint8, int16, uint16; got 'int32'.", "zero_point: None",
        "Pass output_dtype='int8' or 'uint8'."),
    "no output": (call(output_dtype="word"), TypeError,
        "the output's dtype must be one of int8, uint8, int16, uint16; got 'word'.", "zero_point: None",
        "Pass output_dtype='int8' or 'uint8'."),
    "no dtype at all": (call(output_dtype=None), TypeError,
        "output_dtype, or the dtype of zero_point, must say what quantize_linear returns; got neither.",
        "zero_point: None", "Pass output_dtype='int8', or zero_point=np.int8(0)."),
    "a zero point without a dtype": (call(output_dtype=None, zero_point=3), TypeError,
        "output_dtype, or the dtype of zero_point, must say what quantize_linear returns; got neither.",
        "zero_point: int", "Pass output_dtype='int8', or zero_point=np.int8(0)."),
    "a scale that does not broadcast": (call(scale=np.ones(2, np.float32)), TypeError,
        "scale must be one value, or broadcast to [2, 5]; got [2].", "x: float32[2, 5], scale: float32[2]",
        "Pass axis if scale has a value for each index of one axis."),
    "a vector of another axis": (call(scale=np.ones(2, np.float32), axis=1), TypeError,
        "scale must be one value, or 5, one for each index of axis 1; got [2].", "x: float32[2, 5], scale: float32[2]",
        "Pass scale as a vector, or leave out axis if it broadcasts."),
    "no vector": (call(scale=np.ones((2, 1), np.float32), axis=0), TypeError,
        "scale must be one value, or 2, one for each index of axis 0; got [2, 1].",
        "x: float32[2, 5], scale: float32[2, 1]", "Pass scale as a vector, or leave out axis if it broadcasts."),
    "axis out of range": (call(axis=2), ValueError,
        "axis must be between -2 and 1 for rank 2; got axis=2.", NUMBER, "Pass axis=-1 for the last one."),
    "blocks of no axis": (call(block_size=2), ValueError,
        "block_size needs the axis that is divided into blocks; got axis=None.", NUMBER,
        "Pass axis, or leave out block_size."),
    "blocks of nothing": (call(axis=1, block_size=0), ValueError, "block_size must be at least 1; got 0.",
        NUMBER, "Leave it out for a single block."),
    "more sizes than axes": (call(axis=1, block_size=(2, 2)), ValueError,
        "block_size must be one size for each of different axes; got axis=1, block_size=(2, 2).", NUMBER,
        "Pass one size for each axis."),
    "an axis twice": (call(axis=(1, -1), block_size=2), ValueError,
        "block_size must be one size for each of different axes; got axis=(1, -1), block_size=2.", NUMBER,
        "Pass one size for each axis."),
    "a block too few": (call(scale=np.ones((2, 2), np.float32), axis=1, block_size=2), TypeError,
        "scale must broadcast to [2, 3], one value for each block; got [2, 2].", SHOWN.format("2, 2"),
        "Give it the rank of x, and a value for the last block even if that is shorter."),
    "blocks of a vector": (call(scale=np.ones(3, np.float32), axis=1, block_size=2), TypeError,
        "scale must broadcast to [2, 3], one value for each block; got [3].", SHOWN.format("3"),
        "Give it the rank of x, and a value for the last block even if that is shorter."),
    "a traced block size": (
        lambda: jax.jit(lambda size: jaxdml.quantize_linear(X, 1.0, np.int8(0), axis=1, block_size=size))(2), TypeError,
        "block_size must be static; got a traced value.", NUMBER.replace("None", "int8[]"),
        "Name block_size in jax.jit's static_argnames, or close over it."),
}  # fmt: skip


@quick
@pytest.mark.parametrize("why", REFUSALS)
def test_a_refusal_says_what_to_write_instead(why):
    refused, error, rule, shown, advice = REFUSALS[why]
    with pytest.raises(error) as caught:
        refused()
    assert str(caught.value) == "\n  ".join([Q + rule, shown, advice])

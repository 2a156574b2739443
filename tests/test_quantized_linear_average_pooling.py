"""The laws of quantized_linear_average_pooling, against the oracle, in rational numbers, and by themselves."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdml
from jaxdml import reference
from jaxdml._arithmetic.windows import Windows
from jaxdml._kernels.average_pooling import pools
from jaxdml._kernels.average_pooling.pools import LARGEST_WINDOW, window_sums
from jaxdml._kernels.average_pooling.rounded_mean import rounded_mean
from tests.kit import assert_same_bits, compiled, quick
from tests.kit.forms import forms_of
from tests.test_quantized_linear_matrix_multiply import integers

pool = jaxdml.quantized_linear_average_pooling

AT_ONCE = 2**16


@jax.jit
def many_means(total, count, x_scale, output_scale):
    """Round each mean with scales and a number of elements of its own."""
    return rounded_mean(total, count, x_scale, output_scale)


def judged(total, count, x_scale, output_scale):
    """Compare the means with those of integers of any size; return how many tie, and how many nearly do.

    From 255 on a mean saturates with every zero point, and may be any number that does.
    """
    got = np.clip(many_means(total, count, x_scale, output_scale), -255, 255)
    (mx, ex), (mo, eo) = (np.frexp(scale.astype(np.float64)) for scale in (x_scale, output_scale))
    over, under = (
        total.astype(object) * (mx * 2**24).astype(np.int64),
        count.astype(object) * (mo * 2**24).astype(np.int64),
    )
    up = (ex - eo).astype(object)
    over, under = over * 2 ** np.maximum(up, 0), under * 2 ** np.maximum(-up, 0)
    twice, unit = 2 * over + under, 2 * under
    twice, unit = np.where(unit < 0, -twice, twice), np.abs(unit)
    above, rest = twice // unit, twice % unit
    want = above - ((rest == 0) & (above % 2 == 1))
    np.testing.assert_array_equal(got, np.clip(want, -255, 255).astype(np.int32))
    near = np.minimum(rest, unit - rest) * 2**28 < unit
    return int((rest == 0).sum()), int(near.sum())


def test_every_mean_is_rounded_correctly():
    rng = np.random.default_rng(0)
    count = np.choose(
        np.arange(AT_ONCE) % 3,
        [2 ** rng.integers(0, 7, AT_ONCE), *rng.integers(1, (65, LARGEST_WINDOW), (AT_ONCE, 2)).T],
    )
    count[:9] = LARGEST_WINDOW
    total = (rng.uniform(-255, 255, AT_ONCE) * count).astype(np.int64)
    total[:4] = [255 * LARGEST_WINDOW, -255 * LARGEST_WINDOW, 1, -1]
    exponent = rng.integers(-60, 60, AT_ONCE)
    # Every exponent of the ratio that matters, and some beyond.
    ratio = np.arange(AT_ONCE) % 60 - 20
    fractions = np.where(rng.random((2, AT_ONCE)) < 0.3, 1.0, rng.uniform(1, 2, (2, AT_ONCE)).astype(np.float32))
    scales = [np.ldexp(f, e).astype(np.float32) for f, e in zip(fractions, (exponent + ratio, exponent), strict=True)]
    scales[0] *= rng.choice([1, 1, -1], AT_ONCE).astype(np.float32)
    ties, _ = judged(total.astype(np.int32), count.astype(np.int32), *scales)
    assert ties > 100


def test_means_next_to_ties_are_no_ties():
    rng = np.random.default_rng(1)
    # With N * ma = (2 * f + 1) * mo * n / 2 + side the mean misses a half by side / (mo * n).
    n, f, mo = rng.integers(1, 2**23, AT_ONCE), rng.integers(0, 200, AT_ONCE), rng.integers(2**22, 2**23, AT_ONCE) * 2
    side = rng.integers(-2, 3, AT_ONCE)
    half = (2 * f + 1) * (mo // 2) * n + side
    total = half // rng.integers(2**23, 2**24, AT_ONCE)
    total = np.clip(total, 1, 255 * n)
    ma = half // np.maximum(total, 1)
    kept = (ma >= 2**23) & (ma < 2**24)
    ma = np.where(kept, ma, 2**23)
    ties, near = judged(total.astype(np.int32), n.astype(np.int32), *(m.astype(np.float32) for m in (ma, mo)))
    assert near > 200
    # Windows of few elements: the numerator divides.
    n, total = np.full(AT_ONCE, 2), np.full(AT_ONCE, 1)
    mo = rng.integers(2**22, 2**23, AT_ONCE) * 2
    ma = mo // 2 * 2 + side
    ties, near = judged(total.astype(np.int32), n.astype(np.int32), ma.astype(np.float32), mo.astype(np.float32))
    assert ties > 1000


def test_the_least_and_the_greatest_sums_of_the_largest_windows_are_rounded_correctly():
    # Exponents at which every mean is 0, at which some are, and at which all but 0 saturate.
    sums = [-255 * LARGEST_WINDOW, -255, -1, 0, 1, 3, 255 * LARGEST_WINDOW]
    exponent, total = np.meshgrid(np.arange(-40, 60), sums)
    count = np.full(total.size, LARGEST_WINDOW, np.int32)
    for x_mantissa, output_mantissa in [(1, 1), (1, 2 - 2.0**-23), (2 - 2.0**-23, 1)]:
        x_scale = np.ldexp(np.float32(x_mantissa), exponent.ravel()).astype(np.float32)
        judged(total.ravel().astype(np.int32), count, x_scale, np.full_like(x_scale, output_mantissa))


OPTIONS = (
    {"window": 2, "strides": 2},
    {"window": 3, "start_padding": 1, "end_padding": (0, 2)},
    {"window": 3, "start_padding": 1, "end_padding": (0, 2), "include_padding": True},
    {"window": (1, 3), "dilations": 2, "strides": (3, 1)},
    {"window": (6, 5), "output_dtype": "int8"},
    # Each window has only padding at the start and at the end.
    {"window": 2, "start_padding": 3, "end_padding": 2, "strides": (1, 4)},
    {"window": (13, 2), "start_padding": 9, "end_padding": (8, 1), "dilations": (1, 3)},
    {"window": (3, 2), "start_padding": (9, 0), "dilations": (7, 1)},
)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_agrees_with_the_oracle(options):
    rng = np.random.default_rng(len(str(options)))
    x = integers(rng, np.uint8, (2, 3, 6, 5))
    given = (
        *(x, rng.uniform(0.01, 0.1, 3).astype(np.float32), integers(rng, np.uint8, ())),
        *(rng.uniform(0.01, 0.1, ()).astype(np.float32), integers(rng, np.int8, (1, 3, 1, 1))),
    )
    assert_same_bits(pool(*given, **options), reference.quantized_linear_average_pooling(*given, **options))


@pytest.mark.parametrize(
    ("order", "shape"),
    [
        ("NWC", (2, 7, 3)),
        (("NDHWC", "NCDHW"), (1, 3, 4, 5, 2)),
        (("CHWN", "HWIO", "NHWC"), (3, 4, 5, 2)),
        (jax.lax.ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2)), (2, 4, 5, 3)),
    ],
    ids=str,
)
def test_any_order_of_dimensions(order, shape):
    rng = np.random.default_rng(0)
    count = len(shape) - 2
    options = {"window": (2, 3, 1)[:count], "strides": (2, 1, 2)[:count], "end_padding": (1, 0, 0)[:count]}
    by_letters = "NHWC" if isinstance(order, jax.lax.ConvDimensionNumbers) else order
    x = integers(rng, np.int8, shape)
    of_x = by_letters if isinstance(by_letters, str) else by_letters[0]
    channels = shape[of_x.index("C")]
    given = x, rng.uniform(0.1, 1, channels).astype(np.float32), integers(rng, np.int8, channels), np.float32(0.3)
    want = reference.quantized_linear_average_pooling(*given, **options, dimension_numbers=by_letters)
    assert_same_bits(pool(*given, **options, dimension_numbers=order), want)


def test_one_dimension_with_the_longest_windows():
    x = np.full((1, 1, 70_000), 255, np.uint8)
    got = pool(x, 1.0, 0, 1.0, window=69_998, dimension_numbers="NCW")
    assert_same_bits(got, np.full((1, 1, 3), 255, np.uint8))
    whole = Windows((2,), (70_000,), (1,), (1,), (0,), (0,), 1)
    assert window_sums(jnp.asarray(x), whole).tolist() == [[[255 * 70_000]]]


@quick
@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 0, 3), (1, 2, 0)])
def test_empty_arrays(shape):
    got = pool(np.zeros(shape, np.int8), 1.0, None, 1.0, 7, window=2, start_padding=2)
    assert_same_bits(got, np.full((*shape[:2], shape[2] + 1), 7, np.int8))


def test_the_mean_of_padding_alone_is_the_zero_point():
    options = {"window": 2, "strides": 2, "start_padding": 2}
    given = np.full((1, 1, 2), 100, np.uint8), 0.5, 7, 0.5, 9
    assert pool(*given, **options).tolist() == [[[9, 102]]]
    assert pool(*given, **options, include_padding=True).tolist() == [[[9, 102]]]


@quick
def test_nothing_flows_back_from_a_result():
    x = np.full((1, 1, 2), 3, np.int8)

    def loss(scale):
        return (scale * pool(x, scale, None, 1.0, window=2).astype(jnp.float32)).sum()

    assert jax.jit(jax.grad(loss))(jnp.float32(2)) == 6


def test_a_mean_next_to_a_half_that_float32_gets_wrong():
    # 3 * 0.1 / (2 * 0.3) is not 1/2, because neither scale is a decimal.
    exact = Fraction(3, 2) * Fraction(float(np.float32(0.1))) / Fraction(float(np.float32(0.3)))
    assert exact != Fraction(1, 2)
    assert pool(np.int8([[[1, 2]]]), 0.1, None, 0.3, window=2).tolist() == [[[round(exact)]]]


X, S = np.zeros((1, 3, 4, 5), np.uint8), np.float32(1)
CALL = "jaxdml.quantized_linear_average_pooling: "
SHOWN = "x: uint8[1, 3, 4, 5]"


@pytest.mark.parametrize(
    ("shape", "options", "added"),
    [
        ((2, 7, 7, 5), {"window": 7}, True),
        ((2, 7, 7, 4), {"window": 7}, False),  # Few results.
        ((2, 8, 8, 6), {"window": 8}, True),
        ((2, 9, 8, 6), {"window": (9, 8)}, False),  # Many numbers.
        ((2, 2, 7, 6), {"window": (3, 7), "start_padding": (3, 0), "strides": 10}, False),  # Padding alone.
        ((3, 4, 6, 2), {"window": (4, 3), "strides": (1, 3)}, True),  # One window along one of the dimensions.
        ((2, 5, 3, 6), {"window": (7, 3), "start_padding": (1, 0), "end_padding": (1, 0)}, True),
    ],
)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_a_gpu_adds_the_numbers_of_a_window_that_is_a_whole_image(monkeypatch, shape, options, added, dtype):
    monkeypatch.setattr(pools, "_FEWEST_RESULTS", 10)
    x = integers(np.random.default_rng(0), dtype, shape)
    given = x, np.float32(0.3), np.asarray(5, dtype), np.float32(0.2), np.asarray(9, dtype)
    numbers = options | {"dimension_numbers": ("NHWC", "NHWC")}
    with forms_of("cuda"):
        text = jax.jit(lambda x: pool(x, *given[1:], **numbers)).lower(x).as_text()
        got = compiled(lambda x: pool(x, *given[1:], **numbers))(x)
    assert ("stablehlo.reduce" not in text) == added
    assert_same_bits(got, reference.quantized_linear_average_pooling(*given, **numbers))


def test_a_gpu_reduces_images_whose_channels_come_first():
    x = integers(np.random.default_rng(0), "int8", (2, 5, 7, 7))
    with forms_of("cuda"):
        text = jax.jit(lambda x: pool(x, S, None, S, window=7)).lower(x).as_text()
        got = compiled(lambda x: pool(x, S, None, S, window=7))(x)
    assert "stablehlo.reduce" in text
    assert_same_bits(got, reference.quantized_linear_average_pooling(x, S, None, S, window=7))


def refused(x=X, x_scale=S, x_zero_point=None, output_scale=S, output_zero_point=None, **options):
    with pytest.raises((TypeError, ValueError)) as caught:
        pool(x, x_scale, x_zero_point, output_scale, output_zero_point, **{"window": 2, **options})
    return f"{caught.type.__name__}: {caught.value}".split("\n  ")


@quick
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"x": X[0, 0]}, ["TypeError: " + CALL + "x must have at least three dimensions; got 2.", "x: uint8[4, 5]",
            "Give x as [N, C, *spatial]."]),
        ({"window": 6}, [
            "ValueError: " + CALL + "a window must have at most 4 elements along spatial dimension 0; got 6.", SHOWN,
            "Pad x more with start_padding or end_padding."]),
        ({"window": (2, 3, 1)}, [
            "ValueError: " + CALL + "window must be one integer, or one for each of the 2 spatial dimensions; got 3.",
            SHOWN, "Pass window as one integer if all are equal."]),
        ({"strides": 0}, ["ValueError: " + CALL + "strides must be at least 1; got 0.", SHOWN, "Pass strides=1."]),
        ({"end_padding": (0, -1)}, ["ValueError: " + CALL + "end_padding must be at least 0; got -1.", SHOWN,
            "Pass end_padding=0."]),
        ({"dilations": 1.5}, ["TypeError: " + CALL + "dilations must be an integer; got 1.5.",
            f"{SHOWN}, x_scale: float32[], x_zero_point: None, output_scale: float32[], output_zero_point: None",
            "Pass dilations as a Python int."]),
        ({"window": 3000, "start_padding": 3000}, [
            "ValueError: " + CALL + "a window must have at most 8421504 elements; got 9000000.", SHOWN,
            "Average parts of it first."]),
        ({"include_padding": 1}, ["TypeError: " + CALL + "include_padding must be True or False; got 1.", SHOWN,
            "Pass include_padding=True to count the padding."]),
        ({"dimension_numbers": "NHW"}, [
            "ValueError: " + CALL + "dimension_numbers must say where the 4 dimensions of x are; got 'NHW'.", SHOWN,
            "Pass a string such as 'NHWC', or None for channels first."]),
        ({"dimension_numbers": jax.lax.ConvDimensionNumbers(*((0, 1, 2, 2),) * 3)}, [
            "ValueError: " + CALL + "dimension_numbers must say where the 4 dimensions of x are; got "
            "ConvDimensionNumbers(lhs_spec=(0, 1, 2, 2), rhs_spec=(0, 1, 2, 2), out_spec=(0, 1, 2, 2)).", SHOWN,
            "Pass a string such as 'NHWC', or None for channels first."]),
        ({"x_scale": np.ones(4, np.float32)}, [
            "TypeError: " + CALL + "x_scale must be one value, or one per channel, 3, or broadcast to [1, 3, 1, 1]; "
            "got [4].", f"{SHOWN}, x_scale: float32[4]", "Pass x_scale with shape () or (3,)."]),
        ({"output_zero_point": np.zeros((1, 1, 4, 1), np.uint8)}, [
            "TypeError: " + CALL + "output_zero_point must be one value, or one per channel, 3, or broadcast to "
            "[1, 3, 1, 1]; got [1, 1, 4, 1].", f"{SHOWN}, output_zero_point: uint8[1, 1, 4, 1]",
            "Pass output_zero_point with shape () or (3,)."]),
    ],
)  # fmt: skip
def test_refusals(given, said):
    assert refused(**given) == said


@quick
def test_a_traced_stride_is_refused():
    with pytest.raises(TypeError, match="strides must be static; got a traced value"):
        jax.eval_shape(lambda stride: pool(X, S, None, S, window=2, strides=(1, stride)), 1)


@quick
def test_a_sharded_spatial_dimension_is_refused():
    mesh = jax.make_mesh((1,), ("x",))
    x = jax.device_put(X, jax.NamedSharding(mesh, jax.P(None, None, "x")))
    assert refused(x=x) == [
        "ValueError: " + CALL + "spatial dimension 0 must be whole on every device; it is sharded over 'x'.", SHOWN,
        "Reshard x with jax.sharding.reshard.",
    ]  # fmt: skip


@quick
def test_symbolic_spatial_dimensions_are_refused():
    (n,) = jax.export.symbolic_shape("n")
    x = jax.ShapeDtypeStruct((1, 3, n, 5), "uint8")
    with pytest.raises(ValueError, match="the spatial dimensions must be known numbers; got \\[n, 5\\]"):
        jax.eval_shape(lambda x: pool(x, 1.0, None, 1.0, window=2), x)

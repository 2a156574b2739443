"""Sums that CUDA rounds in the kernel of a product have the bits of the oracle, by factors that are proved."""

import pickle
import re
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import PartitionSpec as P

import jaxdml
from jaxdml import reference
from jaxdml._arithmetic.nearest import TO_INTEGER
from jaxdml._functions import prepack_filters
from jaxdml._kernels import requantization
from jaxdml._kernels.integer_convolution import kernel
from jaxdml._kernels.requantization import chain_factors, float32_chain
from jaxdml._kernels.requantization.chain_factors import factors, shifted_factors
from jaxdml._kernels.requantization.float32_chain import Chain, round_chain
from jaxdml._placement.options import INTEGERS
from tests.kit import assert_same_bits, compiled
from tests.kit.forms import forms_of
from tests.kit.known_parameters import COLUMNS, PARAMETERS, lowered, named
from tests.kit.meshes import COUNT, mesh_of, needs_devices

# In float64 the products of these with sums are exact, so they round every sum correctly.
SIZES = np.float32([0.75, 0.5, 3 / 8, 0.1, 1 / 200, 0.0123, 0.00437, 0.0019, 0.00091, 2.0**-9, 3.7]).astype(np.float64)
SMALL = np.random.default_rng(0).uniform(0.001, 0.002, 64).astype(np.float32).astype(np.float64)


def rounded(sums, factor):
    """Round products of integers with a factor as real numbers, ties to even."""
    over, under = float(factor).as_integer_ratio()
    products = sums.astype(object) * over
    whole, rest = products // under, products % under
    return (whole + ((2 * rest > under) | ((2 * rest == under) & (whole % 2 == 1)))).astype(np.int64)


@pytest.mark.parametrize(("odd", "ties"), [(False, True), (True, True), (True, False)])
@pytest.mark.parametrize(("greatest", "reach"), [(2**24, 255), (2**24, 128), (1000, 255)])
def test_factors_round_the_sums_beside_every_half_as_real_numbers_are_rounded(greatest, reach, odd, ties):
    multipliers = SIZES * np.where(np.arange(SIZES.size) % 2, -1, 1)
    if not ties:
        multipliers = multipliers[~chain_factors._have_ties(np.abs(multipliers), greatest, reach)]
    first, second, at_once = factors(multipliers, greatest, reach, odd)
    assert multipliers.size >= 4
    assert at_once == (not odd or not ties)
    for multiplier, *pair in zip(multipliers, first, second, strict=True):
        halves = np.arange(-reach, reach) + 0.5
        sums = np.unique(np.floor(halves / multiplier)[:, None] + np.arange(-1, 3)).astype(np.int64)
        sums = sums[np.abs(sums) <= greatest]
        once = sums.astype(np.float32) * pair[0]
        wanted = np.clip(rounded(sums, multiplier), -reach, reach)
        for exact in (np.float32, np.float64):  # A device may round the last product before it is rounded, or not.
            products = once.astype(exact) * exact(pair[1])
            offset = 7 if at_once and odd else 0
            got = np.rint(products.astype(float) + offset) - offset
            np.testing.assert_array_equal(np.clip(got, -reach, reach), wanted)


def test_float32_multipliers_alone_would_not_do():
    sums, nearest = chain_factors._decisive(SMALL, 0, 2**24, np.arange(256) + 0.5)
    first, second, _ = factors(SMALL, 2**24, 255, odd=False)
    narrow = sums.astype(np.float32)
    assert (np.minimum(np.rint(narrow * np.float32(SMALL)[:, None]), 256) != nearest).any()
    assert (np.minimum(np.rint(narrow * first[:, None] * second[:, None]), 256) == nearest).all()


def test_there_need_be_no_factors(monkeypatch):
    assert factors(np.array([0.5, 1e-4]), 2**24, 255, odd=False) is None
    monkeypatch.setattr(chain_factors, "_BITS", 1)
    first, second, _ = factors(SIZES[:3], 2**24, 255, odd=False)
    np.testing.assert_array_equal(first.astype(float) * second, SIZES[:3])
    monkeypatch.setattr(chain_factors, "_TRIALS", 0)
    assert factors(SMALL, 2**24, 255, odd=False) is None


def test_factors_may_be_found_at_random(monkeypatch):
    monkeypatch.setattr(chain_factors, "_BITS", 1)
    sums, nearest = chain_factors._decisive(SMALL, 0, 2**24, np.arange(256) + 0.5)
    first, second, _ = factors(SMALL, 2**24, 255, odd=False)
    assert (np.minimum(np.rint(sums.astype(np.float32) * first[:, None] * second[:, None]), 256) == nearest).all()


def assert_rounds(multipliers, ends, limits, found, subtracted):
    """Compare a chain with real numbers, beside every half and at the ends."""
    dtype = found.subtracted.dtype
    low, high = (np.broadcast_to(end, multipliers.shape) for end in ends)
    for at, by in enumerate(multipliers):
        halves = np.clip(np.floor((np.arange(*limits) + 0.5) / by), -(2**40), 2**40)
        sums = np.union1d(halves[:, None] + np.arange(-2, 4), np.linspace(low[at], high[at], 999)).astype(np.int64)
        sums = sums[(sums >= low[at]) & (sums <= high[at])]
        stored = jnp.asarray((sums + subtracted[at]).astype(dtype))
        offset = np.float32(found.middle[at] - 128 - limits[0])
        vectors = found.subtracted[at], found.first[at], found.second[at], offset + TO_INTEGER
        wanted = np.clip(rounded(sums, by), *limits) - 128 - limits[0]
        by_chain = Chain(*vectors, of="", at_once=found.at_once)
        for adds in (False, True):
            got = np.asarray(round_chain(stored, by_chain, np.dtype("int8"), adds=adds))
            np.testing.assert_array_equal(got, wanted)
        difference = np.asarray(stored).astype(dtype) - found.subtracted[at]
        products = (difference.astype(np.float32) * found.first[at]).astype(np.float64) * found.second[at]
        got = np.rint(products + offset) if found.at_once else np.rint(products) + offset
        np.testing.assert_array_equal(np.clip(got, -128, 127), wanted)


def test_sums_that_reach_no_half_have_factors_whatever_the_multiplier_is():
    """The filters of a trained network may be nearly zero, and their bias may be anything."""
    multipliers = np.float32([1e-9, 2.0**-40, 1e-30, 3e-9, 3e-9, -3e-9, 1e-6]).astype(np.float64)
    middle = np.array([0, 0, 0, 10**9, 1_300_000_000, -1_300_000_000, 2_500_000])
    ends, limits = (middle - 2**20, middle + 2**20), (0, 255)
    subtracted = -middle
    found = shifted_factors(multipliers, ends, limits, subtracted, 2**20)
    assert_rounds(multipliers, ends, limits, found, subtracted)
    # All but the last one have one result, so no large number is subtracted.
    np.testing.assert_array_equal(found.subtracted, np.float32([0, 0, 0, 0, 0, 0, -2_500_000]))
    assert shifted_factors(np.array([1e-6]), (-(2**30), 2**30), limits, np.zeros(1, np.int64), 2**30) is None


@pytest.mark.parametrize("limits", [(0, 255), (-128, 127), (-255, 0), (-3, 252)])
@pytest.mark.parametrize("stored", [2**24, 2**30])
@pytest.mark.parametrize("room", [2**18, 2**23])
def test_sums_are_shifted_where_a_multiplier_is_small(limits, stored, room):
    """Those of trained networks differ from channel to channel."""
    rng = np.random.default_rng(1)
    # float32 holds what is subtracted, or what is stored, but not all.
    in_float32 = room < 2**22 or stored <= 2**24
    multipliers = np.exp2(rng.uniform(-12.2 if room < 2**22 else -11.2, -9, 64))
    ends, subtracted = (-(2**22) + 5, 2**22), rng.integers(-room, room, 64)
    found = shifted_factors(multipliers, ends, limits, subtracted, stored)
    assert found.subtracted.dtype == (np.float32 if in_float32 else np.int32)
    # Around 0 mostly nothing need be.
    assert (found.subtracted != subtracted).any() or sum(limits) == -1
    assert_rounds(multipliers, ends, limits, found, subtracted)


@pytest.mark.parametrize("limits", [(0, 255), (-3, 252)])
def test_ties_are_rounded_before_an_odd_zero_point_is_added(limits):
    """Scales that are powers of two make ties, of every 2**9-th sum here."""
    multipliers = np.float32([2.0**-9, 0.0123, 2.0**-11]).astype(np.float64)
    ends, none = (-(2**22) + 5, 2**22), np.zeros(3, np.int64)
    found = shifted_factors(multipliers, ends, limits, none, 2**24)
    assert found.at_once == (limits[0] % 2 == 0)
    assert_rounds(multipliers, ends, limits, found, none)


def test_sums_that_may_not_saturate_are_integers():
    """float32 rounds sums beyond 2**24, which must not matter."""
    ends, none = (-(2**17), 2**17), np.zeros(1, np.int64)
    for multiplier, dtype in ((2.0**-14, np.float32), (2.0**-14.5, np.int32)):
        found = shifted_factors(np.array([multiplier]), ends, (0, 255), none, 2**30)
        assert found.subtracted.dtype == dtype


def test_sums_are_not_shifted_where_no_shift_serves(monkeypatch):
    multipliers, ends = np.exp2(np.random.default_rng(2).uniform(-10.9, -10.4, 8)), (-(2**22), 2**22)
    none, limits = np.zeros(8, np.int64), (0, 255)
    assert shifted_factors(multipliers, ends, limits, none, 2**20).subtracted.any()
    monkeypatch.setattr(chain_factors, "_around_the_middle", lambda *given: None)
    found = shifted_factors(multipliers, ends, limits, none, 2**20)
    assert not found.subtracted.any()
    assert_rounds(multipliers, ends, limits, found, none)
    monkeypatch.setattr(chain_factors, "_TRIALS", 0)
    assert shifted_factors(multipliers, ends, limits, none, 2**20) is None


def test_no_shift_serves(monkeypatch):
    shifted = partial(chain_factors._around_the_middle, at_once=True)
    given = (2.0**-11.3, (-(2**22), 2**22), (0, 255))
    assert shifted(*given, 0)
    assert shifted(*given, 2**23) is None  # float32 would not hold the sum with the shift.
    assert shifted(given[0], (-(2**31) + 99, 2**22), given[2], None) is None  # Nor would int32.
    assert shifted(2.0**-15, *given[1:], 0) is None
    monkeypatch.setattr(chain_factors, "_TRIALS_AROUND_THE_MIDDLE", 0)
    assert shifted(*given, 0) is None


JOINED = np.array([0.0010520213010644097, 0.001241675714094345, 0.0010048994149885757, 0.0013032010126642452])
"""Multipliers whose two factors, joined to one float32, round some sum wrongly, however products are rounded."""


@pytest.mark.parametrize(("adds", "at_once"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("columns", [None, 1, 3])
def test_factors_that_are_constants_of_a_program_stay_two(columns, adds, at_once):
    """XLA joins two constants that a number is multiplied by, and vectors of one number are such constants to it."""
    for multiplier in JOINED:
        sums, nearest = chain_factors._decisive(np.array([multiplier]), 0, 2**24, np.arange(127) + 0.5)
        wanted = np.clip(nearest[0], -128, 127).astype(np.int8)
        first, second, _ = factors(np.array([multiplier]), 2**24, 128, odd=False)
        for exact in (np.float32, np.float64):
            products = np.rint(sums[0].astype(np.float32).astype(exact) * exact(first * second))
            assert (np.clip(products, -128, 127) != wanted).any()
        shape = () if columns is None else (1, columns)
        vectors = (np.broadcast_to(x, shape) for x in (first[0], second[0], TO_INTEGER))
        by = Chain(() if columns is None else np.zeros(shape, np.int32), *vectors, of="", at_once=at_once)
        total = np.int32(sums[0] if columns is None else np.repeat(sums[0][:, None], columns, 1))
        program = (
            jax.jit(lambda total, by=by: round_chain(total, by, np.dtype("int8"), adds=adds)).lower(total).compile()
        )
        got = np.asarray(program(total))
        np.testing.assert_array_equal(got.reshape(len(wanted), -1), np.repeat(wanted[:, None], columns or 1, 1))
        # A product of the factors alone has the shape of these.
        of_sums = rf"f32\[{','.join(map(str, total.shape))}\](?:\{{[\d,]*\}})? multiply\("
        assert len(re.findall(of_sums, program.as_text())) == 2


@pytest.mark.parametrize("seed", range(2))
def test_weights_that_are_constants_of_a_program_round_as_arguments_do(seed, on_gpu):
    rng = np.random.default_rng(seed)
    b = np.repeat(np.int8([127, 1]), 64)[:, None].repeat(8, 1)
    scales = [np.float32(rng.uniform(low, high)) for low, high in ((0.01, 0.05), (0.001, 0.002), (0.4, 0.6))]
    multiplier = np.prod(np.float64(scales[:2])) / np.float64(scales[2])
    sums = np.unique(np.floor((np.arange(127) + 0.5) / multiplier)[:, None] + [0, 1]).astype(np.int64)
    a = np.zeros((sums.size, 128), np.uint8)  # Each row has one of these sums with the columns.
    for row, total in zip(a, sums[sums < 127 * 64 * 255], strict=False):
        many, few = divmod(int(total), 127)
        row[:64], row[64:] = many // 64, few // 64
        row[: many % 64] += 1
        row[64 : 64 + few % 64] += 1
    names = [f"{name}_{what}" for name in ("a", "b", "output") for what in ("scale", "zero_point")]
    known = dict(zip(names, (scales[0], np.uint8(0), scales[1], np.int8(0), scales[2], np.int8(0)), strict=True))
    packed = jaxdml.prepack(b, parameters=known)
    assert packed.chain
    with forms_of("cuda", INTEGERS):
        program = jax.jit(lambda a: jaxdml.quantized_linear_matrix_multiply(a, b=packed, **known)).lower(a).compile()
    assert_same_bits(program(a), reference.quantized_linear_matrix_multiply(a, b=b, **known))


@pytest.mark.parametrize(("dtype", "zero"), [("int8", 0), ("int8", -128), ("int8", 3), ("uint8", 255), ("uint8", 7)])
@pytest.mark.parametrize("stored", ["int32", "float32"])
@pytest.mark.parametrize("subtracted", ["int32", "float32"])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_a_chain_subtracts_scales_and_clamps(dtype, zero, stored, subtracted, adds, known):
    """Ties are among them, also with odd offsets: XLA may not add what is known before the rounding."""
    total = np.append(np.arange(-4000, 4000, 7), [-(2**30), 2**30]).astype(stored)[:, None]
    offset = np.float32([[zero, zero]]) - (128 if dtype == "uint8" else 0) + TO_INTEGER
    vectors = np.array([[5, -9]], subtracted), np.float32([[0.25, 0.5]]), np.float32([[1, 0.5]]), offset
    by = Chain(*vectors, of="", at_once=zero % 2 == 0)
    round_by = partial(round_chain, dtype=np.dtype(dtype), adds=adds)
    got = jax.jit(partial(round_by, by=by))(total) if known else jax.jit(round_by)(total, by)
    limits = np.iinfo(dtype)
    wanted = np.clip(np.rint((total.astype(np.float64) - by.subtracted) * 0.25) + zero, limits.min, limits.max)
    assert_same_bits(got, wanted.astype(dtype))


RNG = np.random.default_rng(0)


@pytest.mark.parametrize("w_dtype", ["int8", "uint8"])
@pytest.mark.parametrize("shape", [(5, 32), (2, 5, 32)])
def test_a_product_is_rounded_in_a_chain(on_gpu, w_dtype, shape):
    limits = np.iinfo(w_dtype)
    a = RNG.integers(0, 256, shape).astype(np.uint8)
    b = RNG.integers(limits.min, limits.max + 1, (32, COLUMNS)).astype(w_dtype)
    zero = np.asarray(0 if w_dtype == "int8" else 128, w_dtype)
    parameters = named("a", "b", w_zero=zero)
    packed = jaxdml.prepack(b, parameters=parameters)
    assert packed.chain.first.shape == (COLUMNS,)

    def product(a, b):
        return jaxdml.quantized_linear_matrix_multiply(a, b=b, **parameters)

    assert "f64" not in lowered(product, a, packed)
    wanted = reference.quantized_linear_matrix_multiply(a, b=b, **parameters)
    for options in ("", INTEGERS):
        with forms_of("cuda", options):
            assert_same_bits(compiled(product)(a, packed), wanted)
            assert_same_bits(compiled(product)(a, replace(packed, chain=())), wanted)


@pytest.mark.parametrize(("shape", "columns"), [((1, 50), 7), ((2, 3, 50), 1), ((2, 3, 16), 7)])
@pytest.mark.parametrize("packs", [False, True])
def test_one_row_or_column_and_a_short_k_are_right_in_tiles(on_gpu, shape, columns, packs):
    a = RNG.integers(0, 256, shape).astype(np.uint8)
    b = RNG.integers(-128, 128, (shape[-1], columns)).astype(np.int8)
    with forms_of("cuda", INTEGERS):
        given = jaxdml.prepack(b) if packs else b
        got = compiled(lambda a, b: jaxdml.matrix_multiply_integer(a, np.uint8(7), b, None))(a, given)
    assert_same_bits(got, reference.matrix_multiply_integer(a, np.uint8(7), b, None))


def test_layers_of_one_shape_share_a_program(on_gpu):
    """Their numbers are operands: XLA for CUDA compiles and times a kernel for each that is not."""
    a, b = np.zeros((5, 32), np.uint8), np.ones((32, COLUMNS), np.int8)
    texts = set()
    for changes in ({}, {"scale": np.float32(0.03), "zero_point": np.uint8(7), "output_zero_point": np.uint8(77)}):
        parameters = named("a", "b", w_zero=np.int8(0), **changes)
        packed = jaxdml.prepack(b, parameters=parameters)
        with forms_of("cuda"):
            call = jax.jit(lambda a, b, given=parameters: jaxdml.quantized_linear_matrix_multiply(a, b=b, **given))
            texts.add(call.lower(a, packed).compile().as_text())
    assert len(texts) == 1


WHOLE = {
    # As in attention there is nothing but the product. From a deep one terms of zero points are subtracted.
    "shallow": ((2, 3, 5, 64), (2, 3, 64, 7), {}),
    "of zeros": ((5, 64), (64, 7), {"a_zero_point": np.uint8(0), "b_zero_point": np.uint8(0)}),
    "deep": ((2, 3, 5, 1000), (2, 3, 1000, 7), {"output_scale": np.float32(0.4)}),
    "biased": ((5, 64), (64, 7), {"bias": np.arange(-3000, 4000, 1000).astype(np.int32)}),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_product_of_two_arrays_is_rounded_by_two_numbers(name):
    of_a, of_b, changes = WHOLE[name]
    a, b = (RNG.integers(0, 256, shape).astype(np.uint8) for shape in (of_a, of_b))
    known = {
        "a_scale": np.float32(0.013), "a_zero_point": np.uint8(113), "b_scale": np.float32(0.021),
        "b_zero_point": np.uint8(135), "output_scale": np.float32(0.11), "output_zero_point": np.uint8(121), **changes,
    }  # fmt: skip

    def product(a, b):
        return jaxdml.quantized_linear_matrix_multiply(a, b=b, **known)

    text = lowered(product, a, b)
    # The two numbers and the zero point are operands of the kernel, so that layers share it.
    barrier = next(line for line in text.splitlines() if "optimization_barrier" in line)
    assert barrier.endswith(": tensor<f32>, tensor<f32>, tensor<f32>")
    assert "f64" not in text
    # What float32 holds stays float32 until it is rounded.
    assert ("5x7xi32>" not in text.partition("stablehlo.maximum")[0]) == (name in ("shallow", "of zeros"))
    wanted = reference.quantized_linear_matrix_multiply(a, b=b, **known)
    for options in ("", INTEGERS):
        with forms_of("cuda", options):
            assert_same_bits(compiled(product)(a, b), wanted)


def test_numbers_that_round_are_sought_once(monkeypatch):
    sought, seek = [], chain_factors.factors
    monkeypatch.setattr(requantization, "factors", lambda *given: sought.append(given) or seek(*given))
    for _ in range(2):
        jaxdml.quantized_linear_matrix_multiply(
            np.uint8([[9]]), 0.01234, 3, np.int8([[7]]), 0.5, None, 0.25, np.uint8(4)
        )
    assert len(sought) == 1


def test_arrays_that_no_two_numbers_round():
    a, b = (RNG.integers(0, 256, shape).astype(np.uint8) for shape in ((5, 64), (64, 7)))
    for scale in (np.float32(2e-4), jnp.float32(0.1), np.float32([[0.1], [0.2], [0.3], [0.4], [0.5]])):
        known = {"a_scale": scale, "a_zero_point": 3, "b_scale": 1.0, "b_zero_point": 4, "output_scale": 2.0}

        def product(a, b, known=known):
            return jaxdml.quantized_linear_matrix_multiply(a, b=b, output_dtype="uint8", **known)

        assert "f64" in lowered(product, a, b) or isinstance(scale, jax.Array)
        with forms_of("cuda"):
            got = compiled(product)(a, b)
        assert_same_bits(got, reference.quantized_linear_matrix_multiply(a, b=b, output_dtype="uint8", **known))


LAYERS = {
    "1 x 1": ((2, 5, 4, 6), (COLUMNS, 6, 1, 1), {}),
    "strided": ((2, 5, 4, 6), (COLUMNS, 6, 1, 1), {"strides": 2}),
    "3 x 3": ((1, 5, 4, 16), (COLUMNS, 16, 3, 3), {"start_padding": 1}),
    "groups": ((1, 5, 4, 6), (COLUMNS, 2, 1, 1), {"group_count": 3}),
    "one channel each": ((1, 5, 4, COLUMNS), (COLUMNS, 1, 3, 3), {"group_count": COLUMNS, "end_padding": 2}),
    "one dimension": ((2, 7, 6), (COLUMNS, 6, 3), {}),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("last", [True, False])
def test_a_convolution_is_rounded_in_a_chain(on_gpu, name, last):
    shape, filters, options = LAYERS[name]
    x, w = RNG.integers(0, 256, shape).astype(np.uint8), RNG.integers(-128, 128, filters).astype(np.int8)
    spatial = "HW"[4 - x.ndim :]
    if last:
        options = options | {"dimension_numbers": (f"N{spatial}C", f"OI{spatial}", f"N{spatial}C")}
    else:
        x = np.moveaxis(x, -1, 1)
    parameters = named("x", "w", w_zero=None)
    packed = jaxdml.prepack_filters(w, parameters=parameters)
    assert packed.chain

    def convolve(x, w):
        return jaxdml.quantized_linear_convolution(x, w=w, **parameters, **options)

    assert "f64" not in lowered(convolve, x, packed)
    wanted = reference.quantized_linear_convolution(x, w=w, **parameters, **options)
    for kind in ("", INTEGERS):
        with forms_of("cuda", kind):
            assert_same_bits(compiled(convolve)(x, packed), wanted)


IN_PATCHES = {
    # The shape, the filters, options, and whether patches are copied as words.
    "3 x 3": ((2, 5, 4, 16), (COLUMNS, 16, 3, 3), {"start_padding": 1, "end_padding": 2}, True),
    "strided": ((1, 9, 7, 12), (COLUMNS, 12, 3, 2), {"strides": 2, "dilations": (2, 1)}, True),
    "groups": ((1, 5, 4, 8), (COLUMNS, 4, 3, 3), {"group_count": 2, "start_padding": 1}, True),
    "one dimension": ((2, 7, 8), (COLUMNS, 8, 3), {"start_padding": 2}, True),
    "no whole words": ((1, 5, 4, 12), (COLUMNS, 6, 3, 3), {"group_count": 2, "start_padding": 1}, False),
    "1 x 1": ((2, 5, 4, 16), (COLUMNS, 16, 1, 1), {"strides": 2}, False),
}


@pytest.mark.parametrize("name", IN_PATCHES)
@pytest.mark.parametrize(("dtype", "w_zero"), [("uint8", None), ("int8", None), ("uint8", np.int8(3))])
def test_patches_of_many_numbers_are_copied_as_words(on_gpu, name, dtype, w_zero, monkeypatch):
    shape, filters, options, in_words = IN_PATCHES[name]
    limits, spatial = np.iinfo(dtype), "HW"[4 - len(shape) :]
    x = RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)
    w = RNG.integers(-128, 128, filters).astype(np.int8)
    options = options | {"dimension_numbers": (f"N{spatial}C", f"OI{spatial}", f"N{spatial}C")}
    parameters = named("x", "w", w_zero=w_zero, zero_point=np.asarray(3, dtype))

    def convolve(x, w):
        return jaxdml.quantized_linear_convolution(x, w=w, **parameters, **options)

    wanted = reference.quantized_linear_convolution(x, w=w, **parameters, **options)
    for least in (1, kernel.MIN_NUMBERS_IN_WORDS):
        monkeypatch.setattr(kernel, "MIN_NUMBERS_IN_WORDS", least)
        for given in (w, jaxdml.prepack_filters(w, parameters=parameters)):
            with forms_of("cuda", INTEGERS):
                monkeypatch.setattr(kernel.cuda, "serves", lambda *given: False)
                text = jax.jit(convolve).lower(x, given).as_text()
                assert_same_bits(compiled(convolve)(x, given), wanted)
            joins = re.search(r"bitcast_convert .*x4xi8>\) -> tensor<[\dx]*xi32>", text)
            assert bool(joins) == (in_words and least == 1)


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize(
    ("options", "packs", "most"), [("", True, 2**25), (INTEGERS, False, 2**25), (INTEGERS, True, 9)]
)
def test_patches_are_multiplied_if_tiles_are_chosen(on_gpu, last, options, packs, most, monkeypatch):
    """Others, and if they have many numbers, are cuDNN's convolution."""
    w = RNG.integers(-128, 128, (COLUMNS, 16, 3, 3)).astype(np.int8)
    parameters = named("x", "w", w_zero=None)
    order = ("NHWC", "OIHW", "NHWC") if last else ("NCHW", "OIHW", "NCHW")

    def native(options, packs, dilations=1):
        where = {"start_padding": 1, "dilations": dilations, "dimension_numbers": order}
        convolve = partial(jaxdml.quantized_linear_convolution, **parameters, **where)
        x = np.zeros((1, 9, 8, 16) if last else (1, 16, 9, 8), np.uint8)
        given = jaxdml.prepack_filters(w, parameters=parameters) if packs else w
        with forms_of("cuda", options):
            return "stablehlo.convolution" in jax.jit(lambda x, w: convolve(x, w=w)).lower(x, given).as_text()

    assert native(INTEGERS, packs=True) == (not last)
    assert native(INTEGERS, packs=True, dilations=(1, 2))
    assert native(INTEGERS, packs=True, dilations=(2, 1)) == (not last)
    monkeypatch.setattr(kernel.cuda, "MIN_NUMBERS_IN_TILES", most)
    assert native(options, packs)


W = RNG.integers(-128, 128, (COLUMNS, 6, 1, 1)).astype(np.int8)
X = RNG.integers(0, 256, (1, 6, 4, 4)).astype(np.uint8)


def convolved(x, w, **parameters):
    return jaxdml.quantized_linear_convolution(x, w=w, **named("x", "w", w_zero=None, **parameters))


@pytest.mark.parametrize(
    "changes",
    [
        {"scale": np.float32(0.03)}, {"zero_point": np.uint8(4)}, {"w_zero": np.int8(1)}, {"bias": None},
        {"output_zero_point": np.uint8(8)}, {"output_scale": jnp.float32(0.07)}, {"w_scale": np.float32(0.5)},
    ],
)  # fmt: skip
def test_other_parameters_are_rounded_without_the_chain(on_gpu, changes):
    packed = jaxdml.prepack_filters(W, parameters=named("x", "w"))
    parameters = named("x", "w", **{"w_zero": None, **changes})

    def convolve(x, w):
        return jaxdml.quantized_linear_convolution(x, w=w, **parameters)

    with forms_of("cuda"):
        got = compiled(convolve)(X, packed)
    given = {name: None if value is None else np.asarray(value) for name, value in parameters.items()}
    assert_same_bits(got, reference.quantized_linear_convolution(X, w=W, **given))


ROWS = np.arange(1, COLUMNS + 1)
BY_ROW = {"scale": np.float32(ROWS) / 400, "zero_point": np.uint8(ROWS), "output_zero_point": np.uint8(ROWS)}
BY_ROW["output_scale"] = np.float32(ROWS) / 90


@pytest.mark.parametrize("name", BY_ROW)
def test_parameters_for_each_row_have_no_chain(on_gpu, name):
    """Also where there are as many rows as columns, so that their vectors would fit."""
    a = RNG.integers(0, 256, (COLUMNS, 32)).astype(np.uint8)
    b = RNG.integers(-128, 128, (32, COLUMNS)).astype(np.int8)
    parameters = named("a", "b", w_zero=np.int8(0), **{name: BY_ROW[name]})
    packed = jaxdml.prepack(b, parameters=parameters)
    assert packed.chain == ()
    # A chain of other parameters is not taken either.
    of_one = jaxdml.prepack(b, parameters=named("a", "b", w_zero=np.int8(0), **{name: BY_ROW[name][-1:]}))
    assert of_one.chain
    wanted = reference.quantized_linear_matrix_multiply(a, b=b, **parameters)
    with forms_of("cuda"):
        for given in (packed, of_one):
            got = compiled(lambda a, b: jaxdml.quantized_linear_matrix_multiply(a, b=b, **parameters))(a, given)
            assert_same_bits(got, wanted)


def test_equal_parameters_for_each_row_are_one(on_gpu):
    same = {name: np.full(5, PARAMETERS[name]) for name in BY_ROW}
    b = RNG.integers(-128, 128, (32, COLUMNS)).astype(np.int8)
    packed = jaxdml.prepack(b, parameters=named("a", "b", w_zero=np.int8(0), **same))
    assert packed.chain.of == jaxdml.prepack(b, parameters=named("a", "b", w_zero=np.int8(0))).chain.of


@pytest.mark.parametrize("name", ["w_scale", "w_zero", "bias"])
def test_parameters_that_fit_no_column_have_no_chain(on_gpu, name):
    wrong = np.ones(5, {"w_scale": np.float32, "w_zero": np.int8, "bias": np.int32}[name]) * np.arange(5)
    assert jaxdml.prepack_filters(W, parameters=named("x", "w", **{name: wrong})).chain == ()


def test_equal_parameters_are_known_however_they_are_given(on_gpu):
    packed = jaxdml.prepack_filters(W, parameters=named("x", "w"))
    given = {"scale": 0.02, "zero_point": 3, "bias": jaxdml.Known(PARAMETERS["bias"]), "output_scale": 0.07}
    assert "f64" not in lowered(lambda x, w: convolved(x, w, **given), X, packed)
    assert "f64" in lowered(lambda x, w: convolved(x, w, scale=0.03), X, packed)
    # A sum over devices has the terms of zero points already.
    assert "f64" in lowered(lambda x, w: convolved(x, w, **given), X, replace(packed, chain=()))


def test_no_chain_where_none_serves(on_gpu, monkeypatch):
    def chain(**changes):
        return jaxdml.prepack_filters(W, parameters=named("x", "w", **changes)).chain

    assert chain()
    assert chain(w_zero=np.int8(1)) == ()
    assert chain(scale=jnp.float32(0.02)) == ()
    assert chain(output_scale=np.float32(np.inf)) == ()
    deep = RNG.integers(-128, 128, (COLUMNS, 600, 1, 1)).astype(np.int8)
    assert jaxdml.prepack_filters(deep, parameters=named("x", "w", output_scale=np.float32(12))).chain == ()
    traced = jax.eval_shape(lambda w: jaxdml.prepack_filters(w, parameters=named("x", "w")), jnp.asarray(W))
    assert traced.sums.shape == (COLUMNS,)
    stack = jaxdml.prepack(np.zeros((2, 3, COLUMNS), np.int8), parameters=named("a", "b"))
    assert stack.chain == ()
    monkeypatch.setattr(prepack_filters, "is_on_gpu", lambda x: False)
    assert chain() == ()


def test_a_chain_subtracts_floats_if_float32_holds_all_that_it_adds_and_subtracts(on_gpu):
    held, wider = 2**24, 2**24 + 1

    def packed(depth, weight, bias):
        b = np.full((depth, COLUMNS), weight, np.int8)
        bias = np.full(COLUMNS, bias, np.int32)
        # With this zero point no column needs shifted sums.
        changes = {"zero_point": np.uint8(128), "output_zero_point": np.uint8(2), "bias": bias}
        return jaxdml.prepack(b, parameters=named("a", "b", **changes))

    for depth, weight, bias, dtype in [
        (1024, -128, held, "float32"),
        (1024, -128, wider, "int32"),
        (2048, 64, -held, "float32"),
        # Greater sums saturate, if not much is subtracted from them.
        (2048, 65, 0, "float32"),
        (2048, 65, -(2**22) - 1, "int32"),
    ]:
        chain = packed(depth, weight, bias).chain
        assert str(chain.subtracted.dtype) == dtype
        assert (chain.subtracted == -bias).all()


def test_a_chain_is_exported_and_pickled(on_gpu):
    packed = jaxdml.prepack_filters(jnp.asarray(W), parameters=named("x", "w"))
    wanted = convolved(X, W)
    again = pickle.loads(pickle.dumps(packed))
    assert jax.tree.structure(again) == jax.tree.structure(packed)
    written = export.export(jax.jit(convolved), platforms=["cpu", "cuda"])(X, packed).serialize()
    assert_same_bits(export.deserialize(written).call(X, again), wanted)
    assert float32_chain._static("of an earlier version") == ("of an earlier version", False)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"w_offset": 1}, ValueError, "parameters must be named x_scale, .*; got w_offset"),
        ({"x_zero_point": 3}, TypeError, "x_zero_point and output_zero_point of int8 or uint8; got None"),
        ({"x_zero_point": np.uint8(1), "output_zero_point": np.int32(3)}, TypeError, "got uint8 and int32"),
    ],
)  # fmt: skip
def test_parameters_that_say_too_little_are_refused(given, error, message):
    with pytest.raises(error, match=message):
        jaxdml.prepack_filters(W, parameters=given)


@needs_devices
def test_sums_over_devices_are_rounded_without_the_chain(on_gpu):
    """The terms of zero points are subtracted on each device, before the sums are added."""
    w = RNG.integers(-128, 128, (COLUMNS, 2 * COUNT, 1, 1)).astype(np.int8)
    x = RNG.integers(0, 256, (1, 2 * COUNT, 3, 3)).astype(np.uint8)
    packed = jaxdml.prepack_filters(w, parameters=named("x", "w", w_zero=None))
    parts = replace(packed, filters=P(None, None, None, "d"), sums=P(), chain=jax.tree.map(lambda _: P(), packed.chain))

    def convolve(x, w):
        parameters = named("x", "w", w_zero=None)
        return jaxdml.quantized_linear_convolution(x, w=w, axis_name="d", **parameters)

    mesh = mesh_of("auto", d=COUNT)
    on_shards = jax.shard_map(convolve, mesh=mesh, in_specs=(P(None, "d"), parts), out_specs=P())
    with forms_of("cuda"):
        got = compiled(on_shards)(x, packed)
    assert_same_bits(got, reference.quantized_linear_convolution(x, w=w, **named("x", "w", w_zero=None)))


@needs_devices
def test_a_block_of_filters_may_have_the_vectors_of_all_or_its_own(on_gpu):
    x = RNG.integers(0, 256, (1, 16, 3, 4)).astype(np.uint8)
    w = RNG.integers(-128, 128, (COUNT * COLUMNS, 16, 1, 1)).astype(np.int8)
    parameters = named("x", "w", w_zero=None, w_scale=np.float32(0.01), bias=np.int32(7))
    packed = jaxdml.prepack_filters(w, parameters=parameters)
    wanted = reference.quantized_linear_convolution(x, w=w, **parameters)
    for spec in (P(), P("d")):
        parts = replace(packed, filters=P("d"), sums=P("d"), chain=jax.tree.map(lambda _, of=spec: of, packed.chain))
        on_shards = jax.shard_map(
            lambda x, w: jaxdml.quantized_linear_convolution(x, w=w, **parameters),
            mesh=mesh_of("auto", d=COUNT),
            in_specs=(P(), parts),
            out_specs=P(None, "d"),
        )
        with forms_of("cuda"):
            assert_same_bits(compiled(on_shards)(x, packed), wanted)


UINT8 = {
    "1 x 1": ((2, 16, 4, 4), (COLUMNS, 16, 1, 1), {}),
    "1 x 1, strided": ((2, 16, 5, 4), (COLUMNS, 16, 1, 1), {"strides": 2}),
    "3 x 3": ((2, 16, 5, 4), (COLUMNS, 16, 3, 3), {"start_padding": 1, "end_padding": 1}),
    "groups": ((2, 16, 5, 4), (COLUMNS, 8, 3, 3), {"start_padding": 1, "group_count": 2}),
    "one channel each": ((2, COLUMNS, 5, 4), (COLUMNS, 1, 3, 3), {"start_padding": 1, "group_count": COLUMNS}),
    "one dimension": ((2, 16, 9), (COLUMNS, 16, 3), {"start_padding": 1}),
    "three dimensions": ((1, 4, 3, 3, 4), (COLUMNS, 4, 2, 2, 3), {}),
    "deep": ((1, 160, 4, 4), (COLUMNS, 160, 3, 3), {"start_padding": 1, "end_padding": 1}),
}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", UINT8)
def test_uint8_filters_whose_zero_point_is_128_are_rounded_once(on_gpu, name, last):
    """They are stored as int8 with the zero point 0, so the chain subtracts all that there is."""
    shape, of_filters, options = UINT8[name]
    x, w = (RNG.integers(0, 256, sizes).astype(np.uint8) for sizes in (shape, of_filters))
    parameters = named("x", "w", w_zero=np.uint8(128), zero_point=np.uint8(147), output_scale=np.float32(0.4))
    if last:
        spatial = "DHW"[5 - x.ndim :]
        options = options | {"dimension_numbers": (f"N{spatial}C", f"OI{spatial}", f"N{spatial}C")}
        x = np.moveaxis(x, 1, -1)
    packed = jaxdml.prepack_filters(w, parameters=parameters)
    assert packed.chain
    wanted = reference.quantized_linear_convolution(x, w=w, **parameters, **options)
    assert wanted.std() > 3
    with forms_of("cuda"):
        got = compiled(lambda x, w: jaxdml.quantized_linear_convolution(x, w=w, **parameters, **options))(x, packed)
    assert_same_bits(got, wanted)

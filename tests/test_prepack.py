"""Products of a packed matrix have the bits of the oracle, however it is stored, passed on and transformed."""

import copy
import pickle
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from jax import export

import jaxdml
from jaxdml import reference
from jaxdml._arithmetic import magnitudes
from jaxdml._kernels.integer_product import cpu as lowering
from jaxdml._kernels.integer_product import cutting, gpu, integer_dot, packed_columns, tensor_core_dot
from jaxdml._kernels.integer_product.cutting import WHOLE, Cut
from jaxdml._kernels.integer_product.kernel import greatest_sum
from jaxdml._kernels.integer_product.packed_matrix import pack
from jaxdml._kernels.integer_sums import raw as raw_product
from tests.kit import OneOf, as_shipped, assert_same_bits, compiled, grid, quick, seeds
from tests.kit.forms import forms_of
from tests.test_lowerings import array, lowered
from tests.test_quantized_linear_matrix_multiply import (
    BATCHES,
    COLUMNS,
    DISTINCT_METHODS,
    ON_CPU,
    ONE,
    QUANTIZED,
    ROWS,
    integers,
    jitted_multiply,
    problem,
)

pytestmark = quick

multiply = jaxdml.quantized_linear_matrix_multiply
FEW = lowering.MAX_ROWS_RIGHT_OF_INT8
MANY = lowering.MAX_ROWS_RIGHT_OF_UINT8 + 1
a_few_draws = settings(max_examples=settings().max_examples // 12)
ZERO_A, ZERO_B, SCALE = np.uint8(130), np.int8(-5), np.float32(60)


def stored(packed, dtype):
    """Return the packed matrix as it would be stored on another CPU."""
    if packed.matrix.dtype == dtype:
        return packed
    shifted = np.asarray(packed.matrix).view(np.uint8) ^ np.uint8(0x80)
    by = 128 if dtype == np.uint8 else -128
    return replace(packed, matrix=jnp.asarray(shifted.view(dtype)), sums=packed.sums + by * packed.k)


def prepacked(b, dtype, transposed=False):
    given = jnp.swapaxes(b, -1, -2) if transposed else b
    return stored(jaxdml.prepack(given, transposed=transposed), dtype)


def agrees(given, packed, method=None, **options):
    got = jitted_multiply(*given[:3], packed, *given[4:], implementation=method, **options)
    given = [None if x is None else np.asarray(x) for x in given]
    assert_same_bits(got, reference.quantized_linear_matrix_multiply(*given, **options))


@as_shipped
@grid(
    method=DISTINCT_METHODS, m=[1, OneOf(0, 7, 8, 9), OneOf(FEW, FEW + 1), OneOf(MANY - 1, MANY)],
    k=[OneOf(0, 1, 40), OneOf(1024, 1025, 1040, 1041)],
    n=[1, OneOf(0, 5, 18)], batches=[BATCHES[0], OneOf(*BATCHES[1:4]), OneOf(*BATCHES[4:])],
    a=QUANTIZED, b=QUANTIZED, output=QUANTIZED, storage=QUANTIZED, transposed=[False, True],
    sa=[OneOf(*ROWS)], sb=[OneOf(*COLUMNS)], so=[OneOf(*ROWS)],
    za=[None, OneOf(*ROWS)], zb=[None, OneOf(*COLUMNS)], zo=[None, OneOf(*ROWS)],
)  # fmt: skip
@a_few_draws
@given(seed=seeds)
def test_agrees_with_the_oracle(
    method, m, k, n, batches, a, b, output, storage, transposed, sa, sb, so, za, zb, zo, seed
):
    given = problem(seed, (a, b, output), (m, k, n), batches, (sa, sb, so), (za, zb, zo))
    agrees(given, prepacked(given[3], storage, transposed), method, output_dtype=output)


@grid(
    method=DISTINCT_METHODS, k=[OneOf(33_026, 131_072)], b=QUANTIZED, za=[None, OneOf("", "m")],
    a=[OneOf(*QUANTIZED)], storage=[OneOf(*QUANTIZED)], zb=[OneOf(None, "", "n")],
)  # fmt: skip
def test_no_depth_overflows(method, k, b, za, a, storage, zb):
    given = problem(k, (a, b, a), (2, k, 3), ((), ()), ("", "n", ""), (za, zb, None))
    lowest = [jnp.full_like(x, np.iinfo(x.dtype).min) for x in (given[0], given[3][:, :1])]
    given = jnp.stack([given[0][0], lowest[0][0]]), *given[1:3], given[3].at[:, :1].set(lowest[1]), *given[4:]
    agrees(given, prepacked(given[3], storage), method)


def test_sums_wrap_around_where_nothing_needs_them():
    k = 2**24 + 1
    packed = jaxdml.PackedMatrix(matrix=array((1, k), "uint8"), sums=array((1,), "int32"), dtype="int8", k=k)
    got = jax.eval_shape(lambda a, b: multiply(a, ONE, 3, b, ONE, 3, ONE), array((2, k), "uint8"), packed)
    assert got.shape == (2, 1)


@pytest.mark.parametrize("features", [(), ("avx512_vnni",), ("avx512_vnni", "amx_int8")])
@pytest.mark.skipif(not ON_CPU, reason="what is packed on a GPU is int8")
def test_a_cpu_that_only_mixes_signs_stores_uint8(monkeypatch, features):
    monkeypatch.setattr(lowering, "cpu_features", lambda: frozenset(features))
    mixes = features == ("avx512_vnni",)
    # No other test has these sizes, so nothing was traced for the CPU that is really there.
    b = integers(np.random.default_rng(0), np.int8, (20 + len(features), 11))
    packed = jaxdml.prepack(b)
    assert packed.matrix.dtype == (np.uint8 if mixes else np.int8)
    np.testing.assert_array_equal(packed.sums, np.asarray(packed.matrix).sum(-1))
    assert jax.jit(jaxdml.prepack)(b).matrix.dtype == np.int8
    for rows in (3, MANY):
        a = integers(np.random.default_rng(1), np.uint8, (rows, len(b)))
        given = a, ONE, ZERO_A, b, ONE, ZERO_B, SCALE
        text = lowered(lambda a, p: multiply(a, ONE, ZERO_A, p, ONE, ZERO_B, SCALE), a, packed, platform="cpu")
        right = f"tensor<1x8x{len(b)}xi8>" if rows < MANY else f"tensor<1x11x{len(b)}xi8>"
        assert f"{'xui8>' if features and (mixes or rows == MANY) else 'xi8>'}, {right}) -> tensor" in text
        for storage in QUANTIZED if features else ():
            got = compiled(lambda a, p: multiply(a, ONE, ZERO_A, p, ONE, ZERO_B, SCALE))(a, stored(packed, storage))
            assert_same_bits(got, reference.quantized_linear_matrix_multiply(*given))


@pytest.mark.parametrize(
    ("rows", "k", "n", "converted"),
    [
        ((2, 512), 128, 128, True), ((1023,), 128, 128, False), ((1024,), 127, 128, False), ((1024,), 128, 127, False),
        ((2048,), 1024, 256, True), ((2048,), 1025, 256, False), ((1024,), 1024, 128, False),
    ],
)  # fmt: skip
def test_a_gpu_reads_many_rows_as_bfloat16(rows, k, n, converted):
    """Sections of K are multiplied in the last case, and int8 in the one before it."""
    a, packed = array((*rows, k), "uint8"), jax.eval_shape(jaxdml.prepack, array((k, n), "int8"))
    text = lowered(lambda a, p: multiply(a, ONE, ZERO_A, p, ONE, None, SCALE), a, packed, platform="cuda")
    assert any("optimization_barrier" in line and "bf16" in line for line in text.splitlines()) == converted


@pytest.mark.parametrize(("a_dtype", "b_dtype", "zb"), [("uint8", "int8", None), ("int8", "uint8", np.uint8(7))])
def test_products_of_many_rows_are_exact(a_dtype, b_dtype, zb):
    rng = np.random.default_rng(0)
    a, b = integers(rng, a_dtype, (2, 512, 128)), integers(rng, b_dtype, (128, 128))
    given = a, ONE, np.asarray(11, a_dtype), b, ONE, zb, SCALE * 100
    with forms_of("cuda"):
        got = compiled(lambda a, p: multiply(a, *given[1:3], p, *given[4:]))(a, jaxdml.prepack(b))
    assert_same_bits(got, reference.quantized_linear_matrix_multiply(*given))


@pytest.mark.parametrize(("beside", "bound", "loops"), [(0, 2**23, False), (1, 2**24, True)])
@pytest.mark.parametrize("zero", [None, np.int8(0)])
def test_magnitudes_prove_that_int32_holds_a_sum(beside, bound, loops, zero):
    k = 2**17 + beside
    b = np.full((k, 1), 64, np.int8)
    b[2**17 :] = 1
    packed, a = jaxdml.prepack(b), np.full((1, k), 255, np.uint8)
    assert packed.bound == bound
    assert (
        "while" in lowered(lambda a, b: multiply(a, 1.0, None, b, 1.0, zero, 1.0), a, packed, platform="cuda")
    ) == loops
    got = jaxdml.matrix_multiply_integer_to_float(a, 1.0, None, packed, 1.0, None)
    assert got == np.float32(255 * 64 * 2**17 + 255 * beside)


def test_a_bound_limits_the_sums_of_a_proof():
    packed = replace(jaxdml.prepack(np.ones((16, 1), np.int8)), bound=16)
    x = np.zeros((1, 16), np.uint8)
    known = np.zeros((), np.uint8)
    assert greatest_sum(16, (x, known), (packed, np.int8(0))) == 255 * 16
    assert greatest_sum(16, (x, known), (packed, np.int8(-1))) == 255 * 32
    assert greatest_sum(16, (x, None), (packed, np.int8(0))) == 255 * 16
    assert greatest_sum(16, (x, known), (packed, None)) == 255 * 255 * 16
    assert greatest_sum(16, (x, known), (replace(packed, bound=0), np.int8(0))) == 255 * 128 * 16


def test_many_rows_are_kept_apart_from_other_products_on_cuda():
    packed = jaxdml.prepack(np.ones((32, 16), np.int8))

    def text(rows):
        rows_of_a = array((rows, 32), "int8")
        return lowered(
            lambda a, b: jaxdml.matrix_multiply_integer(a, None, b, None), rows_of_a, packed, platform="cuda"
        )

    assert text(2**11).count("optimization_barrier") == text(2**11 - 1).count("optimization_barrier") + 1


def test_the_longest_columns_have_no_bound():
    assert jax.eval_shape(jaxdml.prepack, array((2**23 + 1, 1), "int8")).bound == 0
    longest = magnitudes.greatest_magnitude(np.broadcast_to(np.int8(1), (2**23 + 1, 1)), (0,))
    assert magnitudes.bound_of(longest) == 0


def test_a_file_has_no_chain():
    packed = jaxdml.prepack(np.ones((2, 3), np.int8))
    assert replace(packed, chain=np.asarray(packed.chain)).chain == ()
    filters = jaxdml.prepack_filters(np.ones((2, 3, 1), np.int8))
    assert replace(filters, chain=np.asarray(filters.chain)).chain == ()


PRODUCTS = [
    (packed_columns.columns_on_the_right, np.int8),
    (packed_columns.columns_on_the_left, np.int8),
    (packed_columns.columns_on_the_left, np.uint8),
    (tensor_core_dot.packed_dot, np.int8),
    (tensor_core_dot.bfloat16_dot, np.int8),
]


@grid(
    product=PRODUCTS, depth=[0, 1, OneOf(1023, 1024)],
    batches=[((), ()), OneOf(((2, 3), (1, 1)), ((2, 1), (1, 3))), ((0,), (1,)), ((2, 3), (2, 3))],
    zero_points=[(None, None), (5, None), (None, -128), (127, 9)],
)  # fmt: skip
def test_every_form_is_exact(product, depth, batches, zero_points):
    """Try the forms of all platforms here. ``bfloat16_dot`` is only for such depths, and the others are for any."""
    multiply_by, dtype = product
    if multiply_by is not tensor_core_dot.bfloat16_dot and not ON_CPU:
        pytest.skip("XLA's GPU backend gets plain int8 products of some sizes wrong")
    rng = np.random.default_rng(depth)
    a, b = integers(rng, np.int8, (*batches[0], 3, depth)), integers(rng, dtype, (*batches[1], 18, depth))
    want = (a.astype(np.int64) - (zero_points[0] or 0)) @ (b.astype(np.int64) - (zero_points[1] or 0)).swapaxes(-1, -2)
    za, zb = (None if zero is None else np.full((1,) * want.ndim, zero, np.int32) for zero in zero_points)

    @compiled
    def product_of(a, b):
        return raw_product.accumulator(multiply_by(a, za, pack(b, np.dtype(dtype)), zb), want.shape)

    np.testing.assert_array_equal(product_of(a, b), want)


SECTIONS = [
    # Layers of MobileNetV2 for one image, for which XLA pads K, and of ResNet-50, for which it splits K shorter.
    ((196, 576, 96), 64), ((49, 960, 160), 64), ((196, 144, 32), 48), ((128, 160, 64), 32),
    ((196, 1024, 256), 256), ((784, 1152, 128), 384), ((196, 2304, 256), 256),
    # Too many tiles, few products, no length that divides K, and matrices that are large or as wide as K.
    ((784, 192, 32), None), ((4, 576, 96), None), ((196, 592, 96), None), ((196, 4608, 512), None),
    ((128, 768, 768), None), ((196, 384, 64), None),
]  # fmt: skip


@pytest.mark.parametrize(("sizes", "section"), SECTIONS)
@pytest.mark.parametrize("zero_points", [(None, None), (-128, 9)])
def test_few_rows_are_multiplied_in_sections_on_gpus(sizes, section, zero_points):
    rows, depth, columns = sizes
    rng = np.random.default_rng(depth)
    a, b = integers(rng, np.int8, (rows, depth)), integers(rng, np.int8, (columns, depth))
    most = min(128, 2**17 // depth)
    b = b.clip(-most, min(most, 127))
    a[0], b[0] = -128, -most
    packed = jaxdml.prepack(b.T)
    assert tensor_core_dot.section_of(a, packed) == section
    # Sums of the worst numbers might not fit float32.
    unbounded = tensor_core_dot.section_of(a, replace(packed, bound=0))
    assert unbounded == (section if depth <= 1024 else None)
    if section and ON_CPU:
        za, zb = (None if zero is None else np.full((1, 1), zero, np.int32) for zero in zero_points)
        raw = compiled(lambda a, b: tensor_core_dot.sectioned_dot(a, za, b, zb, section))(a, pack(b, b.dtype))
        want = (a.astype(np.int64) - (zero_points[0] or 0)) @ (b.T.astype(np.int64) - (zero_points[1] or 0))
        np.testing.assert_array_equal(raw_product.accumulator(raw, want.shape), want)
        text = jax.jit(jaxdml.matrix_multiply_integer).trace(a, None, packed, None)
        assert f"x{section}xbf16" in text.lower(lowering_platforms=("cuda",)).as_text()


OF_GROUPS = jaxdml.prepack(np.zeros((1, 2, 1728, 192), np.int8))

CUTS = [
    # Sections of K where tiles are few and K is long; fewer of them if another kernel has nothing else to do.
    ((392, 4608, 512), Cut(sections=3), Cut(sections=3)),
    ((128, 3072, 768), Cut(sections=4), Cut(sections=6)),
    ((128, 768, 768), Cut(parts_of_rows=2), Cut(sections=3)),
    ((1568, 1024, 256), Cut(parts_of_rows=28), WHOLE),
    # A K that no step of 128 divides.
    ((49, 960, 160), Cut(sections=15), Cut(sections=15)),
    ((196, 576, 96), Cut(sections=9), Cut(sections=9)),
    # A K that sections do not divide, a single row, many outputs, and rows that no part divides.
    ((100, 4097, 64), WHOLE, WHOLE),
    ((1, 4096, 512), WHOLE, WHOLE),
    ((6272, 256, 1024), WHOLE, WHOLE),
    ((131, 256, 64), WHOLE, Cut(sections=2)),
    # Nothing.
    ((0, 256, 64), WHOLE, WHOLE),
    ((64, 256, 0), WHOLE, WHOLE),
]


@pytest.mark.parametrize(("sizes", "of_convolution", "of_product"), CUTS)
def test_a_product_is_cut_where_tiles_are_few(sizes, of_convolution, of_product):
    rows, depth, columns = sizes
    a, packed = np.zeros((rows, depth), np.int8), jaxdml.prepack(np.zeros((depth, columns), np.int8))
    found = [cutting.cut_in_tiles(a, packed, adds_a_kernel) for adds_a_kernel in (True, False)]
    assert found == [of_convolution, of_product]
    assert cutting.cut_in_tiles(a[None], packed, True) == of_convolution


def test_each_of_several_products_counts():
    def cut(*batch, of_matrices):
        a, b = np.zeros((*batch, 128, 768), np.int8), np.zeros((*of_matrices, 768, 64), np.int8)
        return cutting.cut_in_tiles(a, jaxdml.prepack(b), True)

    assert cut(1, 2, of_matrices=(1, 2)) == WHOLE  # No rows are cut where there are several matrices.
    assert cut(12, of_matrices=(12,)) == WHOLE
    few, many = (cutting.cut_in_tiles(np.zeros((n, 2, 169, 1728), np.int8), OF_GROUPS, True) for n in (1, 8))
    assert few.sections > 1
    assert many == WHOLE


def test_a_long_single_row_is_padded_and_cut():
    a, packed = np.zeros((1, 2**15), np.int8), jaxdml.prepack(np.zeros((2**15, 64), np.int8))
    assert cutting.cut_in_tiles(a, packed, False, min_rows=8).sections > 1


@pytest.mark.parametrize("cut", [Cut(parts_of_rows=3), Cut(sections=4)])
@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("x64", [False, True])
def test_a_product_that_is_cut_has_the_sums_of_the_whole(cut, batch, x64):
    rng = np.random.default_rng(0)
    a, b = integers(rng, np.int8, (*batch, 6, 128)), integers(rng, np.int8, (9, 128))
    a[..., 0, :], b[0] = -128, -128
    za, zb = np.full((1,) * a.ndim, -128, np.int32), np.full((1,) * (a.ndim - 1) + (9,), 5, np.int32)
    with jax.enable_x64(x64):
        raw = compiled(lambda a, b: tensor_core_dot.packed_dot(a, za, b, zb, cut=cut))(a, pack(b, b.dtype))
    assert raw.product.dtype == np.int32
    want = (a.astype(np.int64) + 128) @ (b.T.astype(np.int64) - 5)
    np.testing.assert_array_equal(raw_product.accumulator(raw, want.shape), want)


@pytest.mark.parametrize("product", [tensor_core_dot.padded_dot, tensor_core_dot.transposed_dot])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_a_product_of_two_arrays_that_is_cut_has_the_sums_of_the_whole(product, batch):
    rng = np.random.default_rng(2)
    a, b = integers(rng, np.int8, (*batch, 6, 128)), integers(rng, np.int8, (*batch, 128, 9))
    a[..., 0, :], b[..., 0] = -128, -128
    za, zb = np.full((1,) * a.ndim, -128, np.int32), np.full((1,) * (a.ndim - 1) + (9,), 5, np.int32)
    with jax.enable_x64(True):
        raw = compiled(lambda a, b: product(a, za, b, zb, Cut(sections=4)))(a, b)
    want = (a.astype(np.int64) + 128) @ (b.astype(np.int64) - 5)
    np.testing.assert_array_equal(raw_product.accumulator(raw, want.shape), want)


def test_only_k_is_cut_of_two_arrays():
    a, b = np.zeros((1, 3072), np.int8), np.zeros((3072, 768), np.int8)
    of_16 = gpu.cut_of(np.zeros((16, 3072), np.int8), b, True, True)
    assert gpu.cut_of(a, b, True, True) == of_16 == Cut(sections=12)
    assert gpu.cut_of(np.zeros((128, 768), np.int8), b[:768], True, True) == WHOLE
    assert gpu.cut_of(a, b, False, True) is None


def test_each_of_several_matrices_is_cut_into_sections():
    rng = np.random.default_rng(1)
    a, b = integers(rng, np.int8, (2, 6, 128)), integers(rng, np.int8, (2, 9, 128))
    raw = compiled(lambda a, b: tensor_core_dot.packed_dot(a, None, b, None, cut=Cut(sections=2)))(a, pack(b, b.dtype))
    want = a.astype(np.int64) @ np.swapaxes(b, -1, -2).astype(np.int64)
    np.testing.assert_array_equal(raw_product.accumulator(raw, want.shape), want)


def test_a_packed_matrix_is_cut_into_slices_of_k():
    rng = np.random.default_rng(0)
    a, b = integers(rng, np.int8, (3, 100)), integers(rng, np.int8, (4, 100))

    def product(*operands):
        # GPUs, too, compute this one right for a K as small.
        return raw_product.accumulator(tensor_core_dot.bfloat16_dot(*operands), (3, 4))

    za, zb = np.int32([[-128], [127], [5]]), np.int32([[-128, 127, 0, 9]])
    low, high = integer_dot.sum_of_slices(a, za, pack(b, b.dtype), zb, product, 7)
    want = (a.astype(np.int64) - za) @ (b.T.astype(np.int64) - zb)
    np.testing.assert_array_equal(np.asarray(high, np.int64) * 2**16 + np.asarray(low), want)


# How a packed matrix is passed on. tests/test_composition.py has the transformations of a product with one.

RNG = np.random.default_rng(0)
A, B = integers(RNG, np.uint8, (3, 4, 16)), integers(RNG, np.int8, (3, 16, 5))


def product(a, b):
    return multiply(a, ONE, ZERO_A, b, ONE, ZERO_B, SCALE)


def wanted(a, b):
    return reference.quantized_linear_matrix_multiply(a, ONE, ZERO_A, b, ONE, ZERO_B, SCALE)


def test_a_packed_matrix_is_a_pytree_with_leading_dimensions():
    layers = jaxdml.prepack(B)
    assert layers.shape == B.shape
    assert layers.ndim == 3
    first = jax.tree.map(lambda x: x[0], layers)
    of_middle = jax.tree.map(lambda x: jnp.stack([x, x], 1), layers)
    middle = replace(layers, matrix=1, sums=1)

    def programs(a, layers, of_middle):
        return {
            "closed over": product(a, first),
            "a stack": jax.vmap(product, (None, 0))(a[0], layers),
            "both": jax.vmap(product)(a, layers),
            "a alone": jax.vmap(product, (0, None))(a, jax.tree.map(lambda x: x[1], layers)),
            "many rows": jax.vmap(product, (0, None))(jnp.tile(a, (6, 1, 1)), first),
            "each by each": jax.vmap(lambda p: jax.vmap(lambda a: product(a, p))(a))(layers),
            "a middle axis": jax.vmap(product, (None, middle), 1)(a[0], of_middle),
            "layers": jax.lax.scan(lambda carry, p: (carry, product(a[0], p)), 0, layers)[1],
            "broadcast": product(a[:, None], layers),
        }

    every = np.stack([np.stack([wanted(a, b) for a in A]) for b in B])
    expected = {
        "closed over": every[0],
        "a stack": every[:, 0],
        "both": every[np.arange(3), np.arange(3)],
        "a alone": every[1],
        "many rows": np.tile(every[0], (6, 1, 1)),
        "each by each": every,
        "a middle axis": np.stack([every[:, 0]] * 2, 1),
        "layers": every[:, 0],
        "broadcast": every.swapaxes(0, 1),
    }
    jax.tree.map(assert_same_bits, compiled(programs)(A, layers, of_middle), expected)


def test_prepack_is_traced_and_mapped():
    def programs(a, b):
        return product(a, jaxdml.prepack(b)), product(a, jax.vmap(jaxdml.prepack)(b)), product(a, jaxdml.prepack(B))

    for got in compiled(programs)(A, B):
        assert_same_bits(got, wanted(A, B))
    shapes = jax.eval_shape(jaxdml.prepack, B)
    # Numbers that are traced have no bound.
    assert jax.tree.structure(shapes) == jax.tree.structure(replace(jaxdml.prepack(B), bound=0))
    assert [x.shape for x in jax.tree.leaves(shapes)] == [(3, 5, 16), (3, 5)]
    with jax.checking_leaks(), jax.enable_x64(True):
        assert_same_bits(compiled(product)(A, jax.jit(jaxdml.prepack)(B)), wanted(A, B))
    with jax.disable_jit():
        assert_same_bits(product(A, jaxdml.prepack(B)), wanted(A, B))


def test_a_packed_matrix_is_donated():
    packed = jaxdml.prepack(B)
    got, kept = compiled(lambda b: (product(A, b), b), donate_argnums=0)(packed)
    assert packed.matrix.is_deleted()
    assert packed.sums.is_deleted()
    assert_same_bits(got, wanted(A, B))
    stored = np.asarray(kept.matrix)  # uint8 on CPUs that multiply unsigned by signed bytes only
    signed = stored if stored.dtype == np.int8 else (stored ^ np.uint8(128)).view(np.int8)
    np.testing.assert_array_equal(signed, B.swapaxes(1, 2))


def test_a_packed_matrix_is_saved_and_restored(tmp_path):
    packed = jaxdml.prepack(B)
    file = tmp_path / "packed.npz"
    np.savez(file, matrix=packed.matrix, sums=packed.sums, dtype=str(packed.dtype), k=packed.k, bound=packed.bound)
    with np.load(file) as loaded:
        restored = jaxdml.PackedMatrix(**loaded)
    assert isinstance(restored.matrix, np.ndarray)
    for again in (restored, pickle.loads(pickle.dumps(packed)), copy.deepcopy(packed)):
        assert jax.tree.structure(again) == jax.tree.structure(packed)
        assert_same_bits(jax.jit(product)(A, again), wanted(A, B))


def test_a_packed_matrix_is_an_argument_of_an_exported_function():
    packed = jaxdml.prepack(B)
    written = export.export(jax.jit(product), platforms=["cpu", "cuda", "tpu"])(A, packed).serialize()
    assert_same_bits(export.deserialize(written).call(A, packed), wanted(A, B))
    packing = export.deserialize(export.export(jax.jit(jaxdml.prepack))(B).serialize())
    assert_same_bits(product(A, packing.call(B)), wanted(A, B))


def test_derivatives_of_a_packed_matrix_are_those_of_integers():
    def loss(parameters):
        return multiply(A, ONE, ZERO_A, parameters["b"], parameters["s"], ZERO_B, SCALE).astype(jnp.float32).sum()

    gradients = jax.grad(loss, allow_int=True)({"b": jaxdml.prepack(B), "s": ONE})
    assert gradients["b"].matrix.dtype == jax.dtypes.float0
    assert gradients["s"] == 0


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", QUANTIZED)
def test_a_matrix_on_the_host_is_packed_there(caplog, dtype, transposed):
    b = integers(np.random.default_rng(0), np.dtype(dtype), (3, 17, 6))
    given = np.array(b)
    with jax.log_compiles():
        packed = jaxdml.prepack(given, transposed=transposed)
    assert "Compiling" not in caplog.text
    of_jax = jaxdml.prepack(jnp.asarray(b), transposed=transposed)
    assert jax.tree.structure(packed) == jax.tree.structure(of_jax)
    for ours, theirs in zip(jax.tree.leaves(packed), jax.tree.leaves(of_jax), strict=True):
        assert_same_bits(ours, theirs)
    given[:] = 0  # It is the caller's to change.
    assert_same_bits(packed.unpacked(), b.swapaxes(-1, -2) if transposed else b)

"""Products with matrices of few bits are those of the floats that these stand for, however they are stored."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import jaxdml
from jaxdml._kernels.block_product import PackedBlocks, kernel, pack
from jaxdml._placement.options import BLOCKS, INTEGERS, traced_alone, with_options
from tests.kit import quick
from tests.kit.known_parameters import lowered
from tests.kit.meshes import COUNT, mesh_of, needs_devices

pytestmark = quick

RANGES = {"int2": (-2, 1), "uint2": (0, 3), "int4": (-8, 7), "uint4": (0, 15), "int8": (-128, 127), "uint8": (0, 255)}
LAYOUTS = [True, False]
METHODS = {
    "sums": kernel.by_sums,
    "floats": kernel.by_floats,
    "dimensions": kernel.by_dimensions,
    "unpacking": kernel.by_unpacking,
    "chosen": jaxdml.matrix_multiply_block_quantized,
}
WAYS = [(layout, method) for method in METHODS for layout in LAYOUTS if not layout or method != "unpacking"]
"""Whether words lie by columns, and a method that reads them so."""


def drawn(dtype, k, n, size, zero=False, scale=np.float32, seed=0):
    """Return integers, scales, zero points or None, and the float64 matrix that they stand for."""
    rng = np.random.default_rng(seed)
    low, high = RANGES[dtype]
    blocks = -(-k // size)
    b = rng.integers(low, high + 1, (k, n))
    b[0, 0], b[-1, -1] = low, high
    s = rng.uniform(0.1, 1, (blocks, n)).astype(scale)
    z = rng.integers(low, high + 1, (blocks, n)) if zero else None
    group = np.arange(k) // size
    floats = (b - (0 if z is None else z[group])) * s[group].astype(np.float64)
    return *(None if x is None else jnp.asarray(x.astype(np.dtype(dtype))) for x in (b, z)), jnp.asarray(s), floats


# One program takes less time to compile than each operation by itself.
packed_at_once = jax.jit(pack, static_argnums=3, static_argnames="by_columns")


@jax.jit
def read(b, *places):
    return b.dequantized(), *map(b.columns, places)


def packed(dtype="int4", k=64, n=8, size=32, by_columns=True, **options):
    b, z, s, floats = drawn(dtype, k, n, size, **options)
    return packed_at_once(b, s, z, size, by_columns=by_columns), floats


def rows(*shape, dtype=np.float32):
    return np.random.default_rng(7).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("by_columns", LAYOUTS)
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("dtype", RANGES)
@pytest.mark.parametrize(("k", "n", "size"), [(64, 3, 32), (50, 8, 16), (16, 1, 16)])
def test_what_is_packed_stands_for_the_floats(dtype, k, n, size, zero, by_columns):
    b, floats = packed(dtype, k, n, size, by_columns, zero=zero)
    assert (b.shape, b.ndim, b.words.nbytes) == ((k, n), 2, -(-k // size) * size * n * b.bits // 8)
    places = np.array([[0, n - 1], [n // 2, n + 5]])
    whole, columns, first = read(b, places, 0)
    np.testing.assert_array_equal(whole, floats.astype(np.float32))
    np.testing.assert_array_equal(columns, np.asarray(whole).T[np.minimum(places, n - 1)])
    np.testing.assert_array_equal(first, whole[:, 0])


@pytest.mark.parametrize(("by_columns", "method"), WAYS)
@pytest.mark.parametrize("dtype", RANGES)
@pytest.mark.parametrize("shape", [(50,), (1, 50), (2, 3, 50), (0, 50)])
def test_products_are_those_of_the_floats(shape, dtype, by_columns, method):
    if method == "sums" and not np.prod(shape):
        pytest.skip("no row is few rows for no platform's choice")
    if method == "unpacking" and dtype not in ("int4", "int8"):
        pytest.skip("no platform unpacks these in a product")
    for zero in (False,) if method == "unpacking" else (False, True):
        b, floats = packed(dtype, 50, 8, 16, by_columns, zero=zero)
        a = rows(*shape)
        found = jax.jit(METHODS[method])(a, b)
        wanted = a.astype(np.float64) @ floats
        assert (found.shape, found.dtype) == (wanted.shape, a.dtype)
        np.testing.assert_allclose(found, wanted, atol=2e-6 * np.abs(a).sum(-1).max(initial=1) * np.abs(floats).max())


@pytest.mark.parametrize(("dtype", "count", "apart"), [("uint8", 1, False), ("uint4", 1, True), ("uint8", 2, True)])
def test_one_row_of_bytes_is_read_where_it_is_on_a_gpu(dtype, count, apart):
    """Other rows are turned into the order of the words before."""
    b, _ = packed(dtype, 64, 8, 32, by_columns=False)
    text = lowered(jaxdml.matrix_multiply_block_quantized, rows(count, 64), b)
    assert ("stablehlo.transpose" in text) == apart


def test_one_row_reads_a_large_matrix_of_bytes_in_words(monkeypatch):
    b, floats = packed("int8", 96, 8, 32, by_columns=False, zero=True)
    a = rows(1, 96)
    for most in (8 * 96, 8 * 96 - 1):
        monkeypatch.setattr(kernel, "_MOST_BYTES", most)
        bytewise = "tensor<8x3x16x2xi8>" in lowered(partial(kernel.by_sums), a, b)  # A new function is traced anew.
        assert bytewise == (most == 8 * 96)
        np.testing.assert_allclose(kernel.by_sums(a, b), a @ floats, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [16, 64, 2**31, 2**62])
@pytest.mark.parametrize("dtype", RANGES)
def test_a_block_that_is_longer_than_a_column_takes_no_more_memory(dtype, size):
    b, z, s, floats = drawn(dtype, 11, 3, size, zero=True)
    packed = jaxdml.prepack_blocks(b, s, z, block_size=size)
    assert packed.words.nbytes <= 16 * 3
    np.testing.assert_array_equal(packed.dequantized(), floats.astype(np.float32))
    a = rows(2, 11)
    np.testing.assert_allclose(jaxdml.matrix_multiply_block_quantized(a, packed), a @ floats, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("by_columns", "method"), WAYS)
@pytest.mark.parametrize(("k", "n"), [(0, 3), (32, 0), (0, 0)])
def test_a_matrix_may_be_empty(k, n, by_columns, method):
    b, s = jnp.zeros((k, n), jnp.int4), jnp.ones((k // 16, n))
    packed = pack(b, s, None, 16, by_columns=by_columns)
    found = jax.jit(METHODS[method])(jnp.ones((2, k)), packed)
    np.testing.assert_array_equal(found, np.zeros((2, n), np.float32))


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("count", [1, 9])
def test_narrow_floats_are_rounded_once(dtype, count):
    b, floats = packed("uint4", 64, 8, 32, zero=True, scale=dtype)
    a = jnp.asarray(rows(count, 64)).astype(dtype)
    found = jaxdml.matrix_multiply_block_quantized(a, b)
    assert found.dtype == dtype
    wanted = np.asarray(a, np.float64) @ floats
    np.testing.assert_allclose(np.asarray(found, np.float64), wanted, atol=float(jnp.finfo(dtype).eps) * 64)


def test_a_stack_is_mapped_and_scanned():
    b, z, s, floats = drawn("int4", 32, 32, 16, zero=True)
    stack = jaxdml.prepack_blocks(jnp.stack([b, b]), jnp.stack([s, s]), jnp.stack([z, z]), block_size=16)
    assert stack.shape == (2, 32, 32)
    np.testing.assert_array_equal(stack.dequantized()[1], floats.astype(np.float32))
    a = rows(2, 32)
    mapped = jax.jit(jax.vmap(jaxdml.matrix_multiply_block_quantized))(a, stack)
    np.testing.assert_allclose(mapped, a @ floats, rtol=1e-4, atol=1e-4)
    scanned, _ = lax.scan(lambda x, w: (jaxdml.matrix_multiply_block_quantized(x, w), None), a, stack)
    np.testing.assert_allclose(scanned, a @ floats @ floats, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("count", [1, 9])
def test_derivatives_are_those_of_the_floats(count):
    b, floats = packed()
    a, seed = rows(count, 64), rows(count, 8)
    _, back = jax.vjp(lambda a: jaxdml.matrix_multiply_block_quantized(a, b), a)
    np.testing.assert_allclose(back(seed)[0], seed @ floats.T, rtol=1e-4, atol=1e-4)
    _, along = jax.jvp(lambda a: jaxdml.matrix_multiply_block_quantized(a, b), (a,), (a,))
    np.testing.assert_allclose(along, a @ floats, rtol=1e-4, atol=1e-4)


def test_a_symbolic_number_of_rows_is_exported_with_what_is_packed():
    b, floats = packed("uint4", 64, 8, 32, zero=True)
    (count,) = export.symbolic_shape("m")
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), b)
    call = jax.jit(jaxdml.matrix_multiply_block_quantized)
    exported = export.export(call)(jax.ShapeDtypeStruct((count, 64), np.float32), shapes)
    a = rows(5, 64)
    result = export.deserialize(exported.serialize()).call(a, b)
    np.testing.assert_allclose(result, a @ floats, rtol=1e-4, atol=1e-4)


@needs_devices
@pytest.mark.parametrize("kind", ["auto", "explicit", "shard_map"])
def test_columns_and_rows_may_be_sharded(kind):
    b, floats = packed("uint4", 64, 8 * COUNT, 32, zero=True)
    by_column = jax.tree.map(lambda leaf: P(*[None] * (leaf.ndim - 1), "x"), b)
    a = rows(2, 64)
    if kind == "shard_map":
        mesh = mesh_of("auto", x=COUNT)
        call = jax.jit(
            jax.shard_map(
                jaxdml.matrix_multiply_block_quantized, mesh=mesh, in_specs=(P(), by_column), out_specs=P(None, "x")
            )
        )
        found = call(a, b)
    else:
        mesh = mesh_of(kind, x=COUNT)
        placed = jax.tree.map(lambda leaf, spec: jax.device_put(leaf, NamedSharding(mesh, spec)), b, by_column)
        with jax.set_mesh(mesh):
            call = jax.jit(jaxdml.matrix_multiply_block_quantized)
            found = call(jax.device_put(a, NamedSharding(mesh, P())), placed)
            text = call.lower(jax.device_put(a, NamedSharding(mesh, P())), placed).compile().as_text()
        assert "all-gather" not in text
    assert found.sharding.spec == P(None, "x")
    np.testing.assert_allclose(found, a @ floats, rtol=1e-4, atol=1e-4)


def test_numbers_that_numpy_has_saved_are_static_fields():
    b, _ = packed("uint4", zero=True)
    values = {name: np.asarray(getattr(b, name)) for name in ("block_size", "k", "by_columns")}
    again = PackedBlocks(words=b.words, scale=b.scale, zero_point=b.zero_point, dtype="uint4", **values)
    assert jax.tree.structure(again) == jax.tree.structure(b)


B, S = jnp.zeros((32, 4), jnp.int4), jnp.ones((2, 4))


@pytest.mark.parametrize(
    ("error", "rule", "call"),
    [
        (TypeError, "b must be one of int2", lambda: jaxdml.prepack_blocks(B.astype(jnp.int16), S, block_size=16)),
        (TypeError, "scale must be one of", lambda: jaxdml.prepack_blocks(B, S.astype(int), block_size=16)),
        (TypeError, "must have at least two", lambda: jaxdml.prepack_blocks(B[0], S[0], block_size=16)),
        (TypeError, "scale must have the shape [2, 4]", lambda: jaxdml.prepack_blocks(B, S[:1], block_size=16)),
        (TypeError, "zero_point must have", lambda: jaxdml.prepack_blocks(B, S, B, block_size=16)),
        (TypeError, "one of int4", lambda: jaxdml.prepack_blocks(B, S, S, block_size=16)),
        (ValueError, "multiple of 8", lambda: jaxdml.prepack_blocks(B, S, block_size=12)),
        (ValueError, "multiple of 8", lambda: jaxdml.prepack_blocks(B, S, block_size=0)),
        (TypeError, "must be packed", lambda: jaxdml.matrix_multiply_block_quantized(S, B)),
        (TypeError, "one of float32", lambda: jaxdml.matrix_multiply_block_quantized(B, packed()[0])),
        (TypeError, "dimension", lambda: jaxdml.matrix_multiply_block_quantized(jnp.float32(1), packed()[0])),
        (ValueError, "must be 64", lambda: jaxdml.matrix_multiply_block_quantized(S, packed()[0])),
    ],
)
def test_bad_calls_are_refused(error, rule, call):
    with pytest.raises(error) as info:
        call()
    text = str(info.value)
    assert rule in text.splitlines()[0]
    assert len(text.splitlines()) == 3


@pytest.mark.parametrize(("platform", "count"), [("cuda", 1), ("cuda", 8), ("cuda", 9), ("tpu", 1)])
def test_no_float_of_the_matrix_is_written_for_few_rows_on_cuda(platform, count):
    b, _ = packed("int4", 64, 8, 32, by_columns=False)
    call = jax.jit(partial(jaxdml.matrix_multiply_block_quantized))
    text = call.trace(rows(count, 64), b).lower(lowering_platforms=(platform,)).as_text()
    assert ("dot_general" in text) == (platform != "cuda" or count > 8)


@pytest.mark.parametrize("count", [1, 9])
def test_a_loop_on_cpus_carries_no_float_of_the_matrix(count):
    b, floats = packed("int4", 64, 64, 32)

    @jax.jit
    def loop(a, b):
        def step(a, _):
            return jnp.tanh(jaxdml.matrix_multiply_block_quantized(a, b)), None

        return lax.scan(step, a, None, length=3)[0]

    a = rows(count, 64)
    text = loop.trace(a, b).lower(lowering_platforms=("cpu",)).compile().as_text()
    loops = [line for line in text.splitlines() if " while(" in line]
    assert any("u32[2,4,64]" in line for line in loops)
    assert not any("f32[2,4,64]" in line or "f32[64,64]" in line for line in loops)
    wanted = a
    for _ in range(3):
        wanted = np.tanh(wanted @ floats)
    np.testing.assert_allclose(loop(a, b), wanted, atol=1e-3)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("count", [1, 3])
def test_sums_of_narrow_floats_are_rounded_once(dtype, count):
    b, floats = packed("uint4", 96, 8, 32, by_columns=False, zero=True)
    a = jnp.asarray(rows(count, 96)).astype(dtype)
    wanted = np.asarray(a, np.float64) @ floats
    found = np.asarray(kernel.by_sums(a, b), np.float64)
    np.testing.assert_allclose(found, wanted, rtol=float(jnp.finfo(dtype).eps) / 2, atol=1e-4)


def program(a, b, options=BLOCKS, platform="cuda"):
    """Return the program of a product as it is lowered with options."""
    traced = jax.jit(traced_alone(partial(jaxdml.matrix_multiply_block_quantized))).trace(a, b)
    with with_options(options):
        return traced.lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.parametrize(
    ("dtype", "of_a", "least", "most"),
    [
        ("int4", jnp.float16, 2, 128),
        ("int4", jnp.bfloat16, 2, 128),
        ("int8", jnp.float16, 2, 128),
        ("int4", jnp.float32, 4, 256),
        ("int8", jnp.float32, 6, 256),
    ],
)
def test_with_options_a_product_unpacks_on_cuda(dtype, of_a, least, most):
    b, _ = packed(dtype, 1024, 8, 32, by_columns=False, scale=of_a)
    unpacks = f"tensor<8x4x8x32x{ {jnp.float16: 'f16', jnp.bfloat16: 'bf16', jnp.float32: 'f32'}[of_a] }>"
    for count in (least, most):
        text = program(np.zeros((count, 1024), of_a), b)
        assert unpacks in text
        assert f"xi{b.bits}>" in text
        assert ("tf32" in text) == (of_a == jnp.float32)
        for others in ({"options": ""}, {"options": INTEGERS}, {"platform": "tpu"}, {"platform": "rocm"}):
            assert unpacks not in program(np.zeros((count, 1024), of_a), b, **others)
    for count in (least - 1, most + 1):
        assert unpacks not in program(np.zeros((count, 1024), of_a), b)


@pytest.mark.parametrize(
    ("dtype", "options", "of_a"),
    [
        ("int2", {}, jnp.float16),
        ("int8", {"zero": True}, jnp.float16),
        ("int4", {"zero": True}, jnp.float16),
        ("uint4", {}, jnp.float16),
        ("int4", {"by_columns": True}, jnp.float16),
        ("int4", {}, jnp.float32),
        ("int4", {}, jnp.bfloat16),
    ],
)
def test_what_no_product_unpacks_is_multiplied_as_without_options(dtype, options, of_a):
    b, _ = packed(dtype, 64, 8, 32, **{"by_columns": False, "scale": jnp.float16} | options)
    a = np.zeros((8, 64), of_a)
    assert program(a, b) == program(a, b, "")


@pytest.mark.parametrize(("n", "blocks", "sections"), [(8192, 64, 4), (2048, 256, 16), (576, 48, 6), (10**6, 64, 1)])
def test_k_is_cut_until_a_gpu_is_busy(n, blocks, sections):
    assert kernel._sections(n, blocks, 32) == sections


@pytest.mark.parametrize(("n", "blocks", "sections"), [(16, 67, 1), (16, 1, 1), (0, 0, 1), (3, 0, 1), (16, 34, 2)])
def test_sections_divide_the_blocks(n, blocks, sections):
    assert kernel._sections(n, blocks, 32) == sections


@pytest.mark.parametrize("dtype", ["int4", "int8"])
@pytest.mark.parametrize("of_a", [jnp.float16, jnp.bfloat16])
def test_narrow_floats_of_a_product_that_unpacks_are_rounded_once(dtype, of_a):
    b, floats = packed(dtype, 1024, 8, 32, by_columns=False, scale=of_a)
    a = jnp.asarray(rows(5, 1024)).astype(of_a)
    with jax.default_matmul_precision("F16_F16_F16"):  # That of a caller does not count.
        found = np.asarray(jax.jit(kernel.by_unpacking)(a, b), np.float64)
    rounded = np.asarray(jnp.asarray(floats, np.float32).astype(of_a), np.float64)
    wanted = np.asarray(a, np.float64) @ rounded
    np.testing.assert_allclose(found, wanted, rtol=float(jnp.finfo(of_a).eps), atol=1e-2)


@pytest.mark.parametrize("method", [kernel.by_unpacking, kernel.by_sums])
def test_infinities_and_nan_stay(method):
    b, floats = packed("int4", 64, 8, 32, by_columns=False)
    a = np.ones((4, 64), np.float32)
    a[0, 3], a[1, 5], a[2], a[3, 7] = np.inf, np.nan, 1e36, -np.inf
    with np.errstate(invalid="ignore"):
        wanted = np.where(floats == 0, np.nan, np.sign(floats) * np.inf)
    found = method(a, b)
    np.testing.assert_array_equal(found[0], wanted[3])
    np.testing.assert_array_equal(found[3], -wanted[7])
    assert np.isnan(found[1]).all()
    np.testing.assert_allclose(found[2], 1e36 * floats.sum(0), rtol=1e-4)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int8", "uint8"])
@pytest.mark.parametrize("zero", [False, True])
def test_what_earlier_versions_packed_stands_for_the_same(dtype, zero):
    """Their words of 16 bits were unsigned, and held unsigned elements."""
    b, floats = packed(dtype, 96, 8, 32, by_columns=False, zero=zero)
    half = 2 ** (b.bits - 1)
    flips = np.uint16(sum(half << shift for shift in range(0, 16, b.bits)))
    zeros = None if b.zero_point is None else (b.zero_point.astype(jnp.int32) + half).astype(jnp.uint8)
    old = replace(b, words=lax.bitcast_convert_type(b.words, jnp.uint16) ^ flips, zero_point=zeros)
    np.testing.assert_array_equal(old.dequantized(), floats.astype(np.float32))
    for count in (1, 3):
        a = rows(count, 96)
        np.testing.assert_allclose(kernel.by_sums(a, old), a @ floats, rtol=1e-4, atol=1e-3)
    assert not kernel._is_unpacked(rows(8, 96), old, 8)


def test_products_with_the_same_rows_are_not_merged_on_cuda():
    b, _ = packed("int4", 64, 8, 32, by_columns=False)
    call = jax.jit(lambda a, *matrices: [jaxdml.matrix_multiply_block_quantized(a, b) for b in matrices])
    text = call.trace(rows(9, 64), b, b).lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("optimization_barrier") == text.count("dot_general") > 0


@needs_devices
@pytest.mark.parametrize("count", [1, 2])
def test_few_rows_may_be_sharded_on_explicit_axes(count):
    b, floats = packed("int4", 64, 8, 32)
    mesh = mesh_of("explicit", x=COUNT)
    a = rows(count * COUNT, 64)
    found = jax.jit(jaxdml.matrix_multiply_block_quantized)(jax.device_put(a, NamedSharding(mesh, P("x"))), b)
    assert found.sharding.spec[0] == "x"
    np.testing.assert_allclose(found, a @ floats, rtol=1e-4, atol=1e-4)

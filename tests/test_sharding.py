"""What only meshes have: calls that they cannot serve, axes of several kinds, and long or deep data."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxdml
from benchmarks.compiling.collectives import collectives
from jaxdml import reference
from jaxdml._kernels.integer_product import kernel as integer_product
from jaxdml._kernels.integer_sums import accumulator
from jaxdml._kernels.selection import kernel as selection
from jaxdml._placement.lowering import Target
from tests.kit import assert_same_bits, assert_same_trees, compiled, grid, quick
from tests.kit.meshes import COUNT, mesh_of, needs_devices, put

pytestmark = [needs_devices, quick]

X = np.arange(64, dtype=np.float32).reshape(8, 8)
A, B = np.ones((8, 8), np.int8), np.ones((8, 8), np.int8)


def in_blocks(function, x):
    mesh = mesh_of("explicit")
    return jax.shard_map(function, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(put(mesh, x, "x"))


def product(a, b, **options):
    return jaxdml.quantized_linear_matrix_multiply(a, 0.5, None, b, 0.25, None, 2.0, **options)


def packed_on(mesh, b, dtype, over):
    """Return int8 ``b``, packed and stored as int8 or uint8, with K sharded and the sums on every device."""
    columns = (b if dtype == "int8" else (b.view(np.uint8) ^ np.uint8(0x80))).T
    sums = put(mesh, columns.sum(-1, dtype=np.int32))
    return jaxdml.PackedMatrix(matrix=put(mesh, columns, None, over), sums=sums, dtype=b.dtype, k=len(b))


def on_explicit(function, *arguments):
    mesh = mesh_of("explicit")
    return lambda: function(*(put(mesh, x, *spec) for x, spec in arguments))


REFUSED = {
    "a name that is not bound": (
        lambda: jaxdml.top_k(X, 2, axis_name="x"),
        "jaxdml.top_k: axis_name must name mesh axes that are bound here; got 'x'.\n"
        "  x: float32[8, 8]\n"
        "  Call it inside jax.shard_map over these axes, or leave axis_name out for an array that is whole.",
    ),
    "a number": (
        lambda: jaxdml.top_k(X, 2, axis_name=3),
        "jaxdml.top_k: axis_name must name mesh axes that are bound here; got 3.\n"
        "  x: float32[8, 8]\n"
        "  Call it inside jax.shard_map over these axes, or leave axis_name out for an array that is whole.",
    ),
    "a list of names": (
        lambda: jaxdml.top_k(X, 2, axis_name=["x"]),
        "jaxdml.top_k: axis_name must name mesh axes that are bound here; got ['x'].\n"
        "  x: float32[8, 8]\n"
        "  Call it inside jax.shard_map over these axes, or leave axis_name out for an array that is whole.",
    ),
    "a name twice": (
        lambda: in_blocks(lambda x: jaxdml.top_k(x, 2, axis_name=("x", "x")), X),
        "jaxdml.top_k: axis_name must name different mesh axes; got ('x', 'x').\n"
        "  x: float32[4, 8]\n"
        "  Pass each name once, the outermost first.",
    ),
    "more than all shards have": (
        lambda: in_blocks(lambda x: jaxdml.top_k(x, 9, axis=0, axis_name="x"), X),
        "jaxdml.top_k: k must be between 1 and 8, the length of axis 0 over 'x'; got k=9.\n"
        "  x: float32[4, 8]\n"
        "  Pass k=8 to sort the whole axis.",
    ),
    "indices of no dimension": (
        lambda: in_blocks(lambda x: jaxdml.scatter_nd(x, np.zeros((1, 0), int), x[None], axis_name="x"), X),
        "jaxdml.scatter_nd: indices address no dimension of x, and axis_name='x' says that its first one is sharded.\n"
        "  x: float32[4, 8], indices: int64[1, 0], updates: float32[1, 4, 8]\n"
        "  Leave axis_name out, or pass indices of shape [..., 1] or more.",
    ),
    "rows and columns on one mesh axis": (
        on_explicit(product, (A, ("x",)), (B, (None, "x"))),
        "jaxdml.quantized_linear_matrix_multiply: mesh axis 'x' shards both rows and columns of the result.\n"
        "  a: int8[8, 8], b: int8[8, 8]\n"
        "  Reshard a or b with jax.sharding.reshard.",
    ),
    "K on two mesh axes": (
        on_explicit(product, (A, (None, "x")), (B, ("y",))),
        "jaxdml.quantized_linear_matrix_multiply: K is sharded over 'x' and over 'y'.\n"
        "  a: int8[8, 8], b: int8[8, 8]\n"
        "  Reshard a or b with jax.sharding.reshard.",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_no_mesh_can_serve_is_refused_while_tracing(why):
    call, text = REFUSED[why]
    with pytest.raises(ValueError, match="jaxdml") as caught:
        jax.eval_shape(call)
    assert str(caught.value) == text


def test_a_forced_method_has_to_serve_the_block_of_one_device():
    with pytest.raises(NotImplementedError, match=r"chunk_maxima.* n is 4, k is 4"):
        in_blocks(lambda x: jaxdml.top_k(x, 4, axis=0, axis_name="x", implementation="chunk_maxima"), X)


@needs_devices
@grid(
    method=selection.METHODS,
    spec=[("x",), (None, "x")],
    shape=[(COUNT, 2 * COUNT), (COUNT, 256 * COUNT), (COUNT, COUNT, 37)],
)
def test_every_forced_method_selects_what_xla_partitions(method, spec, shape):
    if selection.ONLY_ON.get(method, "cpu") != "cpu" != jax.default_backend():
        pytest.skip("this device does not have it")
    x = np.random.default_rng(7).integers(-9, 9, shape).astype(np.float32)
    select = partial(jaxdml.top_k, k=2, implementation=method)
    got = compiled(select)(put(mesh_of("auto", x=COUNT), x, *spec))
    assert_same_trees(tuple(got), reference.top_k(x, 2))


def test_a_mesh_axis_that_shards_the_result_does_not_shard_k():
    call = on_explicit(product, (A, (None, "x")), (B, (None, "x")))
    assert jax.typeof(call()).sharding.spec == P(None, "x")
    assert_same_bits(call(), product(A, B))


def test_an_axis_of_vmap_is_an_axis_too():
    x = np.array([[3.0, 1.0, 3.0], [2.0, 3.0, 9.0]], np.float32)
    values, indices = jax.vmap(lambda x: jaxdml.top_k(x, 4, axis_name="i"), axis_name="i")(x)
    assert values.tolist() == [[9, 3, 3, 3]] * 2
    assert indices.tolist() == [[5, 0, 2, 4]] * 2


@grid(kinds=[("Auto", "Explicit"), ("Explicit", "Auto")], sharded=["x", "y", None])
def test_auto_and_explicit_axes_can_be_in_one_mesh(kinds, sharded):
    devices = np.array(jax.devices()[:COUNT]).reshape(2, COUNT // 2)
    mesh = Mesh(devices, ("x", "y"), axis_types=tuple(getattr(AxisType, kind) for kind in kinds))
    with jax.set_mesh(mesh):
        x = put(mesh, X, None, sharded)
        assert_same_bits(jax.jit(lambda x: jaxdml.top_k(x, 3))(x), reference.top_k(X, 3))


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_values_of_64_bits_are_sent_whole(dtype):
    with jax.enable_x64(True):
        x = (X.ravel() - 40).astype(dtype) * np.array(2**40 + 1, dtype)
        got = jax.jit(lambda x: jaxdml.top_k(x, 5, index_dtype="uint64"))(put(mesh_of("explicit"), x, "x"))
        values, indices = reference.top_k(x, 5)
        assert_same_bits(got.values, values)
        assert got.indices.dtype == np.uint64
        assert got.indices.tolist() == indices.tolist()


@pytest.mark.parametrize(
    ("kind", "implementation", "zero_point", "stored"),
    [
        ("auto", None, 1, None),
        ("auto", "mixed_dot", None, None),
        ("explicit", None, 1, None),
        ("explicit", None, None, None),
        ("explicit", "mixed_dot", 1, None),
        ("auto", None, 1, "int8"),
        ("auto", "mixed_dot", None, "uint8"),
        ("explicit", None, None, "uint8"),
        ("explicit", "mixed_dot", 1, "int8"),
    ],
)
def test_k_too_deep_for_one_sum_is_summed_in_two_parts(kind, implementation, zero_point, stored):
    # With a zero point for b, an int32 does not even hold the sum of one shard.
    if implementation and jax.default_backend() != "cpu":
        pytest.skip("mixed_dot serves only on CPUs")
    k = 2 * 33_026
    a = np.full((2, k), 255, np.uint8)
    b = np.full((k, 8), -128, np.int8)
    b[:, 1] = 127
    mesh = mesh_of(kind)

    def multiply(a, b):
        return jaxdml.quantized_linear_matrix_multiply(
            *(a, 0.5, 0, b, 0.25, zero_point, 2.0**24, 128), implementation=implementation
        )

    expected = reference.quantized_linear_matrix_multiply(
        *(a, np.float32(0.5), np.uint8(0), b, np.float32(0.25)),
        *(None if zero_point is None else np.int8(zero_point), np.float32(2**24), np.uint8(128)),
    )
    right = packed_on(mesh, b, stored, "x") if stored else put(mesh, b, "x")
    assert_same_bits(jax.jit(multiply)(put(mesh, a, None, "x"), right), expected)


@pytest.mark.parametrize("k", [512, 2048, 10_240])
def test_devices_that_share_k_get_no_small_int8_product_on_gpus(k):
    # XLA's GPU backend gets int8 products with a small K wrong; each of four devices has k / 4.
    rng = np.random.default_rng(k)
    a, b = rng.integers(-128, 128, (3, k), np.int8), rng.integers(-128, 128, (k, 5), np.int8)
    za, zb = np.int32(rng.integers(-128, 128, (3, 1))), np.int32(rng.integers(-128, 128, (1, 5)))
    wide = (a.astype(np.int64) - za) @ (b.astype(np.int64) - zb)
    for right in (jnp.asarray(b), jaxdml.prepack(b)):
        on_gpus = jax.jit(integer_product.form(Target("cuda", 4), isinstance(right, jaxdml.PackedMatrix), None))
        assert accumulator(on_gpus(a, za, right, zb), (3, 5)).tolist() == wide.tolist()
        assert ("bf16" in str(on_gpus.trace(a, za, right, zb).jaxpr)) == (k <= 4 * 1024)


# Devices may divide K: on GPUs to keep the sums of each in float32, and everywhere if one int32 does not hold the sum.
@pytest.mark.parametrize("k", [2048, 2 * 33_026])
def test_a_k_that_devices_divide_needs_no_zero_points(k):
    a, b = np.full((2, k), 255, np.uint8), np.full((k, 2), 255, np.uint8)
    a[0], b[:, 1] = np.arange(k) % 256, 1
    mesh = mesh_of("auto")
    multiply = jax.jit(lambda a, b: jaxdml.matrix_multiply_integer(a, None, b, None))
    got = multiply(put(mesh, a, None, "x"), put(mesh, b, "x"))
    assert_same_bits(got, reference.matrix_multiply_integer(a, None, b, None))


@pytest.mark.parametrize("implementation", [None, "mixed_dot", "integer_dot"])
def test_products_that_xla_partitions_agree(implementation):
    if implementation == "mixed_dot" and jax.default_backend() != "cpu":
        pytest.skip("mixed_dot serves only on CPUs")
    mesh = mesh_of("auto")
    a = np.random.default_rng(0).integers(0, 256, (8, 16), np.uint8)
    b = np.random.default_rng(1).integers(-128, 128, (16, 8), np.int8)
    got = jax.jit(lambda a, b: product(a, b, implementation=implementation))(put(mesh, a, "x", "y"), put(mesh, b, "y"))
    sa, sb, so = map(np.float32, (0.5, 0.25, 2.0))
    assert_same_bits(got, reference.quantized_linear_matrix_multiply(a, sa, None, b, sb, None, so))


SMALL_A, SMALL_B = (
    np.random.default_rng(0).integers(0, 256, (3, 32), np.uint8),
    np.random.default_rng(1).integers(-128, 128, (32, 8), np.int8),
)
EXPECTED = reference.quantized_linear_matrix_multiply(
    *(SMALL_A, np.float32(0.5), np.uint8(3), SMALL_B, np.float32(0.25), np.int8(-2), np.float32(60))
)


def small_product(a, b, **options):
    return jaxdml.quantized_linear_matrix_multiply(a, 0.5, 3, b, 0.25, -2, 60.0, **options)


@grid(kind=["auto", "explicit"], over=[("x", None), (None, "y"), ("y", "x")], transposed=[False, True])
def test_what_is_packed_lies_where_the_matrix_lies(kind, over, transposed):
    mesh = mesh_of(kind)
    b = put(mesh, *((SMALL_B.T, *over[::-1]) if transposed else (SMALL_B, *over)))
    pack = partial(jaxdml.prepack, transposed=transposed)
    packed = pack(b)
    assert packed.matrix.sharding.is_equivalent_to(NamedSharding(mesh, P(*over[::-1])), 2)
    assert packed.sums.sharding.is_equivalent_to(NamedSharding(mesh, P(over[1])), 1)
    assert_same_bits(compiled(small_product)(SMALL_A, packed), EXPECTED)
    traced = compiled(lambda a, b: small_product(a, pack(b)))
    assert_same_bits(traced(SMALL_A, b), EXPECTED)
    # Packing sends no more than the sums.
    sent = collectives(compiled(pack).lower(b).compile().as_text())
    assert sum(one.elements for one in sent) <= len(SMALL_B.T)


NAMED = {
    "one axis": ("y", {"x", "y"}),
    "two axes": (("x", "y"), {"x", "y"}),
    # The other axis stays Explicit inside.
    "one of two axes": ("x", {"x"}),
}


@pytest.mark.parametrize("stored", ["int8", "uint8"])
@pytest.mark.parametrize("names", NAMED)
def test_blocks_of_k_are_packed_outside_or_inside(names, stored):
    over, manual = NAMED[names]
    mesh = mesh_of("explicit")
    a, packed = put(mesh, SMALL_A, None, ("x", "y")), packed_on(mesh, SMALL_B, stored, ("x", "y"))
    if manual == {"x", "y"}:
        a, packed = put(mesh, SMALL_A, None, over), packed_on(mesh, SMALL_B, stored, over)
    multiply = partial(small_product, axis_name=over)

    def inside(a, b):
        return multiply(a, jaxdml.prepack(b, transposed=True))

    def block(a, packed):
        shifted = packed.matrix if stored == "int8" else (packed.matrix ^ jnp.uint8(0x80)).view(jnp.int8)
        return multiply(a, packed), inside(a, shifted)

    specs = P(None, over), jaxdml.PackedMatrix(matrix=P(None, over), sums=P(), dtype="int8", k=32)
    with jax.set_mesh(mesh):
        call = jax.shard_map(block, in_specs=specs, out_specs=P(), axis_names=manual)
        for got in compiled(call)(a, packed):
            assert_same_bits(got, EXPECTED)


def test_a_block_of_one_axis_is_written_while_the_other_axis_stays_explicit():
    mesh = mesh_of("explicit")
    x, updates = np.arange(64, dtype=np.float32).reshape(8, 8), np.full((3, 8), -1, np.float32)
    indices = np.array([[3], [5], [8]])
    write = jax.shard_map(
        partial(jaxdml.scatter_nd, axis_name="x"), in_specs=(P("x"), P(), P()), out_specs=P("x"), axis_names={"x"}
    )
    with jax.set_mesh(mesh):
        got = compiled(write)(put(mesh, x, "x", "y"), put(mesh, indices), put(mesh, updates, None, "y"))
    assert_same_bits(got, reference.scatter_nd(x, indices, updates))


PARTS = {
    # Rows, columns, over which axes K is, and what should be sent.
    "rows": (2048, 2048, "y", {"reduce-scatter", "all-gather"}),
    "columns": (2049, 2048, ("x", "y"), {"reduce-scatter", "all-gather"}),
    "no dimension divides": (2049, 2049, "y", {"all-reduce"}),
    "few": (8, 2048, "y", {"all-reduce"}),
}


@pytest.mark.parametrize("case", PARTS)
def test_each_shard_of_k_rounds_a_part_of_many_outputs(case):
    m, n, over, sent = PARTS[case]
    rng, mesh = np.random.default_rng(7), mesh_of("explicit")
    a, b = rng.integers(0, 256, (m, 16), np.uint8), rng.integers(-128, 128, (16, n), np.int8)
    za, sa = rng.integers(0, 256, (m, 1), np.uint8), rng.uniform(0.01, 0.02, (m, 1)).astype(np.float32)
    sb, zb = rng.uniform(0.01, 0.02, (1, n)).astype(np.float32), rng.integers(-9, 9, (1, n), np.int8)
    bias = rng.integers(-999, 999, (n,), np.int32)
    multiply = partial(jaxdml.quantized_linear_matrix_multiply, bias=bias)
    program = compiled(lambda a, b, sa: multiply(a, sa, za, b, sb, zb, 0.25, 7))
    operands = put(mesh, a, None, over), put(mesh, b, over), put(mesh, sa)
    assert_same_bits(program(*operands), multiply(a, sa, za, b, sb, zb, 0.25, 7))
    # A mesh of two devices has no axis that is larger than one beside x.
    if COUNT == 8:
        assert {one.kind for one in collectives(program.lower(*operands).compile().as_text())} == sent


def test_each_shard_of_the_channels_rounds_a_part_of_many_outputs():
    rng, mesh = np.random.default_rng(8), mesh_of("explicit")
    x, w = rng.integers(0, 256, (2, 8, 192, 192), np.uint8), rng.integers(-128, 128, (64, 8, 1, 1), np.int8)
    scales = rng.uniform(0.01, 0.02, 64).astype(np.float32)

    def convolve(x, w):
        return jaxdml.quantized_linear_convolution(x, 0.1, 3, w, scales, None, None, 0.25, 7)

    program, operands = compiled(convolve), (put(mesh, x, None, "y"), put(mesh, w, None, "y"))
    assert_same_bits(program(*operands), convolve(x, w))
    if COUNT == 8:
        found = {one.kind for one in collectives(program.lower(*operands).compile().as_text())}
        assert found == {"reduce-scatter", "all-gather"}


def test_few_results_of_shards_are_added_and_many_are_gathered():
    mesh = mesh_of("explicit", x=COUNT)
    for rows, kind in ((2, "all-reduce"), (64, "all-gather")):
        x = put(mesh, np.random.default_rng(9).normal(size=(rows, 64)).astype(np.float32), None, "x")
        program = compiled(lambda x: jaxdml.top_k(x, 4))
        assert {one.kind for one in collectives(program.lower(x).compile().as_text())} == {kind}
        assert_same_trees(program(x), jaxdml.top_k(np.asarray(x), 4))


def test_an_axis_of_vmap_may_share_the_k_of_a_packed_matrix():
    packed = jaxdml.prepack(SMALL_B)
    blocks = replace(packed, matrix=packed.matrix.reshape(8, 4, 8))
    mapped = replace(packed, matrix=1, sums=None)
    got = jax.vmap(partial(small_product, axis_name="i"), (1, mapped), axis_name="i")(SMALL_A.reshape(3, 4, 8), blocks)
    assert_same_bits(got, np.stack([EXPECTED] * 4))


def test_a_block_with_the_sums_of_the_whole_k_needs_axis_name():
    mesh = mesh_of("explicit")
    given = put(mesh, SMALL_A, None, "x"), packed_on(mesh, SMALL_B, "int8", "x")
    specs = P(None, "x"), jaxdml.PackedMatrix(matrix=P(None, "x"), sums=P(), dtype="int8", k=32)
    with pytest.raises(TypeError) as caught:
        jax.eval_shape(jax.shard_map(small_product, mesh=mesh, in_specs=specs, out_specs=P()), *given)
    assert str(caught.value) == (
        "jaxdml.quantized_linear_matrix_multiply: b.sums must add up K numbers each, 16; got b.k = 32.\n"
        "  b.matrix: int8[8, 16], b.sums: int32[8]\n"
        "  Pass axis_name for a block of a matrix whose K is sharded, or prepack the matrix anew."
    )
    specs, given = ((x, replace(packed, k=8)) for x, packed in (specs, given))
    call = jax.shard_map(partial(small_product, axis_name="x"), mesh=mesh, in_specs=specs, out_specs=P())
    with pytest.raises(TypeError, match=r"16 or 32; got b\.k = 8\.\n"):
        jax.eval_shape(call, *given)


@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_updates_of_4_bit_floats_may_be_sharded(kind):
    if jax.default_backend() != "cpu":
        pytest.skip("not tried: XLA's GPU backend aborts on a gather of 4-bit integers")
    mesh, dtype = mesh_of(kind), jnp.float4_e2m1fn
    x, updates, indices = np.zeros((8, 4), dtype), np.ones((4, 4), dtype), np.array([[1], [1], [-1], [9]], np.int32)
    got = jaxdml.scatter_nd(put(mesh, x, "x"), put(mesh, indices), put(mesh, updates, "x"), duplicates="last")
    expected = reference.scatter_nd(x, indices, updates)
    assert np.asarray(got).astype(np.float32).tolist() == expected.astype(np.float32).tolist()

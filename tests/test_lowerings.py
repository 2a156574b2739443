"""Which primitives reach each platform, read from the program; any machine can lower for all of them."""

import functools
import itertools
import math
import re

import jax
import numpy as np
import pytest
from jax import export

import jaxdml
from jaxdml._kernels.integer_product import cpu as product_cpu
from jaxdml._kernels.integer_product import gpu as product_gpu
from jaxdml._kernels.selection import kernel as lowering
from jaxdml._placement import processor
from tests.kit import OneOf, grid

PLATFORMS = ["cpu", "cuda", "rocm", "tpu"]
FEW = product_gpu.MAX_ROWS_UNTRANSPOSED


def lowered(function, *arguments, platform):
    return jax.jit(function).trace(*arguments).lower(lowering_platforms=(platform,)).as_text()


def array(shape, dtype):
    return jax.ShapeDtypeStruct(shape, dtype)


def selected_dtypes(text):
    return set(re.findall(r"chlo\.top_k.*?: tensor<(?:\d+x)*(\w+)>", text))


@grid(platform=PLATFORMS, dtype=["float32", "float16", "bfloat16", "int32", "uint8"], shape=[(4, 100), (4, 1 << 16)])
def test_selection_compares_integers_but_on_cpu_their_float_images(platform, dtype, shape):
    text = lowered(lambda x: jaxdml.top_k(x, 5), array(shape, dtype), platform=platform)
    assert selected_dtypes(text) == ({"f32"} if platform == "cpu" else set())
    assert not re.search(r"stablehlo\.compare.*FLOAT", text)


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize(("dtype", "n"), [("float16", 5000), ("bfloat16", 5000), ("float16", 5001), ("int16", 5000)])
def test_gpus_read_16_bit_floats_in_pairs(platform, dtype, n):
    text = lowered(lambda x: jaxdml.top_k(x, 3), array((n,), dtype), platform=platform)
    pairs = dtype != "int16" and n % 2 == 0 and platform in ("cuda", "rocm")
    assert (f"-> tensor<1x{n // 2}xui32>" in text) == pairs


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="reads what XLA's CPU backend compiled")
def test_cpu_selects_without_a_sort_of_the_axis():
    n = 1 << 16
    for dtype in ("float32", "int32", "float16", "uint8"):
        text = jax.jit(lambda x: jaxdml.top_k(x, 5)).lower(array((2, n), dtype)).compile().as_text()
        assert "TopK" in text
        assert not [line for line in text.splitlines() if " sort(" in line and f"{n}" in line]


SMALL_SHAPES = itertools.product([64, 1024, 1025, 100_000], [16, FEW + 1])


@grid(platform=PLATFORMS, sizes=list(SMALL_SHAPES), a=["int8", "uint8"], b=["int8", "uint8"])
def test_every_product_is_int8_by_int8_into_int32_or_as_exact(platform, sizes, a, b):
    depth, rows = sizes

    def call(a, b, za, zb, one):
        method = "integer_dot"
        return jaxdml.quantized_linear_matrix_multiply(a, one, za, b, one, zb, one, implementation=method)

    arguments = array((rows, depth), a), array((depth, 16), b), array((), a), array((), b), array((), "float32")
    text = lowered(call, *arguments, platform=platform)
    products = re.findall(r"stablehlo\.dot_general.*?: \((.*?)\) -> (\S+)", text)
    assert products
    for operands, result in products:
        left, right = re.fullmatch(r"tensor<[\dx]+x(\w+)>, tensor<([\dx]+)x\w+>", operands).groups()
        summed = max(int(size) for size in right.split("x"))
        if left == "bf16":
            # 1,024 products of two int8 numbers are at most 2**24, and float32 holds every integer up to that.
            assert platform in ("cuda", "rocm")
            assert summed <= 1024
            assert result.endswith("xf32>")
        else:
            assert re.fullmatch(r"tensor<[\dx]+xi8>, tensor<[\dx]+xi8>", operands)
            assert result.endswith("xi32>")
    assert "f64" not in text


# XLA's GPU backend rounds the products of small bfloat16 matrices in some orders of their dimensions.
@pytest.mark.parametrize("platform", ["cuda", "rocm"])
@pytest.mark.parametrize(
    ("rows", "depth", "columns", "kind"),
    [(4, 5, 6, "f32"), (9, 16, 6, "f32"), (9, 16, 7, "bf16"), ("m", 16, 14, "f32"), ("m", 16, 15, "bf16")],
)
def test_gpus_multiply_small_matrices_as_float32(platform, rows, depth, columns, kind):
    rows = export.symbolic_shape(rows)[0] if isinstance(rows, str) else rows
    arguments = array((rows, depth), "uint8"), array((depth, columns), "int8")
    call = jax.jit(lambda a, b: jaxdml.matrix_multiply_integer(a, None, b, None))
    text = export.export(call, platforms=[platform])(*arguments).mlir_module()
    (product,) = re.findall(r"stablehlo\.dot_general.*", text)
    assert re.search(rf"\(tensor<[?\dx]*x{kind}>, tensor<[\dx]*x{kind}>\) -> tensor<[?\dx]*xf32>", product)
    assert ("HIGHEST" in product) == (kind == "f32")


@pytest.mark.parametrize("a", ["int8", "uint8"])
@pytest.mark.parametrize("depth", [64, 100_000])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_a_mixed_product_stays_8_bits_wide_and_on_cpus(a, depth, batch):
    one = np.float32(1)

    def call(a, b):
        return jaxdml.quantized_linear_matrix_multiply(a, one, None, b, one, None, one, implementation="mixed_dot")

    arguments = array((*batch, 16, depth), a), array((*batch, depth, 16), "uint8")
    text = lowered(call, *arguments, platform="cpu")
    products = re.findall(r"stablehlo\.dot_general.*?: \((.*?)\) -> (\S+)", text)
    assert products
    for operands, result in products:
        assert re.fullmatch(r"tensor<[\dx]+xui8>, tensor<[\dx]+xi8>", operands)
        assert result.endswith("xi32>")
    with pytest.raises(NotImplementedError):
        lowered(call, *arguments, platform="cuda")


@pytest.mark.parametrize("features", [(), ("avx512_vnni",), ("amx_int8", "sse")])
def test_signs_are_mixed_where_the_cpu_has_an_instruction_for_it(monkeypatch, features):
    monkeypatch.setattr(product_cpu, "cpu_features", lambda: frozenset(features))
    jax.clear_caches()  # Of what was traced for the CPU that is really there.
    one = np.float32(1)
    text = lowered(
        lambda a, b: jaxdml.quantized_linear_matrix_multiply(a, one, None, b, one, None, one),
        array((19, 64), "uint8"), array((64, 23), "int8"), platform="cpu",
    )  # fmt: skip
    assert ("xui8>, tensor<1x64x23xi8>) -> tensor" in text) == bool(features)


@pytest.mark.parametrize("listed", [None, "processor: 0\nflags\t\t: fpu avx512_vnni sse\nflags: x\n", "processor: 0\n"])
def test_cpu_features_are_what_linux_lists(monkeypatch, tmp_path, listed):
    file = tmp_path / "cpuinfo"
    if listed is not None:
        file.write_text(listed)
    monkeypatch.setattr(processor, "Path", lambda _: file)
    found = processor.cpu_features.__wrapped__()
    assert found == ({"fpu", "avx512_vnni", "sse"} if listed and "flags" in listed else frozenset())


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("rows", [4, FEW + 1])
def test_gpus_multiply_deep_int8_in_sizes_that_are_multiples_of_16(platform, rows):
    one = np.float32(1)

    def call(a, b):
        method = "integer_dot"
        return jaxdml.quantized_linear_matrix_multiply(a, one, None, b, one, np.uint8(3), one, implementation=method)

    text = lowered(call, array((rows, 33_001), "int8"), array((33_001, 6), "uint8"), platform=platform)
    sizes = re.findall(r"stablehlo\.dot_general.*?: \(tensor<(?:1x)?(\d+)x(\d+)xi8>, tensor<(?:1x)?\d+x(\d+)xi8>", text)
    assert sizes
    assert all(int(size) % 16 == 0 for product in sizes for size in product) == (platform in ("cuda", "rocm"))


@grid(
    platform=PLATFORMS,
    shapes=[
        ((1,), (), False), ((FEW,), (), False), ((FEW + 1,), (), True),
        ((2, FEW), (), True), ((2, FEW // 2), (1,), False), ((2, FEW), (2,), False), ((2, FEW + 1), (2,), True),
    ],
    depth=[1024, OneOf(1025, 100_000)],
)  # fmt: skip
def test_gpus_turn_the_right_matrix_of_many_rows_first(platform, shapes, depth):
    a_shape, b_batch, many = shapes
    one = np.float32(1)

    def call(a, b, za, zb):
        method = "integer_dot"
        return jaxdml.quantized_linear_matrix_multiply(a, one, za, b, one, zb, one, implementation=method)

    given = array((*a_shape, depth), "uint8"), array((*b_batch, depth, 23), "int8"), array((), "uint8")
    text = lowered(call, *given, array((), "int8"), platform=platform)
    turned = many and depth > 1024 and platform in ("cuda", "rocm")
    # In words of two bytes, and a barrier, of as many, keeps XLA from turning them back.
    words = re.findall(r"stablehlo\.transpose.*xui16>\) -> tensor<([\dx]+)xui16>", text)
    kept = re.findall(r"stablehlo\.optimization_barrier.*: tensor<(\d+)xui16>", text)
    assert bool(words) == turned
    assert {math.prod(map(int, shape.split("x"))) for shape in words} <= set(map(int, kept))
    assert not re.search(r"stablehlo\.transpose.*xu?i8>\) ->", text)
    contracted = re.findall(r"stablehlo\.dot_general.*contracting_dims = \[(\d)\] x \[(\d)\].*xi32>", text)
    assert {left == right for left, right in contracted} <= {turned}


@pytest.mark.parametrize(("dtype", "zero_points"), [("int8", 0), ("int8", 1), ("int8", 2), ("uint8", 0)])
def test_a_zero_point_that_is_absent_costs_no_sum(dtype, zero_points):
    one = np.float32(1)
    za, zb = (np.int8(3) if given <= zero_points else None for given in (1, 2))
    if dtype == "uint8":
        za = zb = None

    def call(a, b):
        method = "integer_dot"
        return jaxdml.quantized_linear_matrix_multiply(a, one, za, b, one, zb, one, implementation=method)

    text = lowered(call, array((16, 64), dtype), array((64, 16), dtype), platform="cpu")
    of_rows, of_columns = dtype == "uint8" or zero_points == 2, dtype == "uint8" or zero_points >= 1
    assert text.count("stablehlo.dot_general") == 1 + of_rows
    # The sums of columns are one more row of the product.
    assert ("tensor<17x64xi8>" in text) == of_columns


def test_cpus_read_the_matrix_of_one_row_as_it_is():
    one = np.float32(1)

    def call(a, b):
        return jaxdml.quantized_linear_matrix_multiply(a, one, np.uint8(3), b, one, np.int8(3), one)

    row, matrix = array((1, 64), "uint8"), array((64, 48), "int8")
    assert "dot_general" not in lowered(call, row, matrix, platform="cpu")
    # Rows that share the matrix, and every other platform, have better products than one row at a time.
    for rows in (jax.vmap(call, in_axes=(0, None)), call):
        assert "dot_general" in lowered(rows, array((5, 1, 64), "uint8"), matrix, platform="cpu")
    assert "dot_general" in lowered(call, row, matrix, platform="tpu")


PACKED_ROWS = [1, FEW + 1, 3 * FEW]


@grid(
    platform=PLATFORMS, rows=PACKED_ROWS, depth=[1024, OneOf(1040, 1041)],
    batches=[((), ()), ((2,), ()), OneOf(((2,), (2,)), ((), (3,)))], storage=["int8", "uint8"],
)  # fmt: skip
def test_a_packed_matrix_is_read_once_and_as_it_is_stored(platform, rows, depth, batches, storage):
    one, (of_a, of_b) = np.float32(1), batches
    b = jaxdml.PackedMatrix(
        matrix=array((*of_b, 23, depth), storage), sums=array((*of_b, 23), "int32"), dtype="int8", k=depth
    )

    def call(a, b):
        return jaxdml.quantized_linear_matrix_multiply(a, one, np.uint8(3), b, one, None, one)

    text = lowered(call, array((*of_a, rows, depth), "uint8"), b, platform=platform)
    ((*contracted, left, right),) = re.findall(
        r"stablehlo\.dot_general.*contracting_dims = \[(\d)\] x \[(\d)\].*\(tensor<(.*?)>, tensor<(.*?)>\)", text
    )
    assert [int(axis) for axis in contracted] == [shape.count("x") - 1 for shape in (left, right)]
    # The product of few rows may be transposed on a CPU. Nothing else is, and no integers are summed.
    assert not [line for line in text.splitlines() if "stablehlo.transpose" in line and f"{depth}x" in line]
    assert not re.search(r"applies stablehlo\.add.*i32>", text)


def operands_of_products(text):
    """Return the dtypes of the operands of every product in a compiled program, in the order of ``dot``'s names."""
    dtypes = dict(re.findall(r"(%?[\w.-]+) = (\w+)\[", text))
    return [[dtypes[name] for name in names] for names in re.findall(r" dot\((%?[\w.-]+), (%?[\w.-]+)\)", text)]


@pytest.mark.parametrize("rows", [2, 9, 65])
@pytest.mark.parametrize(
    "of_columns",
    [jaxdml.prepack, lambda b: b],
    ids=["packed", "transposed"],
)
@pytest.mark.skipif(jax.default_backend() != "cpu", reason="reads what XLA's CPU backend compiled")
def test_cpus_multiply_8_bits_of_what_is_stored_by_columns(rows, of_columns):
    one = np.float32(1)

    def call(a, columns):
        b = of_columns(columns.T)
        return jaxdml.quantized_linear_matrix_multiply(a, one, np.uint8(3), b, one, np.int8(1), one)

    text = jax.jit(call).lower(array((rows, 64), "uint8"), array((48, 64), "int8")).compile().as_text()
    products = operands_of_products(text)
    assert products
    assert all(dtype in ("s8", "u8") for operands in products for dtype in operands)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_only_cpus_choose_how_to_round_while_running(platform):
    def branches(size):
        def call(a, b, scale):
            return jaxdml.quantized_linear_matrix_multiply(a, scale, None, b, scale, None, scale)

        given = array((size, 9), "int8"), array((9, size), "int8"), array((), "float32")
        return lowered(call, *given, platform=platform).count("stablehlo.case")

    # A few outputs are rounded in one way everywhere. For GPUs a choice would wait for the host.
    assert branches(128) - branches(64) == (platform == "cpu")


def wide_dtypes_inside(function, *arguments, platform):
    """List the dtypes of 64 bits in a program; its results have none."""
    text = lowered(function, *arguments, platform=platform)
    (results,) = re.findall(r"func\.func public @main\(.*\) -> \((.*)\) \{", text)
    assert "64>" not in results
    return set(re.findall(r"tensor<(?:\d+x)*(\w*64)>", re.sub(r"dense<[^>]*> : tensor<[^>]*>", "", text)))


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize(("size", "depth"), [(4, 5), (200, 5), (4, 2000), (4, 70_000)])
def test_products_are_rounded_with_int64_inside(platform, size, depth):
    one = np.float32(1)

    def call(a, b, scale):
        return jaxdml.quantized_linear_matrix_multiply(a, scale, None, b, one, None, one)

    given = array((size, depth), "int8"), array((depth, size), "uint8"), array((size,), "float32")
    assert wide_dtypes_inside(call, *given, platform=platform) == {"i64"}


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize(
    ("dtype", "n", "bits"),
    [("float32", 5000, 45), ("int32", 2, 33), ("uint16", 1 << 16, 32), ("bfloat16", (1 << 16) + 1, 33)],
)
def test_gpus_pack_a_key_and_its_place_in_64_bits_where_32_are_too_few(platform, dtype, n, bits):
    packed = {"ui64"} if bits > 32 and platform in ("cuda", "rocm") else set()
    assert wide_dtypes_inside(lambda x: jaxdml.top_k(x, 1), array((n,), dtype), platform=platform) == packed


@pytest.mark.parametrize("platform", PLATFORMS)
def test_scatters_need_no_64_bits(platform):
    def call(x, i, u):
        return jaxdml.scatter_nd(x, i, u, duplicates="last")

    given = array((5000,), "float32"), array((7, 1), "uint32"), array((7,), "float32")
    assert wide_dtypes_inside(call, *given, platform=platform) == set()


@pytest.mark.parametrize("platform", [p for p in PLATFORMS if p != "cpu"])
def test_a_method_forced_where_it_cannot_serve_does_not_fall_back(platform):
    with pytest.raises(NotImplementedError):
        lowered(lambda x: jaxdml.top_k(x, 3, implementation="float_top_k"), array((8,), "float32"), platform=platform)


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("method", [m for m in lowering.METHODS if m != "float_top_k"])
def test_every_other_method_lowers_everywhere(platform, method):
    text = lowered(lambda x: jaxdml.top_k(x, 3, implementation=method), array((64,), "int16"), platform=platform)
    ranked = platform in ("cuda", "rocm")
    sorting = {"sort", "threshold"} if ranked else {"sort", "threshold", "chunk_maxima"}
    assert ("stablehlo.sort" in text) == (method in sorting)


def test_scatters_are_one_lax_scatter_each():
    for duplicates, scatters in (("unspecified", 1), ("unique", 1), ("last", 2)):
        text = lowered(
            lambda x, i, u, d=duplicates: jaxdml.scatter_nd(x, i, u, duplicates=d),
            array((8, 4), "float32"), array((3, 1), "int8"), array((3, 4), "float32"), platform="cuda",
        )  # fmt: skip
        assert text.count('"stablehlo.scatter"') == scatters
        assert text.count("unique_indices = true") == (duplicates == "unique")


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize(
    ("dtype", "row", "on_gpu", "on_cpu", "on_tpu"),
    [
        ("float16", (4,), "2xui32", "4xf16", "4xf16"),
        ("float16", (3,), "3xui16", "3xf16", "3xf16"),
        ("float16", (2, 3), "3xui32", "2x3xf16", "2x3xf16"),
        ("bfloat16", (2,), "1xui32", "2xui16", "2xbf16"),
        ("uint16", (2,), "1xui32", "2xui16", "2xui16"),
        ("int8", (4,), "1xui32", "4xi8", "4xi8"),
        ("int8", (6,), "6xui8", "6xi8", "6xi8"),
        ("int8", (2, 2), "1xui32", "2x2xi8", "2x2xi8"),
        ("float8_e5m2", (3,), "3xui8", "3xui8", "3xf8E5M2"),
        ("float32", (4,), "4xf32", "4xf32", "4xf32"),
        ("int4", (8,), "8xi4", "8xi4", "8xi4"),
        ("bool", (4,), "4xi1", "4xi1", "4xi1"),
    ],
)
def test_rows_that_fill_words_move_in_words_on_gpus(platform, dtype, row, on_gpu, on_cpu, on_tpu):
    given = array((8, *row), dtype), array((3, 1), "int32"), array((3, *row), dtype)
    text = lowered(jaxdml.scatter_nd, *given, platform=platform)
    moved = {"cpu": on_cpu, "cuda": on_gpu, "rocm": on_gpu, "tpu": on_tpu}[platform]
    assert text.count('"stablehlo.scatter"') == 1
    assert f"(tensor<8x{moved}>, tensor<3x1xi32>, tensor<3x{moved}>) -> tensor<8x{moved}>" in text


@pytest.mark.parametrize(("platform", "scatters"), [("cuda", 1), ("rocm", 1), ("cpu", 2)])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_on_gpus_many_single_elements_are_looked_for_by_their_places(platform, scatters, dtype):
    def count(n, window):
        call = functools.partial(jaxdml.scatter_nd, duplicates="last")
        shapes = array((160, *window), dtype), array((n, 1), "int32"), array((n, *window), dtype)
        return lowered(call, *shapes, platform=platform).count('"stablehlo.scatter"')

    assert count(10, ()) == count(10, (1,)) == count(10, (1, 1)) == scatters
    assert count(9, ()) == 2
    assert count(10, (2,)) == 2


def test_a_derivative_settles_who_wins_as_last_does():
    # On a CPU the last one wins anyway, so only the program can tell.
    x, i, u = np.zeros((8, 4), np.float32), np.zeros((3, 1), np.int32), np.ones((3, 4), np.float32)

    def program(duplicates):
        call = functools.partial(jaxdml.scatter_nd, duplicates=duplicates)
        text = lowered(lambda x, u: jax.jvp(lambda x, u: call(x, i, u), (x, u), (x, u)), x, u, platform="cuda")
        return text.count('"stablehlo.scatter"'), text.count('"stablehlo.gather"')

    assert program("unspecified") == program("last") != program("unique")


@pytest.mark.parametrize(
    ("n", "k", "sorts_the_axis"),
    [(2**31 + 8, 2**28, True), (2**32, 2**29, True), (2**32, 8, False), (2**32 - 1, 8, False), (2**31 - 1, 8, False)],
)
def test_axes_longer_than_int32_are_counted_in_uint32(n, k, sorts_the_axis):
    text = lowered(lambda x: jaxdml.top_k(x, k), array((n,), "uint8"), platform="cuda")
    assert (f"tensor<1x{n}xui32>" in text) == sorts_the_axis
    assert f"tensor<{k}xui32>" in text
    assert all(int(size) < 2**31 for size in re.findall(r"chlo\.top_k.*?: tensor<\d+x(\d+)x", text))

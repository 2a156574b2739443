"""``jax.export`` with symbolic sizes: one artifact for every platform and every size gives the bits of the oracle."""

import itertools
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from jax import export

import jaxdml
from jaxdml import reference
from jaxdml._base.shapes import broadcast
from jaxdml._cases import OPERATORS as RECORDS
from jaxdml._cases import dimensions
from jaxdml._cases.data import indices_for
from jaxdml._cases.records import Operator
from jaxdml._kernels.integer_product.tensor_core_dot import LONGEST_FLOAT_SUM
from tests.kit import THOROUGH, assert_same_bits, data, quick

pytestmark = quick

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


class Case(NamedTuple):
    """Hold one call whose sizes are letters, in the order of the operator's arguments."""

    operator: str
    arguments: tuple[Any, ...]
    """Each a dtype and its shape."""

    sizes: tuple[dict[str, int], ...]
    """What the letters stand for, one call after another."""

    options: Mapping[str, Any] = {}
    constraints: tuple[str, ...] = ()
    alone: str = ""
    """The letters to try each as the only symbolic one too. Where there are any, the thorough profile tries all."""
    sample: Callable[..., Any] | None = None
    """Draws the arguments of these sizes. None draws them from their shapes."""

    @property
    def name(self) -> str:
        shapes = " ".join(f"{kind}{list(shape)}" for kind, *shape in self.arguments)
        return f"{self.operator} {shapes} {' '.join(map(str, self.options.values()))}".replace("'", "")


KNOWN = {"dequantize_linear": "c", "quantized_linear_average_pooling": "h"}
"""The dimensions of samples whose sizes an export has to know: of blocks, and of windows."""


def case_of(record: Operator) -> Case:
    """Return the sample of an operator: all dimensions that it may have in other sizes are symbolic."""
    least = {letter: size for letter, size in record.sizes.items() if letter not in KNOWN.get(record.name, "")}
    dims = dimensions.of(record.dimensions)
    arguments = tuple(
        (str(array.dtype), *(letter if letter in least else size for letter, size in zip(of, array.shape, strict=True)))
        for of, array in zip(dims.arguments, record.sample(np.random.default_rng(0), False), strict=True)
    )
    constraints = [f"{letter} >= {size}" for letter, size in least.items()]
    # A sum of products has to fit 32 bits.
    constraints += [f"{letter} <= 4096" for letter in least if letter in dims.combined and multiplies(record.name)]
    larger = {letter: 3 * size + 1 for letter, size in least.items()}
    return Case(
        *(record.name, arguments, (least, larger), record.options, tuple(constraints)),
        alone="".join(least) if THOROUGH else "",
        sample=record.sample,
    )


def multiplies(operator: str) -> bool:
    """Tell whether an operator multiplies integers."""
    return any(record.small.operations for record in RECORDS if record.name == operator)


def _product(a_batch: tuple[Any, ...], b_batch: tuple[Any, ...], k: Any, a: str, b: str, **rest: Any) -> Case:
    """Return a product with scales and zero points by row and by column."""
    arguments = (
        *((a, *a_batch, "m", k), ("float32", "m"), (a, "m", 1)),
        *((b, *b_batch, k, "n"), ("float32", "n"), (b, 1)),
        *(("float32",), ("int8", "m")),
    )
    return Case("quantized_linear_matrix_multiply", arguments, **rest)


_WRITES = ({"m": 3, "c": 2, "u": 7}, {"m": 9, "c": 1, "u": 2})
_LAST = {"duplicates": "last"}
_READS = ({"b": 2, "m": 3, "c": 2, "u": 7}, {"b": 1, "m": 9, "c": 1, "u": 2})

CASES = (
    *map(case_of, RECORDS),
    # Long enough to be pruned, and in pairs of 16 bits for the rounds of a GPU.
    Case("top_k", (("bfloat16", "b", 2048),), ({"b": 2}, {"b": 9}), {"k": 5, "direction": "increasing"}),
    Case(
        "top_k",
        (("float16", "n", "b"),),
        ({"n": 3, "b": 2}, {"n": 70, "b": 1}),
        {"k": 3, "axis": 0},
        ("n >= 3",),
        alone="bn",
    ),
    Case(
        "argmax",
        (("bfloat16", "b", "n", "c"),),
        ({"b": 2, "n": 3, "c": 5}, {"b": 9, "n": 40, "c": 1}),
        {"axis": (0, 1)},
    ),
    Case("argmin", (("int8", "b", 600),), ({"b": 2}, {"b": 9}), {"select_last_index": True}),
    Case(
        "scatter_nd",
        (("int8", "m", 4), ("int32", "u", 1), ("int8", "u", 4)),
        ({"m": 3, "u": 7}, {"m": 9, "u": 2}),
        _LAST,
        alone="m",
    ),
    Case("scatter_nd", (("float32", "m", "c"), ("int8", "u", 2), ("float32", "u")), _WRITES, {**_LAST, "mode": "clip"}),
    Case("scatter_nd", (("int16", "m", "c"), ("int32", "u", 0), ("int16", "u", "m", "c")), _WRITES[:1], _LAST),
    Case(
        "scatter_elements",
        (("uint8", "m", "c"), ("uint32", "u", "v"), ("uint8", "u", "v")),
        ({"m": 3, "c": 2, "u": 3, "v": 7}, {"m": 9, "c": 4, "u": 2, "v": 1}),
        {**_LAST, "axis": 1},
        ("u <= m",),
        alone="u",
    ),
    Case("gather", (("bfloat16", "m", "c"), ("uint32", "u", 2)), _READS, {"mode": "fill", "fill_value": 1}, alone="m"),
    Case("gather", (("int8", "c", "m"), ("int16", "u")), _READS, {"axis": 1}),
    Case(
        "gather_elements",
        (("float32", "m", "c"), ("int8", "u", "v")),
        ({"m": 3, "c": 2, "u": 3, "v": 7}, {"m": 9, "c": 4, "u": 2, "v": 1}),
        {"axis": 1},
        ("u <= m",),
    ),
    Case("gather_nd", (("float16", "b", "m", "c"), ("int32", "b", "u", 1)), _READS, {"batch_dims": 1}),
    _product(
        *(("b",), (), "k", "uint8", "int8"),
        sizes=({"b": 2, "m": 3, "k": 5, "n": 4}, {"b": 1, "m": 1, "k": 1100, "n": 9}),
        constraints=("k <= 33025",),
        alone="bk",
    ),
    _product((), ("b",), 64, "int8", "uint8", sizes=({"b": 2, "m": 3, "n": 4},)),
    # Too deep for one int32 sum.
    _product((), (), 33_026, "int8", "int8", sizes=({"m": 3, "n": 9},)),
    Case(
        "dequantize_linear",
        (("int8", "b", "c"), ("float32", "c"), ("int8", "c")),
        ({"b": 2, "c": 3}, {"b": 9, "c": 1}),
        {"axis": 1},
    ),
)
"""The sample of every operator, and what has sizes, axes or dtypes of its own to get wrong."""


def exported(case: Case, symbolic: str) -> bytes:
    """Return the artifact of a case for every platform; only the letters in ``symbolic`` are symbolic sizes."""
    known = {letter: size for letter, size in case.sizes[0].items() if letter not in symbolic}
    constraints = [
        " ".join(str(known.get(word, word)) for word in text.split())
        for text in case.constraints
        if not set(symbolic).isdisjoint(text)
    ]
    symbols = dict(zip(symbolic, export.symbolic_shape(",".join(symbolic), constraints=constraints), strict=True))
    operator = partial(getattr(jaxdml, case.operator), **case.options)
    arguments = [
        jax.ShapeDtypeStruct([(symbols | known).get(size, size) for size in shape], dtype)
        for dtype, *shape in case.arguments
    ]
    return bytes(export.export(jax.jit(operator), platforms=PLATFORMS)(*arguments).serialize())


def letters(case: Case) -> str:
    return "".join(sorted(case.sizes[0]))


def arguments_of(case: Case, sizes: dict[str, int]) -> list[np.ndarray]:
    """Draw arguments in which ties, NaNs and indices out of range are frequent."""
    rng = np.random.default_rng(list(sizes.values()))
    if case.sample:
        return list(case.sample(rng, False, **sizes))
    shapes = [[sizes.get(size, size) for size in shape] for _, *shape in case.arguments]
    drawn = [data("mixed", rng.integers(2**32), shape, of[0]) for shape, of in zip(shapes, case.arguments, strict=True)]
    if case.operator.startswith(("scatter", "gather")) and drawn[1].size:
        x, indices, *_ = shapes
        first = case.options.get("axis", case.options.get("batch_dims", 0))
        addressed = x[first : first + (indices[-1] if case.operator.endswith("_nd") else 1)]
        drawn[1] = indices_for(rng, addressed, indices, drawn[1].dtype)
    elif case.operator.startswith("quantized"):
        for place in (1, 4, 6):
            drawn[place] = rng.uniform(0.01, 0.1, shapes[place]).astype(np.float32)
    return drawn


def oracle(case: Case, arguments: list[np.ndarray]) -> list[np.ndarray]:
    return jax.tree.leaves(getattr(reference, case.operator)(*arguments, **case.options))


def refine(loaded: export.Exported, arguments: list[np.ndarray]) -> dict[str, str]:
    """Have XLA give numbers to the symbolic sizes in what each platform takes: some programs fail only there."""
    mlir = pytest.importorskip("jax._src.interpreters.mlir")
    if not hasattr(mlir, "refine_polymorphic_shapes"):
        pytest.skip("this JAX has no refine_polymorphic_shapes")
    traced = jax.jit(loaded.call).trace(*arguments)
    modules = ((name, traced.lower(lowering_platforms=(name,)).compiler_ir("stablehlo")) for name in PLATFORMS[1:])
    return {name: str(mlir.refine_polymorphic_shapes(module)) for name, module in modules}


_INT8_PRODUCT = re.compile(r"stablehlo\.dot_general.*contracting_dims = \[(\d)\].* : \(tensor<([\dx]+)xu?i8>")


def depths(text: str) -> list[int]:
    """Return the K of every product of 8-bit integers."""
    return [int(shape.split("x")[int(d)]) for d, shape in _INT8_PRODUCT.findall(text)]


def check(case: Case, symbolic: str, sizes: tuple[dict[str, int], ...]) -> None:
    loaded = export.deserialize(exported(case, symbolic))
    for size in sizes:
        arguments = arguments_of(case, size)
        for got, want in zip(jax.tree.leaves(loaded.call(*arguments)), oracle(case, arguments), strict=True):
            assert_same_bits(got, want)
    texts = refine(loaded, arguments)
    # XLA's GPU backend can compute products with a small K wrongly.
    assert all(k > LONGEST_FLOAT_SUM for platform in ("cuda", "rocm") for k in depths(texts[platform]))
    assert bool(depths(texts["tpu"])) == multiplies(case.operator)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_one_artifact_serves_every_platform_and_size(case):
    check(case, letters(case), case.sizes)


ALONE = [(case, letter) for case in CASES if case.alone for letter in (letters(case) if THOROUGH else case.alone)]


@pytest.mark.parametrize(("case", "letter"), ALONE, ids=lambda x: x if isinstance(x, str) else x.name)
def test_each_size_may_be_the_only_symbolic_one(case, letter):
    check(case, letter, case.sizes[:1])


@pytest.mark.parametrize("k", [1100, 33_026, "k"])
def test_a_packed_matrix_may_have_symbolic_sizes(k):
    sizes = symbols("m >= 1", "n >= 1", *(["k <= 33025"] if k == "k" else []))
    b, m, n = (sizes[letter] for letter in "bmn")

    def call(a, matrix, sums, zb):
        packed = jaxdml.PackedMatrix(matrix=matrix, sums=sums, dtype="int8", k=a.shape[-1])
        return jaxdml.quantized_linear_matrix_multiply(a, 1.0, 3, packed, 1.0, zb, 60.0)

    whole = sizes["k"] if k == "k" else k
    shapes = shape_of("uint8", m, whole), shape_of("uint8", b, n, whole), shape_of("int32", b, n), shape_of("int8", n)
    loaded = export.deserialize(export.export(jax.jit(call), platforms=PLATFORMS)(*shapes).serialize())
    depth = 5 if k == "k" else k
    rng = np.random.default_rng(depth)
    a, columns = rng.integers(0, 256, (3, depth), np.uint8), rng.integers(-128, 128, (2, 4, depth), np.int8)
    zb, stored = np.int8([-128, 127, 0, 5]), columns.view(np.uint8) ^ np.uint8(0x80)
    given = a, stored, stored.sum(-1, dtype=np.int32), zb
    one = np.float32(1)
    want = reference.quantized_linear_matrix_multiply(
        *(a, one, np.uint8(3), columns.swapaxes(1, 2), one, zb, np.float32(60))
    )
    assert_same_bits(loaded.call(*given), want)
    texts = refine(loaded, list(given))
    assert all(k > LONGEST_FLOAT_SUM for platform in ("cuda", "rocm") for k in depths(texts[platform]))
    assert depths(texts["tpu"])


def symbols(*constraints: str) -> dict[str, Any]:
    letters = sorted(set(re.findall(r"[a-z]", "b" + "".join(constraints))))
    return dict(zip(letters, export.symbolic_shape(",".join(letters), constraints=constraints), strict=True))


def shape_of(dtype: str, *shape: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


FOR_EVERY_BATCH = "repeated_maxima", "threshold"
FOR_EVERY_LENGTH = "sort", "integer_top_k"


def test_methods_that_serve_every_size_can_be_forced():
    def all_methods(x, y):
        return (
            [jaxdml.top_k(x, 2, implementation=method) for method in FOR_EVERY_BATCH],
            [jaxdml.top_k(y, 2, implementation=method) for method in FOR_EVERY_LENGTH],
        )

    b, n = symbols("n >= 2").values()
    shapes = shape_of("int8", b, 40), shape_of("float16", b, n)
    loaded = export.export(jax.jit(all_methods), platforms=PLATFORMS)(*shapes)
    x, y = (data("few distinct", 1, shape, dtype) for shape, dtype in (((5, 40), "int8"), ((5, 17), "float16")))
    for got, of in zip(loaded.call(x, y), (x, y), strict=True):
        for values, indices in got:
            want = reference.top_k(of, 2)
            assert_same_bits(values, want[0])
            assert_same_bits(indices, want[1])
    refine(loaded, [x, y])


@pytest.mark.parametrize(
    ("method", "shape", "size"),
    [
        *((method, "bn", "n") for method in ("repeated_maxima", "threshold", "chunk_maxima", "tournament")),
        *((method, "b", "b") for method in ("chunk_maxima", "tournament")),
    ],
)
def test_methods_that_depend_on_a_symbolic_size_are_refused(method, shape, size):
    given = symbols("n >= 2")
    x = shape_of("float32", given["b"], given["n"] if shape == "bn" else 400)
    with pytest.raises(NotImplementedError, match=rf"needs to know .*, which is the symbolic size {size}\."):
        jax.eval_shape(partial(jaxdml.top_k, k=2, implementation=method), x)


def product(*arguments):
    return jaxdml.quantized_linear_matrix_multiply(arguments[0], 1.0, 1, arguments[1], 1.0, 1, 1.0)


@pytest.mark.parametrize(
    ("call", "shapes", "constraints", "message"),
    [
        (
            partial(jaxdml.top_k, k=9),
            ["float32 bn"],
            ["n >= 1"],
            "ValueError: jaxdml.top_k: k must be known to be at most n, the symbolic length of axis 1; got k=9.\n"
            "  x: float32[b, n]\n"
            "  Pass constraints=['n >= 9'] to jax.export.symbolic_shape, or a smaller k.",
        ),
        (
            partial(jaxdml.top_k, k=9),
            ["float32 bn"],
            ["n <= 8"],
            "ValueError: jaxdml.top_k: k must be known to be at most n, the symbolic length of axis 1; got k=9.\n"
            "  x: float32[b, n]\n"
            "  Pass constraints=['n >= 9'] to jax.export.symbolic_shape, or a smaller k.",
        ),
        (
            partial(jaxdml.top_k, k=0),
            ["float32 bn"],
            ["n <= 8"],
            "ValueError: jaxdml.top_k: k must be between 1 and n, the length of axis 1; got k=0.\n"
            "  x: float32[b, n]\n"
            "  Pass k=1 or more.",
        ),
        (
            partial(jaxdml.top_k, k=9, index_dtype="int32"),
            ["float32 n"],
            ["n >= 2147483649"],
            "TypeError: jaxdml.top_k: index_dtype int32 cannot count the n elements of the axis.\n"
            "  x: float32[n]\n"
            "  Pass a wider index_dtype.",
        ),
        (
            jaxdml.scatter_nd,
            ["float32 n", "int32 b1", "float32 b"],
            ["n >= 2147483648"],
            "TypeError: jaxdml.scatter_nd: a dimension of n elements is too long for int32 indices.\n"
            "  x: float32[n], indices: int32[b, 1], updates: float32[b]\n"
            "  Enable jax_enable_x64, or scatter into a reshaped x.",
        ),
        (
            partial(jaxdml.scatter_elements, axis=1),
            ["float32 nb", "int32 ub", "float32 ub"],
            ["n >= 2", "u >= 1"],
            "TypeError: jaxdml.scatter_elements: indices.shape[0], u, must be known to be at most x.shape[0], n; "
            "only axis 1 may be larger.\n"
            "  x: float32[n, b], indices: int32[u, b], updates: float32[u, b]\n"
            "  Pass constraints=['u <= n'] to jax.export.symbolic_shape.",
        ),
        (
            product,
            ["int8 bk", "uint8 kn"],
            ["k >= 1", "n >= 1"],
            "ValueError: jaxdml.quantized_linear_matrix_multiply: "
            "K must be known to be at most 33025 if it is symbolic; got k.\n"
            "  a: int8[b, k], b: uint8[k, n]\n"
            "  Pass constraints=['k <= 33025'] to jax.export.symbolic_shape.",
        ),
        (
            product,
            ["int8 bk", "uint8 n1"],
            ["k >= 1", "n >= 1"],
            "TypeError: jaxdml.quantized_linear_matrix_multiply: "
            "the last dimension of a, k, must be the last but one of b; got n.\n"
            "  a: int8[b, k], b: uint8[n, 1]\n"
            "  Transpose a or b, so that they share K.",
        ),
        (
            product,
            ["int8 b34", "uint8 n42"],
            ["n >= 1"],
            "TypeError: jaxdml.quantized_linear_matrix_multiply: leading dimensions must broadcast; got [b] and [n].\n"
            "  a: int8[b, 3, 4], b: uint8[n, 4, 2]\n"
            "  Give a and b equal leading dimensions.",
        ),
    ],
)
def test_what_sizes_leave_open_is_an_error(call, shapes, constraints, message):
    given = symbols(*constraints)
    arguments = [
        shape_of(dtype, *(int(size) if size.isdigit() else given[size] for size in letters))
        for dtype, letters in map(str.split, shapes)
    ]
    with pytest.raises((TypeError, ValueError)) as caught:
        jax.eval_shape(call, *arguments)
    assert f"{caught.type.__name__}: {caught.value}" == message


def test_indices_of_64_bits_keep_their_values_if_the_rows_are_symbolic():
    indices = np.array([[2**32 + 1], [1], [-(2**32) + 2], [-1], [2**40]])
    updates = np.arange(5, dtype=np.float32)
    scatter = jax.jit(lambda x: jaxdml.scatter_nd(x, indices, updates))
    x = np.zeros(4, np.float32)
    got = export.export(scatter)(shape_of("float32", symbols()["b"])).call(x)
    assert_same_bits(got, reference.scatter_nd(x, indices, updates))


SHAPES = [shape for rank in range(3) for shape in itertools.product((0, 1, 2), repeat=rank)]


def test_known_sizes_broadcast_as_in_numpy():
    for shapes in itertools.product(SHAPES, repeat=2):
        try:
            want = np.broadcast_shapes(*shapes)
        except ValueError:
            want = None
        assert broadcast(*shapes) == want


def test_symbolic_sizes_broadcast_where_they_are_known_to_be_one_size():
    b, n = symbols("n >= 1").values()
    assert broadcast((b, 1, n), (1, 4, 1), (n,)) == (b, 4, n)
    assert broadcast((b,), (n,)) is None
    assert broadcast((b,), (2,)) is None

"""What is measured: calls of named sizes, each with its origin."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes  # noqa: F401  # gives NumPy the name bfloat16
import numpy as np

Array = np.ndarray[Any, Any]
Arguments = tuple[Array, ...]


@dataclass(frozen=True)
class Case:
    """One call: where it comes from, what it is given and what it has to move and compute at least."""

    operator: str
    group: str
    """What it is measured for: ``grid``, ``models``, ``growth in n``, ``growth in k``, ``accelerators``."""
    size: str
    dtype: str
    data: str
    origin: str
    draw: Callable[[np.random.Generator], Arguments] = field(repr=False, compare=False)
    bytes: int
    """Every input read once and every output written once."""
    operations: int = 0
    """Multiplications and additions of integers; 0 where moving the bytes is all there is to do."""
    options: Mapping[str, Any] = field(default_factory=dict)
    at: int | None = None
    """How far a case of a growth group has grown."""

    @property
    def draws(self) -> int:
        """Say on how many draws of the data to run in turn, of 32 MiB together where the first is no larger.

        A branch predictor learns the data of a selection by heart that it sees again and again, and then times
        something that never happens. A product or a scatter does the same steps whatever the values are.
        """
        return max(1, min(8, 2**25 // self.bytes)) if self.operator == "top_k" else 1

    @property
    def name(self) -> str:
        """Name the case as ``--cases`` matches it, and as nothing else is named."""
        choices = [str(value) for value in self.options.values() if isinstance(value, str)]
        return " ".join([self.operator, self.size, self.dtype, self.data, *choices])


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return rng.standard_normal(shape, np.float32).astype(dtype)


def _ascending(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return np.sort(_random(rng, shape, dtype), axis=-1)


def _all_equal(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return np.ones(shape, dtype)


def _few_distinct(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return rng.integers(0, 4, shape).astype(dtype)


def _with_nan(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return np.where(rng.random(shape) < 0.001, np.array(np.nan, dtype), _random(rng, shape, dtype))


DATA = {
    "random": _random,
    "ascending": _ascending,
    "all equal": _all_equal,
    "few distinct": _few_distinct,
    "with NaN": _with_nan,
}
"""How the input of a selection is drawn."""


def top_k(
    group: str, rows: int, n: int, k: int, dtype: str, direction: str, *, data: str = "random", origin: str = "the grid"
) -> Case:
    """Select from rows."""
    kind = np.dtype(dtype)
    return Case(
        *("top_k", group, f"{rows}x{n} k{k}", dtype, data, origin),
        draw=lambda rng: (DATA[data](rng, (rows, n), kind),),
        bytes=rows * n * kind.itemsize + rows * k * (kind.itemsize + 4),
        options={"k": k, "direction": direction},
        at={"growth in n": n, "growth in k": k}.get(group),
    )


def multiply(
    group: str,
    batch: tuple[int, ...],
    m: int,
    k: int,
    n: int,
    a: str,
    b: str,
    *,
    by_axis: bool = False,
    origin: str = "the grid",
) -> Case:
    """Multiply two quantized matrices whose zero points are not 0; the result has the dtype of ``a``.

    ``by_axis`` gives each row of ``a`` and of the result, and each column of ``b``, a scale and a zero point.
    """

    def draw(rng: np.random.Generator) -> Arguments:
        left, right = _random(rng, (*batch, m, k), np.dtype(a)), _random(rng, (*batch, k, n), np.dtype(b))
        zero_points = [np.array(120 if dtype == "uint8" else 3, dtype) for dtype in (a, b, a)]
        # The products of two full-range random operands, scaled to fill the range of the output.
        scales = np.float32(0.021), np.float32(0.0137), np.float32(0.021 * 0.0137 * 90 * np.sqrt(k))
        pairs = [(np.asarray(scale), zero) for scale, zero in zip(scales, zero_points, strict=True)]
        if by_axis:
            pairs = [
                ((scale * rng.uniform(0.5, 2, shape)).astype(np.float32), _random(rng, shape, zero.dtype))
                for (scale, zero), shape in zip(pairs, ((m, 1), (1, n), (m, 1)), strict=True)
            ]
        return left, *pairs[0], right, *pairs[1], *pairs[2]

    count = int(np.prod(batch, dtype=np.int64))
    size = "x".join(map(str, (*batch, m, k, n)))
    return Case(
        *("quantized_linear_matrix_multiply", group, size, f"{a} x {b}", "random", origin),
        draw=draw,
        bytes=count * (m * k + k * n + m * n),
        operations=2 * count * m * k * n,
        options={"scales": "by row and column"} if by_axis else {},
    )


def scatter(
    operator: str,
    group: str,
    shape: tuple[int, int],
    count: int,
    dtype: str,
    *,
    memory: str,
    duplicates: str | None = None,
    origin: str = "the grid",
) -> Case:
    """Write ``count`` rows at distinct places, into a copy (``copied``) or into the buffer itself (``donated``).

    ``duplicates`` says what is asked for about them, though there are none.
    """
    rows, columns = shape
    kind = np.dtype(dtype)

    def draw(rng: np.random.Generator) -> Arguments:
        places: Array = rng.permutation(rows)[:count, None].astype(np.int32)
        if operator == "scatter_elements":
            # Every column another rotation of the rows, so that no column can be written like its neighbour.
            places = (places + np.arange(columns, dtype=np.int32)) % rows
        return _random(rng, shape, kind), places, _random(rng, (count, columns), kind)

    written = 2 * count * columns * kind.itemsize + 4 * count * (columns if operator == "scatter_elements" else 1)
    return Case(
        *(operator, group, f"{rows}x{columns} <- {count}", dtype, "random", origin),
        draw=draw,
        bytes=written + (2 * rows * columns * kind.itemsize if memory == "copied" else 0),
        options={"memory": memory} | ({"duplicates": duplicates} if duplicates else {}),
    )


_DIRECTIONS = ("decreasing", "increasing")


def _top_k_grid() -> Iterator[Case]:
    sizes = [(64, 1000, 10), (1024, 256, 8), (16, 131_072, 32), (1, 2**20, 64), (1, 2**20, 4096), (1, 2**24, 64)]
    dtypes = ["float32", "float16", "int32", "uint32", "int16", "uint8", "int8"]
    kinds = [("float32", "ascending"), ("float32", "all equal"), *((dtype, "random") for dtype in dtypes)]
    for size, (dtype, data), direction in itertools.product(sizes, kinds, _DIRECTIONS):
        yield top_k("grid", *size, dtype, direction, data=data)


def _multiply_grid() -> Iterator[Case]:
    sizes: list[tuple[tuple[int, ...], int, int, int]] = [
        *(((), size, size, size) for size in (256, 1024, 2048)),
        *(((), m, 4096, 4096) for m in (1, 8, 512)),
        ((12,), 64, 128, 64),
    ]
    dtypes = [("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")]
    for (batch, m, k, n), (a, b) in itertools.product(sizes, dtypes):
        yield multiply("grid", batch, m, k, n, a, b)


def _scatter_grid() -> Iterator[Case]:
    sizes = [((65_536, 128), 16_384), ((2**20, 1), 2**18), ((4096, 4096), 512), ((16_384, 64), 16_384)]
    for operator, size, memory in itertools.product(("scatter_nd", "scatter_elements"), sizes, ("copied", "donated")):
        yield scatter(operator, "grid", *size, "float32", memory=memory)


def _models() -> Iterator[Case]:
    for dtype in ("float32", "bfloat16"):
        yield top_k("models", 1, 50_257, 50, dtype, "decreasing", origin="sampling one token, GPT-2's vocabulary")
        yield top_k("models", 16, 128_256, 50, dtype, "decreasing", origin="sampling 16 tokens, Llama 3's vocabulary")
    yield top_k("models", 1, 128_256, 50, "float32", "decreasing", data="with NaN", origin="a diverged model's logits")
    yield top_k("models", 4096, 256, 8, "float32", "decreasing", origin="routing 4,096 tokens to 8 of 256 experts")
    yield top_k("models", 8, 10 * 50_257, 10, "float32", "decreasing", origin="beam search, 10 beams")
    yield top_k("models", 1, 10**6, 10, "float32", "increasing", origin="nearest 10 of a million distances")
    yield top_k("models", 1, 2**24, 10, "float32", "increasing", origin="nearest 10 of 16 million distances")
    yield top_k(
        "models", 1, 2**20, 64, "uint8", "decreasing", data="few distinct", origin="quantized scores, many ties"
    )
    shapes = [(1, 4096, 14_336), (128, 4096, 14_336), (128, 14_336, 4096)]
    for m, k, n in shapes:
        origin = f"a layer of Llama 3 8B's MLP, {m} token{'s' * (m > 1)}"
        yield multiply("models", (), m, k, n, "uint8", "int8", origin=origin)
    yield multiply("models", (12,), 128, 64, 128, "uint8", "uint8", origin="attention scores, 12 heads of BERT base")
    yield scatter(
        "scatter_nd", "models", (50_257, 768), 8192, "float32", memory="donated", origin="embedding update, GPT-2"
    )
    yield scatter(
        "scatter_nd", "models", (65_536, 128), 64, "float16", memory="donated", origin="KV-cache write, 64 tokens"
    )


def _growth() -> Iterator[Case]:
    dtypes = ("float32", "float16", "int32", "int16", "uint8")
    for dtype, exponent in itertools.product(dtypes, range(10, 27)):
        yield top_k("growth in n", 1, 2**exponent, 64, dtype, "decreasing", origin="how time grows with n")
    for dtype, exponent in itertools.product(dtypes, range(20)):
        yield top_k("growth in k", 1, 2**20, 2**exponent, dtype, "decreasing", origin="how time grows with k")


def _accelerators() -> Iterator[Case]:
    origin = "what a GPU's memory and its tensor cores limit"
    sizes = [
        *((64, 2**17, 10), (1024, 2**15, 16), (8192, 256, 8), (1, 50_257, 50), (128, 2**17, 64), (128, 2**20, 64)),
        *((128, 2**20, 2048), (1, 2**24, 64), (1, 2**24, 4096), (1, 2**28, 64), (1, 2**30, 100)),
    ]
    dtypes = ("float32", "float16", "bfloat16", "int32", "int16", "uint8")
    kinds = [
        *((dtype, "random", "decreasing") for dtype in dtypes),
        *(("float32", data, "decreasing") for data in ("ascending", "all equal")),
        ("float32", "random", "increasing"),
    ]
    for (rows, n, k), (dtype, data, direction) in itertools.product(sizes, kinds):
        if n < 2**28 or (data, direction) == ("random", "decreasing"):
            yield top_k("accelerators", rows, n, k, dtype, direction, data=data, origin=origin)
    products: list[tuple[tuple[int, ...], int, int, int]] = [
        *(((), m, 4096, 4096) for m in (1, 32, 1024, 4096)),
        *(((), 4096, 4095, 4097), ((), 8192, 8192, 8192), ((64,), 512, 512, 512)),
    ]
    for size, (a, b) in itertools.product(products, (("int8", "int8"), ("uint8", "int8"), ("uint8", "uint8"))):
        yield multiply("accelerators", *size, a, b, by_axis=True, origin=origin)
    writes = [
        *(((2**20, 128), 2**18, "float32"), ((2**24, 1), 2**22, "float32")),
        *(((2**20, 128), 2**18, "float16"), ((2**20, 128), 2**18, "uint8")),
    ]
    for write, memory, duplicates in itertools.product(
        writes, ("copied", "donated"), ("unspecified", "unique", "last")
    ):
        yield scatter("scatter_nd", "accelerators", *write, memory=memory, duplicates=duplicates, origin=origin)


CASES: tuple[Case, ...] = (
    *_top_k_grid(),
    *_multiply_grid(),
    *_scatter_grid(),
    *_models(),
    *_growth(),
    *_accelerators(),
)

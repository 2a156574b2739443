"""The cases of ``matrix_multiply_integer_to_float``."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._cases._accumulating import TOO_DEEP, TOO_DEEP_IN_SHARDS, sample_product, stock_sums
from jaxdml._cases.data import any_bits, factors, mixed, numbers, plain
from jaxdml._cases.records import Arguments, Array, Example, NamedCall, Operator, Scenario, Sharding

_NAME = "matrix_multiply_integer_to_float"
_FLOAT32 = np.dtype("float32")
_HALF = np.array([0.5], np.float32)

EXAMPLES = (
    # DirectML's page has no numbers. These are those of ONNX's MatMulInteger, times 1/4, plus a bias of each column.
    Example(
        _NAME,
        (
            *(np.array([[11, 7, 3], [10, 6, 2], [9, 5, 1], [8, 4, 0]], np.uint8), _HALF, np.array([12], np.uint8)),
            *(np.array([[1, 4], [2, 5], [3, 6]], np.uint8), _HALF, np.array([0], np.uint8)),
            np.array([1, -0.25], np.float32),
        ),
        {},
        (np.array([[-8.5, -21], [-10, -24.75], [-11.5, -28.5], [-13, -32.25]], np.float32),),
    ),
)

_Shape = tuple[int, ...] | None
_Shapes = tuple[_Shape, _Shape, _Shape, _Shape, _Shape]
_SCENARIOS: tuple[tuple[str, tuple[int, int, int], int, _Shapes], ...] = (
    ("sums that nearly cancel, scales by row and column", (4, 16, 3), 600, ((4,), (4,), (3,), (3,), (3,))),
    ("no zero points, a bias for each element", (3, 5, 4), 600, ((3, 1), None, (1, 4), None, (3, 4))),
    ("no bias, K too deep for one int32 sum", (1, TOO_DEEP, 2), 9, ((), (), (2,), (2,), None)),
)
"""The trap, (M, K, N), the cases, and the shapes of scale and zero point of a, of those of b, and of the bias."""

_DTYPES = {
    "uint8 x int8 -> float32": ("uint8", "int8", "float32"),
    "int8 x uint8 -> float16": ("int8", "uint8", "float16"),
    "int8 x int8 -> bfloat16": ("int8", "int8", "bfloat16"),
}


def _scales(rng: np.random.Generator, cases: int, of_a: tuple[int, ...], of_b: tuple[int, ...]) -> tuple[Array, Array]:
    """Draw the scales of a and of b.

    In a third of the cases they are of any size but close to 1 in their product, in another third their product is
    subnormal or nearly, and in the rest they have any bits: NaNs, infinities, subnormals and zeros among them.
    """
    kind = np.arange(cases) % 3
    of_product = np.where(kind == 0, rng.integers(-20, 5, cases), rng.integers(-165, -120, cases))
    exponent = rng.integers(-100, 20, cases)
    drawn = []
    for each, shape in ((exponent, of_a), (of_product - exponent, of_b)):
        size = (cases, *shape)
        aligned, kinds = (part.reshape(-1, *[1] * len(shape)) for part in (each, kind))
        mantissa = np.where(rng.random(size) < 0.3, 1.0, rng.uniform(1, 2, size))
        composed = np.ldexp(mantissa, aligned + rng.integers(-1, 2, size)).astype(np.float32)
        drawn.append(np.where(kinds == 2, any_bits(rng, size, _FLOAT32), composed))
    return drawn[0], drawn[1]


def _biases(rng: np.random.Generator, shape: tuple[int, ...], a: Array, b: Array) -> Array:
    """Draw biases: half are a product of two scales times an integer, half have any bits."""
    with np.errstate(all="ignore"):
        of_scales = a.reshape(len(a), -1)[:, :1] * b.reshape(len(b), -1)[:, :1]
        integers = rng.integers(-70_000, 70_000, (len(a), *shape)).astype(np.float32)
        near = of_scales.reshape(-1, *[1] * len(shape)) * integers
    return np.where(rng.random(near.shape) < 0.5, near, any_bits(rng, near.shape, _FLOAT32))


def _draw(
    dtypes: tuple[str, str, str], size: tuple[int, int, int], shapes: _Shapes, rng: np.random.Generator, cases: int
) -> Arguments:
    """Draw matrices with many extreme values; the oracle's float operations on them take all special values."""
    m, k, n = size
    a_scale, a_zero, b_scale, b_zero, bias = shapes
    scales = _scales(rng, cases, a_scale or (), b_scale or ())
    operands: list[Array | None] = []
    for name, shape, scale, zero in zip(dtypes, ((m, k), (k, n)), scales, (a_zero, b_zero), strict=False):
        dtype = np.dtype(name)
        operands += [mixed(rng, (cases, *shape), dtype), scale]
        operands.append(None if zero is None else any_bits(rng, (cases, *zero), dtype))
    return *operands, None if bias is None else _biases(rng, bias, *scales)


def scenarios(name: str) -> tuple[Scenario, ...]:
    """Return products with all shapes of parameters, whose roundings meet subnormals, ties, infinities and NaNs."""
    dtypes = _DTYPES[name]
    return tuple(
        Scenario(trap, partial(_draw, dtypes, size, shapes), {"output_dtype": dtypes[2]}, cases)
        for trap, size, cases, shapes in _SCENARIOS
    )


def shardings(name: str) -> tuple[Sharding, ...]:
    """Return products with K sharded, and with the columns of b sharded."""
    dtypes = _DTYPES[name]

    def scenario(trap: str, size: tuple[int, int, int], cases: int) -> Scenario:
        m, _, n = size
        shapes = (m,), (m,), (n,), (n,), (n,)
        return Scenario(trap, partial(_draw, dtypes, size, shapes), {"output_dtype": dtypes[2]}, cases)

    deep = scenario("sharded K too deep for one int32 sum", (1, TOO_DEEP_IN_SHARDS, 2), 9)
    of_k, of_columns = scenario("K sharded", (4, 16, 3), 600), scenario("columns sharded", (4, 3, 16), 600)
    # The arguments are a, its scale and zero point, b with its own, and the bias.
    return (
        Sharding("K", "k", (of_k, deep)),
        Sharding("columns", "n", (of_columns,)),
    )


def call(
    group: str, m: int, k: int, n: int, a: str, b: str, *, by_axis: bool = False, origin: str = "the grid"
) -> NamedCall:
    """Return the call that multiplies two matrices with zero points, and adds a bias of each column.

    ``by_axis`` gives each row of ``a`` and each column of ``b`` a scale.
    """

    def draw(rng: np.random.Generator) -> tuple[Array, ...]:
        left, right = plain(rng, (m, k), np.dtype(a)), plain(rng, (k, n), np.dtype(b))
        a_zero, b_zero = (np.array(120 if dtype == "uint8" else 3, dtype) for dtype in (a, b))
        a_scale, b_scale = np.asarray(np.float32(0.021)), np.asarray(np.float32(0.0137))
        if by_axis:
            a_scale = (a_scale * rng.uniform(0.5, 2, (m, 1))).astype(np.float32)
            b_scale = (b_scale * rng.uniform(0.5, 2, (1, n))).astype(np.float32)
        return left, a_scale, a_zero, right, b_scale, b_zero, plain(rng, (n,), _FLOAT32)

    return NamedCall(
        *(_NAME, group, f"{m}x{k}x{n}", f"{a} x {b}", "random", origin),
        draw=draw,
        bytes=m * k + k * n + 4 * m * n,
        operations=2 * m * k * n,
        options={"scales": "by row and column"} if by_axis else {},
    )


def stock(call: NamedCall) -> Callable[..., jax.Array]:
    """Return the product in int32, one float32 multiplication, and an addition."""

    def product(*operands: jax.Array) -> jax.Array:
        a, a_scale, a_zero, b, b_scale, b_zero, bias = operands
        return stock_sums(a, a_zero, b, b_zero).astype(jnp.float32) * (a_scale * b_scale) + bias[None, :]

    return product


def sample(rng: np.random.Generator, tame: bool, *, b: int = 2, m: int = 4, k: int = 8, n: int = 8) -> Arguments:
    """Draw a small product; a tame one has so few bits that nothing is rounded."""
    drawn = sample_product(rng, tame, b, m, k, n)
    few = tuple(x % 2 if tame and x.dtype.kind != "f" else x for x in drawn if x is not None)
    return *few, numbers(rng, (n,), True) if tame else -300 * factors(rng, (n,), tame)


OPERATOR = Operator(
    _NAME,
    EXAMPLES,
    dimensions="b m k, m, m, b k n, n, n, n -> b m n; k",
    sample=sample,
    dtypes=tuple(_DTYPES),
    scenarios=scenarios,
    shardings=shardings,
    sharded_dtypes=("uint8 x int8 -> float32",),
    races=(call("races", 512, 512, 512, "uint8", "int8"),),
    raced=False,
    small=call("overheads", 16, 64, 16, "uint8", "int8", origin="a small call"),
    stock=stock,
    judged_rows=4,
)

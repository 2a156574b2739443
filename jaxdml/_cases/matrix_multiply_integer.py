"""The cases of ``matrix_multiply_integer``."""

import itertools
from collections.abc import Callable
from functools import partial

import jax
import numpy as np

from jaxdml._cases._accumulating import TOO_DEEP, TOO_DEEP_IN_SHARDS, greatest, sample_product, stock_sums, zero_points
from jaxdml._cases.data import mixed, plain
from jaxdml._cases.records import Arguments, Array, Example, NamedCall, Operator, Scenario, Sharding

_NAME = "matrix_multiply_integer"

EXAMPLES = (
    # DirectML's page has no numbers. These are those of ONNX's MatMulInteger.
    Example(
        _NAME,
        (
            *(np.array([[11, 7, 3], [10, 6, 2], [9, 5, 1], [8, 4, 0]], np.uint8), np.array([12], np.uint8)),
            *(np.array([[1, 4], [2, 5], [3, 6]], np.uint8), np.array([0], np.uint8)),
        ),
        {},
        (np.array([[-38, -83], [-44, -98], [-50, -113], [-56, -128]], np.int32),),
    ),
)

_Shape = tuple[int, ...] | None
_SCENARIOS: tuple[tuple[str, tuple[int, int, int], int, _Shape, _Shape], ...] = (
    ("extreme zero points by row and column", (4, 16, 3), 600, (4,), (3,)),
    ("extreme zero points by row", (3, 5, 4), 600, (3, 1), None),
    ("extreme zero points by column", (2, 9, 3), 600, None, (1, 3)),
    ("no zero points", (3, 5, 4), 600, None, None),
    ("zero points of one value", (1, 40, 2), 600, (), (1,)),
)
"""The trap, (M, K, N), the cases, and the shapes of the zero points of a and of b."""

_DTYPES = {f"{a} x {b}": (a, b) for a, b in itertools.product(("int8", "uint8"), repeat=2)}


def _draw(
    dtypes: tuple[str, str],
    size: tuple[int, int, int],
    of_zero_points: tuple[_Shape, _Shape],
    rng: np.random.Generator,
    cases: int,
) -> Arguments:
    """Draw matrices with many extreme values, and zero points of which every other case has extreme ones only."""
    m, k, n = size
    operands: list[Array | None] = []
    for name, shape, zero_point in zip(dtypes, ((m, k), (k, n)), of_zero_points, strict=True):
        operands += [mixed(rng, (cases, *shape), np.dtype(name)), zero_points(rng, zero_point, cases, name)]
    return tuple(operands)


def _deep(trap: str, dtypes: tuple[str, str], k: int) -> Scenario:
    return Scenario(trap, partial(greatest, dtypes, (((1, k), ()), ((k, 2), ()))), {}, 6)


def scenarios(name: str) -> tuple[Scenario, ...]:
    """Return products with all shapes of zero points, and one whose sums do not fit an int32."""
    dtypes = _DTYPES[name]
    return (
        *(
            Scenario(trap, partial(_draw, dtypes, size, (of_a, of_b)), {}, cases)
            for trap, size, cases, of_a, of_b in _SCENARIOS
        ),
        _deep("K too deep for one int32 sum", dtypes, TOO_DEEP),
    )


def shardings(name: str) -> tuple[Sharding, ...]:
    """Return products with K sharded, and with the columns of b sharded."""
    dtypes = _DTYPES[name]

    def scenario(trap: str, m: int, k: int, n: int) -> Scenario:
        return Scenario(trap, partial(_draw, dtypes, (m, k, n), ((m,), (n,))), {}, 600)

    deep = _deep("sharded K too deep for one int32 sum", dtypes, TOO_DEEP_IN_SHARDS)
    of_k, of_columns = scenario("extremes, K sharded", 4, 16, 3), scenario("extremes, columns sharded", 4, 3, 16)
    # The arguments are a and its zero point, b and its zero point.
    return (
        Sharding("K", "k", (of_k, deep)),
        Sharding("columns", "n", (of_columns,)),
    )


def call(
    group: str, batch: tuple[int, ...], m: int, k: int, n: int, a: str, b: str, *, origin: str = "the grid"
) -> NamedCall:
    """Return the call that multiplies two matrices with one zero point each."""

    def draw(rng: np.random.Generator) -> tuple[Array, ...]:
        left, right = plain(rng, (*batch, m, k), np.dtype(a)), plain(rng, (*batch, k, n), np.dtype(b))
        a_zero, b_zero = (np.array(120 if dtype == "uint8" else 3, dtype) for dtype in (a, b))
        return left, a_zero, right, b_zero

    count = int(np.prod(batch, dtype=np.int64))
    return NamedCall(
        *(_NAME, group, "x".join(map(str, (*batch, m, k, n))), f"{a} x {b}", "random", origin),
        draw=draw,
        bytes=count * (m * k + k * n + 4 * m * n),
        operations=2 * count * m * k * n,
    )


def stock(call: NamedCall) -> Callable[..., jax.Array]:
    """Return the product in int32."""
    return stock_sums


def sample(rng: np.random.Generator, tame: bool, *, b: int = 2, m: int = 4, k: int = 8, n: int = 8) -> Arguments:
    """Draw a small product; no argument is a float, so all are tame."""
    left, _, left_zero, right, _, right_zero = sample_product(rng, tame, b, m, k, n)
    return left, left_zero, right, right_zero


OPERATOR = Operator(
    _NAME,
    EXAMPLES,
    dimensions="b m k, m, b k n, n -> b m n; k",
    sample=sample,
    dtypes=tuple(_DTYPES),
    scenarios=scenarios,
    shardings=shardings,
    sharded_dtypes=("uint8 x int8",),
    races=(call("races", (), 512, 512, 512, "uint8", "int8"),),
    raced=False,
    small=call("overheads", (), 16, 64, 16, "uint8", "int8", origin="a small call"),
    stock=stock,
    judged_rows=4,
)

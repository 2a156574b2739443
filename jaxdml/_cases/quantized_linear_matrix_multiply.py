"""The cases of ``quantized_linear_matrix_multiply``."""

import itertools
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._cases._accumulating import (
    TOO_DEEP,
    TOO_DEEP_IN_SHARDS,
    sample_output,
    sample_product,
    scales,
    stock_rounded,
    stock_sums,
)
from jaxdml._cases.data import any_bits, plain
from jaxdml._cases.records import Arguments, Array, Example, NamedCall, Operator, Scenario, Sharding

_NAME = "quantized_linear_matrix_multiply"

EXAMPLES = (
    # The page gives the shapes only, so here all values are zero.
    Example(
        _NAME,
        (
            *(np.zeros((2, 3, 4, 5), np.uint8), np.ones((1, 1, 4, 1), np.float32), np.zeros((1, 1, 4, 1), np.uint8)),
            *(np.zeros((2, 3, 5, 6), np.int8), np.ones((1, 1, 1, 6), np.float32), np.zeros((1, 1, 1, 6), np.int8)),
            *(np.ones((1, 1, 1, 1), np.float32), np.zeros((1, 1, 1, 1), np.uint8)),
        ),
        {},
        (np.zeros((2, 3, 4, 6), np.uint8),),
    ),
)

_Parameters = tuple[tuple[int, ...] | None, tuple[int, ...] | None]
_SCENARIOS: tuple[tuple[str, tuple[int, int, int], int, _Parameters, _Parameters, _Parameters], ...] = (
    ("quotients on and near ties, one scale each", (3, 5, 4), 600, ((), ()), ((), ()), ((), ())),
    ("ties, scales by row and column", (4, 16, 3), 450, ((4,), (4,)), ((3,), (3,)), ((4,), (4,))),
    ("ties, some zero points absent", (2, 2, 2), 450, ((2, 1), None), ((1,), (1, 2)), ((2,), None)),
    ("K too deep for one int32 sum", (1, TOO_DEEP, 2), 6, ((), ()), ((2,), (2,)), ((), ())),
)
"""The trap, (M, K, N), the cases, and the shapes of scale and zero point of a, of b and of the output."""

_DTYPES = {f"{a} x {b} -> {output}": (a, b, output) for a, b, output in itertools.product(("int8", "uint8"), repeat=3)}


def _draw(
    dtypes: tuple[str, str, str],
    size: tuple[int, int, int],
    parameters: tuple[_Parameters, ...],
    rng: np.random.Generator,
    cases: int,
) -> Arguments:
    """Draw quotients of which many are ties.

    In every third case all scales are powers of two, in another third powers of two or their neighbours, and in the
    rest any normal float32. The differences from the zero points reach 3, 30 or, saturating, 256. With small ones and
    powers of two, every other quotient is a tie. Some products of two scales are no float32.
    """
    m, k, n = size
    of_fraction = np.arange(cases) % 3
    spread = np.array([3, 30, 256])[np.arange(cases) // 3 % 3]
    reach = np.maximum(1, np.log2(spread**2 * np.sqrt(k)).astype(int) - 6 + rng.integers(0, 3, cases))
    output_exponent, a_exponent = rng.integers(-126, 127, (2, cases))
    b_exponent = np.clip(output_exponent - reach - a_exponent, -126, 126)
    shapes, exponents = ((m, k), (k, n), None), (a_exponent, b_exponent, output_exponent)
    operands: list[Array | None] = []
    for name, shape, exponent, (scale, zero_point) in zip(dtypes, shapes, exponents, parameters, strict=True):
        dtype = np.dtype(name)
        zero = None if zero_point is None else any_bits(rng, (cases, *zero_point), dtype)
        if shape is not None:
            middle = 0 if zero is None else zero.reshape(cases, -1)[:, :1, None].astype(int)
            drawn = middle + rng.integers(-spread, spread + 1, (*shape, cases)).transpose(2, 0, 1)
            operands.append(np.clip(drawn, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype))
        operands += [scales(rng, exponent, of_fraction, scale or ()), zero]
    return tuple(operands)


def scenarios(name: str) -> tuple[Scenario, ...]:
    """Return products whose quotients tie, nearly tie and saturate, with all shapes of scales and zero points."""
    dtypes = _DTYPES[name]
    return tuple(
        Scenario(trap, partial(_draw, dtypes, size, tuple(parameters)), {"output_dtype": dtypes[2]}, cases)
        for trap, size, cases, *parameters in _SCENARIOS
    )


def shardings(name: str) -> tuple[Sharding, ...]:
    """Return products with K sharded, and with the columns of b sharded."""
    dtypes = _DTYPES[name]

    def scenario(trap: str, size: tuple[int, int, int], cases: int) -> Scenario:
        m, _, n = size
        parameters = ((m,), (m,)), ((n,), (n,)), ((m,), (m,))
        return Scenario(trap, partial(_draw, dtypes, size, parameters), {"output_dtype": dtypes[2]}, cases)

    deep = scenario("sharded K too deep for one int32 sum", (1, TOO_DEEP_IN_SHARDS, 2), 6)
    of_k, of_columns = scenario("ties, K sharded", (4, 16, 3), 900), scenario("ties, columns sharded", (4, 3, 16), 900)
    return (
        Sharding("K", "k", (of_k, deep)),
        Sharding("columns", "n", (of_columns,)),
    )


def call(
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
) -> NamedCall:
    """Return the call that multiplies two quantized matrices with zero points; the result has the dtype of ``a``.

    ``by_axis`` gives each row of ``a`` and of the result, and each column of ``b``, a scale and a zero point.
    """

    def draw(rng: np.random.Generator) -> tuple[Array, ...]:
        left, right = plain(rng, (*batch, m, k), np.dtype(a)), plain(rng, (*batch, k, n), np.dtype(b))
        zero_points = [np.array(120 if dtype == "uint8" else 3, dtype) for dtype in (a, b, a)]
        # With these the products of full-range operands fill the range of the output, and saturate now and then.
        scales = np.float32(0.021), np.float32(0.0137), np.float32(0.021 * 0.0137 * 90 * np.sqrt(k))
        pairs = [(np.asarray(scale), zero) for scale, zero in zip(scales, zero_points, strict=True)]
        if by_axis:
            pairs = [
                ((scale * rng.uniform(0.5, 2, shape)).astype(np.float32), plain(rng, shape, zero.dtype))
                for (scale, zero), shape in zip(pairs, ((m, 1), (1, n), (m, 1)), strict=True)
            ]
        return left, *pairs[0], right, *pairs[1], *pairs[2]

    count = int(np.prod(batch, dtype=np.int64))
    return NamedCall(
        *(_NAME, group, "x".join(map(str, (*batch, m, k, n))), f"{a} x {b}", "random", origin),
        draw=draw,
        bytes=count * (m * k + k * n + m * n),
        operations=2 * count * m * k * n,
        options={"scales": "by row and column"} if by_axis else {},
        known=() if by_axis else (1, 2, 4, 5, 6, 7),
    )


def stock(call: NamedCall) -> Callable[..., jax.Array]:
    """Return the product in int32, one float32 multiplication, and a rounding."""

    def product(*operands: jax.Array) -> jax.Array:
        a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero = operands
        total = stock_sums(a, a_zero, b, b_zero).astype(jnp.float32)
        return stock_rounded(total * (a_scale * b_scale / output_scale), output_zero)

    return product


def sample(rng: np.random.Generator, tame: bool, *, b: int = 2, m: int = 4, k: int = 8, n: int = 8) -> Arguments:
    """Draw a small product."""
    return *sample_product(rng, tame, b, m, k, n), *sample_output(rng, tame)


OPERATOR = Operator(
    _NAME,
    EXAMPLES,
    dimensions="b m k, m, m, b k n, n, n, , -> b m n; k",
    sample=sample,
    dtypes=tuple(_DTYPES),
    scenarios=scenarios,
    shardings=shardings,
    sharded_dtypes=("uint8 x int8 -> uint8",),
    programs=4,
    races=(
        call("races", (), 512, 512, 512, "uint8", "int8"),
        call("races", (), 1, 2048, 2048, "uint8", "int8"),
    ),
    small=call("overheads", (), 16, 64, 16, "uint8", "int8", origin="a small call"),
    stock=stock,
    judged_rows=4,
)

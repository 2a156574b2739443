"""The cases of ``quantized_linear_add``."""

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._cases.data import any_bits, factors, plain
from jaxdml._cases.records import Arguments, Array, Example, NamedCall, Operator, Scenario, Sharding

_NAME = "quantized_linear_add"

EXAMPLES = (
    # DirectML's page has no numbers. These are done by hand: the sums are the ties 2.5, 12.5, -1.5 and 190.5.
    Example(
        _NAME,
        (
            *(np.array([130, 140, 126, 255], np.uint8), np.array(0.5, np.float32), np.array(128, np.uint8)),
            *(np.array([1, 1, 1, 127], np.int8), np.array(0.25, np.float32), np.array(0, np.int8)),
            *(np.array(0.5, np.float32), np.array(11, np.uint8)),
        ),
        {},
        (np.array([13, 23, 9, 201], np.uint8),),
    ),
)

_DTYPES = {
    f"{a} + {b} -> {output}": (a, b, output) for a, b, output in (("uint8", "int8", "int8"), ("int8", "uint8", "uint8"))
}


def _exponents(rng: np.random.Generator, cases: int) -> tuple[Array, Array]:
    """Draw the exponents of the scales of a and b over the output's, in three ways in turn.

    Sums have halves, and mostly do not saturate; one exponent is so small that it only decides ties; or sums saturate
    unless they nearly cancel.
    """
    way, huge = np.arange(cases) // 6 % 3, rng.integers(4, 60, cases)
    near, other, tiny = rng.integers(-9, 2, cases), rng.integers(-9, 2, cases), rng.integers(-120, -12, cases)
    return np.where(way == 2, huge, near), np.choose(way, [other, tiny, huge + rng.integers(-2, 3, cases)])


def _draw(dtypes: tuple[str, str, str], shape: tuple[int, int], rng: np.random.Generator, cases: int) -> Arguments:
    """Draw sums of which many are ties.

    In every third case all scales are powers of two, and in another third ``a`` and ``b`` have equal mantissas. The
    differences from the zero points reach 5, 40 or 255. Every other case of the last third has a scale of ``b`` that is
    the negative one of ``a``, and the same differences: its sums are 0.
    """
    style, spread = np.arange(cases) % 3, np.array([5, 40, 255])[np.arange(cases) // 2 % 3]
    of_a, of_b = _exponents(rng, cases)
    of_output = rng.integers(-60, 60, cases)
    fractions = rng.integers(0, 2**23, (3, cases))
    fractions[:, style == 0] = 0
    fractions[1, style == 1] = fractions[0, style == 1]
    biased = np.clip(np.stack([of_a + of_output, of_b + of_output, of_output]), -126, 127) + 127
    bits = (biased << 23 | fractions).astype(np.uint32) | (rng.random((3, cases)) < 0.2).astype(np.uint32) << 31
    scales = bits.view(np.float32)
    opposite = (style == 2) & (np.arange(cases) % 2 == 0)
    scales[1, opposite] = -scales[0, opposite]
    drawn = spread[:, None] * rng.uniform(-1, 1, (2, cases, math.prod(shape)))
    drawn[1, opposite] = drawn[0, opposite]
    operands: list[Array] = []
    for i, name in enumerate(dtypes):
        dtype = np.dtype(name)
        info, zero = np.iinfo(dtype), any_bits(rng, (cases,), dtype)
        if i < 2:
            values = np.clip(zero[:, None].astype(int) + np.rint(drawn[i]).astype(int), info.min, info.max)
            operands.append(values.astype(dtype).reshape(cases, *shape))
        operands += [scales[i], zero]
    return tuple(operands)


def _draw_broadcast(
    dtypes: tuple[str, str, str], shape: tuple[int, int], rng: np.random.Generator, cases: int
) -> Arguments:
    """Draw the same sums with one row of ``b``, a scale for each row of ``a``, and no zero points of b and output."""
    a, a_scale, a_zero, b, b_scale, _, output_scale, _ = _draw(dtypes, shape, rng, cases)
    assert b is not None
    assert a_scale is not None
    signs = rng.choice(np.array([-1, 1], np.float32), (cases, shape[0], 1))
    return a, signs * a_scale[:, None, None], a_zero, b[:, 0], b_scale, None, output_scale, None


def scenarios(name: str) -> tuple[Scenario, ...]:
    """Return sums that tie, nearly tie, saturate and cancel."""
    dtypes = _DTYPES[name]
    traps = (
        ("ties, scales that are near, far apart or huge", _draw),
        ("ties, a row and scales that broadcast, some zero points absent", _draw_broadcast),
    )
    return tuple(
        Scenario(trap, partial(draw, dtypes, (4, 8)), {"output_dtype": dtypes[2]}, 600) for trap, draw in traps
    )


def shardings(name: str) -> tuple[Sharding, ...]:
    """Return sums with the rows sharded."""
    dtypes = _DTYPES[name]
    rows = Scenario("ties, rows sharded", partial(_draw, dtypes, (16, 2)), {"output_dtype": dtypes[2]}, 600)
    return (Sharding("rows", "m", (rows,)),)


def call(
    group: str, shape: tuple[int, ...], dtype: str, *, origin: str, of_b: tuple[int, ...] | None = None
) -> NamedCall:
    """Return the call that adds two arrays with a scale and a zero point each; all have one dtype.

    ``of_b`` is the shape of ``b`` if it is broadcast to that of ``a``.
    """
    shape_of_b = shape if of_b is None else of_b

    def draw(rng: np.random.Generator) -> tuple[Array, ...]:
        operands: list[Array] = []
        for scale, zero in ((0.0713, 120), (0.0391, 131), (0.0927, 128)):
            if len(operands) < 6:
                operands.append(plain(rng, shape_of_b if operands else shape, np.dtype(dtype)))
            of_dtype = zero if dtype == "uint8" else zero - 128
            operands += [np.asarray(np.float32(scale)), np.array(of_dtype, dtype)]
        return tuple(operands)

    return NamedCall(
        *(_NAME, group, "x".join(map(str, shape)), dtype, "random", origin),
        draw=draw,
        bytes=2 * math.prod(shape) + math.prod(shape_of_b),
        known=(1, 2, 4, 5, 6, 7),
    )


def stock(call: NamedCall) -> Callable[..., jax.Array]:
    """Return the sum in float32."""

    def add(*operands: jax.Array) -> jax.Array:
        a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero = operands
        bounds = jnp.iinfo(output_zero.dtype)
        b = b.reshape(*[1] * (a.ndim - b.ndim), *b.shape)
        a, a_zero, b, b_zero, zero = (part.astype(jnp.float32) for part in (a, a_zero, b, b_zero, output_zero))
        real = ((a - a_zero) * a_scale + (b - b_zero) * b_scale) / output_scale
        return jnp.clip(jnp.round(real) + zero, bounds.min, bounds.max).astype(output_zero.dtype)

    return add


def sample(rng: np.random.Generator, tame: bool, *, b: int = 2, m: int = 4, c: int = 8) -> Arguments:
    """Draw a small sum: ``b`` is broadcast, and each column of ``a`` has a scale and a zero point."""
    uint8, int8 = np.dtype(np.uint8), np.dtype(np.int8)
    return (
        *(any_bits(rng, (b, m, c), uint8), factors(rng, (c,), tame), any_bits(rng, (c,), uint8)),
        *(any_bits(rng, (m, c), int8), factors(rng, (1,), tame), any_bits(rng, (), int8)),
        *(factors(rng, (), tame), any_bits(rng, (), uint8)),
    )


OPERATOR = Operator(
    _NAME,
    EXAMPLES,
    dimensions="b m c, c, c, m c, 1, , , -> b m c",
    sample=sample,
    dtypes=tuple(_DTYPES),
    scenarios=scenarios,
    shardings=shardings,
    sharded_dtypes=("uint8 + int8 -> int8",),
    # The oracle answers the first row, to which a whole b would not fit.
    races=(call("races", (512, 4096), "uint8", origin="one row added to many", of_b=(4096,)),),
    small=call("overheads", (16, 16), "uint8", origin="a small call"),
    stock=stock,
    judged_rows=1,
)

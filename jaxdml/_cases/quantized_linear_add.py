"""The cases of ``quantized_linear_add``."""

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._cases.data import any_bits, plain
from jaxdml._cases.records import Arguments, Array, Call, Example, Layout, Operator, Sharding

_NAME = "quantized_linear_add"

EXAMPLES = (
    # DirectML's page has no numbers. These are done by hand: the sums are the ties 2.5, 12.5, -1.5 and 190.5.
    Example(
        _NAME,
        (
            *(np.array([130, 140, 126, 255], np.uint8), np.float32(0.5), np.uint8(128)),
            *(np.array([1, 1, 1, 127], np.int8), np.float32(0.25), np.int8(0)),
            *(np.float32(0.5), np.uint8(11)),
        ),
        {},
        (np.array([13, 23, 9, 201], np.uint8),),
    ),
)

_DTYPES = {
    f"{a} + {b} -> {output}": (a, b, output)
    for a, b, output in (("uint8", "uint8", "uint8"), ("int8", "int8", "int8"), ("uint8", "int8", "int8"))
}


def _near(rng: np.random.Generator, cases: int) -> tuple[Array, Array]:
    """Draw the exponents of a and b over the output's so that sums have halves, and mostly do not saturate."""
    return rng.integers(-9, 2, cases), rng.integers(-9, 2, cases)


def _far(rng: np.random.Generator, cases: int) -> tuple[Array, Array]:
    """Draw one exponent for ties, and one so small that it only decides them."""
    return rng.integers(-8, 2, cases), rng.integers(-120, -12, cases)


def _huge(rng: np.random.Generator, cases: int) -> tuple[Array, Array]:
    """Draw exponents with which sums saturate unless they nearly cancel."""
    drawn = rng.integers(4, 60, cases)
    return drawn, drawn + rng.integers(-2, 3, cases)


_Exponents = Callable[[np.random.Generator, int], tuple[Array, Array]]
_LAYOUTS: tuple[tuple[str, _Exponents], ...] = (
    ("sums on and near ties", _near),
    ("ties that a tiny scale decides", _far),
    ("scales that saturate or cancel", _huge),
)


def _draw(
    dtypes: tuple[str, str, str],
    shape: tuple[int, ...],
    exponents: _Exponents,
    rng: np.random.Generator,
    cases: int,
) -> Arguments:
    """Draw sums of which many are ties.

    In every third case all scales are powers of two, and in another third ``a`` and ``b`` have equal mantissas. The
    differences from the zero points reach 5, 40 or 255 in turn. Every other case of the last third has a scale of ``b``
    that is the negative one of ``a``, and the same differences: its sums are 0.
    """
    style, spread = np.arange(cases) % 3, np.array([5, 40, 255])[np.arange(cases) // 3 % 3]
    of_a, of_b = exponents(rng, cases)
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


def layouts(name: str) -> tuple[Layout, ...]:
    """Return sums that tie, nearly tie, saturate and cancel."""
    dtypes = _DTYPES[name]
    return tuple(
        Layout(trap, partial(_draw, dtypes, (4, 8), exponents), {"output_dtype": dtypes[2]}, 1200)
        for trap, exponents in _LAYOUTS
    )


def shardings(name: str) -> tuple[Sharding, ...]:
    """Return sums with the rows sharded."""
    dtypes = _DTYPES[name]
    rows = Layout("ties, rows sharded", partial(_draw, dtypes, (16, 2), _near), {"output_dtype": dtypes[2]}, 600)
    return (Sharding("rows", (rows,), (1, None, None, 1, None, None, None, None), 1),)


def call(group: str, shape: tuple[int, ...], dtype: str, *, origin: str) -> Call:
    """Return the call that adds two arrays with a scale and a zero point each; all have one dtype."""

    def draw(rng: np.random.Generator) -> tuple[Array, ...]:
        operands: list[Array] = []
        for scale, zero in ((0.0713, 120), (0.0391, 131), (0.0927, 128)):
            if len(operands) < 6:
                operands.append(plain(rng, shape, np.dtype(dtype)))
            of_dtype = zero if dtype == "uint8" else zero - 128
            operands += [np.asarray(np.float32(scale)), np.array(of_dtype, dtype)]
        return tuple(operands)

    return Call(
        *(_NAME, group, "x".join(map(str, shape)), dtype, "random", origin),
        draw=draw,
        bytes=3 * math.prod(shape),
    )


def stock(call: Call) -> Callable[..., jax.Array]:
    """Return the sum in float32."""

    def add(*operands: jax.Array) -> jax.Array:
        a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero = operands
        bounds = jnp.iinfo(output_zero.dtype)
        a, a_zero, b, b_zero, zero = (part.astype(jnp.float32) for part in (a, a_zero, b, b_zero, output_zero))
        real = ((a - a_zero) * a_scale + (b - b_zero) * b_scale) / output_scale
        return jnp.clip(jnp.round(real) + zero, bounds.min, bounds.max).astype(output_zero.dtype)

    return add


_RESNET = "a residual of ResNet-50, batch "
_SHAPES = ((256, 56, 56), (512, 28, 28), (2048, 7, 7))

OPERATOR = Operator(
    _NAME,
    EXAMPLES,
    dtypes=tuple(_DTYPES),
    layouts=layouts,
    stride=3,
    shardings=shardings,
    sharded_dtypes=("uint8 + int8 -> int8",),
    calls=(
        *(call("models", (n, *shape), "uint8", origin=f"{_RESNET}{n}") for n in (1, 32) for shape in _SHAPES),
        *(call("grid", (2**bits,), dtype, origin="the grid") for bits in (12, 20) for dtype in ("uint8", "int8")),
        call("accelerators", (2**24,), "uint8", origin="what a GPU's memory limits"),
    ),
    races=(call("races", (1, 256, 56, 56), "uint8", origin=f"{_RESNET}1"),),
    small=call("overheads", (16, 16), "uint8", origin="a small call"),
    stock=stock,
    judged_rows=1,
)

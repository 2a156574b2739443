"""What the cases of ``argmax`` and ``argmin`` share."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._cases.data import TRAPS, numbers, of_every_trap, plain
from jaxdml._cases.records import Arguments, Array, Example, NamedCall, Scenario, Sharding
from jaxdml._kernels.extremes import CPU

DTYPES = ("float32", "float16", "bfloat16", "int32", "int16", "int8", "uint32", "uint16", "uint8")

SHARDED_DTYPES = ("float32", "int8")

NINE = np.array([[1, 2, 3], [3, 0, 4], [2, 5, 2]], np.float32)

_SIZES: tuple[tuple[str, tuple[int, ...], int | tuple[int, ...], int], ...] = (
    ("short rows", (7,), -1, 300),
    ("rows of whole vectors and a rest", (40,), -1, 300),
    ("rows in chunks", (2 * CPU.short_row,), -1, 30),
    ("rows in chunks and a rest", (CPU.short_row + 1,), -1, 60),
    ("columns in chunks and a rest", (CPU.short_column + 1, CPU.lanes), -2, 30),
    ("rows and columns together", (3, 50), (-2, -1), 120),
    ("axes with one between them", (4, 3, 10), (-1, -3), 60),
)
"""The trap, the shape of a case, the axes, and how many cases there are."""


def _draw(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator, cases: int) -> Arguments:
    cases = max(cases, len(TRAPS))
    return (of_every_trap(rng, cases, int(np.prod(shape)), dtype).reshape(cases, *shape),)


def sample(rng: np.random.Generator, tame: bool, *, a: int = 2, b: int = 4, n: int = 8) -> Arguments:
    """Draw a small array."""
    return (numbers(rng, (a, b, n), tame),)


def scenarios(name: str) -> tuple[Scenario, ...]:
    """Return arrays of every trap, in turns for the first and for the last of equal elements."""
    turn = DTYPES.index(name)
    return tuple(
        Scenario(
            trap,
            partial(_draw, shape, np.dtype(name)),
            {"axis": axis, "select_last_index": (turn + place) % 2 == 1},
            cases,
            "all at once",
        )
        for place, (trap, shape, axis, cases) in enumerate(_SIZES)
    )


def shardings(name: str) -> tuple[Sharding, ...]:
    """Return arrays of every trap, with an axis sharded and with the batch sharded."""
    last = DTYPES.index(name) % 2 == 1
    dtype = np.dtype(name)
    of_axis = Scenario(
        "ties across shards", partial(_draw, (64,), dtype), {"axis": 1, "select_last_index": last}, 304, "all at once"
    )
    of_batch = Scenario(
        "rows on shards",
        partial(_draw, (3, 20), dtype),
        {"axis": (1, 2), "select_last_index": last},
        304,
        "all at once",
    )
    return Sharding("axis", "n", (of_axis,)), Sharding("batch", "a", (of_batch,), "a b n -> a; b n")


def examples(
    name: str, answers: tuple[tuple[Any, Any], ...], ties: list[float], first: int, last: int
) -> tuple[Example, ...]:
    """Return the examples of DirectML's page: of a matrix, by the axes, and of ties."""
    return (
        *(
            Example(name, (NINE,), {"axis": axes, "keepdims": True}, (np.array(answer, np.int32),))
            for axes, answer in answers
        ),
        *(
            Example(name, (np.array(ties, np.float32),), {"select_last_index": of}, (np.array(answer, np.int32),))
            for of, answer in ((False, first), (True, last))
        ),
    )


def call(
    operator: str,
    group: str,
    shape: tuple[int, ...],
    dtype: str,
    *,
    axis: int = -1,
    origin: str = "the grid",
) -> NamedCall:
    """Return the call that searches one axis."""
    kind = np.dtype(dtype)
    count = int(np.prod(shape))
    moved = count * kind.itemsize + count // shape[axis] * 4
    along = "" if axis == -1 else f" axis {axis}"

    def draw(rng: np.random.Generator) -> tuple[Array, ...]:
        return (plain(rng, shape, kind),)

    return NamedCall(
        *(operator, group, "x".join(map(str, shape)) + along, dtype, "random", origin),
        draw=draw,
        bytes=moved,
        options={"axis": axis},
        # On data that a branch predictor has learned by heart a search is faster than it ever is in practice.
        draws=max(1, min(8, 2**25 // moved)),
    )


def stock(function: Callable[..., jax.Array], call: NamedCall) -> Callable[..., jax.Array]:
    """Return ``lax.argmax`` or ``lax.argmin``: of several NaNs it may choose any."""

    def search(x: jax.Array) -> jax.Array:
        return function(x, call.options["axis"] % x.ndim, jnp.int32)

    return search

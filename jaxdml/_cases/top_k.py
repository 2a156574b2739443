"""The cases of ``top_k``."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._cases.data import TRAPS, numbers, of_every_trap, plain
from jaxdml._cases.records import Answers, Arguments, Example, NamedCall, Operator, Scenario, Sharding
from jaxdml._kernels import selection as _selection
from jaxdml._kernels.selection import CPU

PRUNINGS = _selection.PRUNINGS
"""From which length, and length for each k, some platform prunes."""

PRUNING_OF_FEW_ROWS = CPU.pruning_of_few_rows
"""The one of ``PRUNINGS`` that is for fewer rows than ``MANY_ROWS``."""

MANY_ROWS = CPU.many_rows
"""From so many rows on, CPUs select by other methods."""

DIRECTIONS = ("decreasing", "increasing")

DTYPES = ("float32", "float16", "bfloat16", "int32", "int16", "int8", "uint32", "uint16", "uint8")

TEN = np.array([[[[0, 1, 10, 11], [3, 2, 9, 8], [4, 5, 6, 7]]]], np.float32)
TIES = np.array([[[[1, 2, 2, 3], [3, 4, 5, 5], [6, 6, 6, 6]]]], np.float32)


def _selected(values: list[list[int]], indices: list[list[int]]) -> Answers:
    return np.array([[values]], np.float32), np.array([[indices]], np.int32)


EXAMPLES = (
    Example("top_k", (TEN,), {"k": 2, "axis": 3}, _selected([[11, 10], [9, 8], [7, 6]], [[3, 2], [2, 3], [3, 2]])),
    Example(
        "top_k", (TEN,), {"k": 2, "axis": 2}, _selected([[4, 5, 10, 11], [3, 2, 9, 8]], [[2, 2, 0, 0], [1, 1, 1, 1]])
    ),
    Example(
        "top_k",
        (TIES,),
        {"k": 3, "axis": 3},
        _selected([[3, 2, 2], [5, 5, 4], [6, 6, 6]], [[3, 1, 2], [2, 3, 1], [0, 1, 2]]),
    ),
    Example(
        "top_k",
        (TIES,),
        {"k": 3, "axis": 3, "direction": "increasing"},
        _selected([[1, 2, 2], [3, 4, 5], [6, 6, 6]], [[0, 1, 2]] * 3),
    ),
)

_PLAIN_SIZES = ((1, 1), (7, 7), (64, 5))

SIZES = (
    # On both sides of each length, and k, from which on some platform prunes; the last has a ragged end.
    *((pruning, pruning.min_length - 1, 9) for pruning in PRUNINGS),
    *(
        (pruning, pruning.min_length, pruning.min_length // pruning.min_length_per_k + more)
        for pruning in PRUNINGS
        for more in (0, 1)
    ),
    *((pruning, pruning.min_length * 3 // 2 - 1, 3) for pruning in PRUNINGS),
)
"""The pruning on whose edge a size is, n and k."""


def _draw(n: int, dtype: np.dtype[Any], rng: np.random.Generator, cases: int) -> Arguments:
    return (of_every_trap(rng, max(cases, len(TRAPS)), n, dtype),)


def _draw_few_rows(n: int, dtype: np.dtype[Any], rng: np.random.Generator, cases: int) -> Arguments:
    return (of_every_trap(rng, cases * (MANY_ROWS - 1), n, dtype).reshape(cases, MANY_ROWS - 1, n),)


def scenarios(name: str) -> tuple[Scenario, ...]:
    """Return rows of every trap: of a few plain sizes, and on both sides of every threshold."""
    dtype = jnp.dtype(name)
    found = []
    for (n, k), direction in itertools.product(_PLAIN_SIZES, DIRECTIONS):
        options = {"k": k, "direction": direction}
        found.append(Scenario("short rows", partial(_draw, n, dtype), options, 300, "all at once"))
    for (pruning, n, k), direction in itertools.product(SIZES, DIRECTIONS):
        options = {"k": k, "direction": direction}
        if pruning is PRUNING_OF_FEW_ROWS:
            draw, cases = partial(_draw_few_rows, n, dtype), 9
            found.append(Scenario("few rows on the edge of a method", draw, options, cases, "one after another"))
        else:
            draw = partial(_draw, n, dtype)
            found.append(Scenario("rows on the edge of a method", draw, options, 60, "all at once"))
    return tuple(found)


def shardings(name: str) -> tuple[Sharding, ...]:
    """Return rows of every trap, with the axis sharded and with the batch sharded, each in another direction."""
    first = DTYPES.index(name) % 2
    draw = partial(_draw, 64, jnp.dtype(name))
    of_axis, of_batch = (
        # From 4 devices on, k is more than the length of a shard.
        Scenario(trap, draw, {"k": 20, "direction": direction}, 304, "all at once")
        for trap, direction in (("ties across shards", DIRECTIONS[first]), ("rows on shards", DIRECTIONS[1 - first]))
    )
    return (
        Sharding("axis", "n", (of_axis,)),
        Sharding("batch", "b", (of_batch,)),
    )


def call(group: str, rows: int, n: int, k: int, dtype: str, direction: str, *, origin: str = "the grid") -> NamedCall:
    """Return the call that selects ``k`` of ``n`` in so many rows."""
    kind = np.dtype(dtype)
    moved = rows * n * kind.itemsize + rows * k * (kind.itemsize + 4)
    return NamedCall(
        *("top_k", group, f"{rows}x{n} k{k}", dtype, "random", origin),
        draw=lambda rng: (plain(rng, (rows, n), kind),),
        bytes=moved,
        options={"k": k, "direction": direction},
        # On data that a branch predictor has learned by heart a selection is faster than it ever is in practice.
        draws=max(1, min(8, 2**25 // moved)),
    )


def stock(call: NamedCall, **options: Any) -> Callable[..., tuple[jax.Array, ...]]:
    """Return ``lax.top_k``, with these options of its own; the smallest are the largest of the reversed order."""
    k = call.options["k"]
    # The usual reversals: the complement of an integer, the negative of a float.
    reverse = lax.bitwise_not if "int" in call.dtype else lax.neg

    def largest(x: jax.Array) -> tuple[jax.Array, ...]:
        return tuple(lax.top_k(x, k, **options))

    def smallest(x: jax.Array) -> tuple[jax.Array, ...]:
        values, indices = lax.top_k(reverse(x), k, **options)
        return reverse(values), indices

    return largest if call.options["direction"] == "decreasing" else smallest


def sample(rng: np.random.Generator, tame: bool, *, a: int = 2, b: int = 4, n: int = 8) -> Arguments:
    """Draw a small array."""
    return (numbers(rng, (a, b, n), tame),)


OPERATOR = Operator(
    "top_k",
    EXAMPLES,
    dimensions="a b n -> a b k, a b k; n",
    sample=sample,
    options={"k": 3},
    dtypes=DTYPES,
    scenarios=scenarios,
    shardings=shardings,
    sharded_dtypes=("float32", "bfloat16", "int32"),
    programs=4,
    races=(
        call("races", 64, 2**17, 10, "float32", "decreasing"),
        *(call("races", 1, 2**20, 64, dtype, "decreasing") for dtype in ("float16", "int32", "uint8")),
    ),
    small=call("overheads", 1, 1024, 8, "float32", "decreasing", origin="a small call"),
    stock=stock,
    judged_rows=2,
)

"""The cases of ``gather``."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._cases import _gathering
from jaxdml._cases._gathering import DTYPES, Row, draw, mode_of, options_of
from jaxdml._cases.data import CASES, indices_for, numbers
from jaxdml._cases.records import Arguments, Example, NamedCall, Operator, Scenario, Sharding


def _example(x: Any, indices: Any, axis: int, expected: Any) -> Example:
    given = np.array(x, np.float32), np.array(indices, np.uint32)
    return Example("gather", given, {"axis": axis}, (np.array(expected, np.float32),))


_SIX = [[1, 2], [3, 4], [5, 6]]

EXAMPLES = (
    _example([11, 12, 13, 14], [3, 1, 3, 0, 2], 0, [14, 12, 14, 11, 13]),
    _example(_SIX, [0, 1, 1, 2], 0, [[1, 2], [3, 4], [3, 4], [5, 6]]),
    _example(_SIX, [1, 0], 1, [[2, 1], [4, 3], [6, 5]]),
    _example(np.arange(1, 10).reshape(3, 3), [[0, 2]], 1, [[[1, 3]], [[4, 6]], [[7, 9]]]),
    _example(_SIX, [[0, 1], [1, 2]], 0, [[[1, 2], [3, 4]], [[3, 4], [5, 6]]]),
)

_SCENARIOS: tuple[Row, ...] = (
    ("slices of a middle axis", "int32", (3, 5, 4), (2, 3), 1, "vmap"),
    ("unsigned indices, which never count from the end", "uint32", (9,), (2, 6), 0, "vmap"),
    ("narrow indices, of the last axis", "int8", (3, 7), (8,), -1, "vmap"),
    # jit would cut them to 32 bits before the library sees them.
    ("indices that are in range when cut to 32 bits", "int64", (6, 2), (5,), 0, "eager"),
)


def scenarios(name: str) -> tuple[Scenario, ...]:
    """Return indices of several dtypes, some of them out of range, in both modes."""
    return _gathering.scenarios(name, _SCENARIOS, "axis")


def shardings(name: str) -> tuple[Sharding, ...]:
    """Return reads of rows, with the rows of x sharded and with its columns sharded."""
    options = options_of(mode_of(name), name)
    of_rows, of_columns = (
        Scenario(trap, partial(draw, name, "int32", shape, (20,), shape[0]), options, CASES)
        for trap, shape in (("rows on other shards", (16, 3)), ("columns on other shards", (5, 16)))
    )
    return (
        Sharding("rows", "m", (of_rows,)),
        Sharding("columns", "c", (of_columns,)),
    )


def _reads(shape: tuple[int, ...], index_shape: tuple[int, ...], axis: int) -> tuple[int, tuple[int, ...]]:
    return 1, (*shape[:axis], *index_shape, *shape[axis + 1 :])


call = partial(_gathering.call, "gather", _reads)


def stock(call: NamedCall) -> Callable[..., jax.Array]:
    """Return ``jnp.take``."""
    return lambda x, indices: jnp.take(x, indices, axis=call.options.get("axis", 0), mode="clip")


def sample(rng: np.random.Generator, tame: bool, *, m: int = 4, c: int = 4, i: int = 4) -> Arguments:
    """Draw a small read."""
    indices = indices_for(rng, m, (i,), np.dtype(np.int32), out_of_range=not tame)
    return numbers(rng, (m, c), tame), indices


OPERATOR = Operator(
    "gather",
    EXAMPLES,
    dimensions="m c, i -> i c; m",
    sample=sample,
    dtypes=DTYPES,
    scenarios=scenarios,
    shardings=shardings,
    sharded_dtypes=("float32",),
    races=(call("races", (65_536, 128), (16_384,), "float32"),),
    small=call("overheads", (64, 16), (8,), "float32", origin="a small call"),
    stock=stock,
)

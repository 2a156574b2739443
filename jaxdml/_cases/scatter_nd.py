"""The cases of ``scatter_nd``."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxdml._cases._scattering import DTYPES, MODES, scatter
from jaxdml._cases.data import CASES, EAGER_CASES, indices_for, mixed, numbers
from jaxdml._cases.records import Arguments, Example, NamedCall, Operator, Scenario, Sharding, Way

EXAMPLES = (
    Example(
        "scatter_nd",
        (
            np.arange(1, 9, dtype=np.float32),
            np.array([[4], [3], [1], [7]], np.int32),
            np.arange(9, 13, dtype=np.float32),
        ),
        {},
        (np.array([1, 11, 3, 10, 9, 6, 7, 12], np.float32),),
    ),
    # The page gives the shapes only, so here all values are zero.
    Example(
        "scatter_nd",
        (np.zeros((3, 4, 5, 6, 7), np.float32), np.zeros((1, 2, 3), np.uint32), np.zeros((1, 2, 6, 7), np.float32)),
        {},
        (np.zeros((3, 4, 5, 6, 7), np.float32),),
    ),
)

_SCENARIOS: tuple[tuple[str, str, tuple[int, ...], tuple[int, ...], Way], ...] = (
    ("slices, by two indices each", "int32", (5, 4, 3), (7, 2), "vmap"),
    ("unsigned indices, which never count from the end", "uint32", (9,), (2, 6, 1), "vmap"),
    ("narrow indices", "int8", (2, 3, 2), (8, 3), "vmap"),
    # jit would cut them to 32 bits before the library sees them.
    ("indices that are in range when cut to 32 bits", "int64", (6, 2), (5, 1), "eager"),
)
"""The trap, the dtype of the indices, the shapes of x and of the indices, and how the operator is called."""


def _draw(
    dtype: np.dtype[Any],
    index_dtype: np.dtype[Any],
    shape: tuple[int, ...],
    index_shape: tuple[int, ...],
    rng: np.random.Generator,
    cases: int,
) -> Arguments:
    depth = index_shape[-1]
    return (
        mixed(rng, (cases, *shape), dtype),
        indices_for(rng, shape[:depth], (cases, *index_shape), index_dtype),
        mixed(rng, (cases, *index_shape[:-1], *shape[depth:]), dtype),
    )


def scenarios(name: str) -> tuple[Scenario, ...]:
    """Return indices of several dtypes, some of them out of range, in both modes; most are there twice."""
    return tuple(
        Scenario(
            trap,
            partial(_draw, np.dtype(name), np.dtype(index_dtype), shape, index_shape),
            {"mode": mode, "duplicates": "last"},
            EAGER_CASES if way == "eager" else CASES,
            way,
        )
        # All shapes in one mode, then in the other: the few scenarios that the default self-check runs have both.
        for mode, (trap, index_dtype, shape, index_shape, way) in itertools.product(MODES, _SCENARIOS)
    )


def shardings(name: str) -> tuple[Sharding, ...]:
    """Return updates of rows, with the rows of x sharded."""
    options = {"mode": MODES[DTYPES.index(name) % len(MODES)], "duplicates": "last"}
    draw = partial(_draw, np.dtype(name), np.dtype("int32"), (16, 3), (20, 1))
    of_rows = Scenario("rows on other shards", draw, options, CASES)
    return (Sharding("rows", "m", (of_rows,)),)


call = partial(scatter, "scatter_nd")


def stock(call: NamedCall) -> Callable[..., jax.Array]:
    """Return ``.at[].set``."""
    unique = call.options.get("duplicates") == "unique"
    return lambda x, indices, updates: x.at[indices[:, 0]].set(updates, unique_indices=unique)


def sample(rng: np.random.Generator, tame: bool, *, m: int = 4, c: int = 4, u: int = 6) -> Arguments:
    """Draw a small write of rows."""
    indices = indices_for(rng, m, (u, 1), np.dtype(np.int32), out_of_range=not tame)
    return numbers(rng, (m, c), tame), indices, numbers(rng, (u, c), tame)


OPERATOR = Operator(
    "scatter_nd",
    EXAMPLES,
    dimensions="m c, u t, u c -> m c; m",
    sample=sample,
    options={"duplicates": "last"},
    dtypes=DTYPES,
    scenarios=scenarios,
    shardings=shardings,
    sharded_dtypes=("float32", "int8"),
    races=(call("races", (65_536, 128), 16_384, "float32", memory="copied"),),
    small=call("overheads", (64, 16), 8, "float32", memory="copied", origin="a small call"),
    stock=stock,
)

"""The cases of ``scatter_elements``."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._cases._scattering import DTYPES, MODES, scatter
from jaxdml._cases.data import CASES, EAGER_CASES, indices_for, mixed, numbers
from jaxdml._cases.records import Arguments, Example, NamedCall, Operator, Scenario, Sharding, Way

EXAMPLES = (
    Example(
        "scatter_elements",
        (np.arange(5, dtype=np.float32), np.array([3, 1, 3, 0], np.uint32), np.arange(5, 9, dtype=np.float32)),
        # The page writes one element twice, and prints what the last write leaves.
        {"axis": 0, "duplicates": "last"},
        (np.array([8, 6, 2, 7, 4], np.float32),),
    ),
    Example(
        "scatter_elements",
        (
            np.zeros((3, 3), np.float32),
            np.array([[1, 0, 2], [0, 2, 1]], np.uint32),
            np.array([[10, 11, 12], [20, 21, 22]], np.float32),
        ),
        {"axis": 0},
        (np.array([[20, 11, 0], [10, 0, 22], [0, 21, 12]], np.float32),),
    ),
)

_SCENARIOS: tuple[tuple[str, str, tuple[int, ...], tuple[int, ...], int, Way], ...] = (
    ("more indices than elements", "int32", (5, 4), (7, 4), 0, "vmap"),
    ("unsigned indices, which never count from the end", "uint32", (3, 6), (2, 9), 1, "vmap"),
    ("narrow indices", "int8", (3, 4, 2), (3, 6, 1), 1, "vmap"),
    # jit would cut them to 32 bits before the library sees them.
    ("indices that are in range when cut to 32 bits", "int64", (6, 3), (5, 3), -2, "eager"),
)
"""The trap, the dtype of the indices, the shapes of x and of the indices, the axis, and how the operator is called."""


def _draw(
    dtype: np.dtype[Any],
    index_dtype: np.dtype[Any],
    shape: tuple[int, ...],
    index_shape: tuple[int, ...],
    axis: int,
    rng: np.random.Generator,
    cases: int,
) -> Arguments:
    return (
        mixed(rng, (cases, *shape), dtype),
        indices_for(rng, shape[axis], (cases, *index_shape), index_dtype),
        mixed(rng, (cases, *index_shape), dtype),
    )


def scenarios(name: str) -> tuple[Scenario, ...]:
    """Return indices of several dtypes, some of them out of range, in both modes; most are there twice."""
    return tuple(
        Scenario(
            trap,
            partial(_draw, np.dtype(name), np.dtype(index_dtype), shape, index_shape, axis),
            {"mode": mode, "duplicates": "last", "axis": axis},
            EAGER_CASES if way == "eager" else CASES,
            way,
        )
        # All shapes in one mode, then in the other: the few scenarios that the default self-check runs have both.
        for mode, (trap, index_dtype, shape, index_shape, axis, way) in itertools.product(MODES, _SCENARIOS)
    )


def shardings(name: str) -> tuple[Sharding, ...]:
    """Return updates along one axis, with that axis of x sharded and with the other axis of all arrays sharded."""
    options = {"mode": MODES[DTYPES.index(name) % len(MODES)], "duplicates": "last", "axis": 0}
    of_axis, of_other = (
        Scenario(trap, partial(_draw, np.dtype(name), np.dtype("int32"), shape, index_shape, 0), options, CASES)
        for trap, shape, index_shape in (
            ("elements on other shards", (16, 4), (20, 3)),
            ("columns on other shards", (5, 16), (7, 16)),
        )
    )
    return (
        Sharding("axis", "m", (of_axis,)),
        Sharding("other axis", "c", (of_other,)),
    )


call = partial(scatter, "scatter_elements")


def stock(call: NamedCall) -> Callable[..., jax.Array]:
    """Return ``.at[].set``."""
    return lambda x, indices, updates: x.at[indices, jnp.arange(x.shape[1])[None]].set(updates)


def sample(rng: np.random.Generator, tame: bool, *, m: int = 4, c: int = 4, u: int = 6) -> Arguments:
    """Draw a small write of elements."""
    indices = indices_for(rng, m, (u, c), np.dtype(np.int32), out_of_range=not tame)
    return numbers(rng, (m, c), tame), indices, numbers(rng, (u, c), tame)


OPERATOR = Operator(
    "scatter_elements",
    EXAMPLES,
    dimensions="m c, u c, u c -> m c; m",
    sample=sample,
    options={"duplicates": "last"},
    dtypes=DTYPES,
    scenarios=scenarios,
    shardings=shardings,
    sharded_dtypes=("float32", "int8"),
    races=(call("races", (1024, 1024), 128, "float32", memory="copied"),),
    raced=False,
    small=call("overheads", (64, 16), 8, "float32", memory="copied", origin="a small call"),
    stock=stock,
)

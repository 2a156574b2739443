"""The cases of ``gather_nd``."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._cases import _gathering
from jaxdml._cases._gathering import DTYPES, Row, draw, mode_of, options_of
from jaxdml._cases.data import CASES, indices_for, numbers
from jaxdml._cases.records import Arguments, Example, NamedCall, Operator, Scenario, Sharding

EXAMPLES = (
    Example(
        "gather_nd",
        (np.array([[0, 1], [2, 3]], np.float32), np.array([[1], [0]], np.uint32)),
        {},
        (np.array([[2, 3], [0, 1]], np.float32),),
    ),
    Example(
        "gather_nd",
        (np.arange(8, dtype=np.float32).reshape(2, 2, 2), np.array([[0, 1], [1, 0]], np.uint32)),
        {},
        (np.array([[2, 3], [4, 5]], np.float32),),
    ),
    Example(
        "gather_nd",
        (
            np.arange(12, dtype=np.float32).reshape(3, 2, 2),
            np.array([[[0, 0], [1, 1]], [[1, 1], [0, 0]], [[0, 1], [1, 0]]], np.uint32),
        ),
        {"batch_dims": 1},
        (np.array([[0, 3], [7, 4], [9, 10]], np.float32),),
    ),
    # The page gives the shapes only, so here all values are zero.
    Example(
        "gather_nd",
        (np.zeros((3, 4, 5, 6, 7), np.float32), np.zeros((1, 2, 3), np.uint32)),
        {},
        (np.zeros((1, 2, 6, 7), np.float32),),
    ),
)

_SCENARIOS: tuple[Row, ...] = (
    ("slices, by two indices each", "int32", (5, 4, 3), (7, 2), 0, "vmap"),
    ("unsigned indices, which never count from the end", "uint32", (9,), (2, 6, 1), 0, "vmap"),
    ("narrow indices in a batch", "int8", (2, 3, 4), (2, 8, 1), 1, "vmap"),
    # jit would cut them to 32 bits before the library sees them.
    ("indices that are in range when cut to 32 bits", "int64", (6, 2), (5, 1), 0, "eager"),
)


def scenarios(name: str) -> tuple[Scenario, ...]:
    """Return indices of several dtypes, some of them out of range, in both modes."""
    return _gathering.scenarios(name, _SCENARIOS, "batch_dims")


def shardings(name: str) -> tuple[Sharding, ...]:
    """Return reads of elements by two indices, with the first of these dimensions of x sharded."""
    drawn = partial(draw, name, "int32", (16, 3), (20, 2), (16, 3))
    scenario = Scenario("elements on other shards", drawn, options_of(mode_of(name), name), CASES)
    return (Sharding("rows", "m", (scenario,), "m r, i t -> i; m"),)


def _reads(shape: tuple[int, ...], index_shape: tuple[int, ...], batch_dims: int) -> tuple[int, tuple[int, ...]]:
    addressed = index_shape[-1]
    return addressed, (*index_shape[:-1], *shape[batch_dims + addressed :])


call = partial(_gathering.call, "gather_nd", _reads)


def stock(call: NamedCall) -> Callable[..., jax.Array]:
    """Return ``.at[].get``, mapped over the batch."""

    def read(x: jax.Array, indices: jax.Array) -> jax.Array:
        return x.at[tuple(jnp.moveaxis(indices, -1, 0))].get(mode="clip")

    return jax.vmap(read) if call.options.get("batch_dims") else read


def sample(
    rng: np.random.Generator, tame: bool, *, m: int = 4, r: int = 4, c: int = 2, i: int = 4, j: int = 4
) -> Arguments:
    """Draw a small read."""
    indices = indices_for(rng, (m, r), (i, j, 2), np.dtype(np.int32), out_of_range=not tame)
    return numbers(rng, (m, r, c), tame), indices


OPERATOR = Operator(
    "gather_nd",
    EXAMPLES,
    dimensions="m r c, i j t -> i j c; m",
    sample=sample,
    dtypes=DTYPES,
    scenarios=scenarios,
    shardings=shardings,
    sharded_dtypes=("float32",),
    races=(call("races", (65_536, 128), (16_384, 1), "float32"),),
    raced=False,
    small=call("overheads", (64, 16), (8, 1), "float32", origin="a small call"),
    stock=stock,
)

"""The cases of ``gather_elements``."""

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
        "gather_elements",
        (np.arange(1, 10, dtype=np.float32).reshape(3, 3), np.array([[1, 2, 0], [2, 0, 0]], np.uint32)),
        {"axis": 0},
        (np.array([[4, 8, 3], [7, 2, 3]], np.float32),),
    ),
)

_SCENARIOS: tuple[Row, ...] = (
    ("more indices than elements", "int32", (5, 4), (7, 4), 0, "vmap"),
    ("unsigned indices, which never count from the end", "uint32", (3, 6), (2, 9), 1, "vmap"),
    ("narrow indices", "int8", (3, 4, 2), (3, 6, 1), 1, "vmap"),
    # jit would cut them to 32 bits before the library sees them.
    ("indices that are in range when cut to 32 bits", "int64", (6, 3), (5, 3), -2, "eager"),
)


def scenarios(name: str) -> tuple[Scenario, ...]:
    """Return indices of several dtypes, some of them out of range, in both modes."""
    return _gathering.scenarios(name, _SCENARIOS, "axis")


def shardings(name: str) -> tuple[Sharding, ...]:
    """Return reads along one axis, with that axis of x sharded and with the other axis of both arrays sharded."""
    options = options_of(mode_of(name), name, axis=0)
    of_axis, of_other = (
        Scenario(trap, partial(draw, name, "int32", shape, index_shape, shape[0]), options, CASES)
        for trap, shape, index_shape in (
            ("elements on other shards", (16, 4), (20, 3)),
            ("columns on other shards", (5, 16), (7, 16)),
        )
    )
    return (
        Sharding("axis", "m", (of_axis,)),
        Sharding("other axis", "c", (of_other,)),
    )


def _reads(shape: tuple[int, ...], index_shape: tuple[int, ...], axis: int) -> tuple[int, tuple[int, ...]]:
    return 1, index_shape


call = partial(_gathering.call, "gather_elements", _reads)


def stock(call: NamedCall) -> Callable[..., jax.Array]:
    """Return ``jnp.take_along_axis``."""
    return lambda x, indices: jnp.take_along_axis(x, indices, axis=call.options.get("axis", 0), mode="clip")


def sample(rng: np.random.Generator, tame: bool, *, m: int = 4, c: int = 4, i: int = 4) -> Arguments:
    """Draw a small read."""
    indices = indices_for(rng, m, (i, c), np.dtype(np.int32), out_of_range=not tame)
    return numbers(rng, (m, c), tame), indices


OPERATOR = Operator(
    "gather_elements",
    EXAMPLES,
    dimensions="m c, i c -> i c; m",
    sample=sample,
    dtypes=DTYPES,
    scenarios=scenarios,
    shardings=shardings,
    sharded_dtypes=("float32",),
    races=(call("races", (1024, 1024), (128, 1024), "float32"),),
    raced=False,
    small=call("overheads", (64, 16), (8, 16), "float32", origin="a small call"),
    stock=stock,
)

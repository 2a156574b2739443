"""What the cases of all gathers share."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from jaxdml._cases.data import CASES, EAGER_CASES, indices_for, mixed, plain
from jaxdml._cases.records import Arguments, Array, NamedCall, Scenario, Way

DTYPES = ("float32", "bfloat16", "int8")

MODES = ("clip", "fill")

Row = tuple[str, str, tuple[int, ...], tuple[int, ...], int, Way]
"""The trap, the dtype of the indices, the shapes of x and of the indices, an option, and how the operator is called."""


def options_of(mode: str, name: str, **others: Any) -> dict[str, Any]:
    """Return the options of a call with values of dtype ``name``."""
    filled = {"fill_value": 7 if name == "int8" else -0.0} if mode == "fill" else {}
    return {"mode": mode, **filled, **others}


def draw(
    dtype: str,
    index_dtype: str,
    shape: tuple[int, ...],
    index_shape: tuple[int, ...],
    addressed: int | tuple[int, ...],
    rng: np.random.Generator,
    cases: int,
) -> Arguments:
    """Draw arrays, and indices of dimensions of the sizes ``addressed``, some of them out of range."""
    x = mixed(rng, (cases, *shape), np.dtype(dtype))
    return x, indices_for(rng, addressed, (cases, *index_shape), np.dtype(index_dtype))


def scenarios(name: str, rows: Sequence[Row], option: str) -> tuple[Scenario, ...]:
    """Return scenarios in both modes.

    Args:
      name: the dtype of the values.
      rows: what there is in each mode.
      option: ``axis`` or ``batch_dims``, the option that a row ends with.
    """
    made = []
    # All shapes in one mode, then in the other: the few scenarios that the default self-check runs have both.
    for mode, (trap, index_dtype, shape, index_shape, value, way) in itertools.product(MODES, rows):
        addressed = shape[value] if option == "axis" else shape[value : value + index_shape[-1]]
        drawn = partial(draw, name, index_dtype, shape, index_shape, addressed)
        cases = EAGER_CASES if way == "eager" else CASES
        made.append(Scenario(trap, drawn, options_of(mode, name, **{option: value}), cases, way))
    return tuple(made)


def mode_of(name: str) -> str:
    """Return a mode for each dtype, both of them in turn."""
    return MODES[DTYPES.index(name) % len(MODES)]


def call(
    operator: str,
    reads: Callable[[tuple[int, ...], tuple[int, ...], int], tuple[int, tuple[int, ...]]],
    group: str,
    shape: tuple[int, ...],
    index_shape: tuple[int, ...],
    dtype: str,
    *,
    origin: str = "the grid",
    **options: int,
) -> NamedCall:
    """Return the call that reads at random indices, all of them in range.

    Args:
      operator: one of the gathers.
      reads: takes both shapes and the option's value; returns how many dimensions are addressed, from the one that the
        option names on, and the shape of what is read.
      group: what the call is measured for.
      shape: that of ``x``.
      index_shape: that of ``indices``.
      dtype: that of ``x``.
      origin: where the sizes come from.
      options: ``axis`` or ``batch_dims``; 0 if left out.
    """
    kind = np.dtype(dtype)
    first = next(iter(options.values()), 0)
    addressed, read = reads(shape, index_shape, first)
    limits = np.asarray(shape[first : first + addressed], np.int32)

    def draw(rng: np.random.Generator) -> tuple[Array, ...]:
        drawn: Array = rng.integers(0, limits if addressed > 1 else limits[0], index_shape, np.int32)
        return plain(rng, shape, kind), drawn

    sizes, counts = ("x".join(map(str, sizes)) for sizes in (shape, index_shape))
    written = " ".join(f"{name} {value}" for name, value in options.items())
    return NamedCall(
        *(operator, group, f"{sizes}{f' {written}' if written else ''} <- {counts}", dtype, "random", origin),
        draw=draw,
        bytes=int(2 * np.prod(read) * kind.itemsize + 4 * np.prod(index_shape)),
        options=options,
    )

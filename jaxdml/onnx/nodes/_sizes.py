"""Sizes and axes: what operators that move elements check."""

import math
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._base import errors
from jaxdml._base.shapes import is_static
from jaxdml.onnx._memory import is_on_host, must_fit
from jaxdml.onnx.values.stored import on_device

ON_HOST = 2**24
"""Bytes up to which a result that is known while tracing is computed with NumPy and becomes a constant of the program.

Shapes and tables of indices are far smaller. Larger ones are masks and the like, which a program had better compute.
"""


def numbers(values: np.ndarray) -> tuple[Any, ...]:
    """Return a known tensor's elements as Python's integers, or as symbolic sizes."""
    return tuple(values.reshape(-1).tolist())


def refusal(rule: str, *details: str) -> ValueError:
    """Compose the error about operands that do not fit."""
    return ValueError(errors.compose("onnx.Model", rule, *details))


def axis_of(axis: int, rank: int) -> int:
    """Return an axis counted from the front."""
    if not -rank <= axis < rank:
        raise refusal(f"axis {axis} is out of range for rank {rank}.")
    return axis % rank


def axes_of(axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """Return axes counted from the front, each once."""
    return tuple(dict.fromkeys(axis_of(axis, rank) for axis in axes))


def different_axes(axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """Return axes counted from the front; refuse one that is there twice."""
    given = tuple(axes)
    found = axes_of(given, rank)
    if len(found) < len(given):
        raise refusal(f"axes {list(given)} have one twice, of rank {rank}.")
    return found


def namespace(xp: ModuleType, shape: Sequence[Any], dtype: Any) -> ModuleType:
    """Return what computes a result of this shape: ``xp``, or jax.numpy where a size is symbolic or the result large.

    Results for which there is no memory are refused before it is taken.
    """
    must_fit(shape, dtype)
    if not is_static(*shape):
        return jnp
    return xp if is_on_host() or math.prod(shape) * np.dtype(dtype).itemsize <= ON_HOST else jnp


def placed(xp: ModuleType, array: Any) -> Any:
    """Return an operand as what ``namespace`` chose takes."""
    return array if xp is np else on_device(array)


def resized(x: Any, shape: Sequence[int]) -> Any:
    """Return an array of another shape: each element stays at its place, and zeros are added."""
    if tuple(x.shape) == tuple(shape):
        return x
    kept = [min(pair) for pair in zip(x.shape, shape, strict=True)]
    return jnp.pad(lax.slice(x, [0] * len(kept), kept), [(0, n - own) for n, own in zip(shape, kept, strict=True)])


def not_empty(x: Any, dimensions: Sequence[int]) -> Any:
    """Return an array that has an element for indices that do not count, along some dimensions."""
    return resized(x, [1 if d in dimensions and is_static(n) and n == 0 else n for d, n in enumerate(x.shape)])

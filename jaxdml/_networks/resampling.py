"""Arrays that are resampled along one dimension after another, at places that are known while tracing."""

from functools import partial
from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np

_FEW_TAPS = 8
"""Up to this many source elements for one result, adding them beats a matrix product."""


def along(xp: ModuleType, x: Any, axis: int, indices: Any, weights: Any) -> Any:
    """Replace a dimension by weighted sums of its elements.

    Args:
      xp: numpy or jax.numpy.
      x: an array.
      axis: the dimension.
      indices: ``[taps, outputs]``, which elements to add; traced where they depend on a length, as the weights.
      weights: how to weigh them; None for nearest, of one tap.
    """
    if weights is None:
        return _taken(xp, x, axis, indices[0])
    rest = (-1, *(1,) * (x.ndim - 1 - axis))
    if len(indices) <= _FEW_TAPS or not isinstance(indices, np.ndarray):
        parts = [
            _taken(xp, x, axis, index) * xp.asarray(weight.reshape(rest), x.dtype)
            for index, weight in zip(indices, weights, strict=True)
        ]
        return sum(parts[1:], start=parts[0])
    matrix = np.zeros((indices.shape[1], x.shape[axis]))
    np.add.at(matrix, (np.arange(len(matrix)), indices), weights)
    product = partial(jnp.matmul, precision="highest") if xp is jnp else np.matmul
    return xp.moveaxis(product(xp.moveaxis(x, axis, -1), xp.asarray(matrix.T, x.dtype)), -1, axis)


def _taken(xp: ModuleType, x: Any, axis: int, index: Any) -> Any:
    """Return the elements at places; an integer multiple that is known repeats elements, which needs no gather."""
    length = x.shape[axis]
    times = len(index) // length if length and len(index) % length == 0 and isinstance(index, np.ndarray) else 0
    if times and (index == np.arange(len(index)) // times).all():
        return xp.repeat(x, times, axis) if times > 1 else x
    return xp.take(x, index, axis, mode="clip")

"""Statistics of arrays of floats, and what is normalized by them."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Average = Callable[[jax.Array, Sequence[int]], jax.Array]
"""``average(x, axes)`` returns the mean along axes, which stay."""


def plain(x: jax.Array, axes: Sequence[int]) -> jax.Array:
    """Return the mean along axes."""
    return x.mean(axes, keepdims=True)


def moments(x: jax.Array, axes: Sequence[int], average: Average = plain) -> tuple[jax.Array, jax.Array]:
    """Return the mean and the variance, from the differences to the mean."""
    mean = average(x, axes)
    return mean, average(jnp.square(x - mean), axes)


def local_response(
    x: jax.Array, axes: Sequence[int], *, size: int, alpha: float, beta: float, bias: float
) -> jax.Array:
    """Divide each element by a power of the sum of squares around it, along one axis or several.

    A window of ``size`` elements begins ``(size - 1) // 2`` before an element, and is cut at the ends of the array.
    """
    before = (size - 1) // 2
    window = [size if d in axes else 1 for d in range(x.ndim)]
    padding = [(before, size - 1 - before) if d in axes else (0, 0) for d in range(x.ndim)]
    total = lax.reduce_window(jnp.square(x), np.zeros((), x.dtype), lax.add, window, (1,) * x.ndim, padding)
    return x / (bias + alpha / size * total) ** beta

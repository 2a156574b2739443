"""Select by taking the maximum k times, each time among the numbers below the last one.

All numbers are distinct, so this leaves out exactly those already taken. Nothing is moved, nothing branches on the
data, and the time does not depend on their order.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_REDUCED_TOGETHER = 8, 7, 6, 5, 4
"""The leading sizes to reduce in one step, best first: XLA's CPU backend unrolls so short a loop and vectorizes it."""

_MAX_LANES = 64
"""The most numbers for the last reduction, which runs along the vector."""


def by_repeated_maxima(numbers: jax.Array, k: int) -> jax.Array:
    """Take the ``k`` greatest of distinct unsigned integers ``[..., m]``, in decreasing order.

    The numbers are padded with zeros. If a sequence holds a zero itself, it comes last, and equals the padding.
    """
    *batch, m = numbers.shape
    shape = _factors(m)
    zero = numbers.dtype.type(0)
    padded = lax.pad(numbers, zero, (*[(0, 0, 0)] * len(batch), (0, math.prod(shape) - m, 0))).reshape(*batch, *shape)

    def take(bound: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        below = jnp.where(padded <= jnp.expand_dims(bound, range(len(batch), padded.ndim)), padded, zero)
        greatest = _maxima(below, len(batch))
        return greatest - np.ones_like(zero), greatest

    no_bound = jnp.full_like(numbers, np.iinfo(numbers.dtype).max, shape=tuple(batch))
    return jnp.moveaxis(lax.scan(take, no_bound, None, length=k)[1], 0, -1)


def _maxima(numbers: jax.Array, axis: int) -> jax.Array:
    """Reduce every dimension from ``axis`` on, one after another; the barrier keeps XLA from merging the steps."""
    while numbers.ndim > axis + 1:
        numbers = lax.optimization_barrier(numbers.max(axis=axis))  # type: ignore[no-untyped-call]
    return numbers.max(axis=axis)


def _factors(m: int) -> tuple[int, ...]:
    """Factor ``m``, or a slightly greater number, into a shape that is quick to reduce from the first dimension on."""
    together = next((count for count in _REDUCED_TOGETHER if m % count == 0), _REDUCED_TOGETHER[0])
    rest = -(-m // together)
    return (together, rest) if rest <= _MAX_LANES else (together, *_factors(rest))

"""Select by taking the maximum k times, each time of what lies below the last one.

That leaves out exactly what has been taken, as the numbers are all different. Nothing is moved, nothing branches on
the data, and nothing depends on its order.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_FANS = 8, 7, 6, 5, 4
"""How many rows of numbers to reduce at once, best first: XLA's CPU backend unrolls such a loop, then vectorizes."""

_LANES = 64
"""How many numbers may be left for the last reduction, which runs along the vector."""


def by_repeated_maxima(numbers: jax.Array, k: int) -> jax.Array:
    """Take the ``k`` greatest of every row of different unsigned integers, in decreasing order.

    Zeros fill rows up. If a row has a zero itself, it comes last, and is no other than those.
    """
    rows, m = numbers.shape
    shape = _factors(m)
    zero = numbers.dtype.type(0)
    filled = lax.pad(numbers, zero, ((0, 0, 0), (0, math.prod(shape) - m, 0))).reshape(rows, *shape)

    def take(bound: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        open_ones = jnp.where(filled <= jnp.expand_dims(bound, range(1, filled.ndim)), filled, zero)
        greatest = _maxima(open_ones)
        return greatest - np.ones_like(zero), greatest

    all_open = jnp.full(rows, np.iinfo(numbers.dtype).max, numbers.dtype)
    return lax.scan(take, all_open, None, length=k)[1].T


def _maxima(numbers: jax.Array) -> jax.Array:
    """Take the maximum of each row ``[b, ...]``, one axis after another; the barrier keeps them apart."""
    while numbers.ndim > 2:
        numbers = lax.optimization_barrier(numbers.max(axis=1))  # type: ignore[no-untyped-call]
    return numbers.max(axis=1)


def _factors(m: int) -> tuple[int, ...]:
    """Cut ``m`` numbers, or a few more, into axes that are quick to reduce, the first one first."""
    fan = next((fan for fan in _FANS if m % fan == 0), _FANS[0])
    rest = -(-m // fan)
    return (fan, rest) if rest <= _LANES else (fan, *_factors(rest))

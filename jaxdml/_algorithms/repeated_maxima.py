"""Select by taking the maximum k times, each time of what lies below the last one.

Key and position of an element make one integer, the key in the high bits and the position, counted backwards, in
the low ones. Those integers are all different, so the larger one simply comes first, and "below the last one" leaves
out exactly what has been taken. Nothing is moved, nothing branches on the data, and nothing depends on its order.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._algorithms.order_keys import order_keys
from jaxdml._base.axis_direction import AxisDirection

_FANS = 8, 7, 6, 5, 4
"""How many rows of numbers to reduce at once, best first: XLA's CPU backend unrolls such a loop, then vectorizes."""

_LANES = 64
"""How many numbers may be left for the last reduction, which runs along the vector."""


def by_repeated_maxima(x: jax.Array, k: int, direction: AxisDirection) -> jax.Array:
    """Take the first ``k`` of every row one by one; keys are of at most 32 bits, rows shorter than 2**31."""
    positions = lax.broadcasted_iota(jnp.uint32, x.shape, 1)
    return among_by_repeated_maxima(order_keys(x, direction), positions, k, x.shape[1])


def among_by_repeated_maxima(keys: jax.Array, positions: jax.Array, k: int, n: int) -> jax.Array:
    """Return the positions of the ``k`` greatest keys of every row, in order; of equal keys the first ones.

    Args:
      keys: unsigned integers of at most 32 bits, ``[b, m]``.
      positions: uint32 below ``n``, all different within a row, in any order, ``[b, m]``.
      k: how many to take, at most m.
      n: at most 2**31 - 1.
    """
    bits = n.bit_length()
    packed = np.dtype(np.uint32 if 8 * keys.dtype.itemsize + bits <= 32 else np.uint64)
    # 64-bit integers exist only within: what comes out has 32 bits again.
    with jax.enable_x64(True):
        # Counted from n: 0 is left for what fills up.
        backwards = np.uint32(n) - positions
        taken = _taken(keys.astype(packed) << packed.type(bits) | backwards.astype(packed), k)
        return np.uint32(n) - (taken & packed.type((1 << bits) - 1)).astype(jnp.uint32)


def _taken(numbers: jax.Array, k: int) -> jax.Array:
    """Take the ``k`` greatest of every row of different numbers, none of them 0, in decreasing order."""
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

"""Multiply sums by real numbers, digit by digit in int32, and round: what TPUs do with scales that are proved.

A TPU has no float64, emulates 64-bit integers, and rounds floats in its own way. So the multiplier is written as an
integer in units of ``2**-21`` and some digits of b bits below it, and ``sum * multiplier + 1/2`` is added up from the
lowest digit on, each time shifted to the right by b bits. A shift drops a fraction of a unit, which no later bit
depends on, so the integer that is left is the floor of the exact product and 1/2. Only integers are added, multiplied
and shifted, and all fit int32:

- Let ``2**e`` be the greatest power of two up to the multiplier. A sum of ``2**(8 - e)`` saturates for every zero
  point, so sums are clamped to that. It is ``2**24`` at most, and b is 22 + e, from 6 on: a digit times a sum is
  at most ``2**30``.
- The product of the sum and the integer is at most ``2**9`` in units of ``2**-21``.

The multiplier is the sum of two float32 numbers. Each has digits of its own, which are added. They do not overlap, so
that a sum of two is at most ``2**b`` in magnitude.

The product is wrong by what the digits drop, and by what the two floats lack: ``error`` bounds it. It is exact enough
if every product of a sum is further from a half than that, which is proved on the host. Ties are not: a multiplier that
has one is left to residuals.
"""

from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._arithmetic.float_parts import MANTISSA_BITS, int_bits, power_of_two
from jaxdml._arithmetic.residuals import clamp

DIGITS = 2, 3
"""How many there may be below the integer."""

_POINT = 21
"""The bits of the integer below the point."""

_SATURATED = 8
"""A product of ``2**8`` and more saturates for every zero point."""

_MOST = 24
"""Sums are clamped to this power of two, if not to less. So a digit has 6 bits at least."""

_BIAS = 127
"""That of the exponent of a float32."""


def error(exponent: np.ndarray, digits: int) -> np.ndarray:
    """Return by how much products of multipliers from ``2**exponent`` to twice that may be wrong."""
    reach = np.clip(_SATURATED - exponent, 0, _MOST)
    dropped = 2.0 ** (reach + 1 - _POINT - digits * (30 - reach))
    return dropped + 2.0 ** (reach + exponent + 1 - 47)


def enough(high: np.ndarray, nearest: np.ndarray, greatest: int) -> int:
    """Return how many digits suffice, or 0 if none of ``DIGITS`` do.

    Args:
      high: float32, multipliers without what it cannot hold.
      nearest: for each, how near the product of a sum comes to a half, at most.
      greatest: no sum is greater in magnitude.
    """
    sizes = np.abs(high)
    exponent = np.frexp(sizes)[1] - 1
    # A sum beyond 2**24 is clamped, so it must saturate, or be rounded to 0 as all others.
    reached = (exponent >= _SATURATED - _MOST) | (greatest <= 1 << _MOST) | ((greatest + 2.0) * sizes < 0.5)
    if not (reached & (exponent <= _SATURATED)).all():
        return 0
    return next((digits for digits in DIGITS if (nearest > error(exponent, digits)).all()), 0)


def round_digits(
    total: jax.Array, high: jax.Array, low: jax.Array, digits: int, zero_point: jax.Array | None, dtype: jnp.dtype
) -> jax.Array:
    """Return ``clamp(round(total * (high + low)) + zero_point)``.

    Args:
      total: int32.
      high: float32, of which the multiplier is the sum; it broadcasts against ``total``.
      low: float32 of the same shape.
      digits: what ``enough`` returns.
      zero_point: int32 that broadcasts against ``total``, or None for 0.
      dtype: int8 or uint8.
    """
    exponent = (int_bits(jnp.abs(high)) >> MANTISSA_BITS) - _BIAS
    reach = jnp.clip(_SATURATED - exponent, 0, _MOST)
    bits = 30 - reach
    base = power_of_two(bits)
    integer, *parts = (
        first + second for first, second in zip(*(_digits(x, base, digits) for x in (high, low)), strict=True)
    )
    limit = 1 << reach
    total = jnp.clip(total, -limit, limit)
    *upper, lowest = parts
    below = reduce(lambda below, digit: total * digit + below >> bits, reversed(upper), total * lowest >> bits)
    return clamp(total * integer + (below + (1 << _POINT - 1)) >> _POINT, zero_point, dtype)


def _digits(x: jax.Array, base: jax.Array, count: int) -> list[jax.Array]:
    """Return the integer of a float32, and the digits below it. What is left is always a float32."""
    x, found = x * float(1 << _POINT), []
    for _ in range(count):
        found.append(x.astype(jnp.int32))
        x = (x - found[-1].astype(jnp.float32)) * base
    return [*found, x.astype(jnp.int32)]

"""Round accumulators in float64, by multipliers that are proved to round them correctly.

On a CPU a float64 product costs no more than to load the accumulator and to store the result, with one condition: the
loop must not load float64, since LLVM chooses the number of elements in a vector by the widest type that is loaded or
stored. So a multiplier is the sum of two float32 numbers.

float32 alone would leave doubts with most scales: among the 512 accumulators next to halves some are nearer than its
error. int32 words need two limbs, which are more operations. An H200 rounds this way in the time that it takes to read
and write; other GPUs may have slower float64. TPUs have one that is not IEEE 754's: see ``digit_products``.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.bits import with_flipped_sign
from jaxdml._kernels.requantization.proofs import STEP, Addends, Multiplier

_TO_INTEGER = 1.5 * 2.0**52
"""Adding this to a float64 below 2**31 in magnitude rounds it, ties to even, and leaves it in the lower bits."""


class Arithmetic(NamedTuple):
    """How a platform multiplies and rounds float64 numbers."""

    multiplier: Callable[[jax.Array, jax.Array], jax.Array]
    """Returns the sum of two float32 arrays in float64."""

    rounded: Callable[[jax.Array, jax.Array, jax.Array, bool], jax.Array]
    """Takes float64 numbers, two int32 limits at most 2**9 in magnitude, and whether int32 holds all numbers. Returns
    the lowest 8 bits of the nearest integers between the limits, ties to even, as int8."""


def sum_when_used(high: jax.Array, low: jax.Array) -> jax.Array:
    """Return the sum of two float32 arrays in float64, added where it is read: LLVM makes short vectors of float64."""
    # Without the barrier XLA would add the two parts, and load float64.
    return _sum(*lax.optimization_barrier((high, low)))  # type: ignore[no-untyped-call]


def _sum(high: jax.Array, low: jax.Array) -> jax.Array:
    return high.astype(jnp.float64) + low.astype(jnp.float64)


def _by_addition(value: jax.Array, low: jax.Array, high: jax.Array, fits: bool) -> jax.Array:
    del fits
    # The clamp also keeps XLA from contracting a product and the sum.
    shifted = _clamped(value, low, high) + np.float64(_TO_INTEGER)
    return lax.bitcast_convert_type(shifted, jnp.int64).astype(jnp.int8)


def _by_conversion(value: jax.Array, low: jax.Array, high: jax.Array, fits: bool) -> jax.Array:
    # A GPU compares int32 faster than float64. XLA for CUDA mistakes a bitcast to int64 that is converted next for a
    # conversion of the float.
    nearest = lax.round(value if fits else _clamped(value, low, high), lax.RoundingMethod.TO_NEAREST_EVEN)
    return jnp.clip(nearest.astype(jnp.int32), low, high).astype(jnp.int8)


def _clamped(value: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    return jnp.clip(value, low.astype(jnp.float64), high.astype(jnp.float64))


ON_CPU = Arithmetic(sum_when_used, _by_addition)
ON_CUDA = Arithmetic(_sum, _by_conversion)


def round_sums(
    on: Arithmetic, p: jax.Array, q: jax.Array, by: Addends, zero_point: jax.Array | None, dtype: Any
) -> jax.Array:
    """Return ``clamp(round(p * factor + q * other) + zero_point)``, with the factors that are proved.

    Args:
      on: of the platform.
      p: int32 of at most 255 in magnitude; ``q`` alike. They broadcast.
      q: int32.
      by: what ``proved_sum`` returns.
      zero_point: int32 that broadcasts against the sums, or None for 0.
      dtype: int8 or uint8.
    """
    with jax.enable_x64(True):
        factors = lax.bitcast_convert_type(by.factors, jnp.float64)
        total = p.astype(jnp.float64) * factors[0] + q.astype(jnp.float64) * factors[1]
        if by.with_halves:
            total = lax.round(total / STEP, lax.RoundingMethod.TO_NEAREST_EVEN) * STEP
        return _rounded(on, total, by.fits, zero_point, dtype)


def round_products(
    on: Arithmetic, total: jax.Array, by: Multiplier, zero_point: jax.Array | None, dtype: Any
) -> jax.Array:
    """Return ``clamp(round(total * multiplier) + zero_point)``.

    Args:
      on: of the platform.
      total: int32.
      by: what ``proved`` returns.
      zero_point: int32 that broadcasts against ``total``, or None for 0.
      dtype: int8 or uint8.
    """
    with jax.enable_x64(True):
        return _rounded(on, total.astype(jnp.float64) * on.multiplier(by.high, by.low), by.fits, zero_point, dtype)


def _rounded(on: Arithmetic, value: jax.Array, fits: bool, zero_point: jax.Array | None, dtype: Any) -> jax.Array:
    """Round float64 numbers; ``fits`` tells whether int32 holds them."""
    limits = np.iinfo(dtype)
    zero = jnp.int32(0) if zero_point is None else zero_point
    nearest = on.rounded(value, np.int32(limits.min) - zero, np.int32(limits.max) - zero, fits)
    # The zero point is added afterwards: it may be odd, and would turn the ties.
    if dtype == np.int8:
        return nearest + zero.astype(jnp.int8)
    return with_flipped_sign(nearest + (zero - 128).astype(jnp.int8), dtype)

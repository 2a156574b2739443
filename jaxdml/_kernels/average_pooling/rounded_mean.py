"""Round ``sum * x_scale / (output_scale * count)`` correctly, ties to even, as ``residuals`` rounds a product.

Write the scales as integers of 24 bits times powers of two. With the sum N and the number n of elements, the mean to
round is ``v = N * ma / (mo * n) * 2**e``. Its magnitude is below ``255 * 2**(e + 1)``. So v rounds to 0 if e is -11 or
less. As n is at most 2**23 + 2**15, every N but 0 saturates from an e of 33 on. Other exponents need not be kept.

A float32 estimate of v gives an integer f, so that v rounds to f or to f + 1. Where the estimate is too close to
``f + 1/2`` to decide, the sign of ``D = N * ma * 2**(e + 1) - (2 * f + 1) * mo * n`` does, or of both terms times
``2**-(e + 1)``. There v is nearly ``f + 1/2`` and, if it does not saturate, below 2**9. So both terms are below 2**58,
and int64 holds them. ``residuals`` says why it does not matter how a device rounds the estimate.
"""

import jax
import jax.numpy as jnp

from jaxdml._arithmetic.float_parts import decompose, int_bits, lower_and_half, times_power_of_two
from jaxdml._arithmetic.residuals import TOLERANCE

_LEAST, _GREATEST = -11, 33
"""The bounds of the exponents that matter."""


def rounded_mean(total: jax.Array, count: jax.Array, x_scale: jax.Array, output_scale: jax.Array) -> jax.Array:
    """Return the rounded means as int32; any number beyond 254 where they saturate.

    Args:
      total: int32, at most 255 times ``count`` in magnitude. All other arrays broadcast against it.
      count: int32, from 1 to ``LARGEST_WINDOW``.
      x_scale: float32.
      output_scale: float32.
    """
    (negative, ma, ea), (o_negative, mo, eo) = decompose(x_scale), decompose(output_scale)
    exponent = jnp.clip(ea - eo, _LEAST, _GREATEST)
    ma, mo = ma.astype(jnp.int32), mo.astype(jnp.int32)
    ma = jnp.where(negative ^ o_negative, -ma, ma)
    ratio = times_power_of_two(ma.astype(jnp.float32) / mo.astype(jnp.float32), exponent) / count.astype(jnp.float32)
    estimate = total.astype(jnp.float32) * ratio
    lower, half = lower_and_half(estimate)
    missing = half - estimate
    doubtful = jnp.abs(missing) <= TOLERANCE * jnp.abs(estimate)
    with jax.enable_x64(True):
        up, down = (jnp.maximum(shift, 0).astype(jnp.int64) for shift in (exponent + 1, -exponent - 1))
        numerator = total.astype(jnp.int64) * (ma.astype(jnp.int64) << up)
        divisor = mo.astype(jnp.int64) * count.astype(jnp.int64) << down
        midpoint = (2 * lower + 1).astype(jnp.int64) * divisor
        tie_goes_up = (lower & 1).astype(jnp.int64)
        exactly = (midpoint - numerator - tie_goes_up >> 32).astype(jnp.int32)
    # Both candidates are negative where the mean rounds up.
    signed = jnp.where(doubtful, exactly, int_bits(missing))
    return lower - (signed >> 31)

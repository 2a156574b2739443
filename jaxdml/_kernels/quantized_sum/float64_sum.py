"""Round ``(p * a_scale + q * b_scale) / output_scale`` correctly in float64, for scales that are not known.

p and q are differences of 8-bit integers. float64 holds a product of such a difference and a float32, and ``s + e`` is
the sum of two of them without an error: s is rounded, and e is what that lost. Write o for the output's scale, and let
it and s be positive; otherwise signs are turned. ``m`` is the integer below ``s * (1 / o)`` as float64 computes it. So
``t = s - m * o`` is from nearly 0 to nearly o, or s is at least 1024 * o. Then the output saturates.

- ``m * o`` is exact, for m has 11 bits. So is t. If m is 0, it is s. Else let ``2**n`` be the power of two below o: t
  is less than ``2**(n + 1)``, and a multiple of ``2**(n - 52)``, as s and ``m * o`` are; or s is below ``m * o`` by an
  error of rounding, and t is a few of its last bits.
- ``t - o / 2`` is exact where t is within a factor of two of ``o / 2``. Elsewhere it is ``o / 4`` or more in magnitude,
  and e is below ``2**-42 * o``. So ``(t - o / 2) + e`` has the sign of the exact number, and is 0 only for a tie.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxdml._arithmetic.in_float64 import as_float64
from jaxdml._arithmetic.residuals import Scales

_SATURATED = 1024
"""An output of this magnitude saturates for every zero point."""


class Factors(NamedTuple):
    """Hold what follows from the scales alone, in float64."""

    a: jax.Array
    """The scale of a, negated if that of the output is negative."""
    b: jax.Array
    output: jax.Array
    """The magnitude of the output's scale."""
    half: jax.Array
    """Half of it."""
    inverse: jax.Array
    """1 over it, rounded."""


def factors_of(scales: Scales) -> Factors:
    """Return the factors for these scales of a, of b and of the output, which have x64 on."""
    a, b, output = map(as_float64, scales)
    a, b = (jnp.where(output < 0, -x, x) for x in (a, b))
    output = abs(output)
    return Factors(a, b, output, output * 0.5, 1 / output)


def rounded_sum(p: jax.Array, q: jax.Array, by: Factors) -> jax.Array:
    """Return the sum, rounded with ties to even, as int32; 1024 or 1025 in magnitude where it is beyond 1024.

    Args:
      p: int32 of at most 255 in magnitude; ``q`` alike. The factors broadcast against both.
      q: int32.
      by: what ``factors_of`` returns for the scales; x64 is on.
    """
    x, y = p.astype(jnp.float64) * by.a, q.astype(jnp.float64) * by.b
    s = x + y
    of_y = s - x
    e = (x - (s - of_y)) + (y - of_y)
    negative = s < 0
    s, e = abs(s), jnp.where(negative, -e, e)
    m = jnp.minimum(s * by.inverse, _SATURATED).astype(jnp.int32)
    above = (s - m.astype(jnp.float64) * by.output) - by.half + e
    m = jnp.where((above > 0) | ((above == 0) & (m & 1 == 1)), m + 1, m)
    return jnp.where(negative, -m, m)

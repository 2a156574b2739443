"""Compute with float32 in float64, with the roundings of IEEE 754, on a CPU.

float64 holds every product of two float32 numbers, and every sum so precisely that rounding it once more to float32
changes nothing, for it has more than twice the bits and two. A CPU would read and write subnormal float32 as zeros.
They are integers times ``2**-149``, the unit below, and become such integers where they are read and written.
"""

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic import ieee
from jaxdml._arithmetic.float_parts import LEAST_NORMAL, MAGNITUDE, float_of_bits, int_bits

UNIT = 2.0**-149
LEAST_NORMAL_NUMBER = 2.0**-126


def product(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return what ``ieee.product`` returns, in half its operations."""
    with jax.enable_x64(True):
        x = as_float64(a, signed_zeros=True) * as_float64(b, signed_zeros=True)
        subnormal = in_units(jnp.where(abs(x) < LEAST_NORMAL_NUMBER, abs(x), 0)).astype(jnp.int32)
        # Where it is subnormal, the conversion leaves the sign of 0.
        return float_of_bits(int_bits(ieee.one_nan(x.astype(jnp.float32))) | subnormal)


def as_float64(x: jax.Array, *, signed_zeros: bool = False) -> jax.Array:
    """Return float32 as float64; unless they count, the signs of zeros are lost."""
    bits = int_bits(x)
    magnitude = bits & MAGNITUDE
    units = jnp.where(bits < 0, -magnitude, magnitude).astype(jnp.float64) * UNIT
    subnormal = magnitude < LEAST_NORMAL
    if signed_zeros:
        subnormal &= magnitude > 0
    return jnp.where(subnormal, units, x.astype(jnp.float64))


def magnitude_as_float64(bits: jax.Array) -> jax.Array:
    """Return float32 that are not negative, given by their bits, as float64."""
    return jnp.where(bits < LEAST_NORMAL, bits.astype(jnp.float64) * UNIT, float_of_bits(bits).astype(jnp.float64))


def rounded_sum(x: jax.Array) -> jax.Array:
    """Round float64 to what float32 holds, where all that become subnormal are multiples of the unit."""
    # XLA would drop a conversion that is followed by another one.
    return jnp.where(abs(x) < LEAST_NORMAL_NUMBER, x, ieee.one_nan(x.astype(jnp.float32)).astype(jnp.float64))


def in_units(x: jax.Array) -> jax.Array:
    """Return float64 in units, rounded to an integer, ties to even."""
    return lax.round(x * (1 / UNIT), lax.RoundingMethod.TO_NEAREST_EVEN)

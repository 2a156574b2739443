"""Round float32 numbers to integers that are stored, with one addition."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.bits import with_flipped_sign
from jaxdml._arithmetic.signedness import stored_zero

TO_INTEGER = np.float32(1.5 * 2**23)
"""Adding this to a float32 below 2**22 in magnitude rounds it, ties to even, and leaves it in the lower bits.

A GPU does that in one operation. Rounding and converting take about nine there, since XLA's conversion saturates."""

_INT8 = np.iinfo(np.int8)


def by_addition(values: jax.Array) -> jax.Array:
    """Return float32 below ``2**22`` in magnitude as int32, rounded, ties to even.

    XLA joins two additions of numbers that it knows: where one comes before this, something must stand between.
    """
    return lax.bitcast_convert_type(values + TO_INTEGER, jnp.int32) - TO_INTEGER.view(np.int32)


def nearest(values: jax.Array, zero_point: jax.Array | None, dtype: Any) -> jax.Array:
    """Return ``clamp(round(values) + zero_point)``, ties to even.

    Args:
      values: float32, not NaN.
      zero_point: integers within the range of ``dtype`` that broadcasts against ``values``, or None for 0.
      dtype: int8, uint8, int16 or uint16.
    """
    limits = np.iinfo(dtype)
    zero = np.int32(0) if zero_point is None else zero_point.astype(jnp.int32)
    low, high = ((np.int32(limit) - zero).astype(jnp.float32) for limit in (limits.min, limits.max))
    # Both limits are integers, so the clamp may come before the rounding, and stands between two additions. The zero
    # point is added afterwards: it may be odd, and would turn the ties.
    whole = by_addition(jnp.clip(values, low, high)) + zero
    if dtype != np.uint8:
        return _stored(whole, dtype)
    return with_flipped_sign(_stored(whole - 128, jnp.int8), dtype)


def nearest_without_ties(values: jax.Array, zero_point: jax.Array | None, dtype: Any) -> jax.Array:
    """Return what ``nearest`` does, in fewer operations, of values of which none is an integer plus 1/2.

    Args:
      values: float32, not NaN.
      zero_point: as ``nearest`` takes it.
      dtype: int8 or uint8.
    """
    zero = stored_zero(jnp.int32(0) if zero_point is None else zero_point.astype(jnp.int32), dtype)
    # With no ties an odd zero point turns none, so one addition rounds and adds the zero point. Greater values than it
    # rounds to integers saturate.
    above = jnp.maximum(values, (_INT8.min - zero).astype(jnp.float32)) + (TO_INTEGER + zero.astype(jnp.float32))
    stored = _lowest_byte(above)
    return stored if dtype == np.int8 else with_flipped_sign(stored, dtype)


def stored_int8(above: jax.Array) -> jax.Array:
    """Return ``clamp(above - TO_INTEGER)`` as int8, of float32 whose difference is an integer, or is clamped."""
    return _lowest_byte(jnp.maximum(above, TO_INTEGER + _INT8.min))


def _lowest_byte(above: jax.Array) -> jax.Array:
    """Return ``min(above - TO_INTEGER, 127)`` as int8, of float32 that is at least ``TO_INTEGER - 128``.

    The bits of positive floats are in the order of the floats. The lowest byte of those of ``TO_INTEGER`` is 0, and a
    conversion to int8 keeps the lowest byte. The minimum is one of integers: see ``_stored``.
    """
    bits = lax.bitcast_convert_type(above, jnp.int32)
    return jnp.minimum(bits, TO_INTEGER.view(np.int32) + _INT8.max).astype(jnp.int8)


def _stored(whole: jax.Array, dtype: Any) -> jax.Array:
    """Convert integers of this range.

    NVIDIA's assembler, ptxas, converts a float whose lowest byte should be stored as it is. LLVM leaves such a byte if
    what is added is a multiple of 256. So a maximum stands between, which changes no number. Sum and maximum are one
    operation there.
    """
    return jnp.maximum(whole, np.iinfo(dtype).min).astype(dtype)

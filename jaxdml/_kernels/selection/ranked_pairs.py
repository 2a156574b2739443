"""Hold an element, its position and its order in two words, so that sorting the words sorts all of it.

The lower pair comes first. No two pairs are equal, because no two positions are. Whatever is compared is an integer,
and whatever an element holds comes back, also the sign of a zero and the payload of a NaN:

- Elements of 8 and 16 bits, of any type: order, position and bits are 16, 32 and 16 bits.
- Integers of 32 bits: the order and the position. The order tells the bits.
- float32: the same, and the sign of a zero beside its position. All NaNs have one place in the order, so their first
  word has room for the upper part of the position, and the second for the lower 8 bits of it and for the bits of a NaN,
  of which the exponent is known.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.bits import bits_of
from jaxdml._arithmetic.float_parts import INFINITY, LEAST_NORMAL
from jaxdml._arithmetic.order_keys import bits_of_keys, order_keys
from jaxdml._base.axis_direction import AxisDirection

_TOP = np.uint32(1 << 31)
_INFINITY, _MANTISSA = np.uint32(INFINITY), np.uint32(LEAST_NORMAL - 1)
_NAN_KEY = np.uint32(0xFF000001)
"""The key of every NaN, by ``order_keys`` of float32 if the largest come first; no key is greater."""


def ranked(x: jax.Array, positions: jax.Array, direction: AxisDirection) -> tuple[jax.Array, jax.Array]:
    """Return the two words of each element, uint32.

    Args:
      x: elements of at most 32 bits.
      positions: uint32 of that shape, each less than 2**31.
      direction: whether the largest or the smallest come first.
    """
    order = ~order_keys(x, direction)
    if x.dtype.itemsize < 4:
        upper = (order.astype(jnp.uint32) << 16) | (positions >> 16)
        return upper, (positions << 16) | bits_of(x).astype(jnp.uint32)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return order, positions
    bits = bits_of(x)
    is_nan = bits << 1 > _INFINITY << np.uint32(1)
    payload = ((bits >> 31) << 23) | (bits & _MANTISSA)
    upper = jnp.where(is_nan, _first_of_nans(direction) + (positions >> 8), order)
    is_negative_zero = (bits == _TOP).astype(jnp.uint32)
    return upper, jnp.where(is_nan, (positions << 24) | payload, (positions << 1) | is_negative_zero)


def unranked(words: tuple[jax.Array, ...], dtype: jnp.dtype, direction: AxisDirection) -> tuple[jax.Array, jax.Array]:
    """Return the elements and the positions, uint32, of what ``ranked`` returned."""
    upper, lower = words
    if dtype.itemsize < 4:
        bits = lower.astype(f"uint{8 * dtype.itemsize}")
        return lax.bitcast_convert_type(bits, dtype), (upper << 16) | (lower >> 16)
    key = ~upper if direction == AxisDirection.DECREASING else upper
    bits = bits_of_keys(key, dtype)
    if not jnp.issubdtype(dtype, jnp.floating):
        return lax.bitcast_convert_type(bits, dtype), lower
    is_nan = key >= _NAN_KEY
    of_number = bits | (lower << 31)
    of_nan = ((lower >> 23) << 31) | _INFINITY | (lower & _MANTISSA)
    of_position = ((upper - _first_of_nans(direction)) << 8) | (lower >> 24)
    bits = jnp.where(is_nan, of_nan, of_number)
    return lax.bitcast_convert_type(bits, dtype), jnp.where(is_nan, of_position, lower >> 1)


def _first_of_nans(direction: AxisDirection) -> np.uint32:
    """Return the first word of NaNs at position 0: they come before all numbers, or after all of them."""
    return np.uint32(0) if direction == AxisDirection.DECREASING else _NAN_KEY

"""Store 8-bit integers as int8 or as uint8, with the zero point that goes with it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic.bits import with_flipped_sign

Zero = jax.Array | None
"""An int32 zero point that broadcasts against its tensor, or None for 0."""

Quantized = tuple[jax.Array, jax.Array | None]
"""A tensor and its zero point; None means 0."""

WORD = 4
"""How many numbers of 8 bits an int32 holds."""


def as_int8(x: jax.Array, zero_point: jax.Array | None) -> tuple[jax.Array, jax.Array | None]:
    """Subtract 128 from uint8 and from its zero point; return int8 and the int32 zero point, None for 0."""
    return _shift(x, zero_point, jnp.int8, -128)


def stored_zero(zero_point: Any, dtype: Any) -> Any:
    """Return the zero point, a number or an array, of integers that are stored as int8: less 128 if they are uint8."""
    return zero_point - 128 if dtype == np.uint8 else zero_point


def centred(x: jax.Array, zero_point: jax.Array | None) -> jax.Array:
    """Return integers less their zero point, as int32."""
    wide = x.astype(jnp.int32)
    return wide if zero_point is None else wide - zero_point.astype(jnp.int32)


def as_int8_words(x: jax.Array, zero_point: jax.Array | None) -> tuple[jax.Array, jax.Array | None]:
    """Return what ``as_int8`` does as int32, four neighbours along the last dimension and four zero points in each.

    A GPU reads and writes a word as fast as a byte.
    """
    words = lax.bitcast_convert_type(x.reshape(*x.shape[:-1], x.shape[-1] // WORD, WORD), jnp.int32)
    if x.dtype == jnp.uint8:
        words ^= np.uint32(0x80808080).view(np.int32)
    zero = as_int8(x, zero_point)[1]
    return words, None if zero is None else (zero & 0xFF) * np.int32(0x01010101)


def int8_of_words(words: jax.Array) -> jax.Array:
    """Return the int8 that ``as_int8_words`` joined."""
    *front, count = words.shape
    return lax.bitcast_convert_type(words, jnp.int8).reshape(*front, count * WORD)


def as_uint8(x: jax.Array, zero_point: jax.Array | None) -> tuple[jax.Array, jax.Array | None]:
    """Add 128 to int8 and to its zero point; return uint8 and the int32 zero point, None for 0."""
    return _shift(x, zero_point, jnp.uint8, 128)


def _shift(x: jax.Array, zero_point: jax.Array | None, dtype: Any, by: int) -> tuple[jax.Array, jax.Array | None]:
    wide = None if zero_point is None else zero_point.astype(jnp.int32)
    if x.dtype == dtype:
        return x, wide
    shifted = jnp.int32(by) if wide is None else wide + by
    return with_flipped_sign(x, dtype), shifted

"""Store 8-bit integers as int8 or as uint8, with the zero point that goes with it."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxdml._arithmetic.bits import with_flipped_sign

Zero = jax.Array | None
"""An int32 zero point that broadcasts against its tensor, or None for 0."""

Quantized = tuple[jax.Array, jax.Array | None]
"""A tensor and its zero point; None means 0."""


def as_int8(x: jax.Array, zero_point: jax.Array | None) -> tuple[jax.Array, jax.Array | None]:
    """Subtract 128 from uint8 and from its zero point; return int8 and the int32 zero point, None for 0."""
    return _shift(x, zero_point, jnp.int8, -128)


def as_uint8(x: jax.Array, zero_point: jax.Array | None) -> tuple[jax.Array, jax.Array | None]:
    """Add 128 to int8 and to its zero point; return uint8 and the int32 zero point, None for 0."""
    return _shift(x, zero_point, jnp.uint8, 128)


def _shift(x: jax.Array, zero_point: jax.Array | None, dtype: Any, by: int) -> tuple[jax.Array, jax.Array | None]:
    wide = None if zero_point is None else zero_point.astype(jnp.int32)
    if x.dtype == dtype:
        return x, wide
    shifted = jnp.int32(by) if wide is None else wide + by
    return with_flipped_sign(x, dtype), shifted

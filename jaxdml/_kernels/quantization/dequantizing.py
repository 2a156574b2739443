"""Multiply quantized values by their scales as IEEE 754 does it, in the same way on every device."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arithmetic import ieee
from jaxdml._arithmetic.to_float32 import rounded, widened


def are_normal(scale: np.ndarray[Any, Any]) -> bool:
    """Tell whether all scales are normal float32 numbers: no integer but 0 times one is subnormal or NaN."""
    magnitude, limits = np.abs(scale), np.finfo(np.float32)
    return bool(((magnitude >= limits.tiny) & (magnitude <= limits.max)).all())


def dequantize(x: jax.Array, scale: jax.Array, zero_point: jax.Array | None, normal: bool = False) -> jax.Array:
    """Return ``fl(float(x - zero_point) * scale)``, differentiable in ``scale``.

    Args:
      x: an integer dtype of at most 32 bits.
      scale: float32, float16 or bfloat16 that broadcasts against ``x``.
      zero_point: dtype of ``x``, broadcasts against it, or None for 0.
      normal: whether it is known while tracing that ``are_normal`` holds.
    """
    integers = _difference(x, zero_point)
    if normal:
        # Every device multiplies normal numbers alike. The select keeps a device from contracting it with a later sum.
        return ieee.narrowed(ieee.one_nan(integers * widened(lax.stop_gradient(scale))), scale.dtype)
    return _scaled(integers, scale)


def _difference(x: jax.Array, zero_point: jax.Array | None) -> jax.Array:
    """Return ``x - zero_point`` as float32, rounded once, ties to even. Differences of int32 wrap around."""
    if x.dtype.itemsize < 4:
        wide = x.astype(jnp.int32)
        return (wide if zero_point is None else wide - zero_point.astype(jnp.int32)).astype(jnp.float32)
    if x.dtype == jnp.int32:
        return rounded(x if zero_point is None else x - zero_point)
    # The difference of two uint32 may need 33 bits with a sign. Its parts need 17, so they are exact.
    high, low = x >> 16, x & 0xFFFF
    high, low = high.astype(jnp.int32), low.astype(jnp.int32)
    if zero_point is not None:
        high -= (zero_point >> 16).astype(jnp.int32)
        low -= (zero_point & 0xFFFF).astype(jnp.int32)
    return high.astype(jnp.float32) * 2.0**16 + low.astype(jnp.float32)


@jax.custom_jvp
def _scaled(integers: jax.Array, scale: jax.Array) -> jax.Array:
    return ieee.narrowed(ieee.scaled(integers, widened(scale)), scale.dtype)


@_scaled.defjvp
def _scaled_jvp(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    integers, scale = primals
    of_scale = integers * tangents[1].astype(jnp.float32)
    return _scaled(integers, scale), of_scale.astype(scale.dtype)

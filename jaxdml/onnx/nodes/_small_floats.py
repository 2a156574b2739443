"""Quantize to floats of 8 and 4 bits, and back: a division and a conversion, as ONNX defines them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml.onnx.nodes.casting import SATURATING, converted
from jaxdml.onnx.values.kinds import Quantization, channels_first, is_host
from jaxdml.onnx.values.stored import on_device, unfolded

SMALL_FLOATS = frozenset({*SATURATING, "float4_e2m1fn"})


def to_small_floats(x: Any, out: Quantization, dtype: Any, precision: Any, saturate: bool) -> jax.Array:
    """Divide by the scale in a precision, add the zero point, which should be 0, and convert."""
    x, scale, zero = _arrays(x, out, precision)
    # XLA's CPU backend would multiply by the reciprocal of what it knows to be one number, which rounds twice.
    quotient = x / unfolded(jnp.broadcast_to(scale, x.shape))
    if zero is not None:
        quotient = jnp.where(zero == 0, quotient, quotient + zero)  # A sum with 0 would drop the sign of -0.
    return converted(jnp, quotient, np.dtype(dtype), saturate)


def from_small_floats(x: Any, meaning: Quantization, dtype: Any) -> jax.Array:
    """Subtract the zero point, which should be 0, multiply by the scale in float32, and convert."""
    x, scale, zero = _arrays(x, meaning, np.float32)
    return ((x if zero is None else x - zero) * scale).astype(dtype)


def _arrays(x: Any, meaning: Quantization, dtype: Any) -> tuple[Any, Any, Any]:
    """Return an array, scales and zero points that broadcast, of one dtype; None for a zero point of 0."""
    array = on_device(channels_first(x))
    zero = meaning.zero_point
    if zero is not None and is_host(zero) and not zero.astype(np.float32).any():
        zero = None
    others = (None if value is None else _spread(on_device(value), meaning, array) for value in (meaning.scale, zero))
    scale, zero = (None if value is None else value.astype(np.float32).astype(dtype) for value in others)
    return array.astype(dtype), scale, zero


def _spread(value: jax.Array, meaning: Quantization, x: jax.Array) -> jax.Array:
    """Return a scale for each element of an array, or what broadcasts to that."""
    if meaning.axis is None:
        return value
    if not meaning.block_size:
        return jnp.expand_dims(value, [axis for axis in range(x.ndim) if axis != meaning.axis])
    repeated = jnp.repeat(value, meaning.block_size, meaning.axis)
    return lax.slice_in_dim(repeated, 0, x.shape[meaning.axis], axis=meaning.axis)

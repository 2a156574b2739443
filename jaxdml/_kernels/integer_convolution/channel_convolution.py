"""Convolve each channel with filters of its own, as a sum of shifted slices times one number for each channel."""

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.signedness import Zero
from jaxdml._arithmetic.windows import Windows, shifted_slices
from jaxdml._kernels.integer_sums import RawProduct


def channel_weights(w: jax.Array, zw: Zero, windows: Windows) -> jax.Array:
    """Return int8 filters ``[O, 1, *sizes]`` less their zero points as ``[taps, O]``.

    The zero points are int32, ``[1]`` or ``[O]``, or None for 0.
    """
    by_tap = lax.transpose(w, (*range(1, w.ndim), 0)).reshape(windows.taps, w.shape[0])
    # Two int8 numbers have a product that fits int16, which a CPU multiplies faster.
    weights = by_tap.astype(jnp.int16) if zw is None else by_tap.astype(jnp.int32) - zw.reshape(1, zw.size)
    return lax.optimization_barrier(weights)  # type: ignore[no-untyped-call]


def convolve_channels(weights: jax.Array, zx: Zero, x: jax.Array, windows: Windows) -> RawProduct:
    """Convolve padded int8 ``x`` with ``channel_weights``; O is a multiple of the number of channels.

    ``zx`` is the int32 zero point ``[1]``, or None for 0.
    """
    features, axis = weights.shape[1], windows.channel_axis
    channels = x.shape[axis]
    total = jnp.int32(0)
    by_channel = weights.reshape(-1, channels, features // channels) if features > channels else weights
    for read, weight in zip(shifted_slices(x, windows), by_channel, strict=True):
        numbers = jnp.expand_dims(read, axis + 1) if features > channels else read
        aligned = weight.reshape(*[1] * axis, *weight.shape, *[1] * (numbers.ndim - axis - weight.ndim))
        total += (numbers.astype(weights.dtype) * aligned).astype(jnp.int32)
    if features > channels:
        total = total.reshape(*total.shape[:axis], features, *total.shape[axis + 2 :])
    sums = jnp.sum(weights, axis=0, dtype=jnp.int32)
    if zx is None:
        return RawProduct(total)
    return RawProduct(total, za=windows.along_channels(zx), columns=windows.along_channels(sums))

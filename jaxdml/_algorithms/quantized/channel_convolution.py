"""Convolve each channel with filters of its own, as a sum of shifted slices times one number for each channel."""

import jax
import jax.numpy as jnp

from jaxdml._algorithms.quantized.raw_product import RawProduct, Zero
from jaxdml._algorithms.quantized.windows import Windows, shifted_slices


def convolve_channels(x: jax.Array, zx: Zero, w: jax.Array, zw: Zero, windows: Windows) -> RawProduct:
    """Convolve padded int8 ``x`` with int8 filters ``[O, 1, *sizes]``; O is a multiple of the number of channels.

    The zero points are int32, ``[1]`` and ``[1]`` or ``[O]``, or None for 0.
    """
    features = w.shape[0]
    axis = windows.channel_axis
    channels = x.shape[axis]
    # Two int8 numbers have a product that fits int16, which a CPU multiplies faster.
    dtype = jnp.int16 if zw is None else jnp.int32
    taps = w.reshape(features, windows.taps).astype(dtype)
    if zw is not None:
        taps -= zw[:, None]
    total = jnp.int32(0)
    for tap, read in enumerate(shifted_slices(x, windows)):
        numbers, weights = read.astype(dtype), taps[:, tap]
        if features > channels:
            numbers = jnp.expand_dims(numbers, axis + 1)
            weights = weights.reshape(channels, features // channels)
        weights = weights.reshape(*weights.shape, *[1] * (numbers.ndim - axis - weights.ndim))
        total += (numbers * weights).astype(jnp.int32)
    if features > channels:
        total = total.reshape(*total.shape[:axis], features, *total.shape[axis + 2 :])
    sums = jnp.sum(taps, axis=1, dtype=jnp.int32)
    return RawProduct(total, za=zx, columns=None if zx is None else windows.along_channels(sums))

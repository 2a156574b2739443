"""Convolve each channel with filters of its own, as a sum of shifted slices times one number for each channel."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.signedness import WORD, Zero, as_int8, as_int8_words
from jaxdml._arithmetic.windows import Windows, padded, shifted_slices
from jaxdml._base.shapes import is_static
from jaxdml._kernels.integer_convolution.packed_filters import Filters, PackedFilters, as_int8_filters, sums_of
from jaxdml._kernels.integer_sums import RawProduct


class ChannelWeights(NamedTuple):
    """Hold filters that read one channel each."""

    numbers: jax.Array
    """The filters less their zero points as ``[taps, O]``."""

    sums: jax.Array | None
    """int32 ``[O]``, those over the taps if they are known already."""

    def stored(self) -> "ChannelWeights":
        """Return the same numbers, behind a barrier: they are not computed anew for each slice."""
        return self._replace(numbers=lax.optimization_barrier(self.numbers))  # type: ignore[no-untyped-call]


def channel_weights(w: Filters, zw: Zero, windows: Windows, dtype: Any = jnp.int16) -> ChannelWeights:
    """Return filters ``[O, 1, *sizes]`` less their zero points.

    Args:
      w: the filters.
      zw: their zero points, ``[1]`` or ``[O]``, or None for 0.
      windows: where the windows lie.
      dtype: of the numbers where int8 holds the filters without zero points. Two int8 numbers have a product that fits
        int16, which a CPU multiplies faster.
    """
    array, zw = as_int8_filters(w, zw)
    by_tap = lax.transpose(array, (*range(1, array.ndim), 0)).reshape(windows.taps, array.shape[0])
    sums = sums_of(w) if isinstance(w, PackedFilters) else None
    if zw is None:
        return ChannelWeights(by_tap.astype(dtype), sums)
    numbers = by_tap.astype(jnp.int32) - zw.reshape(1, zw.size)
    return ChannelWeights(numbers, None if sums is None else sums - windows.taps * zw)


def convolve_channels(weights: ChannelWeights, zx: Zero, x: jax.Array, windows: Windows) -> RawProduct:
    """Convolve padded int8 ``x`` with ``channel_weights``; O is a multiple of the number of channels.

    ``zx`` is the int32 zero point ``[1]``, or None for 0.
    """
    factors = weights.numbers
    features, axis = factors.shape[1], windows.channel_axis
    channels = x.shape[axis]
    total = jnp.int32(0)
    by_channel = factors.reshape(-1, channels, features // channels) if features > channels else factors
    for read, weight in zip(shifted_slices(x, windows), by_channel, strict=True):
        numbers = jnp.expand_dims(read, axis + 1) if features > channels else read
        aligned = weight.reshape(*[1] * axis, *weight.shape, *[1] * (numbers.ndim - axis - weight.ndim))
        total += (numbers.astype(factors.dtype) * aligned).astype(jnp.int32)
    if features > channels:
        total = total.reshape(*total.shape[:axis], features, *total.shape[axis + 2 :])
    return _with_corrections(total, weights, zx, windows)


def convolve_words(weights: ChannelWeights, zx: Zero, x: jax.Array, windows: Windows) -> RawProduct:
    """Convolve as ``convolve_channels`` does, and read four channels at once: a GPU reads a word as fast as a byte.

    Args:
      weights: of int32, as many as there are channels.
      zx: the zero point ``[1]``, or None for 0.
      x: int8 or uint8 ``[N, *spatial, C]``, not padded; C is a multiple of four.
      windows: where the windows lie.
    """
    channels = x.shape[-1]
    read = padded(*as_int8_words(x, zx), windows)
    by_word = weights.numbers.reshape(-1, *[1] * (x.ndim - 1), channels // WORD, WORD)
    total = jnp.int32(0)
    for word, weight in zip(shifted_slices(read, windows), by_word, strict=True):
        shape = (*word.shape, WORD)
        # XLA unrolls such loops by four, and so knows these shifts; it would load a vector of four from memory.
        above = 24 - 8 * (lax.iota(jnp.int32, math.prod(shape)).reshape(shape) & WORD - 1)
        total += (jnp.broadcast_to(jnp.expand_dims(word, -1), shape) << above >> 24) * weight
    return _with_corrections(total.reshape(*total.shape[:-2], channels), weights, as_int8(x, zx)[1], windows)


def serves_words(x: jax.Array, features: int, windows: Windows) -> bool:
    """Tell whether ``convolve_words`` convolves ``x`` with so many filters."""
    return windows.channels_last and x.shape[-1] == features and is_static(features) and features % WORD == 0


def _with_corrections(total: jax.Array, weights: ChannelWeights, zx: Zero, windows: Windows) -> RawProduct:
    factors, sums = weights
    if zx is None:
        return RawProduct(total)
    sums = jnp.sum(factors, axis=0, dtype=jnp.int32) if sums is None else sums
    return RawProduct(total, za=windows.along_channels(zx), columns=windows.along_channels(sums))

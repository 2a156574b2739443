"""Convolve each channel with filters of its own, as a sum of shifted slices times one number for each channel."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.signedness import Zero
from jaxdml._arithmetic.windows import Windows, shifted_slices
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
    factors, sums = weights
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
    if zx is None:
        return RawProduct(total)
    sums = jnp.sum(factors, axis=0, dtype=jnp.int32) if sums is None else sums
    return RawProduct(total, za=windows.along_channels(zx), columns=windows.along_channels(sums))

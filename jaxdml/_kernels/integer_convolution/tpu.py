"""Convolve on a TPU with XLA's own convolution.

It is exact, because the TPU's compiler keeps the types: int8 is multiplied by int8 and summed in int32, in any number
of groups, and nothing is a float anywhere. Patches would be stored, and read again.

Of single channels it stores the int32 sums. Shifted slices are fused with the rounding, so they take its place where
the stride is 1. With greater strides the compiler aborts on some such fusions of MobileNetV2 (libtpu 0.0.52).
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.signedness import Zero, as_int8
from jaxdml._arithmetic.windows import Windows, padded
from jaxdml._kernels.integer_convolution.channel_convolution import channel_weights, convolve_channels
from jaxdml._kernels.integer_convolution.packed_filters import Filters, as_int8_filters, filter_sums
from jaxdml._kernels.integer_convolution.patch_product import corrected
from jaxdml._kernels.integer_sums import PerPart, Raw, RawProduct

FEW_IMAGES = 8
"""The compiler splits fewer images than these into parts, and then stores what each step of the rounding returns. So
they are convolved one by one, with their rows in the place of images. ``python -m benchmarks estimates`` shows it."""


def convolve(windows: Windows, x: jax.Array, zx: Zero, w: Filters, zw: Zero) -> Raw:
    """Convolve int8 by int8."""
    (x, zx), (filters, zw), zero_w = as_int8(x, zx), as_int8_filters(w, zw), zw
    if windows.groups > 1 and w.shape[1] == 1 and max(windows.strides) == 1:
        # Without a barrier behind the padding, which would store it.
        weights = channel_weights(w, zero_w, windows).stored()
        return convolve_channels(weights, zx, padded(x, zx, windows), windows)
    sums = None if zx is None else filter_sums(w, filters)
    if not 0 < x.shape[0] < FEW_IMAGES or windows.groups > 1 or len(windows.sizes) < 2:
        return _convolved(windows, filters, sums, zx, zw, x)
    compute = jax.tree_util.Partial(partial(_of_rows, windows), filters, sums, zx, zw)  # type: ignore[no-untyped-call]
    return PerPart(compute, x[:, None])


def _convolved(windows: Windows, w: jax.Array, sums: Zero, zx: Zero, zw: Zero, x: jax.Array) -> RawProduct:
    # The convolution pads with zeros as it reads. Any other number has to be written around x.
    around = x if zx is None and zw is None else padded(x, zx, windows)
    edges = zip(windows.start_padding, windows.end_padding, strict=True) if around is x else [(0, 0)] * (w.ndim - 2)
    order = (0, windows.channel_axis, *windows.dimensions)
    total = lax.conv_general_dilated(
        around,
        w,
        windows.strides,
        [*edges],
        rhs_dilation=windows.dilations,
        dimension_numbers=lax.ConvDimensionNumbers(order, tuple(range(w.ndim)), order),
        feature_group_count=windows.groups,
        preferred_element_type=jnp.int32,
    )
    return corrected(total, sums, zx, zw, around, windows, math.prod(w.shape[1:]))


def _of_rows(windows: Windows, w: jax.Array, sums: Zero, zx: Zero, zw: Zero, x: jax.Array) -> RawProduct:
    """Convolve one image, ``[1, ...]``: what a window has of each row becomes channels, and rows become images."""
    around = padded(x, zx, windows)
    rows = around[0] if windows.channels_last else jnp.moveaxis(around[0], 0, -1)
    count, *rest = windows.counts(x.shape)
    size, stride, step = windows.sizes[0], windows.strides[0], windows.dilations[0]
    starts = [i * step for i in range(size)]
    together = [lax.slice_in_dim(rows, at, at + (count - 1) * stride + 1, stride) for at in starts]
    # Filters [O, I, *sizes] as [*sizes but the first, first size * I, O].
    filters = jnp.moveaxis(w, (2, 1, 0), (-3, -2, -1)).reshape(*windows.sizes[1:], size * w.shape[1], w.shape[0])
    last = "".join(map(chr, range(ord("a"), ord("a") + len(rest))))
    total = lax.conv_general_dilated(
        lax.concatenate(together, rows.ndim - 1),
        filters,
        windows.strides[1:],
        "VALID",
        rhs_dilation=windows.dilations[1:],
        dimension_numbers=(f"N{last}C", f"{last}IO", f"N{last}C"),
        preferred_element_type=jnp.int32,
    )
    in_order = total if windows.channels_last else jnp.moveaxis(total, -1, 0)
    return corrected(in_order[None], sums, zx, zw, around, windows, math.prod(w.shape[1:]))

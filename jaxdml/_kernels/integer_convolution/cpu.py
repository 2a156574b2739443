"""Convolve on a CPU, a few images at a time."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._arithmetic.signedness import Zero, as_int8, as_uint8
from jaxdml._arithmetic.windows import Windows, padded
from jaxdml._kernels import integer_product
from jaxdml._kernels.integer_convolution.channel_convolution import ChannelWeights, channel_weights, convolve_channels
from jaxdml._kernels.integer_convolution.native_convolution import native_sums, with_neighbours
from jaxdml._kernels.integer_convolution.packed_filters import (
    Filters,
    PackedFilters,
    as_int8_filters,
    rows_of,
    stored_zero_point,
    sums_of,
)
from jaxdml._kernels.integer_convolution.patch_product import (
    corrected,
    filter_columns,
    filter_rows,
    grouped_columns,
    patch_rows,
    patch_sums,
    sums_of_filters,
)
from jaxdml._kernels.integer_product import PackedMatrix, product_shape
from jaxdml._kernels.integer_sums import PerPart, RawProduct, accumulator

OUTPUTS_PER_PART = 2**18
"""Images are convolved together if they have so few outputs, and one after the other if they have more. The int32 sums
of a part then stay in the cache."""

MIN_NATIVE_CHANNELS, MIN_NATIVE_FEATURES = 16, 17
"""XLA's own convolution is faster than a product of patches from so many channels and output channels on."""

_MULTIPLE = 4
"""A product of int8 is slow where the number of terms is no multiple of this."""


def fastest(x: jax.Array, w: Filters, windows: Windows) -> str:
    """Return the fastest method on this CPU."""
    features, depth = w.shape[:2]
    if depth == 1 and windows.groups > 1:
        return "shifted_slices"
    in_rows = isinstance(w, PackedFilters) and w.by_rows
    if is_native(windows) and not in_rows and windows.taps > 1:
        if _pays_natively(depth, features):
            return "native_convolution"
        if windows.dilations == (1, 1):
            return "neighbours"
    available = integer_product.methods_on_cpu()
    # If there are both, the one that need not change the sign of the patches.
    fitting = "mixed_dot" if windows.channels_last and x.dtype == jnp.uint8 else "integer_dot"
    return fitting if fitting in available else available[0]


def is_native(windows: Windows) -> bool:
    """Tell whether XLA's own convolution can serve."""
    return windows.channels_last and len(windows.sizes) == 2 and windows.groups == 1


def _pays_natively(depth: int, features: int) -> bool:
    return depth >= MIN_NATIVE_CHANNELS and features >= MIN_NATIVE_FEATURES


def convolve(windows: Windows, method: str, x: jax.Array, zx: Zero, w: Filters, zw: Zero) -> PerPart:
    """Convolve by a method."""
    if isinstance(w, PackedFilters) and w.by_rows and method != "native_convolution" and is_product(windows):
        compute = _with(partial(_part_by_rows, windows, method), rows_of(w), zx, zw)
    else:
        # The left operand is uint8 in a mixed product: the patches if the channels are last, else the filters.
        x, zx = (as_uint8 if method == "mixed_dot" and windows.channels_last else as_int8)(x, zx)
        if method == "shifted_slices":
            compute = _with(partial(channels_of_part, windows), channel_weights(w, zw, windows).stored(), zx)
        else:
            filters, zw = _filters(windows, method, w, zw)
            sums = None if zx is None else _sums(windows, w, filters)
            compute = _with(partial(_part, windows, method), filters, sums, zx, zw)
    outputs = math.prod(windows.counts(x.shape)) * w.shape[0]
    size = _images_per_part(x.shape[0], outputs)
    return PerPart(compute, x.reshape(max(1, x.shape[0]) // max(1, size), size, *x.shape[1:]))


def is_product(windows: Windows) -> bool:
    """Tell whether patches of all channels, which are last, are multiplied by whole filters."""
    return windows.channels_last and windows.groups == 1


def _filters(windows: Windows, method: str, w: Filters, zw: Zero) -> tuple[jax.Array, Zero]:
    """Return filters as ``patch_sums`` takes them, and their zero point."""
    if isinstance(w, PackedFilters) and not w.by_rows and windows.channels_last:
        return grouped_columns(w.filters, windows.groups), stored_zero_point(w, zw)
    w, zw = as_int8_filters(w, zw)
    if not windows.channels_last:
        w, zw = as_uint8(w, zw) if method == "mixed_dot" else (w, zw)
        return filter_rows(w, windows.groups), zw
    columns = filter_columns(w, windows.groups)
    if method == "native_convolution":
        # Transposed beside it, the filters would make a convolution without a fast routine.
        columns = lax.optimization_barrier(columns)  # type: ignore[no-untyped-call]
    return columns, zw


def _sums(windows: Windows, w: Filters, filters: jax.Array) -> jax.Array:
    if isinstance(w, PackedFilters) and filters.dtype == jnp.int8:
        return sums_of(w)
    return sums_of_filters(filters, windows)


def _with(function: Any, *operands: Any) -> jax.tree_util.Partial:
    return jax.tree_util.Partial(function, *operands)  # type: ignore[no-untyped-call]


def _part(
    windows: Windows, method: str, filters: jax.Array, sums: Zero, zx: Zero, zw: Zero, x: jax.Array
) -> RawProduct:
    channels = x.shape[windows.channel_axis]
    x = padded(x, zx, windows)
    if method == "native_convolution":
        # Transposed here, in a loop or a branch, the filters would become a convolution without a fast routine.
        w = filters.reshape(*windows.sizes, channels, filters.shape[2])
        total = native_sums(x, w, windows.without_padding(), jnp.int32, partial(_patches_of, windows))
    elif method == "neighbours":
        total = _by_neighbours(windows, x, filters.reshape(*windows.sizes, channels, filters.shape[2]))
    else:
        total = patch_sums(x, filters, windows)
    return corrected(total, sums, zx, zw, x, windows, windows.taps * channels // windows.groups)


def _patches_of(windows: Windows, x: jax.Array, w: jax.Array) -> jax.Array:
    """Return what ``native_sums`` does by a product of patches."""
    return patch_sums(x, w.reshape(1, -1, w.shape[-1]), windows)


def _part_by_rows(windows: Windows, method: str, matrix: PackedMatrix, zx: Zero, zw: Zero, x: jax.Array) -> RawProduct:
    """Multiply patches by filters that are stored as rows."""
    x = padded(x, zx, windows)
    patches = patch_rows(x, windows)
    batch, _, count, depth = patches.shape
    rows = patches.reshape(batch * count, depth)
    zx, zw = (None if zero is None else zero.reshape(1, -1) for zero in (zx, zw))
    total = accumulator(integer_product.packed_on_cpu((method,), rows, zx, matrix, zw), product_shape(rows, matrix))
    return RawProduct(total.reshape(batch, *windows.without_padding().counts(x.shape), total.shape[-1]))


def _by_neighbours(windows: Windows, x: jax.Array, w: jax.Array) -> jax.Array:
    """Sum the products of padded int8 ``x`` of few channels and filters ``[H, W, C, O]``."""
    x, w, of_rows = with_neighbours(x, w, windows, _MULTIPLE)
    otherwise = partial(_patches_of, of_rows)
    return native_sums(x, w, of_rows, jnp.int32, otherwise) if _pays_natively(*w.shape[-2:]) else otherwise(x, w)


def channels_of_part(windows: Windows, weights: ChannelWeights, zx: Zero, x: jax.Array) -> RawProduct:
    """Convolve each channel of int8 images by itself."""
    # Without the barrier XLA would pad anew for each slice.
    read = lax.optimization_barrier(padded(x, zx, windows))  # type: ignore[no-untyped-call]
    return convolve_channels(weights, zx, read, windows)


def _images_per_part(images: int, outputs: int) -> int:
    """Return how many of the images, with so many outputs each, are convolved together: a divisor of their number."""
    most = max(1, OUTPUTS_PER_PART // max(1, outputs))
    return next((size for size in range(min(images, most), 0, -1) if images % size == 0), 0)

"""Convolve with cuDNN's convolution of int8, or with a product where windows are small."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxdml._arithmetic.signedness import WORD, Zero, as_int8, as_int8_words, int8_of_words
from jaxdml._arithmetic.windows import Windows, padded
from jaxdml._base.shapes import is_static
from jaxdml._kernels import integer_product
from jaxdml._kernels.integer_convolution import edges
from jaxdml._kernels.integer_convolution.native_convolution import native_sums, with_neighbours
from jaxdml._kernels.integer_convolution.packed_filters import (
    Filters,
    as_int8_filters,
    filter_sums,
)
from jaxdml._kernels.integer_convolution.patch_product import corrected, filter_columns, patch_product
from jaxdml._kernels.integer_product import GREATEST_FLOAT_BOUND, LONGEST_FLOAT_SUM
from jaxdml._kernels.integer_sums import RawProduct

FEW_CHANNELS, MULTIPLE = 8, 16
"""For so few channels cuDNN has no fast GPU kernel. It has one for multiples of the second number."""

SMALL_WINDOW = 64
"""Patches of so few numbers are copied and multiplied: a product takes the rounding into its kernel."""

MIN_POSITIONS_IF_DEEP = 2**10
"""With fewer windows than this, a product of patches is faster than a convolution with filters of a large depth."""

MIN_NUMBERS_IN_TILES = 2**25
"""In a program whose tiles are chosen, and with packed filters, cuDNN is not faster if all patches have fewer numbers
than this. On an H200 32 images of 28 x 28 with 128 channels, 29 million numbers, take 20.9 us by patches and 21.5 by
cuDNN; of 56 x 56 with 64 channels, 58 million, 44.9 and 39.3, and eight of those 13.6 and 16.3."""


def serves(depth: int, windows: Windows, positions: Any, bound: int, in_tiles: bool) -> bool:
    """Tell whether to convolve so; without patches and transposition a product is as fast, and with strides faster.

    Args:
      depth: the number of products in a sum.
      windows: where the windows lie.
      positions: how many there are in all images.
      bound: on the magnitudes of a filter, or 0 if none is known.
      in_tiles: whether filters are packed, and the tiles of products are chosen.
    """
    if len(windows.sizes) != 2 or windows.groups > 1 or not is_static(depth, positions):
        return False
    if depth > LONGEST_FLOAT_SUM and not (0 < bound <= GREATEST_FLOAT_BOUND and positions >= MIN_POSITIONS_IF_DEEP):
        return False
    channels = depth // windows.taps
    gathered = channels > FEW_CHANNELS and channels % WORD == 0 and windows.dilations[-1] == 1
    if in_tiles and gathered and windows.channels_last and positions * depth < MIN_NUMBERS_IN_TILES:
        return False
    return windows.taps > 1 or not windows.channels_last


def convolve(windows: Windows, x: jax.Array, zx: Zero, w: Filters, zw: Zero) -> RawProduct:
    """Convolve with cuDNN's convolution of int8, which returns float32: it holds these sums.

    cuDNN transforms no int8, as it may floats. Small windows of few channels are copied, and multiplied.
    """
    filters, zw = as_int8_filters(w, zw)
    few = w.shape[1] <= FEW_CHANNELS and windows.sizes[1] > 1 and windows.dilations == (1, 1)
    images, zero = as_int8(x, zx)
    kinds = None if few or zw is not None or not _holds_edges(zero, w, windows) else edges.kinds(windows, x.shape)
    read = windows.without_padding() if kinds is None else windows
    x = _padded(x, zx, windows) if kinds is None else images
    last = read.with_channels_last()

    def by_patches(x: jax.Array, w: jax.Array) -> jax.Array:
        columns, x = filter_columns(jnp.transpose(w, (3, 2, 0, 1)), 1)[None], padded(x, None, last)
        return patch_product(integer_product.product_on_gpu, x, None, columns, None, last).product.astype(jnp.float32)

    small = False
    left, right = x if windows.channels_last else jnp.moveaxis(x, 1, -1), jnp.transpose(filters, (2, 3, 1, 0))
    if few:
        left, right, last = with_neighbours(left, right, last, MULTIPLE, in_words=True, most=SMALL_WINDOW)
        small = last.taps == 1 and last.strides == (1, 1)
    total = by_patches(left, right) if small else native_sums(left, right, last, jnp.float32, by_patches)
    if kinds is not None and zero is not None and read.padded:
        total += edges.lacking(edges.edges_of(w), kinds, zero)
    sums = None if zero is None else filter_sums(w, filters)
    in_order = total if windows.channels_last else jnp.moveaxis(total, -1, 1)
    return corrected(in_order, sums, zero, zw, x, windows, windows.taps * w.shape[1])


def _holds_edges(zx: Zero, w: Filters, windows: Windows) -> bool:
    """Tell whether filters hold what sums lack if cuDNN pads int8 images with zeros, if they lack anything."""
    return zx is None or not windows.padded or edges.edges_of(w) is not None


def _padded(x: jax.Array, zx: Zero, windows: Windows) -> jax.Array:
    """Pad ``x`` as int8, four channels at a time where that is possible."""
    if windows.padded and windows.channels_last and is_static(x.shape[-1]) and x.shape[-1] % WORD == 0:
        return int8_of_words(padded(*as_int8_words(x, zx), windows))
    return padded(*as_int8(x, zx), windows)

"""Convolve images on a GPU by a product of patches, each of two windows side by side.

Neighbouring windows share most of their numbers. So the patches of two of them together have little more than those of
one, the product has twice as many columns, and its kernel rounds. cuDNN, which has tiles of 128 channels, is slow with
fewer. The first two columns of a 3 x 3 window with a stride of two, and the next two::

    patch      a b c d e
    one        x x x
    the next       x x x

Four channels are a word of 32 bits, since a GPU copies a word as fast as a byte.
"""

import math
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import or_
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

from jaxdml._arithmetic.signedness import WORD, Zero, as_int8, as_int8_words, int8_of_words
from jaxdml._arithmetic.windows import Windows, padded
from jaxdml._base.static_fields import settle
from jaxdml._kernels.integer_convolution.packed_filters import PackedFilters
from jaxdml._kernels.integer_convolution.patch_product import gathered_patches
from jaxdml._kernels.integer_product import PackedMatrix, Product, product_shape
from jaxdml._kernels.integer_product import pack as pack_columns
from jaxdml._kernels.integer_sums import RawProduct, as_stored

_DEPTH = 64
"""K is padded to a multiple of this: 200704 x 256 x 128 takes 49 µs on an H100; with a K of 224 it takes 61, with one
of 208 75."""

_LONGEST, _LONGEST_FOR_ONE = 2**9, 2**3
"""Patches of pixels with up to four channels are not copied if they have more numbers than the first, or than the
second times the number of filters."""

_FEWEST_CHANNELS, _MOST_BYTES = 2**4, 2**17
"""With more than four channels pairs serve from the first number of channels on, while their columns take at most the
second number of bytes. These are stored beside the filters, and take 2.7 times their bytes if windows are 3 x 3."""


@partial(jax.tree_util.register_dataclass, data_fields=["columns"], meta_fields=["features", "stride"])
@dataclass(frozen=True, eq=False, kw_only=True)
class PixelPairs:
    """Hold filters as the columns of a product with patches of two windows; a pytree.

    Attributes:
      columns: ``[K, 2 * O]``, the filters for one window, and for the next. It has a chain.
      features: O. A block of the columns has fewer, and serves no convolution. Static.
      stride: the distance between the two windows. Static.
    """

    columns: PackedMatrix
    features: int
    stride: int

    def __post_init__(self) -> None:
        """Accept the arrays that ``numpy.load`` returns for static fields."""
        settle(self, features=int, stride=int)


export.register_pytree_node_serialization(
    PixelPairs,
    serialized_name="jaxdml.PixelPairs",
    serialize_auxdata=lambda static: f"{static[0]} {static[1]}".encode(),
    deserialize_auxdata=lambda text: tuple(map(int, text.decode().split())),
)


def pair(w: PackedFilters, stride: int) -> PixelPairs | tuple[()]:
    """Return filters with a chain for pairs of windows, or () where those do not serve.

    Args:
      w: the filters, with two spatial dimensions.
      stride: the distance between neighbouring windows of a row.
    """
    features, channels, height, width = (w.shape[d] for d in w.dimensions)
    depth = height * (width + stride) * (channels + -channels % WORD)
    if channels <= WORD:
        # Filters of one channel mostly are those of groups.
        serves = channels > 1 and depth <= min(_LONGEST, _LONGEST_FOR_ONE * features)
    else:
        serves = channels % WORD == 0 and channels >= _FEWEST_CHANNELS and 2 * features * depth <= _MOST_BYTES
    if not serves or stride >= width:
        return ()
    order = [w.order.index(w.dimensions[place]) for place in (0, 2, 3, 1)]
    last = np.pad(np.transpose(w.filters, order), [(0, 0)] * 3 + [(0, -channels % WORD)])
    both = [np.pad(last, [(0, 0), (0, 0), (before, stride - before), (0, 0)]) for before in (0, stride)]
    matrix = np.pad(np.concatenate(both).reshape(2 * features, depth), [(0, 0), (0, -depth % _DEPTH)])
    twice = jax.tree.map(lambda vector: np.concatenate([vector, vector]), w.chain)
    columns = replace(pack_columns(matrix, np.dtype(np.int8), np.dtype(np.int8)), chain=twice)
    return PixelPairs(columns=columns, features=features, stride=stride)


def serves(pairs: Any, w_shape: tuple[int, ...], windows: Windows, counts: tuple[int, ...], in_tiles: bool) -> bool:
    """Tell whether a convolution is one of pairs.

    Args:
      pairs: ``PixelPairs``, or ().
      w_shape: the shape of the filters ``[O, I, *sizes]``.
      windows: where the windows lie.
      counts: how many there are along each spatial dimension.
      in_tiles: whether the tiles of products are chosen.
    """
    if isinstance(pairs, tuple) or not windows.channels_last or windows.groups > 1 or len(counts) != 2:
        return False
    if not in_tiles and w_shape[1] > WORD:
        return False
    whole = pairs.features == w_shape[0] and pairs.columns.shape[-1] == 2 * w_shape[0]
    return whole and windows.strides[1] == pairs.stride and windows.dilations == (1, 1) and counts[1] % 2 == 0


def convolve(product: Product, windows: Windows, x: jax.Array, zx: Zero, w: PackedFilters, zw: Zero) -> RawProduct:
    """Return the sums of products of int8 or uint8 ``[N, H, W, C]``, and what rounds them two windows at once.

    Args:
      product: multiplies on a GPU.
      windows: where the windows lie.
      x: the images.
      zx: their zero point.
      w: filters with pairs.
      zw: not read: filters with pairs have the zero point 0 as they are stored.
    """
    del zw
    x, zx = as_int8(x, zx)
    rows = _patches(x, zx, windows, w.pairs)
    columns = replace(w.pairs.columns, chain=())
    # The chain subtracts what belongs to the zero point.
    total = as_stored(product(rows, None, columns, None), product_shape(rows, columns))
    chain = jax.tree.map(lambda vector: vector[None], w.pairs.columns.chain)
    shape = x.shape[0], *windows.counts(x.shape), w.pairs.features
    za, sums = (None, None) if zx is None else map(windows.along_channels, (zx, w.sums))
    return RawProduct(total.reshape(shape), za=za, columns=sums, chain=chain)


def _patches(x: jax.Array, zx: Zero, windows: Windows, pairs: PixelPairs) -> jax.Array:
    """Return for each pair of windows of int8 images the pixels of both as a row, padded to K."""
    (height, width), (down, right) = windows.sizes, windows.strides
    needed, count = width + right, windows.counts(x.shape)[1] // 2
    # Crop or pad the columns after the last pair.
    end = (count - 1) * 2 * right + needed - x.shape[2] - windows.start_padding[1]
    of_pairs = windows._replace(
        sizes=(height, needed), strides=(down, 2 * right), end_padding=(windows.end_padding[0], end)
    )
    words, zero = _words(x, zx)
    depth = pairs.columns.shape[0]
    missing = depth // WORD - of_pairs.taps * words.shape[-1]
    patches = gathered_patches(padded(words, zero, of_pairs), of_pairs, missing)
    return int8_of_words(patches).reshape(math.prod(patches.shape[:3]), depth)


def _words(x: jax.Array, zx: Zero) -> tuple[jax.Array, Zero]:
    """Return int8 ``[N, H, W, C]`` as int32, and its zero point: four channels in each, or all if they are few."""
    if x.shape[-1] % WORD == 0:
        return as_int8_words(x, zx)
    zero = None if zx is None else _joined(jnp.broadcast_to(zx, x.shape[3:]))
    # Stored: else XLA would compute the images anew for each patch.
    words: jax.Array = lax.optimization_barrier(_joined(x)[..., None])  # type: ignore[no-untyped-call]
    return words, zero


def _joined(x: jax.Array) -> jax.Array:
    """Join the numbers of the last dimension to one int32, the first lowest."""
    return reduce(or_, ((x[..., place].astype(jnp.int32) & 0xFF) << 8 * place for place in range(x.shape[-1])))

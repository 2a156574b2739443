"""Convolve images on a GPU by a product of patches, each of several windows side by side.

Neighbouring windows share most of their numbers. So the patches of two of them together have little more than those of
one, the product has twice as many columns, and its kernel rounds. cuDNN, which has tiles of 128 channels, is slow with
fewer. The first two columns of a 3 x 3 window with a stride of two, and the next two::

    patch      a b c d e
    one        x x x
    the next       x x x

Four channels are a word of 32 bits, since a GPU copies a word as fast as a byte.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import takewhile
from operator import or_
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

from jaxdml._arithmetic.signedness import WORD, Zero, as_int8, as_int8_words, int8_of_words
from jaxdml._arithmetic.windows import Windows, padded
from jaxdml._base.shapes import is_static
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

_FEWEST_CHANNELS = 2**4
"""With more than four channels runs serve from so many on."""

_MOST_BYTES = {2: 2**17, 4: 2**19}
"""How many bytes the columns for so many windows of more than four channels take at most. They are stored beside the
filters, and take 2.7 and 8 times their bytes if windows are 3 x 3 with strides of one, with strides of two 3.3 and 12
times."""

MIN_NUMBERS_OF_FOUR = 2**25
"""Four windows are a run where the patches of two have at least so many numbers. On an H200 32 images of 56 x 56 with
64 channels, 38 million numbers, take 26.9 us by fours and 32.4 by twos; 16 images 16.5 by both, and one 6.9 and 5.4."""


@partial(jax.tree_util.register_dataclass, data_fields=["columns"], meta_fields=["features", "stride", "count"])
@dataclass(frozen=True, eq=False, kw_only=True)
class WindowRun:
    """Hold filters as the columns of a product with patches of a run of windows; a pytree.

    Attributes:
      columns: ``[K, count * O]``, the filters for the first window, and for the next ones. It has a chain.
      features: O. A block of the columns has fewer, and serves no convolution. Static.
      stride: the distance between two windows. Static.
      count: how many windows a run has. Static.
    """

    columns: PackedMatrix
    features: int
    stride: int
    count: int

    def __post_init__(self) -> None:
        """Accept the arrays that ``numpy.load`` returns for static fields."""
        settle(self, features=int, stride=int, count=int)


export.register_pytree_node_serialization(
    WindowRun,
    serialized_name="jaxdml.WindowRun",
    serialize_auxdata=lambda static: " ".join(map(str, static)).encode(),
    deserialize_auxdata=lambda text: tuple(map(int, text.decode().split())),
)


def runs(w: PackedFilters, stride: int) -> tuple[WindowRun, ...]:
    """Return filters with a chain for runs of windows, the shortest first, or () where those do not serve.

    Args:
      w: the filters, with two spatial dimensions.
      stride: the distance between neighbouring windows of a row.
    """
    features, channels, height, width = (w.shape[d] for d in w.dimensions)

    def depth(count: int) -> int:
        return height * (width + (count - 1) * stride) * (channels + -channels % WORD)

    if stride >= width:
        return ()
    if channels <= WORD:
        # Filters of one channel mostly are those of groups.
        serves = channels > 1 and depth(2) <= min(_LONGEST, _LONGEST_FOR_ONE * features)
        return (_run(w, stride, 2, depth(2)),) if serves else ()
    if channels % WORD or channels < _FEWEST_CHANNELS:
        return ()
    # Both are stored, and ``chosen`` takes one.
    fitting = takewhile(lambda of: of[0] * features * depth(of[0]) <= of[1], _MOST_BYTES.items())
    return tuple(_run(w, stride, count, depth(count)) for count, _ in fitting)


def _run(w: PackedFilters, stride: int, count: int, depth: int) -> WindowRun:
    features, channels = (w.shape[d] for d in w.dimensions[:2])
    order = [w.order.index(w.dimensions[place]) for place in (0, 2, 3, 1)]
    last = np.pad(np.transpose(w.filters, order), [(0, 0)] * 3 + [(0, -channels % WORD)])
    steps = [(before * stride, (count - 1 - before) * stride) for before in range(count)]
    each = [np.pad(last, [(0, 0), (0, 0), step, (0, 0)]) for step in steps]
    matrix = np.pad(np.concatenate(each).reshape(count * features, depth), [(0, 0), (0, -depth % _DEPTH)])
    chain = jax.tree.map(lambda vector: np.concatenate([vector] * count), w.chain)
    columns = replace(pack_columns(matrix, np.dtype(np.int8), np.dtype(np.int8)), chain=chain)
    return WindowRun(columns=columns, features=features, stride=stride, count=count)


def chosen(
    of: Sequence[WindowRun],
    w_shape: tuple[int, ...],
    windows: Windows,
    counts: tuple[int, ...],
    images: Any,
    tiled: bool,
) -> int | None:
    """Return the place of the run by which to convolve, or None.

    Args:
      of: the runs of the filters.
      w_shape: the shape of the filters ``[O, I, *sizes]``.
      windows: where the windows lie.
      counts: how many there are along each spatial dimension.
      images: how many there are.
      tiled: whether the tiles of products are chosen.
    """
    if not windows.channels_last or windows.groups > 1 or windows.dilations != (1, 1) or len(counts) != 2:
        return None
    if not tiled and w_shape[1] > WORD:
        return None
    serving = [at for at, run in enumerate(of) if _serves(run, w_shape[0], windows.strides[1], counts[1])]
    if not serving:
        return None
    shortest, longest = serving[0], serving[-1]
    if shortest == longest or not is_static(images, *counts):
        return shortest
    numbers = images * math.prod(counts) // of[shortest].count * of[shortest].columns.shape[0]
    return longest if numbers >= MIN_NUMBERS_OF_FOUR else shortest


def _serves(run: WindowRun, features: int, stride: int, count: Any) -> bool:
    whole = run.features == features and run.columns.shape[-1] == run.count * features
    return whole and run.stride == stride and count % run.count == 0


def convolve(
    product: Product, windows: Windows, at: int, x: jax.Array, zx: Zero, w: PackedFilters, zw: Zero
) -> RawProduct:
    """Return the sums of products of int8 or uint8 ``[N, H, W, C]``, and what rounds them a run of windows at once.

    Args:
      product: multiplies on a GPU.
      windows: where the windows lie.
      at: the place of the run.
      x: the images.
      zx: their zero point.
      w: filters with runs.
      zw: not read: filters with runs have the zero point 0 as they are stored.
    """
    del zw
    x, zx = as_int8(x, zx)
    run: WindowRun = w.runs[at]
    rows = _patches(x, zx, windows, run)
    columns = replace(run.columns, chain=())
    # The chain subtracts what belongs to the zero point.
    total = as_stored(product(rows, None, columns, None), product_shape(rows, columns))
    chain = jax.tree.map(lambda vector: vector[None], run.columns.chain)
    shape = x.shape[0], *windows.counts(x.shape), run.features
    za, sums = (None, None) if zx is None else map(windows.along_channels, (zx, w.sums))
    return RawProduct(total.reshape(shape), za=za, columns=sums, chain=chain)


def _patches(x: jax.Array, zx: Zero, windows: Windows, run: WindowRun) -> jax.Array:
    """Return for each run of windows of int8 images their pixels as a row, padded to K."""
    (height, width), (down, right) = windows.sizes, windows.strides
    needed, step = width + (run.count - 1) * right, run.count * right
    count = windows.counts(x.shape)[1] // run.count
    # Crop or pad the columns after the last run.
    end = (count - 1) * step + needed - x.shape[2] - windows.start_padding[1]
    of_runs = windows._replace(sizes=(height, needed), strides=(down, step), end_padding=(windows.end_padding[0], end))
    words, zero = _words(x, zx)
    depth = run.columns.shape[0]
    missing = depth // WORD - of_runs.taps * words.shape[-1]
    patches = gathered_patches(padded(words, zero, of_runs), of_runs, missing)
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

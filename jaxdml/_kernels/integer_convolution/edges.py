"""Let a convolution pad with zeros where the zero point stands for 0, and add what windows at the edges then lack.

cuDNN pads with zeros as it reads. Any other number has to be written around the images before, in a kernel of its own.
A window that reaches beyond an edge lacks the zero point times the sum of those elements of its filter that lie there.
There are few kinds of windows along a dimension, as many as a window has elements. Three, the middle one whole::

    image        | x x x x |
    kind 0       . x x
    kind 1         x x x
    kind 2             x x .
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._arithmetic.windows import Windows
from jaxdml._kernels.integer_convolution.packed_filters import Filters, PackedFilters

_LEAST_CHANNELS, _LARGEST = 64, 7
"""Filters of fewer channels, or of larger windows, have no sums beyond edges. Those take ``4 / channels`` of the bytes
of the filters."""


def has_edges(w: PackedFilters) -> bool:
    """Tell whether packed filters are to have sums beyond edges, because a GPU may pad with zeros for them."""
    _, depth, *sizes = (w.shape[d] for d in w.dimensions)
    return w.by_rows and len(sizes) == 2 and 1 < max(sizes) <= _LARGEST and depth >= _LEAST_CHANNELS


def edge_sums(filters: Any) -> Any:
    """Return for each kind of window the sum of those elements of each filter that lie beyond the edges.

    Args:
      filters: int8 ``[O, H, W, I]``, an array of JAX or of NumPy; so is the result.

    Returns:
      int32 ``[H, W, O]``.
    """
    of_taps = filters.sum(axis=-1, dtype=np.int32).transpose(1, 2, 0)
    rows, columns = map(_inside, of_taps.shape[:2])
    of_rows = (of_taps[None] * rows[..., None, None]).sum(axis=1, dtype=np.int32)
    inside = (of_rows[:, None] * columns[None, :, :, None]).sum(axis=2, dtype=np.int32)
    return of_taps.sum(axis=(0, 1), dtype=np.int32)[None, None] - inside


def _inside(size: int) -> np.ndarray[Any, Any]:
    """Return ``[kinds, size]``: 1 for the elements of a window that lie inside, else 0."""
    place = np.arange(size) + np.arange(size)[:, None] - _whole(size)
    return ((place >= 0) & (place < size)).astype(np.int32)


def _whole(size: int) -> int:
    """Return the kind of the windows that lie inside as a whole."""
    return (size - 1) // 2


def edges_of(w: Filters) -> jax.Array | None:
    """Return the sums beyond edges, or None if there are none, or those of another block of the filters."""
    if not isinstance(w, PackedFilters):
        return None
    features, _, *sizes = w.shape
    whole = w.k * features == w.filters.size and np.shape(w.edges) == (*sizes, features)
    return w.edges if whole else None


def kinds(windows: Windows, shape: tuple[int, ...]) -> list[np.ndarray[Any, Any]] | None:
    """Return the kind of each window along each dimension of images; None if one is of no kind.

    That is one that lies beyond two edges, or beyond one with more than half of it.

    Args:
      windows: where the windows lie.
      shape: that of the images.
    """
    found = []
    for d, (length, count) in enumerate(zip(windows.spatial(shape), windows.counts(shape), strict=True)):
        size, step = windows.sizes[d], windows.dilations[d]
        first = np.arange(count) * windows.strides[d] - windows.start_padding[d]
        before = -(np.minimum(first, 0) // step)
        after = -(np.minimum(length - first - windows.reaches[d], 0) // step)
        kind = _whole(size) - before + after
        if (before * after).any() or kind.min() < 0 or kind.max() >= size:
            return None
        found.append(kind)
    return found


def lacking(edges: Any, kinds: list[np.ndarray[Any, Any]], zx: jax.Array) -> jax.Array:
    """Return as float32 ``[1, H, W, O]`` what sums of products with images that are padded with zeros lack.

    float32 holds it, as it does the sums.

    Args:
      edges: ``edge_sums`` of the filters.
      kinds: of the windows.
      zx: the int32 zero point of the images, ``[1]``.
    """
    rows, columns = kinds
    # Multiplied behind the selection: all of this is done in the kernel that rounds the sums.
    of_windows = edges.at[rows].get(mode="promise_in_bounds").at[:, columns].get(mode="promise_in_bounds")
    return of_windows[None].astype(jnp.float32) * zx.astype(jnp.float32).reshape(1, 1, 1, 1)

"""Find an extreme over shards: on each shard, then among what was found on all of them."""

import jax
import numpy as np
from jax import lax

from jaxdml._kernels.extremes import kernel as extremes
from jaxdml._kernels.extremes.reductions import Axes, Rule, first_or_last
from jaxdml._kernels.selection import from_all_shards
from jaxdml._placement.layout import Names, axis_size


def find(
    x: jax.Array,
    axes: Axes,
    rule: Rule,
    implementation: str | None,
    index_dtype: np.dtype[np.integer],
    over: tuple[Names, ...],
) -> jax.Array:
    """Return the index of the element that the rule chooses, the same on all shards.

    Args:
      x: the array, or a block of it.
      axes: the axes to search, in ascending order.
      rule: which element is chosen.
      implementation: the method that searches each shard, or None.
      index_dtype: the dtype of the indices, wide enough for the whole axes.
      over: for each axis the mesh axes that it is sharded over.
    """
    keys, places = extremes.find(x, axes, rule, implementation, index_dtype)
    if not any(over):
        return places.astype(index_dtype)
    names = tuple(name for of_axis in over for name in of_axis)
    keys, places = (part[..., 0] for part in from_all_shards(keys[..., None], places[..., None], names))
    sizes, counts = [x.shape[axis] for axis in axes], [axis_size(of_axis) for of_axis in over]
    indices = _in_whole_axes(places.astype(index_dtype), sizes, counts)
    return first_or_last(keys == keys.max(-1, keepdims=True), indices, (keys.ndim - 1,), rule)


def _in_whole_axes(places: jax.Array, sizes: list[int], counts: list[int]) -> jax.Array:
    """Turn positions in the block of each shard into positions in the whole array.

    Args:
      places: ``[..., shards]``, row-major over the axes of a block.
      sizes: the length of each axis in a block.
      counts: how many shards each axis has. The shards are numbered row-major over the axes.
    """
    dtype = places.dtype
    shards = lax.broadcasted_iota(dtype, places.shape, places.ndim - 1)
    indices, stride = places - places, 1
    for size, count in zip(reversed(sizes), reversed(counts), strict=True):
        length, of_all = dtype.type(size), dtype.type(count)
        along_axis = lax.rem(shards, of_all) * length + lax.rem(places, length)
        indices += along_axis * dtype.type(stride)
        places, shards, stride = lax.div(places, length), lax.div(shards, of_all), stride * size * count
    return indices

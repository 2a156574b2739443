"""Repeat the values of blocks where the array that has the blocks is sharded."""

import jax
from jax import lax

from jaxdml._algorithms.quantized.blocks import repeated
from jaxdml._sharding.layout import Names, axis_index, axis_size


def on_shard(x: jax.Array, axis: int, block: int, length: int, over: Names) -> jax.Array:
    """Return the values for the elements of this shard; no values move.

    Args:
      x: one value for each block along ``axis`` of the whole array, the same on all shards.
      axis: the axis that has blocks.
      block: how many elements a block has; the last one may have fewer.
      length: the length of ``axis`` on this shard.
      over: the axes that ``axis`` is sharded over.
    """
    if not over:
        return repeated(x, axis, block, length)
    whole = repeated(x, axis, block, length * axis_size(over))
    return lax.dynamic_slice_in_dim(whole, axis_index(over) * length, length, axis=axis)

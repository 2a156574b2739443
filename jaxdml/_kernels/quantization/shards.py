"""Quantize sharded arrays: repeat the values of blocks on each shard, and find the range of all shards."""

import jax
from jax import lax

from jaxdml._kernels.quantization import dynamic_range
from jaxdml._kernels.quantization.blocks import repeated
from jaxdml._placement.layout import Names, axis_index, axis_size


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


def scale_and_zero_point(x: jax.Array, over: Names) -> tuple[jax.Array, jax.Array]:
    """Return the scale and the zero point of the whole array, the same on all shards: two int32 are sent.

    Args:
      x: the float32 block of this shard.
      over: the axes that the array is sharded over.
    """
    extremes = dynamic_range.extremes(lax.stop_gradient(x))
    if over:
        extremes = lax.pmax(extremes, over)  # type: ignore[no-untyped-call]
    return dynamic_range.scale_and_zero_point(extremes)

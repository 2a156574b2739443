"""Find the range of an array that is sharded."""

import jax
from jax import lax

from jaxdml._algorithms.quantized import dynamic_range
from jaxdml._sharding.layout import Names


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

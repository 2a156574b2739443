"""Write into the block of each shard what lies in it; nothing of ``x`` moves."""

from collections.abc import Mapping

import jax

from jaxdml._kernels.indexed_write.kernel import Block
from jaxdml._placement.layout import Names, axis_index, axis_size


def block_of(x: jax.Array, over: Mapping[int, Names]) -> Block | None:
    """Return where the block ``x`` lies in the whole array, or None if it is whole.

    Args:
      x: ``[d_1, ..., d_r]``.
      over: for dimensions that indices address, the axes over which they are sharded.
    """
    if not any(over.values()):
        return None
    sizes = tuple(size * axis_size(over.get(d, ())) for d, size in enumerate(x.shape))
    starts = [axis_index(over[d]) * size if over.get(d) else 0 for d, size in enumerate(x.shape)]
    return Block(sizes, tuple(starts))

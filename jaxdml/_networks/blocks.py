"""Exchange square blocks of an image for channels."""

from typing import Any


def depth_to_space(x: Any, size: int, *, blocks_first: bool) -> Any:
    """Make a block of ``size * size`` elements of as many channels.

    Args:
      x: ``[n, channels, height, width]``.
      size: the side of a block.
      blocks_first: whether the place in a block is the slower part of a channel's number, else the new channel is.
    """
    n, channels, height, width = x.shape
    blocks, depth = (size, size), channels // size**2
    if blocks_first:
        x = x.reshape((n, *blocks, depth, height, width)).transpose((0, 3, 4, 1, 5, 2))
    else:
        x = x.reshape((n, depth, *blocks, height, width)).transpose((0, 1, 4, 2, 5, 3))
    # One after the other: JAX does not say how both at once are sharded on a mesh of explicit axes.
    x = x.reshape((n, depth, height * size, width, size))
    return x.reshape((n, depth, height * size, width * size))


def space_to_depth(x: Any, size: int, *, blocks_first: bool) -> Any:
    """Undo ``depth_to_space``."""
    n, channels, height, width = x.shape
    height, width = height // size, width // size
    order = (0, 3, 5, 1, 2, 4) if blocks_first else (0, 1, 3, 5, 2, 4)
    x = x.reshape((n, channels, height, size, width * size))
    blocks = x.reshape((n, channels, height, size, width, size)).transpose(order)
    return blocks.reshape((n, channels * size**2, height, width))

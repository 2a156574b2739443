"""Compute with shapes as plain tuples."""

from collections.abc import Sequence

import numpy as np

Shape = tuple[int, ...]


def broadcast(*shapes: Sequence[int]) -> Shape | None:
    """Return the shape that all of these broadcast to, or None where they do not."""
    try:
        return np.broadcast_shapes(*(tuple(shape) for shape in shapes))
    except ValueError:
        return None


def broadcasts_to(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Tell whether ``shape`` broadcasts to exactly ``target``."""
    return broadcast(shape, target) == tuple(target)

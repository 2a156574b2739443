"""Compute with shapes as plain tuples, whose sizes may be symbolic while ``jax.export`` traces."""

from collections.abc import Sequence

Shape = tuple[int, ...]


def is_static(*sizes: int) -> bool:
    """Tell whether all sizes are known numbers. Most comparisons of the others raise an error."""
    return all(isinstance(size, int) for size in sizes)


def broadcast(*shapes: Sequence[int]) -> Shape | None:
    """Return the shape that all of these broadcast to, or None where they do not.

    A symbolic size broadcasts against 1, and against what is known to be the same size.
    """
    rank = max(map(len, shapes), default=0)
    aligned = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    result = []
    for sizes in zip(*aligned, strict=True):
        size = next((size for size in sizes if size != 1), 1)
        if any(other not in (1, size) for other in sizes):
            return None
        result.append(size)
    return tuple(result)


def broadcasts_to(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Tell whether ``shape`` broadcasts to exactly ``target``."""
    return broadcast(shape, target) == tuple(target)

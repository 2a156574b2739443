"""How windows lie over the spatial dimensions of an image."""

from collections.abc import Sequence
from typing import NamedTuple


class Fit(NamedTuple):
    """Hold how windows lie along one dimension.

    Attributes:
      reach: how many elements a window spans.
      inside: how many there are with padding.
      number: how many windows fit; less than 1 if not even one does.
    """

    reach: int
    inside: int
    number: int


def fits(
    image: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    start_padding: Sequence[int],
    end_padding: Sequence[int],
) -> list[Fit]:
    """Return how windows lie along each dimension. No stride is 0."""
    found = []
    arrays = image, window, strides, dilations, start_padding, end_padding
    for length, size, stride, dilation, start, end in zip(*arrays, strict=True):
        reach, inside = (size - 1) * dilation + 1, length + start + end
        found.append(Fit(reach, inside, (inside - reach) // stride + 1))
    return found

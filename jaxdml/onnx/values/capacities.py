"""How much longer than what counts arrays are, for the lengths of earlier calls."""

from collections import Counter
from collections.abc import Hashable, Iterable
from math import ceil, prod
from typing import Any

from jaxdml.onnx.values.held import LEAST, Free, Keyed, Sizes

PATIENCE, MOST = 64, 2**23
"""Programs that are too long may add so many times a length's elements, and so many, before it gets its own.

Computing these takes about as long as compiling: the first for small models, the second for large images.
"""

ROOM, CALLS = 3, 4
"""A new program has room for so many times the elements of the longest call, if it serves so many calls of a length."""

FEW = 16
"""What is shorter is rounded up to this, if it depends on values."""


class Capacities:
    """How long the arrays of a stage's programs are, for the lengths of earlier calls.

    A length is served by programs that are too long until they have added as many elements as compiling is worth. Then
    it gets a program of its own. A program that is new has room for longer ones.
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, list[Sizes]] = {}
        self._added: Counter[Hashable] = Counter()

    def chosen(self, values: Iterable[Any], named: Sizes) -> tuple[Sizes, bool]:
        """Return sizes by key for a call, and whether calls of these lengths will be given the same again.

        Args:
          values: what a program gets.
          named: sizes that are settled, by key.
        """
        arrays = [x for x in values if isinstance(x, Keyed)]
        shapes = [tuple(zip(x.array.shape, x.keys, strict=True)) for x in arrays]
        sizes = {key: size for shape in shapes for size, key in shape if key is not None}
        if sizes.keys() <= named.keys():
            return {key: named[key] for key in sizes}, True
        settled = {key: named[key] for key in sizes.keys() & named.keys()}
        wanted = {key: _rounded_up(key, size) for key, size in sizes.items()} | settled

        def elements(sizes: Sizes) -> int:
            return sum(prod(sizes.get(key, size) for size, key in shape) for shape in shapes)

        def with_room(most: float) -> Sizes:
            """Return sizes between these and those of the longest call with room, of at most so many elements."""
            free = max(sum(key in wanted and key not in settled for _, key in shape) for shape in shapes)
            pairs = (pair for x in arrays for pair in zip(x.keys, x.longest, strict=True))
            full = {key: size * ROOM ** (1 / free) for key, size in pairs if key is not None}
            for part in (1, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125):
                between = {key: size ** (1 - part) * full[key] ** part for key, size in sizes.items()}
                found = {key: _rounded_up(key, ceil(size)) for key, size in between.items()} | settled
                if elements(found) <= most:
                    return found
            return wanted

        made, lengths, needed = self._made.setdefault(tuple(wanted), []), tuple(wanted.items()), elements(wanted)
        left = min(PATIENCE * needed, MOST) - self._added[lengths]
        enough = [
            each
            for each in made
            if all(each[key] == size if key in settled else each[key] >= size for key, size in lengths)
            and elements(each) - needed <= max(needed, left)
        ]
        if not enough:
            enough = [wanted if self._added[lengths] else with_room(needed + left / CALLS)]
            made.extend(enough)
        best = min(enough, key=elements)
        is_near = elements(best) <= 2 * needed
        if not is_near:
            self._added[lengths] += elements(best) - needed
        return best, is_near


def _rounded_up(key: Hashable, size: int) -> int:
    """Round up to a power of two, or to the middle between two."""
    size = max(size, LEAST if isinstance(key, Free) else FEW)
    power = 1 << (size - 1).bit_length()
    return power * 3 // 4 if size <= power * 3 // 4 else power

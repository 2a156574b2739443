"""Read the dimensions of an operator's arguments and results from one string, and say how a mesh shards them."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

Letters = tuple[str, ...]
Axes = tuple[str | None, ...]
"""For each dimension of an array the mesh axis that it is sharded over, or None."""


class Dimensions(NamedTuple):
    """Hold the dimensions of a call."""

    arguments: tuple[Letters, ...]
    results: tuple[Letters, ...]
    combined: frozenset[str]
    """Those whose blocks have to know of each other."""

    def sharded(self, over: Mapping[str, str]) -> tuple[tuple[Axes, ...], tuple[Axes, ...]]:
        """Return how arguments and results are sharded, given the mesh axes of some dimensions."""
        arguments, results = (
            tuple(tuple(map(over.get, letters)) for letters in arrays) for arrays in (self.arguments, self.results)
        )
        return arguments, results

    def independent(self, over: Iterable[str]) -> bool:
        """Tell whether blocks of arguments that are sharded so give blocks of the results by themselves."""
        kept = {letter for letters in self.results for letter in letters} - self.combined
        return set(over) <= kept


def of(text: str) -> Dimensions:
    """Read ``"m c, u t, u c -> m c; m"``: the arguments, the results, and what is combined."""
    arrays, _, combined = text.partition(";")
    arguments, results = (tuple(tuple(letters.split()) for letters in side.split(",")) for side in arrays.split("->"))
    return Dimensions(arguments, results, frozenset(combined.split()))

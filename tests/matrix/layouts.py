"""How samples may be sharded over a mesh with axes ``x`` and ``y``: the letters of an operator's record say it."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from jax.sharding import PartitionSpec as P

import jaxdml
from jaxdml._cases import dimensions
from jaxdml._cases.records import Operator


@dataclass(frozen=True)
class Layout:
    """How the arguments and results of a call are sharded."""

    specs: tuple[P, ...]
    results: tuple[P, ...]
    axis_name: str | tuple[str, ...] | None = None
    """The mesh axes that the operator has to know by their names, if it is called on blocks of such arguments."""
    independent: bool = False
    """Whether blocks of such arguments need not know of each other."""

    def without(self, axis: str) -> "Layout":
        """Return the layout that leaves one mesh axis free."""
        specs, results = (
            tuple(P(*(None if name == axis else name for name in spec)) for spec in part)
            for part in (self.specs, self.results)
        )
        return replace(self, specs=specs, results=results)


def sharded(record: Operator) -> dict[str, dict[str, str]]:
    """Return which dimensions are sharded together, by their letters: over which mesh axis each one is.

    The main layout, the first, has a dimension that stays in the results and one that is combined. Every other
    dimension is sharded beside the first of these. The last layout has blocks that are independent.
    """
    dims, sizes = dimensions.of(record.dimensions), record.sizes
    letters = [letter for letter in dict.fromkeys(chain(*dims.arguments)) if sizes.get(letter, 1) % 2 == 0]
    kept = [letter for letter in letters if dims.independent({letter: "x"})]
    combined = [letter for letter in letters if letter in dims.combined]
    main = [*kept[:1], *combined[:1]] if combined else kept[:2]
    others = [[main[0], letter] for letter in letters if letter not in {*main, *kept[:2]}]

    def over(chosen: list[str]) -> dict[str, str]:
        # Axis x has two devices, and y up to four.
        wide = [letter for letter in chosen if sizes[letter] % 4 == 0]
        return {letter: "y" if letter in wide[-1:] else "x" for letter in chosen}

    return {"".join(chosen) or "whole": over(chosen) for chosen in [main, *others, *([kept[:2]] if combined else [])]}


def layout(record: Operator, over: Mapping[str, Any]) -> Layout:
    """Return how arguments and results are sharded, given the mesh axes of some dimensions."""
    dims = dimensions.of(record.dimensions)
    specs, results = (tuple(P(*axes) for axes in arrays) for arrays in dims.sharded(over))
    combined = [axes for letter, axes in over.items() if letter in dims.combined]
    others = {letter: axes for letter, axes in over.items() if letter not in dims.combined}
    by_name = "axis_name" in inspect.signature(getattr(jaxdml, record.name)).parameters and dims.independent(others)
    return Layout(specs, results, combined[0] if by_name and len(combined) == 1 else None, dims.independent(over))


def layouts(record: Operator) -> dict[str, Layout]:
    """Return the layouts of a sample by their names."""
    return {label: layout(record, over) for label, over in sharded(record).items()}

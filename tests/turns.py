"""Which transformation tests/test_composition.py tests of which operator, and where: on meshes they take turns.

The thorough profile tests all of them everywhere.
"""

from collections.abc import Callable
from functools import cache
from zlib import crc32

from tests.calls import CALLS
from tests.compositions import COMPOSITIONS
from tests.grids import THOROUGH
from tests.impossible import impossible
from tests.placements import PLACEMENTS, layouts_of
from tests.transformations import Cell, transformations_of

CALLED_EVERYWHERE = (
    "ahead_of_time",
    "donation",
    "eval_shape",
    "implementations",
    "leak_checks",
    "strict_promotion",
    "x64",
)
"""What takes no turns: it is made of one program, is only traced, or is possible at few placements."""


def takes_part(name: str, column: str, placement: str) -> bool:
    """Return whether an operator that can be tested with a transformation or call there is.

    An operator that stands for a kernel has ``jit`` everywhere, with every layout. The rest is tested on one device,
    and on whole arrays and on blocks: with Auto axes and ``axis_name`` or with Explicit ones and ``shard_map``. Another
    operator has the other two. An operator that shares a kernel has ``jit`` like that, and each transformation at one
    placement. The thorough profile tests all.
    """
    stands_for_a_kernel, jitted = COMPOSITIONS[name].every_column, column.startswith("jit")
    if THOROUGH or (stands_for_a_kernel and jitted):
        return True
    if not (stands_for_a_kernel or jitted):
        places = _possible(name, column)
        return placement == places[turn(name, column) % len(places)]
    if placement == "one" or column in CALLED_EVERYWHERE or column.startswith("checkify"):
        return True
    return placement in (("auto", "axis_name"), ("explicit", "shard_map"))[turn(name, column) % 2]


def turn(name: str, column: str) -> int:
    """Return a number that goes up by one from operator to operator."""
    return list(COMPOSITIONS).index(name) + crc32(column.encode())


@cache
def _possible(name: str, column: str) -> list[str]:
    """Return where an operator has a column; if it is impossible wherever it has it, those of which that is proved."""
    there = [place for place in PLACEMENTS if column in CALLS or column in programs_of(name, place)]
    return [place for place in there if impossible(name, column, place) is None] or there


def programs_of(name: str, placement: str) -> dict[str, Callable[..., Cell]]:
    """Return all that can be compiled as one program, by name."""
    return transformations_of(name, placement, layouts_of(name, placement))

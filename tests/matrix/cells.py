"""The matrix of tests/test_composition.py: which cells it has, and which of them a run tests.

A cell is an operator, a column and a placement. A column is a transformation of JAX or a way to call.

The rule: an operator that stands for a kernel is tested in all its cells. Any other has ``jit`` at every placement, and
each other column at one, which the names choose.
"""

from functools import cache
from zlib import crc32

from tests.kit import THOROUGH
from tests.matrix.calls import calls_of
from tests.matrix.compositions import COMPOSITIONS
from tests.matrix.impossible import impossible
from tests.matrix.placements import PLACEMENTS, layouts_of
from tests.matrix.transformations import transformations_of

STAND_FOR_KERNELS = (
    "argmax",
    "convolution_integer",
    "gather",
    "matrix_multiply_integer_to_float",
    "quantize_linear",
    "quantized_linear_add",
    "quantized_linear_average_pooling",
    "quantized_linear_matrix_multiply",
    "scatter_nd",
    "top_k",
)
"""For each kernel the first operator that it served."""

SLOW = ("disable_jit",)
"""Columns that compile every operation by itself, which only the thorough profile does on meshes."""


@cache
def columns_of(name: str, placement: str) -> list[str]:
    """Return the columns that an operator can have at a placement; none where it has no layout."""
    layouts = layouts_of(name, placement)
    return [*transformations_of(name, placement, layouts), *calls_of(name, placement)] if layouts else []


def is_tested(name: str, column: str, placement: str) -> bool:
    """Return whether a run tests a cell."""
    if THOROUGH:
        return True
    if column in SLOW and placement != "one":
        return False
    if name in STAND_FOR_KERNELS or column == "jit":
        return True
    there = [place for place in PLACEMENTS if column in columns_of(name, place)]
    possible = [place for place in there if impossible(name, column, place) is None] or there
    return placement == possible[crc32(f"{name} {column}".encode()) % len(possible)]


EVERY = [
    (name, column, placement)
    for name in COMPOSITIONS
    for placement in PLACEMENTS
    for column in columns_of(name, placement)
]
"""All cells."""

TESTED = [cell for cell in EVERY if is_tested(*cell)]
"""The cells of this run."""

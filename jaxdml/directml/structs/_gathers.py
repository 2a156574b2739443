"""What GATHER, GATHER_ELEMENTS, GATHER_ND and GATHER_ND1 have in common."""

from collections.abc import Mapping
from typing import Any

from jaxdml.directml._checks import alike
from jaxdml.directml._enums import FeatureLevel
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._support import FOUR, INDICES, UINT32, UP_TO_32_BITS, UP_TO_64_BITS, UP_TO_EIGHT, Row, Types, row


def gather_row(counts: range, types: Types, index_types: Types) -> Row:
    """Make a row of the table."""
    return row(("input_tensor output_tensor", counts, types), ("indices_tensor", counts, index_types))


LEVELS: Mapping[FeatureLevel, Row] = {
    FeatureLevel.LEVEL_3_0: gather_row(UP_TO_EIGHT, UP_TO_32_BITS, INDICES),
    FeatureLevel.LEVEL_4_1: gather_row(UP_TO_EIGHT, UP_TO_64_BITS, INDICES),
}

LEVELS_FROM_2_1: Mapping[FeatureLevel, Row] = {
    FeatureLevel.LEVEL_2_1: gather_row(FOUR, UP_TO_32_BITS, UINT32),
    **LEVELS,
}


def gather_constraints(desc: Any) -> Violations:
    """Yield the broken constraints that all pages have."""
    yield from alike(desc, "dimension_count", "input_tensor", "indices_tensor", "output_tensor")
    yield from alike(desc, "data_type", "input_tensor", "output_tensor")


def output_sizes(desc: Any, want: tuple[int, ...], why: str) -> Violations:
    """Require the output to have the sizes ``want``. Leading sizes of 1 may be added or left out."""
    sizes = desc.output_tensor.sizes
    count = len(sizes)
    own = want[max(0, len(want) - count) :]
    if any(size != 1 for size in want[: len(want) - len(own)]):
        yield Violation("OutputTensor.DimensionCount", f"must hold the sizes {list(want)}, {why}", count)
    elif sizes != (filled := (*(1,) * (count - len(own)), *own)):
        yield Violation("OutputTensor.Sizes", f"must be {list(filled)}, {why}", sizes)

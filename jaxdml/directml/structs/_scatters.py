"""What SCATTER and SCATTER_ND have in common."""

from collections.abc import Mapping
from typing import Any

from jaxdml._base.duplicates import DUPLICATES
from jaxdml.directml._checks import alike, sized
from jaxdml.directml._enums import FeatureLevel
from jaxdml.directml._errors import Violations
from jaxdml.directml._support import FOUR, INDICES, UINT32, UP_TO_32_BITS, UP_TO_64_BITS, UP_TO_EIGHT, Row, Types, row

OPTIONS = {"duplicates": DUPLICATES}


def scatter_row(counts: range, types: Types, index_types: Types) -> Row:
    """Make a row of the table."""
    return row(("input_tensor updates_tensor output_tensor", counts, types), ("indices_tensor", counts, index_types))


LEVELS: Mapping[FeatureLevel, Row] = {
    FeatureLevel.LEVEL_2_1: scatter_row(FOUR, UP_TO_32_BITS, UINT32),
    FeatureLevel.LEVEL_3_0: scatter_row(UP_TO_EIGHT, UP_TO_32_BITS, INDICES),
    FeatureLevel.LEVEL_4_1: scatter_row(UP_TO_EIGHT, UP_TO_64_BITS, INDICES),
}


def scatter_constraints(desc: Any) -> Violations:
    """Yield the broken constraints that both pages have."""
    yield from alike(desc, "dimension_count", "input_tensor", "indices_tensor", "updates_tensor", "output_tensor")
    yield from alike(desc, "data_type", "input_tensor", "updates_tensor", "output_tensor")
    yield from sized(desc, "output_tensor", "those of InputTensor", desc.input_tensor.sizes)

"""What the structs of ARGMAX and ARGMIN share."""

from collections.abc import Mapping
from typing import Any

from jaxdml._base.axis_direction import AxisDirection
from jaxdml.directml._checks import alike, sized
from jaxdml.directml._enums import FeatureLevel
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._support import ALL_BUT_FLOAT64, INDICES, UP_TO_32_BITS, UP_TO_EIGHT, Row, row

LEVELS: Mapping[FeatureLevel, Row] = {
    level: row(("input_tensor", UP_TO_EIGHT, types), ("output_tensor", UP_TO_EIGHT, INDICES))
    for level, types in ((FeatureLevel.LEVEL_3_0, UP_TO_32_BITS), (FeatureLevel.LEVEL_4_1, ALL_BUT_FLOAT64))
}


def extreme_constraints(desc: Any) -> Violations:
    """Yield the broken constraints that both pages have."""
    yield from alike(desc, "dimension_count", "input_tensor", "output_tensor")
    sizes = desc.input_tensor.sizes
    for place, axis in enumerate(desc.axes):
        if 0 < len(sizes) <= axis:
            yield Violation(f"Axes[{place}]", f"must be less than {len(sizes)}, InputTensor.DimensionCount", axis)
    if len(set(desc.axes)) < len(desc.axes):
        yield Violation("Axes", "must name each dimension once", desc.axes)
    want = tuple(1 if d in desc.axes else size for d, size in enumerate(sizes))
    yield from sized(desc, "output_tensor", "those of InputTensor with 1 at Axes", want)


def options_of(desc: Any) -> Mapping[str, Any]:
    """Return the options of the call that a description means."""
    return {
        "axis": desc.axes,
        "keepdims": True,
        "select_last_index": desc.axis_direction == AxisDirection.DECREASING,
        "index_dtype": desc.output_tensor.data_type.dtype,
    }

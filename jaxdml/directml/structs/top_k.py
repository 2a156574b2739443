"""TOP_K and TOP_K1: select the k largest, or smallest, elements along an axis."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jaxdml import TopK, top_k
from jaxdml._base.axis_direction import AxisDirection
from jaxdml.directml._checks import alike, in_range, sized
from jaxdml.directml._descs import OperatorDesc, OperatorFacts
from jaxdml.directml._enums import FeatureLevel
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._fields import Input, Output
from jaxdml.directml._support import (
    ALL_BUT_FLOAT64,
    FLOATS,
    FOUR,
    UINT32,
    UNSIGNED_INDICES,
    UP_TO_32_BITS,
    UP_TO_EIGHT,
    Row,
    Types,
    row,
)


def _row(counts: range, types: Types, index_types: Types) -> Row:
    return row(("input_tensor output_value_tensor", counts, types), ("output_index_tensor", counts, index_types))


_BOTH: Mapping[FeatureLevel, Row] = {
    FeatureLevel.LEVEL_2_1: _row(FOUR, UP_TO_32_BITS, UINT32),
    FeatureLevel.LEVEL_3_1: _row(UP_TO_EIGHT, UP_TO_32_BITS, UINT32),
    FeatureLevel.LEVEL_5_0: _row(UP_TO_EIGHT, ALL_BUT_FLOAT64, UNSIGNED_INDICES),
}


@dataclass(frozen=True, kw_only=True, repr=False)
class TopKOperatorDesc(OperatorDesc):
    """Describe the selection of the k largest elements, as ``DML_TOP_K_OPERATOR_DESC`` does.

    Args:
      input_tensor: the tensor to select from.
      output_value_tensor: the selected elements: the input's data type and sizes, with ``k`` along ``axis``.
      output_index_tensor: their positions along ``axis``: unsigned integers of the same sizes.
      axis: the dimension to select along.
      k: how many elements to select, from 1 to the size of that dimension.

    Raises:
      TypeError: a field is given a value of the wrong type.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_TOP_K_OPERATOR_DESC.
    """

    operator = OperatorFacts("TOP_K", 71, {FeatureLevel.LEVEL_2_0: _row(FOUR, FLOATS, UINT32), **_BOTH}, outputs=TopK)

    input_tensor: Input
    output_value_tensor: Output
    output_index_tensor: Output
    axis: int
    k: int

    def constraints(self) -> Violations:
        """Yield the broken constraints of the operator's page."""
        return _constraints(self)

    def call(self, x: Any) -> TopK:
        """Select the largest."""
        return _call(self, x, AxisDirection.DECREASING)


@dataclass(frozen=True, kw_only=True, repr=False)
class TopK1OperatorDesc(OperatorDesc):
    """Describe the selection of the k largest or smallest elements, as ``DML_TOP_K1_OPERATOR_DESC`` does.

    Args:
      input_tensor: the tensor to select from.
      output_value_tensor: the selected elements: the input's data type and sizes, with ``k`` along ``axis``.
      output_index_tensor: their positions along ``axis``: unsigned integers of the same sizes.
      axis: the dimension to select along.
      k: how many elements to select, from 1 to the size of that dimension.
      axis_direction: an ``AxisDirection``, or its number: ``DECREASING`` selects the largest.

    Raises:
      TypeError: a field is given a value of the wrong type.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_TOP_K1_OPERATOR_DESC.
    """

    operator = OperatorFacts("TOP_K1", 112, _BOTH, outputs=TopK)

    input_tensor: Input
    output_value_tensor: Output
    output_index_tensor: Output
    axis: int
    k: int
    axis_direction: AxisDirection

    def constraints(self) -> Violations:
        """Yield the broken constraints of the operator's page."""
        return _constraints(self)

    def call(self, x: Any) -> TopK:
        """Select the largest or the smallest."""
        return _call(self, x, self.axis_direction)


def _constraints(desc: TopKOperatorDesc | TopK1OperatorDesc) -> Violations:
    outputs = "output_value_tensor", "output_index_tensor"
    yield from alike(desc, "dimension_count", "input_tensor", *outputs)
    yield from alike(desc, "data_type", "input_tensor", "output_value_tensor")
    yield from in_range(desc, "axis", "input_tensor")
    sizes, axis, k = desc.input_tensor.sizes, desc.axis, desc.k
    n = sizes[axis] if axis < len(sizes) else 0
    if n and not 1 <= k <= n:
        yield Violation("K", f"must be between 1 and {n}, InputTensor.Sizes[{axis}]", k)
    elif k < 1:
        yield Violation("K", "must be greater than 0", k)
    for name in outputs:
        own = getattr(desc, name).sizes
        if axis < len(sizes) == len(own):
            taken = k if 1 <= k <= n else own[axis]
            want = (*sizes[:axis], taken, *sizes[axis + 1 :])
            yield from sized(desc, name, "those of InputTensor with K at Axis", want)


def _call(desc: TopKOperatorDesc | TopK1OperatorDesc, x: Any, direction: AxisDirection) -> TopK:
    index_dtype: Any = desc.output_index_tensor.data_type.dtype
    return top_k(x, desc.k, axis=desc.axis, direction=direction, index_dtype=index_dtype)

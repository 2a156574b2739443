"""GATHER_ELEMENTS: read elements at the indices of one axis."""

from dataclasses import dataclass
from typing import Any

from jaxdml import gather_elements
from jaxdml.directml._checks import in_range, sized, sized_except_along
from jaxdml.directml._descs import OperatorDesc, OperatorFacts
from jaxdml.directml._errors import Violations
from jaxdml.directml._fields import Indices, Input, Output
from jaxdml.directml.structs._gathers import LEVELS_FROM_2_1, gather_constraints


@dataclass(frozen=True, kw_only=True, repr=False)
class GatherElementsOperatorDesc(OperatorDesc):
    """Describe a gather of elements, as ``DML_GATHER_ELEMENTS_OPERATOR_DESC`` does.

    An index out of range reads at the nearest valid one.

    Args:
      input_tensor: the tensor to read from.
      indices_tensor: integers. Negative ones count from the end, if the data type is signed.
      output_tensor: the input's data type and the sizes of ``indices_tensor``.
      axis: the dimension that the indices point into. In all other dimensions they have the input's sizes.

    Raises:
      TypeError: a field is given a value of the wrong type.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_GATHER_ELEMENTS_OPERATOR_DESC.
    """

    operator = OperatorFacts("GATHER_ELEMENTS", 107, LEVELS_FROM_2_1)

    input_tensor: Input
    indices_tensor: Indices
    output_tensor: Output
    axis: int

    def constraints(self) -> Violations:
        """Yield the broken constraints of the operator's page."""
        yield from gather_constraints(self)
        yield from in_range(self, "axis", "input_tensor")
        yield from sized_except_along(self, "axis", "input_tensor", "indices_tensor")
        yield from sized(self, "output_tensor", "those of IndicesTensor", self.indices_tensor.sizes)

    def call(self, x: Any, indices: Any) -> Any:
        """Read the elements."""
        return gather_elements(x, indices, axis=self.axis)

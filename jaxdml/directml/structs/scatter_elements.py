"""SCATTER, also called SCATTER_ELEMENTS: write elements at indices along an axis."""

from dataclasses import dataclass
from typing import Any

from jaxdml import scatter_elements
from jaxdml.directml._checks import in_range, sized, sized_except_along
from jaxdml.directml._descs import OperatorDesc, OperatorFacts
from jaxdml.directml._enums import FeatureLevel
from jaxdml.directml._errors import Violations
from jaxdml.directml._fields import Indices, Input, Output
from jaxdml.directml._support import FLOATS, FOUR, UINT32
from jaxdml.directml.structs._scatters import LEVELS, OPTIONS, scatter_constraints, scatter_row


@dataclass(frozen=True, kw_only=True, repr=False)
class ScatterOperatorDesc(OperatorDesc):
    """Describe a scatter of elements, as ``DML_SCATTER_OPERATOR_DESC`` does.

    The option ``duplicates`` of ``compile_operator`` decides which of two updates of one element remains, as in
    ``jaxdml.scatter_elements``. DirectML calls such updates invalid. ``"last"`` gives the result of its own example.

    Args:
      input_tensor: the tensor that the output is a copy of, before the updates are written.
      indices_tensor: integers. Negative ones count from the end, if the data type is signed.
      updates_tensor: the elements to write: the input's data type and the sizes of ``indices_tensor``.
      output_tensor: the input's data type and sizes.
      axis: the dimension that the indices point into. In all other dimensions they have the input's sizes.

    Raises:
      TypeError: a field is given a value of the wrong type.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_SCATTER_OPERATOR_DESC, also named DML_SCATTER_ELEMENTS_OPERATOR_DESC.
    """

    operator = OperatorFacts(
        "SCATTER",
        94,
        {FeatureLevel.LEVEL_1_0: scatter_row(FOUR, FLOATS, UINT32), **LEVELS},
        aliases=("SCATTER_ELEMENTS",),
        options=OPTIONS,
    )

    input_tensor: Input
    indices_tensor: Indices
    updates_tensor: Input
    output_tensor: Output
    axis: int

    def constraints(self) -> Violations:
        """Yield the broken constraints of the operator's page."""
        yield from scatter_constraints(self)
        yield from in_range(self, "axis", "input_tensor")
        yield from sized_except_along(self, "axis", "input_tensor", "indices_tensor")
        yield from sized(self, "updates_tensor", "those of IndicesTensor", self.indices_tensor.sizes)

    def call(self, x: Any, indices: Any, updates: Any, *, duplicates: Any) -> Any:
        """Scatter the updates."""
        return scatter_elements(x, indices, updates, axis=self.axis, duplicates=duplicates)


ScatterElementsOperatorDesc = ScatterOperatorDesc

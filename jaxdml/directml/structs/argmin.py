"""ARGMIN: find the least element along axes."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from jaxdml import argmin
from jaxdml._base.axis_direction import AxisDirection
from jaxdml.directml._descs import OperatorDesc, OperatorFacts
from jaxdml.directml._errors import Violations
from jaxdml.directml._fields import Counts, Input, Output
from jaxdml.directml.structs._extremes import LEVELS, extreme_constraints, options_of


@dataclass(frozen=True, kw_only=True, repr=False)
class ArgminOperatorDesc(OperatorDesc):
    """Describe the search for the least element along axes, as ``DML_ARGMIN_OPERATOR_DESC`` does.

    Args:
      input_tensor: the tensor to search.
      output_tensor: the indices: integers of 32 or 64 bits, of the input's sizes with 1 at ``axes``.
      axes: the dimensions to search.
      axis_direction: an ``AxisDirection``, or its number: of equal elements ``INCREASING`` chooses the first,
        ``DECREASING`` the last.

    Raises:
      TypeError: a field is given a value of the wrong type.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_ARGMIN_OPERATOR_DESC.
    """

    operator = OperatorFacts("ARGMIN", 137, LEVELS)

    input_tensor: Input
    output_tensor: Output
    axis_count: Annotated[int, Counts("axes")] = field(init=False)
    axes: tuple[int, ...]
    axis_direction: AxisDirection

    def constraints(self) -> Violations:
        """Yield the broken constraints of the operator's page."""
        return extreme_constraints(self)

    def call(self, x: Any) -> Any:
        """Search, and keep the dimensions."""
        return argmin(x, **options_of(self))

"""MATRIX_MULTIPLY_INTEGER: multiply matrices of 8-bit integers, and return the sums as they are."""

from dataclasses import dataclass
from typing import Any

from jaxdml import matrix_multiply_integer
from jaxdml.directml._descs import OperatorDesc, OperatorFacts
from jaxdml.directml._enums import FeatureLevel
from jaxdml.directml._errors import Violations
from jaxdml.directml._fields import Input, OptionalInput, Output
from jaxdml.directml._support import BYTES, FOUR, INT32, TWO_TO_FOUR, UP_TO_FOUR, Row, row
from jaxdml.directml.structs._products import of_rank, packed_right, product_constraints


def _row(counts: range, counts_of_a_zero_point: range, counts_of_b_zero_point: range) -> Row:
    return row(
        ("a_tensor b_tensor", counts, BYTES),
        ("a_zero_point_tensor", counts_of_a_zero_point, BYTES),
        ("b_zero_point_tensor", counts_of_b_zero_point, BYTES),
        ("output_tensor", counts, INT32),
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class MatrixMultiplyIntegerOperatorDesc(OperatorDesc):
    """Describe a product of integers, as ``DML_MATRIX_MULTIPLY_INTEGER_OPERATOR_DESC`` does.

    A zero point has size 1 in all dimensions, or in all but one. For ``a`` that one is the second last, of size M; for
    ``b`` it is the last, of size N. The zero points may have any dimension count that the feature level accepts.

    Args:
      a_tensor: ``{..., M, K}`` of INT8 or UINT8.
      a_zero_point_tensor: the data type of ``a_tensor``; None means 0.
      b_tensor: ``{..., K, N}`` of INT8 or UINT8, independent of ``a_tensor``.
      b_zero_point_tensor: the data type of ``b_tensor``; None means 0.
      output_tensor: ``{..., M, N}`` of INT32.

    Raises:
      TypeError: a field is given a value of the wrong type.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_MATRIX_MULTIPLY_INTEGER_OPERATOR_DESC.
    """

    operator = OperatorFacts(
        "MATRIX_MULTIPLY_INTEGER",
        117,
        {
            FeatureLevel.LEVEL_2_1: _row(FOUR, FOUR, FOUR),
            FeatureLevel.LEVEL_4_0: _row(TWO_TO_FOUR, UP_TO_FOUR, TWO_TO_FOUR),
            FeatureLevel.LEVEL_5_2: _row(TWO_TO_FOUR, UP_TO_FOUR, UP_TO_FOUR),
        },
    )

    a_tensor: Input
    a_zero_point_tensor: OptionalInput = None
    b_tensor: Input
    b_zero_point_tensor: OptionalInput = None
    output_tensor: Output

    def constraints(self) -> Violations:
        """Yield the broken constraints of the operator's page."""
        return product_constraints(self, "a_zero_point_tensor", "b_zero_point_tensor")

    prepared = packed_right

    def call(self, *inputs: Any) -> Any:
        """Multiply, with zero points of the rank of the product."""
        return matrix_multiply_integer(*of_rank(self.output_tensor.dimension_count, inputs))

"""QUANTIZED_LINEAR_MATRIX_MULTIPLY: multiply quantized matrices and quantize the product."""

from dataclasses import dataclass
from typing import Any

from jaxdml import quantized_linear_matrix_multiply
from jaxdml.directml._checks import alike
from jaxdml.directml._descs import OperatorDesc, OperatorFacts
from jaxdml.directml._enums import FeatureLevel
from jaxdml.directml._errors import Violations
from jaxdml.directml._fields import Input, OptionalInput, Output
from jaxdml.directml._support import BYTES, FLOAT32, FOUR, TWO_TO_FOUR, UP_TO_FOUR, Row, row
from jaxdml.directml.structs._products import of_rank, packed_right, product_constraints

_PARAMETERS = [f"{of}_{kind}_tensor" for of in ("a", "b", "output") for kind in ("scale", "zero_point")]


def _row(counts: range, counts_of_parameters: range) -> Row:
    return row(
        ("a_tensor b_tensor output_tensor", counts, BYTES),
        ("a_scale_tensor b_scale_tensor output_scale_tensor", counts_of_parameters, FLOAT32),
        ("a_zero_point_tensor b_zero_point_tensor output_zero_point_tensor", counts_of_parameters, BYTES),
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class QuantizedLinearMatrixMultiplyOperatorDesc(OperatorDesc):
    """Describe a quantized product, as ``DML_QUANTIZED_LINEAR_MATRIX_MULTIPLY_OPERATOR_DESC`` does.

    A scale or zero point has size 1 in all dimensions, or in all but one. For ``a`` and the output that one is the
    second last, of size M; for ``b`` it is the last, of size N. All scales and zero points have one dimension count.

    Args:
      a_tensor: ``{..., M, K}`` of INT8 or UINT8.
      a_scale_tensor: FLOAT32.
      a_zero_point_tensor: the data type of ``a_tensor``; None means 0.
      b_tensor: ``{..., K, N}`` of INT8 or UINT8, independent of ``a_tensor``.
      b_scale_tensor: FLOAT32.
      b_zero_point_tensor: the data type of ``b_tensor``; None means 0.
      output_scale_tensor: FLOAT32.
      output_zero_point_tensor: the data type of ``output_tensor``; None means 0.
      output_tensor: ``{..., M, N}`` of INT8 or UINT8.

    Raises:
      TypeError: a field is given a value of the wrong type.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_QUANTIZED_LINEAR_MATRIX_MULTIPLY_OPERATOR_DESC.
    """

    operator = OperatorFacts(
        "QUANTIZED_LINEAR_MATRIX_MULTIPLY",
        118,
        {FeatureLevel.LEVEL_2_1: _row(FOUR, FOUR), FeatureLevel.LEVEL_4_0: _row(TWO_TO_FOUR, UP_TO_FOUR)},
    )

    a_tensor: Input
    a_scale_tensor: Input
    a_zero_point_tensor: OptionalInput = None
    b_tensor: Input
    b_scale_tensor: Input
    b_zero_point_tensor: OptionalInput = None
    output_scale_tensor: Input
    output_zero_point_tensor: OptionalInput = None
    output_tensor: Output

    def constraints(self) -> Violations:
        """Yield the broken constraints of the operator's page."""
        yield from product_constraints(self, *_PARAMETERS)
        yield from alike(self, "dimension_count", *_PARAMETERS)

    prepared = packed_right

    def call(self, *inputs: Any) -> Any:
        """Multiply, with scales and zero points of the rank of the product."""
        given = of_rank(self.output_tensor.dimension_count, inputs)
        return quantized_linear_matrix_multiply(*given, output_dtype=self.output_tensor.data_type.dtype)

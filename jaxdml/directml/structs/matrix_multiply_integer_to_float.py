"""MATRIX_MULTIPLY_INTEGER_TO_FLOAT: multiply quantized matrices, and return the real numbers as floats."""

from dataclasses import dataclass
from typing import Any

from jaxdml import matrix_multiply_integer_to_float
from jaxdml.directml._checks import alike, sized
from jaxdml.directml._descs import OperatorDesc, OperatorFacts
from jaxdml.directml._enums import FeatureLevel
from jaxdml.directml._errors import Violations
from jaxdml.directml._fields import Input, OptionalInput, Output
from jaxdml.directml._support import BYTES, FLOATS, TWO_TO_FOUR, UP_TO_FOUR, row
from jaxdml.directml.structs._products import of_rank, packed_right, product_constraints

_PARAMETERS = [f"{of}_{kind}_tensor" for of in "ab" for kind in ("scale", "zero_point")]


@dataclass(frozen=True, kw_only=True, repr=False)
class MatrixMultiplyIntegerToFloatOperatorDesc(OperatorDesc):
    """Describe a product with float results, as ``DML_MATRIX_MULTIPLY_INTEGER_TO_FLOAT_OPERATOR_DESC`` does.

    A scale or zero point has size 1 in all dimensions, or in all but one. For ``a`` that one is the second last, of
    size M; for ``b`` it is the last, of size N. All scales and zero points have one dimension count. The scales, the
    bias and the output have one data type; with FLOAT16 the result is computed in float32, and then rounded.

    Args:
      a_tensor: ``{..., M, K}`` of INT8 or UINT8; the page's types of 16 and 32 bits are not accepted.
      a_scale_tensor: FLOAT32 or FLOAT16.
      a_zero_point_tensor: the data type of ``a_tensor``; None means 0.
      b_tensor: ``{..., K, N}`` of INT8 or UINT8, independent of ``a_tensor``.
      b_scale_tensor: the data type of ``a_scale_tensor``.
      b_zero_point_tensor: the data type of ``b_tensor``; None means 0.
      bias_tensor: the sizes and the data type of ``output_tensor``; None adds nothing.
      output_tensor: ``{..., M, N}`` of the data type of ``a_scale_tensor``.

    Raises:
      TypeError: a field is given a value of the wrong type.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_MATRIX_MULTIPLY_INTEGER_TO_FLOAT_OPERATOR_DESC.
    """

    operator = OperatorFacts(
        "MATRIX_MULTIPLY_INTEGER_TO_FLOAT",
        170,
        {
            FeatureLevel.LEVEL_6_2: row(
                ("a_tensor b_tensor", TWO_TO_FOUR, BYTES),
                ("a_zero_point_tensor b_zero_point_tensor", UP_TO_FOUR, BYTES),
                ("a_scale_tensor b_scale_tensor", UP_TO_FOUR, FLOATS),
                ("bias_tensor output_tensor", TWO_TO_FOUR, FLOATS),
            )
        },
    )

    a_tensor: Input
    a_scale_tensor: Input
    a_zero_point_tensor: OptionalInput = None
    b_tensor: Input
    b_scale_tensor: Input
    b_zero_point_tensor: OptionalInput = None
    bias_tensor: OptionalInput = None
    output_tensor: Output

    def constraints(self) -> Violations:
        """Yield the broken constraints of the operator's page."""
        yield from product_constraints(self, *_PARAMETERS)
        yield from alike(self, "dimension_count", *_PARAMETERS)
        yield from alike(self, "dimension_count", "a_tensor", "bias_tensor")
        yield from alike(self, "data_type", "a_scale_tensor", "b_scale_tensor", "bias_tensor", "output_tensor")
        if self.bias_tensor is not None:
            yield from sized(self, "bias_tensor", "those of OutputTensor", self.output_tensor.sizes)

    prepared = packed_right

    def call(self, *inputs: Any) -> Any:
        """Multiply, with parameters of the rank of the product."""
        given = of_rank(self.output_tensor.dimension_count, inputs)
        return matrix_multiply_integer_to_float(*given, output_dtype=self.output_tensor.data_type.dtype)

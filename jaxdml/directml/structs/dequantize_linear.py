"""ELEMENT_WISE_DEQUANTIZE_LINEAR and DEQUANTIZE: turn quantized values into floats."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from jaxdml import dequantize_linear
from jaxdml.directml._checks import alike
from jaxdml.directml._descs import OperatorDesc, OperatorFacts
from jaxdml.directml._enums import FeatureLevel
from jaxdml.directml._errors import Violations
from jaxdml.directml._fields import Counts, Input, Inputs, OptionalInput, Output
from jaxdml.directml._support import BYTES, FLOAT32, FLOATS, FOUR, INTEGERS, UINT8, UP_TO_EIGHT
from jaxdml.directml.structs._quantization import (
    QuantizationType,
    blocked_constraints,
    blocked_row,
    element_wise_constraints,
    element_wise_row,
    with_blocks,
)

_WITH_FLOAT16 = element_wise_row(UP_TO_EIGHT, INTEGERS, FLOATS, INTEGERS, FLOATS)


@dataclass(frozen=True, kw_only=True, repr=False)
class ElementWiseDequantizeLinearOperatorDesc(OperatorDesc):
    """Describe a dequantization, as ``DML_ELEMENT_WISE_DEQUANTIZE_LINEAR_OPERATOR_DESC`` does.

    All tensors have the same sizes. One value for several elements is described with strides of 0.

    Args:
      input_tensor: an integer data type of up to 32 bits.
      scale_tensor: FLOAT32 or FLOAT16. No value may be 0.
      zero_point_tensor: the data type of the input; None means 0.
      output_tensor: the data type of the scale.

    Raises:
      TypeError: a field is given a value of the wrong type.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_ELEMENT_WISE_DEQUANTIZE_LINEAR_OPERATOR_DESC.
    """

    operator = OperatorFacts(
        "ELEMENT_WISE_DEQUANTIZE_LINEAR",
        34,
        {
            FeatureLevel.LEVEL_1_0: element_wise_row(FOUR, UINT8, FLOAT32, UINT8, FLOAT32),
            FeatureLevel.LEVEL_2_1: element_wise_row(FOUR, INTEGERS, FLOAT32, INTEGERS, FLOAT32),
            FeatureLevel.LEVEL_3_0: element_wise_row(UP_TO_EIGHT, INTEGERS, FLOAT32, INTEGERS, FLOAT32),
            FeatureLevel.LEVEL_6_0: _WITH_FLOAT16,
            FeatureLevel.LEVEL_6_2: _WITH_FLOAT16,
        },
        optional_from={"zero_point_tensor": FeatureLevel.LEVEL_6_2},
    )

    input_tensor: Input
    scale_tensor: Input
    zero_point_tensor: OptionalInput = None
    output_tensor: Output

    def constraints(self) -> Violations:
        """Yield the broken constraints of the operator's page."""
        yield from element_wise_constraints(self)
        yield from alike(self, "data_type", "input_tensor", "zero_point_tensor")
        yield from alike(self, "data_type", "scale_tensor", "output_tensor")

    def call(self, x: Any, scale: Any, zero_point: Any) -> Any:
        """Dequantize."""
        return dequantize_linear(x, scale, zero_point)


@dataclass(frozen=True, kw_only=True, repr=False)
class DequantizeOperatorDesc(OperatorDesc):
    """Describe a dequantization with blocks, as ``DML_DEQUANTIZE_OPERATOR_DESC`` does.

    In every dimension the size of the scale divides that of the input; their ratio is the length of a block. Without a
    zero point, UINT8 is centred on 128.

    Args:
      input_tensor: INT8 or UINT8.
      quantization_type: ``QuantizationType.SCALE`` or ``SCALE_ZERO_POINT``, or its number.
      quantization_tensors: the scale, of the data type of the output; then the zero point, if there is one, with the
        data type of the input and the sizes of the scale.
      output_tensor: FLOAT32 or FLOAT16, with the sizes of the input.

    Raises:
      TypeError: a field is given a value of the wrong type.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_DEQUANTIZE_OPERATOR_DESC. Its page leaves most of this open; see docs/departures.md.
    """

    operator = OperatorFacts("DEQUANTIZE", 174, {FeatureLevel.LEVEL_6_3: blocked_row(BYTES, FLOATS)})

    input_tensor: Input
    quantization_type: QuantizationType
    quantization_tensor_count: Annotated[int, Counts("quantization_tensors")] = field(init=False)
    quantization_tensors: Inputs
    output_tensor: Output

    def constraints(self) -> Violations:
        """Yield the broken constraints of the operator's page."""
        return blocked_constraints(self, "output_tensor", "input_tensor")

    def call(self, x: Any, tensors: Any) -> Any:
        """Dequantize by blocks."""
        return with_blocks(dequantize_linear, x, tensors, self.input_tensor.data_type.dtype)

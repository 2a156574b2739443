"""ELEMENT_WISE_QUANTIZE_LINEAR and QUANTIZE: divide by a scale and round to 8 bits."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from jaxdml import quantize_linear
from jaxdml.directml._checks import alike
from jaxdml.directml._descs import OperatorDesc, OperatorFacts
from jaxdml.directml._enums import FeatureLevel, TensorDataType
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._fields import Counts, Input, Inputs, OptionalInput, Output
from jaxdml.directml._support import (
    BYTES,
    FLOAT32,
    FLOAT32_AND_INT32,
    FLOATS,
    FLOATS_AND_INT32,
    FOUR,
    UINT8,
    UP_TO_EIGHT,
)
from jaxdml.directml.structs._quantization import (
    QuantizationType,
    blocked_constraints,
    blocked_row,
    element_wise_constraints,
    element_wise_row,
    with_blocks,
)

_WITH_FLOAT16 = element_wise_row(UP_TO_EIGHT, FLOATS_AND_INT32, FLOATS, BYTES, BYTES)


@dataclass(frozen=True, kw_only=True, repr=False)
class ElementWiseQuantizeLinearOperatorDesc(OperatorDesc):
    """Describe a quantization, as ``DML_ELEMENT_WISE_QUANTIZE_LINEAR_OPERATOR_DESC`` does.

    All tensors have the same sizes. One value for several elements is described with strides of 0.

    Args:
      input_tensor: FLOAT32, FLOAT16 or INT32.
      scale_tensor: the data type of the input; for INT32 it is FLOAT32. No value may be 0.
      zero_point_tensor: the data type of the output; None means 0.
      output_tensor: INT8 or UINT8.

    Raises:
      TypeError: a field is given a value of the wrong type.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_ELEMENT_WISE_QUANTIZE_LINEAR_OPERATOR_DESC.
    """

    operator = OperatorFacts(
        "ELEMENT_WISE_QUANTIZE_LINEAR",
        33,
        {
            FeatureLevel.LEVEL_1_0: element_wise_row(FOUR, FLOAT32, FLOAT32, UINT8, UINT8),
            FeatureLevel.LEVEL_2_1: element_wise_row(FOUR, FLOAT32_AND_INT32, FLOAT32, BYTES, BYTES),
            FeatureLevel.LEVEL_3_0: element_wise_row(UP_TO_EIGHT, FLOAT32_AND_INT32, FLOAT32, BYTES, BYTES),
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
        yield from alike(self, "data_type", "output_tensor", "zero_point_tensor")
        if self.input_tensor.data_type != TensorDataType.INT32:
            yield from alike(self, "data_type", "input_tensor", "scale_tensor")
        elif self.scale_tensor.data_type != TensorDataType.FLOAT32:
            rule, got = "must be FLOAT32 for an InputTensor of INT32", self.scale_tensor.data_type.name
            yield Violation("ScaleTensor.DataType", rule, got)

    def call(self, x: Any, scale: Any, zero_point: Any) -> Any:
        """Quantize."""
        return quantize_linear(x, scale, zero_point, output_dtype=self.output_tensor.data_type.dtype)


@dataclass(frozen=True, kw_only=True, repr=False)
class QuantizeOperatorDesc(OperatorDesc):
    """Describe a quantization with blocks, as ``DML_QUANTIZE_OPERATOR_DESC`` does.

    In every dimension the size of the scale divides that of the input; their ratio is the length of a block. Without a
    zero point, UINT8 is centred on 128.

    Args:
      input_tensor: FLOAT32 or FLOAT16.
      quantization_type: ``QuantizationType.SCALE`` or ``SCALE_ZERO_POINT``, or its number.
      quantization_tensors: the scale, of the data type of the input; then the zero point, if there is one, with the
        data type of the output and the sizes of the scale.
      output_tensor: INT8 or UINT8, with the sizes of the input.

    Raises:
      TypeError: a field is given a value of the wrong type.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_QUANTIZE_OPERATOR_DESC. Its page leaves most of this open; see docs/departures.md.
    """

    operator = OperatorFacts("QUANTIZE", 173, {FeatureLevel.LEVEL_6_3: blocked_row(FLOATS, BYTES)})

    input_tensor: Input
    quantization_type: QuantizationType
    quantization_tensor_count: Annotated[int, Counts("quantization_tensors")] = field(init=False)
    quantization_tensors: Inputs
    output_tensor: Output

    def constraints(self) -> Violations:
        """Yield the broken constraints of the operator's page."""
        return blocked_constraints(self, "input_tensor", "output_tensor")

    def call(self, x: Any, tensors: Any) -> Any:
        """Quantize by blocks."""
        dtype = self.output_tensor.data_type.dtype
        return with_blocks(quantize_linear, x, tensors, dtype, output_dtype=dtype)

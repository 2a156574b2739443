"""DYNAMIC_QUANTIZE_LINEAR: quantize with a scale and a zero point that cover the range of the input."""

from dataclasses import dataclass
from typing import Any

from jaxdml import DynamicQuantization, dynamic_quantize_linear
from jaxdml.directml._checks import alike, sized
from jaxdml.directml._descs import OperatorDesc, OperatorFacts
from jaxdml.directml._enums import FeatureLevel
from jaxdml.directml._errors import Violations
from jaxdml.directml._fields import Input, Output
from jaxdml.directml._support import BYTES, FLOAT32, FLOATS, UP_TO_EIGHT, row


@dataclass(frozen=True, kw_only=True, repr=False)
class DynamicQuantizeLinearOperatorDesc(OperatorDesc):
    """Describe a dynamic quantization, as ``DML_DYNAMIC_QUANTIZE_LINEAR_OPERATOR_DESC`` does.

    All tensors have the same number of dimensions.

    Args:
      input_tensor: FLOAT32 or FLOAT16.
      output_tensor: INT8 or UINT8, with the sizes of the input.
      output_scale_tensor: FLOAT32, one element.
      output_zero_point_tensor: the data type of ``output_tensor``, one element.

    Raises:
      TypeError: a field is given a value of the wrong type.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_DYNAMIC_QUANTIZE_LINEAR_OPERATOR_DESC.
    """

    operator = OperatorFacts(
        "DYNAMIC_QUANTIZE_LINEAR",
        148,
        {
            FeatureLevel.LEVEL_4_0: row(
                ("input_tensor", UP_TO_EIGHT, FLOATS),
                ("output_tensor output_zero_point_tensor", UP_TO_EIGHT, BYTES),
                ("output_scale_tensor", UP_TO_EIGHT, FLOAT32),
            )
        },
        outputs=DynamicQuantization,
    )

    input_tensor: Input
    output_tensor: Output
    output_scale_tensor: Output
    output_zero_point_tensor: Output

    def constraints(self) -> Violations:
        """Yield the broken constraints of the operator's page."""
        of_one = "output_scale_tensor", "output_zero_point_tensor"
        yield from alike(self, "dimension_count", "input_tensor", "output_tensor", *of_one)
        yield from alike(self, "data_type", "output_tensor", "output_zero_point_tensor")
        yield from sized(self, "output_tensor", "those of InputTensor", self.input_tensor.sizes)
        for name in of_one:
            yield from sized(self, name, "one element", (1,) * self.input_tensor.dimension_count)

    def call(self, x: Any) -> DynamicQuantization:
        """Quantize; the scale and the zero point have the rank of the input."""
        output_dtype: Any = self.output_tensor.data_type.dtype.name
        output, scale, zero_point = dynamic_quantize_linear(x, output_dtype=output_dtype)
        one = (1,) * x.ndim
        return DynamicQuantization(output, scale.reshape(one), zero_point.reshape(one))

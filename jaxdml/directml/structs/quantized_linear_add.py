"""ELEMENT_WISE_QUANTIZED_LINEAR_ADD: add quantized tensors and quantize the sum."""

from dataclasses import dataclass
from typing import Any

from jaxdml import quantized_linear_add
from jaxdml.directml._checks import alike, sized
from jaxdml.directml._descs import OperatorDesc, OperatorFacts
from jaxdml.directml._enums import FeatureLevel
from jaxdml.directml._errors import Violations
from jaxdml.directml._fields import Input, OptionalInput, Output
from jaxdml.directml._support import BYTES, FLOAT32, UP_TO_EIGHT, row

_PARAMETERS = tuple(f"{of}_{kind}_tensor" for of in ("a", "b", "output") for kind in ("scale", "zero_point"))

_ROW = row(
    ("a_tensor b_tensor output_tensor", UP_TO_EIGHT, BYTES),
    ("a_scale_tensor b_scale_tensor output_scale_tensor", UP_TO_EIGHT, FLOAT32),
    ("a_zero_point_tensor b_zero_point_tensor output_zero_point_tensor", UP_TO_EIGHT, BYTES),
)


@dataclass(frozen=True, kw_only=True, repr=False)
class ElementWiseQuantizedLinearAddOperatorDesc(OperatorDesc):
    """Describe a quantized sum, as ``DML_ELEMENT_WISE_QUANTIZED_LINEAR_ADD_OPERATOR_DESC`` does.

    All tensors have one dimension count, and a scale or zero point has one element. A tensor that is broadcast has
    strides of 0.

    Args:
      a_tensor: INT8 or UINT8.
      a_scale_tensor: FLOAT32.
      a_zero_point_tensor: the data type of ``a_tensor``; None means 0.
      b_tensor: INT8 or UINT8, independent of ``a_tensor``; its sizes.
      b_scale_tensor: FLOAT32.
      b_zero_point_tensor: the data type of ``b_tensor``; None means 0.
      output_scale_tensor: FLOAT32, an input.
      output_zero_point_tensor: the data type of ``output_tensor``, an input; None means 0.
      output_tensor: INT8 or UINT8; the sizes of ``a_tensor``.

    Raises:
      TypeError: a field is given a value of the wrong type.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_ELEMENT_WISE_QUANTIZED_LINEAR_ADD_OPERATOR_DESC.
    """

    operator = OperatorFacts("ELEMENT_WISE_QUANTIZED_LINEAR_ADD", 147, {FeatureLevel.LEVEL_4_0: _ROW})

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
        yield from alike(self, "dimension_count", "a_tensor", "b_tensor", "output_tensor", *_PARAMETERS)
        for of in ("a", "b", "output"):
            yield from alike(self, "data_type", f"{of}_tensor", f"{of}_zero_point_tensor")
        for name in ("b_tensor", "output_tensor"):
            yield from sized(self, name, "those of ATensor", self.a_tensor.sizes)
        for name in _PARAMETERS:
            if getattr(self, name) is not None:
                yield from sized(self, name, "one element", (1,) * self.a_tensor.dimension_count)

    def call(self, *inputs: Any) -> Any:
        """Add."""
        return quantized_linear_add(*inputs, output_dtype=self.output_tensor.data_type.dtype)

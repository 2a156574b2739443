"""QUANTIZED_LINEAR_CONVOLUTION: convolve quantized tensors and quantize the result."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from jaxdml import quantized_linear_convolution
from jaxdml.directml._checks import alike
from jaxdml.directml._descs import OperatorDesc, OperatorFacts
from jaxdml.directml._enums import FeatureLevel
from jaxdml.directml._errors import Violations
from jaxdml.directml._fields import Counts, Input, OptionalInput, Output
from jaxdml.directml._support import BYTES, FLOAT32, FOUR, INT32, UP_TO_FOUR, Row, row
from jaxdml.directml.structs import _convolutions
from jaxdml.directml.structs._convolutions import COUNTED, THREE_OR_FOUR


def _row(counts: range, counts_of_filter_scale: range, counts_of_parameters: range) -> Row:
    return row(
        ("input_tensor filter_tensor output_tensor", counts, BYTES),
        ("bias_tensor", counts, INT32),
        ("filter_scale_tensor", counts_of_filter_scale, FLOAT32),
        ("input_scale_tensor output_scale_tensor", counts_of_parameters, FLOAT32),
        ("input_zero_point_tensor filter_zero_point_tensor output_zero_point_tensor", counts_of_parameters, BYTES),
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class QuantizedLinearConvolutionOperatorDesc(OperatorDesc):
    """Describe a quantized convolution, as ``DML_QUANTIZED_LINEAR_CONVOLUTION_OPERATOR_DESC`` does.

    A tensor of three dimensions lacks the first one, which has size 1: N in the input, M in the filter, N in the
    output. Scales and zero points may each have another dimension count.

    Args:
      input_tensor: ``{N, C, H, W}`` of INT8 or UINT8.
      input_scale_tensor: FLOAT32, one element.
      input_zero_point_tensor: the data type of ``input_tensor``, one element; None means 0.
      filter_tensor: ``{M, C / group_count, height, width}`` of INT8 or UINT8, independent of ``input_tensor``.
      filter_scale_tensor: FLOAT32, one element or ``{1, M, 1, 1}``.
      filter_zero_point_tensor: the data type of ``filter_tensor``, one element or ``{1, M, 1, 1}``; None means 0.
      bias_tensor: INT32, ``{1, M, 1, 1}``, in units of the input's scale times the filter's; None means 0.
      output_scale_tensor: FLOAT32, one element.
      output_zero_point_tensor: the data type of ``output_tensor``, one element; None means 0.
      output_tensor: ``{N, M, height, width}`` of INT8 or UINT8.
      strides: the distance of neighbouring windows, by height and width.
      dilations: the distance of neighbouring elements of a window.
      start_padding: how many zero points to add at the top and on the left.
      end_padding: how many zero points to add at the bottom and on the right.
      group_count: into how many groups the channels fall; C for a depthwise convolution.

    Raises:
      TypeError: a field is given a value of the wrong type.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_QUANTIZED_LINEAR_CONVOLUTION_OPERATOR_DESC.
    """

    operator = OperatorFacts(
        "QUANTIZED_LINEAR_CONVOLUTION",
        120,
        {
            FeatureLevel.LEVEL_2_1: _row(FOUR, FOUR, FOUR),
            FeatureLevel.LEVEL_4_0: _row(THREE_OR_FOUR, THREE_OR_FOUR, UP_TO_FOUR),
            FeatureLevel.LEVEL_5_2: _row(THREE_OR_FOUR, UP_TO_FOUR, UP_TO_FOUR),
        },
    )

    input_tensor: Input
    input_scale_tensor: Input
    input_zero_point_tensor: OptionalInput = None
    filter_tensor: Input
    filter_scale_tensor: Input
    filter_zero_point_tensor: OptionalInput = None
    bias_tensor: OptionalInput = None
    output_scale_tensor: Input
    output_zero_point_tensor: OptionalInput = None
    output_tensor: Output
    dimension_count: Annotated[int, Counts("strides", COUNTED)] = field(init=False)
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    group_count: int

    def constraints(self) -> Violations:
        """Yield the broken constraints of the operator's page."""
        yield from alike(self, "dimension_count", "input_tensor", "filter_tensor", "bias_tensor", "output_tensor")
        for of in ("input", "filter", "output"):
            yield from alike(self, "data_type", f"{of}_tensor", f"{of}_zero_point_tensor")
        yield from _convolutions.convolution_constraints(self)
        for kind in ("scale", "zero_point"):
            yield from _convolutions.single(self, f"input_{kind}_tensor", f"output_{kind}_tensor")
            yield from _convolutions.by_channel(self, f"filter_{kind}_tensor")
        yield from _convolutions.by_channel(self, "bias_tensor", one=False)

    def call(self, *inputs: Any) -> Any:
        """Convolve, and return the data type of the output."""
        dtype = self.output_tensor.data_type.dtype
        return _convolutions.convolve(quantized_linear_convolution, self, inputs, output_dtype=dtype)

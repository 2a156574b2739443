"""CONVOLUTION_INTEGER: convolve 8-bit integers, and return the sums as they are."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from jaxdml import convolution_integer
from jaxdml.directml._checks import alike
from jaxdml.directml._descs import OperatorDesc, OperatorFacts
from jaxdml.directml._enums import FeatureLevel
from jaxdml.directml._errors import Violations
from jaxdml.directml._fields import Counts, Input, OptionalInput, Output
from jaxdml.directml._support import BYTES, FOUR, INT32, UP_TO_FOUR, Row, row
from jaxdml.directml.structs import _convolutions
from jaxdml.directml.structs._convolutions import COUNTED, THREE_OR_FOUR


def _row(counts: range, counts_of_zero_points: range) -> Row:
    return row(
        ("input_tensor filter_tensor", counts, BYTES),
        ("input_zero_point_tensor filter_zero_point_tensor", counts_of_zero_points, BYTES),
        ("output_tensor", counts, INT32),
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class ConvolutionIntegerOperatorDesc(OperatorDesc):
    """Describe a convolution of integers, as ``DML_CONVOLUTION_INTEGER_OPERATOR_DESC`` does.

    A tensor of three dimensions lacks the first one, which has size 1: N in the input, M in the filter, N in the
    output. The two zero points have one dimension count, which may be another.

    Args:
      input_tensor: ``{N, C, H, W}`` of INT8 or UINT8.
      input_zero_point_tensor: the data type of ``input_tensor``, one element; None means 0.
      filter_tensor: ``{M, C / group_count, height, width}`` of INT8 or UINT8, independent of ``input_tensor``.
      filter_zero_point_tensor: the data type of ``filter_tensor``, one element or ``{1, M, 1, 1}``; None means 0.
      output_tensor: ``{N, M, height, width}`` of INT32.
      strides: the distance of neighbouring windows, by height and width.
      dilations: the distance of neighbouring elements of a window.
      start_padding: how many zero points to add at the top and on the left.
      end_padding: how many zero points to add at the bottom and on the right.
      group_count: into how many groups the channels fall; C for a depthwise convolution.

    Raises:
      TypeError: a field is given a value of the wrong type.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_CONVOLUTION_INTEGER_OPERATOR_DESC.
    """

    operator = OperatorFacts(
        "CONVOLUTION_INTEGER",
        119,
        {FeatureLevel.LEVEL_2_1: _row(FOUR, FOUR), FeatureLevel.LEVEL_4_0: _row(THREE_OR_FOUR, UP_TO_FOUR)},
    )

    input_tensor: Input
    input_zero_point_tensor: OptionalInput = None
    filter_tensor: Input
    filter_zero_point_tensor: OptionalInput = None
    output_tensor: Output
    dimension_count: Annotated[int, Counts("strides", COUNTED)] = field(init=False)
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    group_count: int

    def constraints(self) -> Violations:
        """Yield the broken constraints of the operator's page."""
        yield from alike(self, "dimension_count", "input_tensor", "filter_tensor", "output_tensor")
        if self.input_zero_point_tensor is not None:
            yield from alike(self, "dimension_count", "input_zero_point_tensor", "filter_zero_point_tensor")
        yield from alike(self, "data_type", "input_tensor", "input_zero_point_tensor")
        yield from alike(self, "data_type", "filter_tensor", "filter_zero_point_tensor")
        yield from _convolutions.convolution_constraints(self)
        yield from _convolutions.single(self, "input_zero_point_tensor")
        yield from _convolutions.by_channel(self, "filter_zero_point_tensor")

    def call(self, *inputs: Any) -> Any:
        """Convolve."""
        return _convolutions.convolve(convolution_integer, self, inputs)

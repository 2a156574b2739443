"""QUANTIZED_LINEAR_AVERAGE_POOLING: average the windows of a quantized tensor and quantize the means."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from jaxdml import quantized_linear_average_pooling
from jaxdml.directml._checks import alike, sized, varying, without_zeros
from jaxdml.directml._descs import OperatorDesc, OperatorFacts
from jaxdml.directml._enums import FeatureLevel
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._fields import Counts, Input, OptionalInput, Output
from jaxdml.directml._support import BYTES, FLOAT32, row

_PARAMETERS = tuple(f"{of}_{kind}_tensor" for of in ("input", "output") for kind in ("scale", "zero_point"))

_FOUR_OR_FIVE, _UP_TO_FIVE = range(4, 6), range(1, 6)

_ROW = row(
    ("input_tensor output_tensor", _FOUR_OR_FIVE, BYTES),
    ("input_scale_tensor output_scale_tensor", _UP_TO_FIVE, FLOAT32),
    ("input_zero_point_tensor output_zero_point_tensor", _UP_TO_FIVE, BYTES),
)


@dataclass(frozen=True, kw_only=True, repr=False)
class QuantizedLinearAveragePoolingOperatorDesc(OperatorDesc):
    """Describe a quantized average pooling, as ``DML_QUANTIZED_LINEAR_AVERAGE_POOLING_OPERATOR_DESC`` does.

    A scale or zero point has size 1 in all dimensions, or in all but the second, of size C. If it has a single
    dimension, that is the one of size 1 or C.

    Args:
      input_tensor: ``{N, C, H, W}`` or ``{N, C, D, H, W}`` of INT8 or UINT8.
      input_scale_tensor: FLOAT32.
      input_zero_point_tensor: the data type of ``input_tensor``; None means 0.
      output_scale_tensor: FLOAT32, an input.
      output_zero_point_tensor: the data type of ``output_tensor``, an input; None means 0.
      output_tensor: INT8 or UINT8; as many windows as there are along each spatial dimension.
      strides: from one window to the next, one number for each spatial dimension, like all that follow.
      window_size: how many elements a window has.
      start_padding: how many elements to add before the input.
      end_padding: how many elements to add after the input.
      dilations: from one element of a window to the next.
      include_padding: whether the means count the padding.

    Raises:
      TypeError: a field is given a value of the wrong type.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_QUANTIZED_LINEAR_AVERAGE_POOLING_OPERATOR_DESC.
    """

    operator = OperatorFacts("QUANTIZED_LINEAR_AVERAGE_POOLING", 169, {FeatureLevel.LEVEL_6_2: _ROW})

    input_tensor: Input
    input_scale_tensor: Input
    input_zero_point_tensor: OptionalInput = None
    output_scale_tensor: Input
    output_zero_point_tensor: OptionalInput = None
    output_tensor: Output
    dimension_count: Annotated[int, Counts("strides", ("window_size", "start_padding", "end_padding", "dilations"))] = (
        field(init=False)
    )
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    dilations: tuple[int, ...]
    include_padding: bool

    def constraints(self) -> Violations:
        """Yield the broken constraints of the operator's page."""
        yield from alike(self, "dimension_count", "input_tensor", "output_tensor")
        for of in ("input", "output"):
            yield from alike(self, "data_type", f"{of}_tensor", f"{of}_zero_point_tensor")
        sizes = self.input_tensor.sizes
        for name in _PARAMETERS:
            tensor = getattr(self, name)
            if tensor is not None and tensor.sizes and len(sizes) > 1:
                why = "one for all, or one for each channel of InputTensor"
                count = tensor.dimension_count
                yield from sized(self, name, why, (1,) * count, varying(count, 1, sizes[1]))
        yield from without_zeros(self, "strides", "window_size", "dilations")
        spatial = len(sizes) - 2
        if self.dimension_count != spatial and spatial in (2, 3):
            yield Violation(
                "DimensionCount", f"must be {spatial}, the spatial dimensions of InputTensor", self.dimension_count
            )
        elif spatial in (2, 3):
            yield from self._windows(sizes)

    def _windows(self, sizes: tuple[int, ...]) -> Violations:
        arrays = self.strides, self.window_size, self.start_padding, self.end_padding, self.dilations
        if any(len(array) != len(sizes) - 2 for array in arrays) or 0 in (
            *self.strides,
            *self.window_size,
            *self.dilations,
        ):
            return
        counts = []
        for d, (stride, window, start, end, dilation) in enumerate(zip(*arrays, strict=True)):
            reach, inside = (window - 1) * dilation + 1, sizes[d + 2] + start + end
            if reach > inside:
                rule = f"must span at most {inside} elements along dimension {d + 2} of the padded InputTensor"
                yield Violation("WindowSize", rule, reach)
            counts.append((inside - reach) // stride + 1)
        if min(counts) > 0:
            yield from sized(
                self, "output_tensor", "N and C of InputTensor and the number of windows", (*sizes[:2], *counts)
            )

    def call(self, *inputs: Any) -> Any:
        """Average, with scales and zero points of the rank of the input or of one dimension."""
        rank = self.input_tensor.dimension_count
        x, *parameters = inputs
        return quantized_linear_average_pooling(
            x,
            *(part if part is None or part.ndim == rank else part.reshape(-1) for part in parameters),
            window=self.window_size,
            strides=self.strides,
            dilations=self.dilations,
            start_padding=self.start_padding,
            end_padding=self.end_padding,
            include_padding=self.include_padding,
            output_dtype=self.output_tensor.data_type.dtype,
        )

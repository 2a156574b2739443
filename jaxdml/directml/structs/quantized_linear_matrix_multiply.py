"""QUANTIZED_LINEAR_MATRIX_MULTIPLY: multiply quantized matrices and quantize the product."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jaxdml._operators._packing import prepack
from jaxdml._operators.quantized_linear_matrix_multiply import quantized_linear_matrix_multiply
from jaxdml.directml._c import c_field
from jaxdml.directml._checks import alike, sized
from jaxdml.directml._descs import Operator, OperatorDesc
from jaxdml.directml._enums import FeatureLevel
from jaxdml.directml._errors import Violations
from jaxdml.directml._fields import Input, OptionalInput, Output
from jaxdml.directml._support import BYTES, FLOAT32, FOUR, TWO_TO_FOUR, UP_TO_FOUR, Row, row

_AXES = {"a": -2, "b": -1, "output": -2}
"""The dimension of each tensor along which its scale and its zero point may vary."""

_PARAMETERS = [f"{of}_{kind}_tensor" for of in _AXES for kind in ("scale", "zero_point")]


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

    operator = Operator(
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
        yield from alike(self, "dimension_count", "a_tensor", "b_tensor", "output_tensor")
        yield from alike(self, "dimension_count", *_PARAMETERS)
        for of in _AXES:
            yield from alike(self, "data_type", f"{of}_tensor", f"{of}_zero_point_tensor")
        a, b = self.a_tensor.sizes, self.b_tensor.sizes
        rows, columns = a[-2] if len(a) > 1 else None, b[-1] if len(b) > 1 else None
        if rows is not None and columns is not None:
            batch, depth = a[:-2], a[-1]
            why = "the batch of ATensor and as many rows as that has columns"
            yield from sized(self, "b_tensor", why, (*batch, depth, columns))
            why = "the rows of ATensor and the columns of BTensor"
            yield from sized(self, "output_tensor", why, (*batch, rows, columns))
        for name in _PARAMETERS:
            of = name.partition("_")[0]
            length, what = (columns, "column") if of == "b" else (rows, "row")
            tensor = getattr(self, name)
            if tensor is not None and tensor.sizes and length is not None:
                why = f"one for {c_field(of)}Tensor or one for each {what} of it"
                yield from sized(self, name, why, *_of_parameter(tensor.dimension_count, length, _AXES[of]))

    def prepared(self, name: str, tensor: Any) -> Any:
        """Pack the right matrix."""
        return prepack(tensor) if name == "b_tensor" else tensor

    def call(self, *inputs: Any) -> Any:
        """Multiply, with scales and zero points of the rank of the product."""
        rank = self.output_tensor.dimension_count
        # A parameter may have more dimensions than the product. The leading ones have size 1 then.
        given = [part if part is None or part.ndim <= rank else part.reshape(part.shape[-rank:]) for part in inputs]
        return quantized_linear_matrix_multiply(*given, output_dtype=self.output_tensor.data_type.dtype)


def _of_parameter(count: int, length: int, axis: int) -> Iterator[tuple[int, ...]]:
    """Yield the sizes that a scale or zero point may have. If it has one dimension, that is the one that varies."""
    yield (1,) * count
    varying = [1] * count
    varying[max(axis, -count)] = length
    yield tuple(varying)

"""What the structs that quantize and dequantize have in common."""

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxdml.directml._c import c_field
from jaxdml.directml._checks import alike, sized
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._support import UP_TO_EIGHT, Row, Types, row


class QuantizationType(enum.IntEnum):
    """What the tensors of a quantization are, with the values of ``DML_QUANTIZATION_TYPE``."""

    NONE = 0
    SCALE = 1
    SCALE_ZERO_POINT = 2


def element_wise_row(counts: range, inputs: Types, scales: Types, zero_points: Types, outputs: Types) -> Row:
    """Make a row of the table of an elementwise operator."""
    return row(
        ("input_tensor", counts, inputs),
        ("scale_tensor", counts, scales),
        ("zero_point_tensor", counts, zero_points),
        ("output_tensor", counts, outputs),
    )


def blocked_row(inputs: Types, outputs: Types) -> Row:
    """Make a row of the table of an operator with blocks."""
    return row(
        ("input_tensor", UP_TO_EIGHT, inputs),
        ("quantization_tensors", UP_TO_EIGHT, (*inputs, *outputs)),
        ("output_tensor", UP_TO_EIGHT, outputs),
    )


def element_wise_constraints(desc: Any) -> Violations:
    """Yield the broken constraints that both elementwise pages have: four tensors of the same sizes."""
    others = [name for name in ("scale_tensor", "zero_point_tensor", "output_tensor") if name in desc.tensors]
    yield from alike(desc, "dimension_count", "input_tensor", *others)
    for name in others:
        yield from sized(desc, name, "those of InputTensor", desc.input_tensor.sizes)


def blocked_constraints(desc: Any, of_scale: str, of_zero_point: str) -> Violations:
    """Yield the broken constraints of scales and zero points by blocks.

    Args:
      desc: the description.
      of_scale: the tensor that has the data type of the scale.
      of_zero_point: the tensor that has the data type of the zero point.
    """
    count = len(desc.quantization_tensors)
    if desc.quantization_type == QuantizationType.NONE:
        yield Violation("QuantizationType", "must be SCALE or SCALE_ZERO_POINT", desc.quantization_type.name)
    elif count != desc.quantization_type:
        rule = f"must be {desc.quantization_type.value}, the tensors of {desc.quantization_type.name}"
        yield Violation("QuantizationTensorCount", rule, count)
    tensors = [f"quantization_tensors[{place}]" for place in range(count)]
    yield from alike(desc, "dimension_count", "input_tensor", *tensors, "output_tensor")
    yield from sized(desc, "output_tensor", "those of InputTensor", desc.input_tensor.sizes)
    for name, of in zip(tensors, (of_scale, of_zero_point), strict=False):
        yield from alike(desc, "data_type", of, name)
    for name in tensors[1:]:
        yield from sized(desc, name, "those of QuantizationTensors[0]", desc.quantization_tensors[0].sizes)
    sizes = desc.input_tensor.sizes
    for name in tensors[:1]:
        own = desc.tensors[name].sizes
        if len(own) == len(sizes) and 0 not in own and any(n % size for n, size in zip(sizes, own, strict=True)):
            yield Violation(f"{c_field(name)}.Sizes", f"must divide {list(sizes)}, those of InputTensor", own)


def with_blocks(function: Any, x: Any, tensors: Sequence[Any], dtype: np.dtype[Any], **options: Any) -> Any:
    """Call a public operator; without a zero point, an unsigned type is centred on its midpoint.

    Args:
      function: the operator.
      x: its array.
      tensors: the scale, and the zero point if there is one.
      dtype: the dtype of the quantized values.
      options: further options.
    """
    scale, *rest = tensors
    if not rest and dtype.kind == "u":
        rest = [np.full((1,) * x.ndim, 2 ** (8 * dtype.itemsize - 1), dtype)]
    sizes = tuple(n // size for n, size in zip(x.shape, scale.shape, strict=True))
    return function(x, scale, *rest, axis=tuple(range(x.ndim)), block_size=sizes, **options)

"""Operators that quantize and dequantize, elementwise or by blocks, and the sum of quantized tensors."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxdml import (
    DynamicQuantization,
    dequantize_linear,
    dynamic_quantize_linear,
    quantize_linear,
    quantized_linear_add,
)
from jaxdml.directml._c import c_field
from jaxdml.directml._checks import alike, sized
from jaxdml.directml._enums import FeatureLevel, QuantizationType, TensorDataType
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._operator import Operator
from jaxdml.directml._support import Levels, growing


def _element_wise_constraints(desc: Any) -> Violations:
    """Yield the broken constraints that both elementwise pages have: four tensors of the same sizes."""
    others = [name for name in ("scale_tensor", "zero_point_tensor", "output_tensor") if name in desc.tensors]
    yield from alike(desc, "dimension_count", "input_tensor", *others)
    for name in others:
        yield from sized(desc, name, "those of InputTensor", desc.input_tensor.sizes)


def _blocked_constraints(desc: Any, of_scale: str, of_zero_point: str) -> Violations:
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


def _with_blocks(function: Any, x: Any, tensors: Sequence[Any], dtype: np.dtype[Any], **options: Any) -> Any:
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


def _of_quantize(desc: Any) -> Violations:
    yield from _element_wise_constraints(desc)
    yield from alike(desc, "data_type", "output_tensor", "zero_point_tensor")
    if desc.input_tensor.data_type != TensorDataType.INT32:
        yield from alike(desc, "data_type", "input_tensor", "scale_tensor")
    elif desc.scale_tensor.data_type != TensorDataType.FLOAT32:
        rule, got = "must be FLOAT32 for an InputTensor of INT32", desc.scale_tensor.data_type.name
        yield Violation("ScaleTensor.DataType", rule, got)


def _quantize(desc: Any, x: Any, scale: Any, zero_point: Any) -> Any:
    return quantize_linear(x, scale, zero_point, output_dtype=desc.output_tensor.data_type.dtype)


def _quantize_blocks(desc: Any, x: Any, tensors: Any) -> Any:
    dtype = desc.output_tensor.data_type.dtype
    return _with_blocks(quantize_linear, x, tensors, dtype, output_dtype=dtype)


def _of_dequantize(desc: Any) -> Violations:
    yield from _element_wise_constraints(desc)
    yield from alike(desc, "data_type", "input_tensor", "zero_point_tensor")
    yield from alike(desc, "data_type", "scale_tensor", "output_tensor")


def _dequantize_blocks(desc: Any, x: Any, tensors: Any) -> Any:
    return _with_blocks(dequantize_linear, x, tensors, desc.input_tensor.data_type.dtype)


def _of_dynamic(desc: Any) -> Violations:
    of_one = "output_scale_tensor", "output_zero_point_tensor"
    yield from alike(desc, "dimension_count", "input_tensor", "output_tensor", *of_one)
    yield from alike(desc, "data_type", "output_tensor", "output_zero_point_tensor")
    yield from sized(desc, "output_tensor", "those of InputTensor", desc.input_tensor.sizes)
    for name in of_one:
        yield from sized(desc, name, "one element", (1,) * desc.input_tensor.dimension_count)


def _quantize_dynamically(desc: Any, x: Any) -> DynamicQuantization:
    """Quantize; the scale and the zero point have the rank of the input."""
    output_dtype: Any = desc.output_tensor.data_type.dtype.name
    output, scale, zero_point = dynamic_quantize_linear(x, output_dtype=output_dtype)
    one = (1,) * x.ndim
    return DynamicQuantization(output, scale.reshape(one), zero_point.reshape(one))


_OF_SUM = tuple(f"{of}_{kind}_tensor" for of in ("a", "b", "output") for kind in ("scale", "zero_point"))


def _of_add(desc: Any) -> Violations:
    yield from alike(desc, "dimension_count", "a_tensor", "b_tensor", "output_tensor", *_OF_SUM)
    for of in ("a", "b", "output"):
        yield from alike(desc, "data_type", f"{of}_tensor", f"{of}_zero_point_tensor")
    for name in ("b_tensor", "output_tensor"):
        yield from sized(desc, name, "those of ATensor", desc.a_tensor.sizes)
    for name in _OF_SUM:
        if getattr(desc, name) is not None:
            yield from sized(desc, name, "one element", (1,) * desc.a_tensor.dimension_count)


def _add(desc: Any, *inputs: Any) -> Any:
    return quantized_linear_add(*inputs, output_dtype=desc.output_tensor.data_type.dtype)


def _element_wise(number: int, levels: Levels, compute: Callable[..., Any], constraints: Any, what: str) -> Operator:
    return Operator(
        number,
        levels,
        compute,
        constraints,
        doc=f"{what} All tensors have the same sizes. One value for several elements is described with strides of 0.",
        fields={"scale_tensor": "no value may be 0.", "zero_point_tensor": "None means 0."},
        optional_from={"zero_point_tensor": FeatureLevel.LEVEL_6_2},
        channels_last=compute,
        images=("input_tensor", "scale_tensor", "zero_point_tensor"),
    )


def _blocked(
    number: int, inputs: str, outputs: str, compute: Callable[..., Any], constraints: Any, what: str
) -> Operator:
    return Operator(
        number,
        growing(
            "6_3 1-8",
            ("input_tensor", f"6_3 {inputs}"),
            ("quantization_tensors", f"6_3 {inputs}+{outputs}"),
            ("output_tensor", f"6_3 {outputs}"),
        ),
        compute,
        constraints,
        doc=f"{what} In every dimension the size of the scale divides that of the input; their ratio is the length of "
        "a block. Without a zero point, UINT8 is centred on 128. DirectML's page leaves most of this open; see "
        "docs/departures.md.",
        fields={
            "quantization_tensors": "the scale, then the zero point, if there is one, with the sizes of the scale."
        },
    )


OPERATORS: Mapping[str, Operator] = {
    "ELEMENT_WISE_QUANTIZE_LINEAR": _element_wise(
        33,
        growing(
            "1_0 4, 3_0 1-8",
            ("input_tensor", "1_0 FLOAT32, 2_1 FLOAT32+INT32, 6_0 F+INT32"),
            ("scale_tensor", "1_0 FLOAT32, 6_0 F"),
            ("zero_point_tensor output_tensor", "1_0 UINT8, 2_1 B, 6_2 B"),
        ),
        _quantize,
        _of_quantize,
        "Divide by a scale and round to 8 bits.",
    ),
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": _element_wise(
        34,
        growing(
            "1_0 4, 3_0 1-8",
            ("input_tensor zero_point_tensor", "1_0 UINT8, 2_1 I"),
            ("scale_tensor output_tensor", "1_0 FLOAT32, 6_0 F, 6_2 F"),
        ),
        lambda desc, x, scale, zero_point: dequantize_linear(x, scale, zero_point),
        _of_dequantize,
        "Turn quantized values into floats.",
    ),
    "QUANTIZE": _blocked(
        173,
        *("F", "B"),
        _quantize_blocks,
        lambda desc: _blocked_constraints(desc, "input_tensor", "output_tensor"),
        "Divide by the scales of blocks and round to 8 bits.",
    ),
    "DEQUANTIZE": _blocked(
        174,
        *("B", "F"),
        _dequantize_blocks,
        lambda desc: _blocked_constraints(desc, "output_tensor", "input_tensor"),
        "Turn values that are quantized by blocks into floats.",
    ),
    "DYNAMIC_QUANTIZE_LINEAR": Operator(
        148,
        growing(
            "4_0 1-8",
            ("input_tensor", "4_0 F"),
            ("output_tensor output_zero_point_tensor", "4_0 B"),
            ("output_scale_tensor", "4_0 FLOAT32"),
        ),
        _quantize_dynamically,
        _of_dynamic,
        doc="Quantize with a scale and a zero point that cover the range of the input.",
        fields={
            "output_tensor": "the sizes of the input.",
            "output_scale_tensor": "one element.",
            "output_zero_point_tensor": "one element of the data type of ``output_tensor``.",
        },
        outputs=DynamicQuantization,
    ),
    "ELEMENT_WISE_QUANTIZED_LINEAR_ADD": Operator(
        147,
        growing(
            "4_0 1-8",
            ("a_tensor b_tensor output_tensor", "4_0 B"),
            ("a_scale_tensor b_scale_tensor output_scale_tensor", "4_0 FLOAT32"),
            ("a_zero_point_tensor b_zero_point_tensor output_zero_point_tensor", "4_0 B"),
        ),
        _add,
        _of_add,
        doc="Add quantized tensors and quantize the sum. All tensors have one dimension count, and a scale or zero "
        "point has one element. A tensor that is broadcast has strides of 0.",
        fields={
            "a_zero_point_tensor": "the data type of ``a_tensor``; None means 0.",
            "b_tensor": "the sizes of ``a_tensor``.",
            "b_zero_point_tensor": "the data type of ``b_tensor``; None means 0.",
            "output_zero_point_tensor": "the data type of ``output_tensor``; None means 0.",
        },
        channels_last=_add,
        images=("a_tensor", "b_tensor"),
    ),
}

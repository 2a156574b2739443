"""The types of the structs, written by tests/test_directml_stub.py."""

from collections.abc import Sequence
from typing import Any

from jaxdml._base.axis_direction import AxisDirection
from jaxdml.directml._descs import OperatorDesc
from jaxdml.directml._enums import *
from jaxdml.directml._fields import ScaleBias, Size2D
from jaxdml.directml._tables import OperatorType
from jaxdml.directml._tensors import BufferTensorDesc

__all__: list[str]

def struct_of(operator_type: OperatorType) -> type[OperatorDesc]: ...

class ElementWiseQuantizeLinearOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    scale_tensor: BufferTensorDesc
    zero_point_tensor: BufferTensorDesc | None
    output_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc, scale_tensor: BufferTensorDesc, zero_point_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseDequantizeLinearOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    scale_tensor: BufferTensorDesc
    zero_point_tensor: BufferTensorDesc | None
    output_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc, scale_tensor: BufferTensorDesc, zero_point_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc) -> None: ...

class GatherOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    indices_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    axis: int
    index_dimensions: int
    def __init__(self, *, input_tensor: BufferTensorDesc, indices_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, axis: int, index_dimensions: int) -> None: ...

class TopKOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_value_tensor: BufferTensorDesc
    output_index_tensor: BufferTensorDesc
    axis: int
    k: int
    def __init__(self, *, input_tensor: BufferTensorDesc, output_value_tensor: BufferTensorDesc, output_index_tensor: BufferTensorDesc, axis: int, k: int) -> None: ...

class ScatterOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    indices_tensor: BufferTensorDesc
    updates_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    axis: int
    def __init__(self, *, input_tensor: BufferTensorDesc, indices_tensor: BufferTensorDesc, updates_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, axis: int) -> None: ...

class GatherElementsOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    indices_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    axis: int
    def __init__(self, *, input_tensor: BufferTensorDesc, indices_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, axis: int) -> None: ...

class GatherNdOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    indices_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    input_dimension_count: int
    indices_dimension_count: int
    def __init__(self, *, input_tensor: BufferTensorDesc, indices_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, input_dimension_count: int, indices_dimension_count: int) -> None: ...

class ScatterNdOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    indices_tensor: BufferTensorDesc
    updates_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    input_dimension_count: int
    indices_dimension_count: int
    def __init__(self, *, input_tensor: BufferTensorDesc, indices_tensor: BufferTensorDesc, updates_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, input_dimension_count: int, indices_dimension_count: int) -> None: ...

class TopK1OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_value_tensor: BufferTensorDesc
    output_index_tensor: BufferTensorDesc
    axis: int
    k: int
    axis_direction: AxisDirection
    def __init__(self, *, input_tensor: BufferTensorDesc, output_value_tensor: BufferTensorDesc, output_index_tensor: BufferTensorDesc, axis: int, k: int, axis_direction: AxisDirection | int) -> None: ...

class MatrixMultiplyIntegerOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    a_zero_point_tensor: BufferTensorDesc | None
    b_tensor: BufferTensorDesc
    b_zero_point_tensor: BufferTensorDesc | None
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, a_zero_point_tensor: BufferTensorDesc | None = ..., b_tensor: BufferTensorDesc, b_zero_point_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc) -> None: ...

class QuantizedLinearMatrixMultiplyOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    a_scale_tensor: BufferTensorDesc
    a_zero_point_tensor: BufferTensorDesc | None
    b_tensor: BufferTensorDesc
    b_scale_tensor: BufferTensorDesc
    b_zero_point_tensor: BufferTensorDesc | None
    output_scale_tensor: BufferTensorDesc
    output_zero_point_tensor: BufferTensorDesc | None
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, a_scale_tensor: BufferTensorDesc, a_zero_point_tensor: BufferTensorDesc | None = ..., b_tensor: BufferTensorDesc, b_scale_tensor: BufferTensorDesc, b_zero_point_tensor: BufferTensorDesc | None = ..., output_scale_tensor: BufferTensorDesc, output_zero_point_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc) -> None: ...

class ConvolutionIntegerOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    input_zero_point_tensor: BufferTensorDesc | None
    filter_tensor: BufferTensorDesc
    filter_zero_point_tensor: BufferTensorDesc | None
    output_tensor: BufferTensorDesc
    dimension_count: int
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    group_count: int
    def __init__(self, *, input_tensor: BufferTensorDesc, input_zero_point_tensor: BufferTensorDesc | None = ..., filter_tensor: BufferTensorDesc, filter_zero_point_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc, strides: Sequence[int], dilations: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int], group_count: int) -> None: ...

class QuantizedLinearConvolutionOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    input_scale_tensor: BufferTensorDesc
    input_zero_point_tensor: BufferTensorDesc | None
    filter_tensor: BufferTensorDesc
    filter_scale_tensor: BufferTensorDesc
    filter_zero_point_tensor: BufferTensorDesc | None
    bias_tensor: BufferTensorDesc | None
    output_scale_tensor: BufferTensorDesc
    output_zero_point_tensor: BufferTensorDesc | None
    output_tensor: BufferTensorDesc
    dimension_count: int
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    group_count: int
    def __init__(self, *, input_tensor: BufferTensorDesc, input_scale_tensor: BufferTensorDesc, input_zero_point_tensor: BufferTensorDesc | None = ..., filter_tensor: BufferTensorDesc, filter_scale_tensor: BufferTensorDesc, filter_zero_point_tensor: BufferTensorDesc | None = ..., bias_tensor: BufferTensorDesc | None = ..., output_scale_tensor: BufferTensorDesc, output_zero_point_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc, strides: Sequence[int], dilations: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int], group_count: int) -> None: ...

class ArgminOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    axis_count: int
    axes: tuple[int, ...]
    axis_direction: AxisDirection
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, axes: Sequence[int], axis_direction: AxisDirection | int) -> None: ...

class ArgmaxOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    axis_count: int
    axes: tuple[int, ...]
    axis_direction: AxisDirection
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, axes: Sequence[int], axis_direction: AxisDirection | int) -> None: ...

class GatherNd1OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    indices_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    input_dimension_count: int
    indices_dimension_count: int
    batch_dimension_count: int
    def __init__(self, *, input_tensor: BufferTensorDesc, indices_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, input_dimension_count: int, indices_dimension_count: int, batch_dimension_count: int) -> None: ...

class ElementWiseQuantizedLinearAddOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    a_scale_tensor: BufferTensorDesc
    a_zero_point_tensor: BufferTensorDesc | None
    b_tensor: BufferTensorDesc
    b_scale_tensor: BufferTensorDesc
    b_zero_point_tensor: BufferTensorDesc | None
    output_scale_tensor: BufferTensorDesc
    output_zero_point_tensor: BufferTensorDesc | None
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, a_scale_tensor: BufferTensorDesc, a_zero_point_tensor: BufferTensorDesc | None = ..., b_tensor: BufferTensorDesc, b_scale_tensor: BufferTensorDesc, b_zero_point_tensor: BufferTensorDesc | None = ..., output_scale_tensor: BufferTensorDesc, output_zero_point_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc) -> None: ...

class DynamicQuantizeLinearOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    output_scale_tensor: BufferTensorDesc
    output_zero_point_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, output_scale_tensor: BufferTensorDesc, output_zero_point_tensor: BufferTensorDesc) -> None: ...

class QuantizedLinearAveragePoolingOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    input_scale_tensor: BufferTensorDesc
    input_zero_point_tensor: BufferTensorDesc | None
    output_scale_tensor: BufferTensorDesc
    output_zero_point_tensor: BufferTensorDesc | None
    output_tensor: BufferTensorDesc
    dimension_count: int
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    dilations: tuple[int, ...]
    include_padding: bool
    def __init__(self, *, input_tensor: BufferTensorDesc, input_scale_tensor: BufferTensorDesc, input_zero_point_tensor: BufferTensorDesc | None = ..., output_scale_tensor: BufferTensorDesc, output_zero_point_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc, strides: Sequence[int], window_size: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int], dilations: Sequence[int], include_padding: bool) -> None: ...

class MatrixMultiplyIntegerToFloatOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    a_scale_tensor: BufferTensorDesc
    a_zero_point_tensor: BufferTensorDesc | None
    b_tensor: BufferTensorDesc
    b_scale_tensor: BufferTensorDesc
    b_zero_point_tensor: BufferTensorDesc | None
    bias_tensor: BufferTensorDesc | None
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, a_scale_tensor: BufferTensorDesc, a_zero_point_tensor: BufferTensorDesc | None = ..., b_tensor: BufferTensorDesc, b_scale_tensor: BufferTensorDesc, b_zero_point_tensor: BufferTensorDesc | None = ..., bias_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc) -> None: ...

class QuantizeOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    quantization_type: QuantizationType
    quantization_tensor_count: int
    quantization_tensors: tuple[BufferTensorDesc, ...]
    output_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc, quantization_type: QuantizationType | int, quantization_tensors: Sequence[BufferTensorDesc], output_tensor: BufferTensorDesc) -> None: ...

class DequantizeOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    quantization_type: QuantizationType
    quantization_tensor_count: int
    quantization_tensors: tuple[BufferTensorDesc, ...]
    output_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc, quantization_type: QuantizationType | int, quantization_tensors: Sequence[BufferTensorDesc], output_tensor: BufferTensorDesc) -> None: ...

ScatterElementsOperatorDesc = ScatterOperatorDesc

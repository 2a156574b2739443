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

class ElementWiseIdentityOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ...) -> None: ...

class ElementWiseAbsOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ...) -> None: ...

class ElementWiseAcosOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ...) -> None: ...

class ElementWiseAddOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseAsinOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ...) -> None: ...

class ElementWiseAtanOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ...) -> None: ...

class ElementWiseCeilOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ...) -> None: ...

class ElementWiseClipOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    min: float
    max: float
    def __init__(self, *, input_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc | None = ..., scale_bias: ScaleBias | tuple[float, float] | None = ..., min: float, max: float) -> None: ...

class ElementWiseCosOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ...) -> None: ...

class ElementWiseDivideOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseExpOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ...) -> None: ...

class ElementWiseFloorOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ...) -> None: ...

class ElementWiseLogOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ...) -> None: ...

class ElementWiseLogicalAndOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseLogicalEqualsOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseLogicalGreaterThanOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseLogicalLessThanOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseLogicalNotOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseLogicalOrOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseLogicalXorOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseMaxOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseMeanOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseMinOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseMultiplyOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWisePowOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    exponent_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    def __init__(self, *, input_tensor: BufferTensorDesc, exponent_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ...) -> None: ...

class ElementWiseConstantPowOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    exponent: float
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ..., exponent: float) -> None: ...

class ElementWiseRecipOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ...) -> None: ...

class ElementWiseSinOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ...) -> None: ...

class ElementWiseSqrtOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ...) -> None: ...

class ElementWiseSubtractOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseTanOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ...) -> None: ...

class ElementWiseThresholdOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    min: float
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ..., min: float) -> None: ...

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

class ActivationEluOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    alpha: float
    def __init__(self, *, input_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc | None = ..., alpha: float) -> None: ...

class ActivationHardmaxOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ActivationHardSigmoidOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    alpha: float
    beta: float
    def __init__(self, *, input_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc | None = ..., alpha: float, beta: float) -> None: ...

class ActivationIdentityOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc | None = ...) -> None: ...

class ActivationLeakyReluOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    alpha: float
    def __init__(self, *, input_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc | None = ..., alpha: float) -> None: ...

class ActivationLinearOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    alpha: float
    beta: float
    def __init__(self, *, input_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc | None = ..., alpha: float, beta: float) -> None: ...

class ActivationLogSoftmaxOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ActivationParameterizedReluOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    slope_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc, slope_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ActivationParametricSoftplusOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    alpha: float
    beta: float
    def __init__(self, *, input_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc | None = ..., alpha: float, beta: float) -> None: ...

class ActivationReluOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc | None = ...) -> None: ...

class ActivationScaledEluOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    alpha: float
    gamma: float
    def __init__(self, *, input_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc | None = ..., alpha: float, gamma: float) -> None: ...

class ActivationScaledTanhOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    alpha: float
    beta: float
    def __init__(self, *, input_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc | None = ..., alpha: float, beta: float) -> None: ...

class ActivationSigmoidOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc | None = ...) -> None: ...

class ActivationSoftmaxOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc | None = ...) -> None: ...

class ActivationSoftplusOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    steepness: float
    def __init__(self, *, input_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc | None = ..., steepness: float) -> None: ...

class ActivationSoftsignOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc | None = ...) -> None: ...

class ActivationTanhOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc | None = ...) -> None: ...

class ActivationThresholdedReluOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    alpha: float
    def __init__(self, *, input_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc | None = ..., alpha: float) -> None: ...

class ConvolutionOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    filter_tensor: BufferTensorDesc
    bias_tensor: BufferTensorDesc | None
    output_tensor: BufferTensorDesc
    mode: ConvolutionMode
    direction: ConvolutionDirection
    dimension_count: int
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    output_padding: tuple[int, ...]
    group_count: int
    fused_activation: OperatorDesc | None
    def __init__(self, *, input_tensor: BufferTensorDesc, filter_tensor: BufferTensorDesc, bias_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc, mode: ConvolutionMode | int, direction: ConvolutionDirection | int, strides: Sequence[int], dilations: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int], output_padding: Sequence[int], group_count: int, fused_activation: OperatorDesc | None = ...) -> None: ...

class GemmOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    c_tensor: BufferTensorDesc | None
    output_tensor: BufferTensorDesc
    trans_a: MatrixTransform
    trans_b: MatrixTransform
    alpha: float
    beta: float
    fused_activation: OperatorDesc | None
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, c_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc, trans_a: MatrixTransform | int, trans_b: MatrixTransform | int, alpha: float, beta: float, fused_activation: OperatorDesc | None = ...) -> None: ...

class ReduceOperatorDesc(OperatorDesc):
    function: ReduceFunction
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    axis_count: int
    axes: tuple[int, ...]
    def __init__(self, *, function: ReduceFunction | int, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, axes: Sequence[int]) -> None: ...

class AveragePoolingOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    dimension_count: int
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    include_padding: bool
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, strides: Sequence[int], window_size: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int], include_padding: bool) -> None: ...

class LpPoolingOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    dimension_count: int
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    p: int
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, strides: Sequence[int], window_size: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int], p: int) -> None: ...

class MaxPoolingOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    dimension_count: int
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, strides: Sequence[int], window_size: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int]) -> None: ...

class RoiPoolingOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    roi_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    spatial_scale: float
    pooled_size: Size2D
    def __init__(self, *, input_tensor: BufferTensorDesc, roi_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, spatial_scale: float, pooled_size: Size2D | tuple[int, int]) -> None: ...

class SliceOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    dimension_count: int
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int]) -> None: ...

class CastOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class SplitOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_count: int
    output_tensors: tuple[BufferTensorDesc, ...]
    axis: int
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensors: Sequence[BufferTensorDesc], axis: int) -> None: ...

class JoinOperatorDesc(OperatorDesc):
    input_count: int
    input_tensors: tuple[BufferTensorDesc, ...]
    output_tensor: BufferTensorDesc
    axis: int
    def __init__(self, *, input_tensors: Sequence[BufferTensorDesc], output_tensor: BufferTensorDesc, axis: int) -> None: ...

class PaddingOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    padding_mode: PaddingMode
    padding_value: float
    dimension_count: int
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, padding_mode: PaddingMode | int, padding_value: float, start_padding: Sequence[int], end_padding: Sequence[int]) -> None: ...

class ValueScale2dOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale: float
    channel_count: int
    bias: tuple[float, ...]
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale: float, bias: Sequence[float]) -> None: ...

class Upsample2dOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_size: Size2D
    interpolation_mode: InterpolationMode
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_size: Size2D | tuple[int, int], interpolation_mode: InterpolationMode | int) -> None: ...

class GatherOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    indices_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    axis: int
    index_dimensions: int
    def __init__(self, *, input_tensor: BufferTensorDesc, indices_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, axis: int, index_dimensions: int) -> None: ...

class SpaceToDepthOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    block_size: int
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, block_size: int) -> None: ...

class DepthToSpaceOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    block_size: int
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, block_size: int) -> None: ...

class TileOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    repeats_count: int
    repeats: tuple[int, ...]
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, repeats: Sequence[int]) -> None: ...

class TopKOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_value_tensor: BufferTensorDesc
    output_index_tensor: BufferTensorDesc
    axis: int
    k: int
    def __init__(self, *, input_tensor: BufferTensorDesc, output_value_tensor: BufferTensorDesc, output_index_tensor: BufferTensorDesc, axis: int, k: int) -> None: ...

class BatchNormalizationOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    mean_tensor: BufferTensorDesc
    variance_tensor: BufferTensorDesc
    scale_tensor: BufferTensorDesc
    bias_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    spatial: bool
    epsilon: float
    fused_activation: OperatorDesc | None
    def __init__(self, *, input_tensor: BufferTensorDesc, mean_tensor: BufferTensorDesc, variance_tensor: BufferTensorDesc, scale_tensor: BufferTensorDesc, bias_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, spatial: bool, epsilon: float, fused_activation: OperatorDesc | None = ...) -> None: ...

class MeanVarianceNormalizationOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    scale_tensor: BufferTensorDesc | None
    bias_tensor: BufferTensorDesc | None
    output_tensor: BufferTensorDesc
    cross_channel: bool
    normalize_variance: bool
    epsilon: float
    fused_activation: OperatorDesc | None
    def __init__(self, *, input_tensor: BufferTensorDesc, scale_tensor: BufferTensorDesc | None = ..., bias_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc, cross_channel: bool, normalize_variance: bool, epsilon: float, fused_activation: OperatorDesc | None = ...) -> None: ...

class LocalResponseNormalizationOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    cross_channel: bool
    local_size: int
    alpha: float
    beta: float
    bias: float
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, cross_channel: bool, local_size: int, alpha: float, beta: float, bias: float) -> None: ...

class LpNormalizationOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    axis: int
    epsilon: float
    p: int
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, axis: int, epsilon: float, p: int) -> None: ...

class RnnOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    weight_tensor: BufferTensorDesc
    recurrence_tensor: BufferTensorDesc
    bias_tensor: BufferTensorDesc | None
    hidden_init_tensor: BufferTensorDesc | None
    sequence_lengths_tensor: BufferTensorDesc | None
    output_sequence_tensor: BufferTensorDesc | None
    output_single_tensor: BufferTensorDesc | None
    activation_desc_count: int
    activation_descs: tuple[OperatorDesc, ...]
    direction: RecurrentNetworkDirection
    def __init__(self, *, input_tensor: BufferTensorDesc, weight_tensor: BufferTensorDesc, recurrence_tensor: BufferTensorDesc, bias_tensor: BufferTensorDesc | None = ..., hidden_init_tensor: BufferTensorDesc | None = ..., sequence_lengths_tensor: BufferTensorDesc | None = ..., output_sequence_tensor: BufferTensorDesc | None = ..., output_single_tensor: BufferTensorDesc | None = ..., activation_descs: Sequence[OperatorDesc], direction: RecurrentNetworkDirection | int) -> None: ...

class LstmOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    weight_tensor: BufferTensorDesc
    recurrence_tensor: BufferTensorDesc
    bias_tensor: BufferTensorDesc | None
    hidden_init_tensor: BufferTensorDesc | None
    cell_mem_init_tensor: BufferTensorDesc | None
    sequence_lengths_tensor: BufferTensorDesc | None
    peephole_tensor: BufferTensorDesc | None
    output_sequence_tensor: BufferTensorDesc | None
    output_single_tensor: BufferTensorDesc | None
    output_cell_single_tensor: BufferTensorDesc | None
    activation_desc_count: int
    activation_descs: tuple[OperatorDesc, ...]
    direction: RecurrentNetworkDirection
    clip_threshold: float
    use_clip_threshold: bool
    couple_input_forget: bool
    def __init__(self, *, input_tensor: BufferTensorDesc, weight_tensor: BufferTensorDesc, recurrence_tensor: BufferTensorDesc, bias_tensor: BufferTensorDesc | None = ..., hidden_init_tensor: BufferTensorDesc | None = ..., cell_mem_init_tensor: BufferTensorDesc | None = ..., sequence_lengths_tensor: BufferTensorDesc | None = ..., peephole_tensor: BufferTensorDesc | None = ..., output_sequence_tensor: BufferTensorDesc | None = ..., output_single_tensor: BufferTensorDesc | None = ..., output_cell_single_tensor: BufferTensorDesc | None = ..., activation_descs: Sequence[OperatorDesc], direction: RecurrentNetworkDirection | int, clip_threshold: float, use_clip_threshold: bool, couple_input_forget: bool) -> None: ...

class GruOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    weight_tensor: BufferTensorDesc
    recurrence_tensor: BufferTensorDesc
    bias_tensor: BufferTensorDesc | None
    hidden_init_tensor: BufferTensorDesc | None
    sequence_lengths_tensor: BufferTensorDesc | None
    output_sequence_tensor: BufferTensorDesc | None
    output_single_tensor: BufferTensorDesc | None
    activation_desc_count: int
    activation_descs: tuple[OperatorDesc, ...]
    direction: RecurrentNetworkDirection
    linear_before_reset: bool
    def __init__(self, *, input_tensor: BufferTensorDesc, weight_tensor: BufferTensorDesc, recurrence_tensor: BufferTensorDesc, bias_tensor: BufferTensorDesc | None = ..., hidden_init_tensor: BufferTensorDesc | None = ..., sequence_lengths_tensor: BufferTensorDesc | None = ..., output_sequence_tensor: BufferTensorDesc | None = ..., output_single_tensor: BufferTensorDesc | None = ..., activation_descs: Sequence[OperatorDesc], direction: RecurrentNetworkDirection | int, linear_before_reset: bool) -> None: ...

class ElementWiseSignOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseIsNanOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseErfOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ...) -> None: ...

class ElementWiseSinhOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ...) -> None: ...

class ElementWiseCoshOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ...) -> None: ...

class ElementWiseTanhOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ...) -> None: ...

class ElementWiseAsinhOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ...) -> None: ...

class ElementWiseAcoshOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ...) -> None: ...

class ElementWiseAtanhOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ...) -> None: ...

class ElementWiseIfOperatorDesc(OperatorDesc):
    condition_tensor: BufferTensorDesc
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, condition_tensor: BufferTensorDesc, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseAdd1OperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    fused_activation: OperatorDesc | None
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, fused_activation: OperatorDesc | None = ...) -> None: ...

class ActivationShrinkOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    bias: float
    threshold: float
    def __init__(self, *, input_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc | None = ..., bias: float, threshold: float) -> None: ...

class MaxPooling1OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    output_indices_tensor: BufferTensorDesc | None
    dimension_count: int
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, output_indices_tensor: BufferTensorDesc | None = ..., strides: Sequence[int], window_size: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int]) -> None: ...

class MaxUnpoolingOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    indices_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc, indices_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class DiagonalMatrixOperatorDesc(OperatorDesc):
    output_tensor: BufferTensorDesc
    offset: int
    value: float
    def __init__(self, *, output_tensor: BufferTensorDesc, offset: int, value: float) -> None: ...

class ScatterOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    indices_tensor: BufferTensorDesc
    updates_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    axis: int
    def __init__(self, *, input_tensor: BufferTensorDesc, indices_tensor: BufferTensorDesc, updates_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, axis: int) -> None: ...

class OneHotOperatorDesc(OperatorDesc):
    indices_tensor: BufferTensorDesc
    values_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    axis: int
    def __init__(self, *, indices_tensor: BufferTensorDesc, values_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, axis: int) -> None: ...

class ResampleOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    interpolation_mode: InterpolationMode
    scale_count: int
    scales: tuple[float, ...]
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, interpolation_mode: InterpolationMode | int, scales: Sequence[float]) -> None: ...

class ElementWiseBitShiftLeftOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseBitShiftRightOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseRoundOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    rounding_mode: RoundingMode
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, rounding_mode: RoundingMode | int) -> None: ...

class ElementWiseIsInfinityOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    infinity_mode: IsInfinityMode
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, infinity_mode: IsInfinityMode | int) -> None: ...

class ElementWiseModulusTruncateOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseModulusFloorOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class FillValueConstantOperatorDesc(OperatorDesc):
    output_tensor: BufferTensorDesc
    value_data_type: TensorDataType
    value: Any
    def __init__(self, *, output_tensor: BufferTensorDesc, value_data_type: TensorDataType | int, value: float) -> None: ...

class FillValueSequenceOperatorDesc(OperatorDesc):
    output_tensor: BufferTensorDesc
    value_data_type: TensorDataType
    value_start: Any
    value_delta: Any
    def __init__(self, *, output_tensor: BufferTensorDesc, value_data_type: TensorDataType | int, value_start: float, value_delta: float) -> None: ...

class CumulativeSummationOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    axis: int
    axis_direction: AxisDirection
    has_exclusive_sum: bool
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, axis: int, axis_direction: AxisDirection | int, has_exclusive_sum: bool) -> None: ...

class ReverseSubsequencesOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    sequence_lengths_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    axis: int
    def __init__(self, *, input_tensor: BufferTensorDesc, sequence_lengths_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, axis: int) -> None: ...

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

class MaxPooling2OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    output_indices_tensor: BufferTensorDesc | None
    dimension_count: int
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    dilations: tuple[int, ...]
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, output_indices_tensor: BufferTensorDesc | None = ..., strides: Sequence[int], window_size: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int], dilations: Sequence[int]) -> None: ...

class Slice1OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    dimension_count: int
    input_window_offsets: tuple[int, ...]
    input_window_sizes: tuple[int, ...]
    input_window_strides: tuple[int, ...]
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, input_window_offsets: Sequence[int], input_window_sizes: Sequence[int], input_window_strides: Sequence[int]) -> None: ...

class TopK1OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_value_tensor: BufferTensorDesc
    output_index_tensor: BufferTensorDesc
    axis: int
    k: int
    axis_direction: AxisDirection
    def __init__(self, *, input_tensor: BufferTensorDesc, output_value_tensor: BufferTensorDesc, output_index_tensor: BufferTensorDesc, axis: int, k: int, axis_direction: AxisDirection | int) -> None: ...

class DepthToSpace1OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    block_size: int
    order: DepthSpaceOrder
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, block_size: int, order: DepthSpaceOrder | int) -> None: ...

class SpaceToDepth1OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    block_size: int
    order: DepthSpaceOrder
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, block_size: int, order: DepthSpaceOrder | int) -> None: ...

class MeanVarianceNormalization1OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    scale_tensor: BufferTensorDesc | None
    bias_tensor: BufferTensorDesc | None
    output_tensor: BufferTensorDesc
    axis_count: int
    axes: tuple[int, ...]
    normalize_variance: bool
    epsilon: float
    fused_activation: OperatorDesc | None
    def __init__(self, *, input_tensor: BufferTensorDesc, scale_tensor: BufferTensorDesc | None = ..., bias_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc, axes: Sequence[int], normalize_variance: bool, epsilon: float, fused_activation: OperatorDesc | None = ...) -> None: ...

class Resample1OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    interpolation_mode: InterpolationMode
    dimension_count: int
    scales: tuple[float, ...]
    input_pixel_offsets: tuple[float, ...]
    output_pixel_offsets: tuple[float, ...]
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, interpolation_mode: InterpolationMode | int, scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float]) -> None: ...

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

class ElementWiseBitAndOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseBitOrOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseBitXorOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseBitNotOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseBitCountOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseLogicalGreaterThanOrEqualOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseLogicalLessThanOrEqualOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ActivationCeluOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    alpha: float
    def __init__(self, *, input_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc | None = ..., alpha: float) -> None: ...

class ActivationReluGradOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    input_gradient_tensor: BufferTensorDesc
    output_gradient_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc, input_gradient_tensor: BufferTensorDesc, output_gradient_tensor: BufferTensorDesc) -> None: ...

class AveragePoolingGradOperatorDesc(OperatorDesc):
    input_gradient_tensor: BufferTensorDesc
    output_gradient_tensor: BufferTensorDesc
    dimension_count: int
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    include_padding: bool
    def __init__(self, *, input_gradient_tensor: BufferTensorDesc, output_gradient_tensor: BufferTensorDesc, strides: Sequence[int], window_size: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int], include_padding: bool) -> None: ...

class MaxPoolingGradOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    input_gradient_tensor: BufferTensorDesc
    output_gradient_tensor: BufferTensorDesc
    dimension_count: int
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    dilations: tuple[int, ...]
    def __init__(self, *, input_tensor: BufferTensorDesc, input_gradient_tensor: BufferTensorDesc, output_gradient_tensor: BufferTensorDesc, strides: Sequence[int], window_size: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int], dilations: Sequence[int]) -> None: ...

class RandomGeneratorOperatorDesc(OperatorDesc):
    input_state_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    output_state_tensor: BufferTensorDesc | None
    type: RandomGeneratorType
    def __init__(self, *, input_state_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, output_state_tensor: BufferTensorDesc | None = ..., type: RandomGeneratorType | int) -> None: ...

class NonzeroCoordinatesOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_count_tensor: BufferTensorDesc
    output_coordinates_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc, output_count_tensor: BufferTensorDesc, output_coordinates_tensor: BufferTensorDesc) -> None: ...

class ResampleGradOperatorDesc(OperatorDesc):
    input_gradient_tensor: BufferTensorDesc
    output_gradient_tensor: BufferTensorDesc
    interpolation_mode: InterpolationMode
    dimension_count: int
    scales: tuple[float, ...]
    input_pixel_offsets: tuple[float, ...]
    output_pixel_offsets: tuple[float, ...]
    def __init__(self, *, input_gradient_tensor: BufferTensorDesc, output_gradient_tensor: BufferTensorDesc, interpolation_mode: InterpolationMode | int, scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float]) -> None: ...

class SliceGradOperatorDesc(OperatorDesc):
    input_gradient_tensor: BufferTensorDesc
    output_gradient_tensor: BufferTensorDesc
    dimension_count: int
    input_window_offsets: tuple[int, ...]
    input_window_sizes: tuple[int, ...]
    input_window_strides: tuple[int, ...]
    def __init__(self, *, input_gradient_tensor: BufferTensorDesc, output_gradient_tensor: BufferTensorDesc, input_window_offsets: Sequence[int], input_window_sizes: Sequence[int], input_window_strides: Sequence[int]) -> None: ...

class AdamOptimizerOperatorDesc(OperatorDesc):
    input_parameters_tensor: BufferTensorDesc
    input_first_moment_tensor: BufferTensorDesc
    input_second_moment_tensor: BufferTensorDesc
    gradient_tensor: BufferTensorDesc
    training_step_tensor: BufferTensorDesc
    output_parameters_tensor: BufferTensorDesc
    output_first_moment_tensor: BufferTensorDesc
    output_second_moment_tensor: BufferTensorDesc
    learning_rate: float
    beta1: float
    beta2: float
    epsilon: float
    def __init__(self, *, input_parameters_tensor: BufferTensorDesc, input_first_moment_tensor: BufferTensorDesc, input_second_moment_tensor: BufferTensorDesc, gradient_tensor: BufferTensorDesc, training_step_tensor: BufferTensorDesc, output_parameters_tensor: BufferTensorDesc, output_first_moment_tensor: BufferTensorDesc, output_second_moment_tensor: BufferTensorDesc, learning_rate: float, beta1: float, beta2: float, epsilon: float) -> None: ...

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

class RoiAlignOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    roi_tensor: BufferTensorDesc
    batch_indices_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    reduction_function: ReduceFunction
    interpolation_mode: InterpolationMode
    spatial_scale_x: float
    spatial_scale_y: float
    out_of_bounds_input_value: float
    minimum_samples_per_output: int
    maximum_samples_per_output: int
    def __init__(self, *, input_tensor: BufferTensorDesc, roi_tensor: BufferTensorDesc, batch_indices_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, reduction_function: ReduceFunction | int, interpolation_mode: InterpolationMode | int, spatial_scale_x: float, spatial_scale_y: float, out_of_bounds_input_value: float, minimum_samples_per_output: int, maximum_samples_per_output: int) -> None: ...

class GatherNd1OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    indices_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    input_dimension_count: int
    indices_dimension_count: int
    batch_dimension_count: int
    def __init__(self, *, input_tensor: BufferTensorDesc, indices_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, input_dimension_count: int, indices_dimension_count: int, batch_dimension_count: int) -> None: ...

class ElementWiseAtanYxOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ElementWiseClipGradOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    input_gradient_tensor: BufferTensorDesc
    output_gradient_tensor: BufferTensorDesc
    min: float
    max: float
    def __init__(self, *, input_tensor: BufferTensorDesc, input_gradient_tensor: BufferTensorDesc, output_gradient_tensor: BufferTensorDesc, min: float, max: float) -> None: ...

class ElementWiseDifferenceSquareOperatorDesc(OperatorDesc):
    a_tensor: BufferTensorDesc
    b_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, a_tensor: BufferTensorDesc, b_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class LocalResponseNormalizationGradOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    input_gradient_tensor: BufferTensorDesc
    output_gradient_tensor: BufferTensorDesc
    cross_channel: bool
    local_size: int
    alpha: float
    beta: float
    bias: float
    def __init__(self, *, input_tensor: BufferTensorDesc, input_gradient_tensor: BufferTensorDesc, output_gradient_tensor: BufferTensorDesc, cross_channel: bool, local_size: int, alpha: float, beta: float, bias: float) -> None: ...

class CumulativeProductOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    axis: int
    axis_direction: AxisDirection
    has_exclusive_product: bool
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, axis: int, axis_direction: AxisDirection | int, has_exclusive_product: bool) -> None: ...

class BatchNormalizationGradOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    input_gradient_tensor: BufferTensorDesc
    mean_tensor: BufferTensorDesc
    variance_tensor: BufferTensorDesc
    scale_tensor: BufferTensorDesc
    output_gradient_tensor: BufferTensorDesc
    output_scale_gradient_tensor: BufferTensorDesc
    output_bias_gradient_tensor: BufferTensorDesc
    epsilon: float
    def __init__(self, *, input_tensor: BufferTensorDesc, input_gradient_tensor: BufferTensorDesc, mean_tensor: BufferTensorDesc, variance_tensor: BufferTensorDesc, scale_tensor: BufferTensorDesc, output_gradient_tensor: BufferTensorDesc, output_scale_gradient_tensor: BufferTensorDesc, output_bias_gradient_tensor: BufferTensorDesc, epsilon: float = ...) -> None: ...

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

class RoiAlign1OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    roi_tensor: BufferTensorDesc
    batch_indices_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    reduction_function: ReduceFunction
    interpolation_mode: InterpolationMode
    spatial_scale_x: float
    spatial_scale_y: float
    input_pixel_offset: float
    output_pixel_offset: float
    out_of_bounds_input_value: float
    minimum_samples_per_output: int
    maximum_samples_per_output: int
    align_regions_to_corners: bool
    def __init__(self, *, input_tensor: BufferTensorDesc, roi_tensor: BufferTensorDesc, batch_indices_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, reduction_function: ReduceFunction | int, interpolation_mode: InterpolationMode | int, spatial_scale_x: float, spatial_scale_y: float, input_pixel_offset: float, output_pixel_offset: float, out_of_bounds_input_value: float, minimum_samples_per_output: int, maximum_samples_per_output: int, align_regions_to_corners: bool) -> None: ...

class RoiAlignGradOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc | None
    input_gradient_tensor: BufferTensorDesc
    roi_tensor: BufferTensorDesc
    batch_indices_tensor: BufferTensorDesc
    output_gradient_tensor: BufferTensorDesc | None
    output_roi_gradient_tensor: BufferTensorDesc | None
    reduction_function: ReduceFunction
    interpolation_mode: InterpolationMode
    spatial_scale_x: float
    spatial_scale_y: float
    input_pixel_offset: float
    output_pixel_offset: float
    minimum_samples_per_output: int
    maximum_samples_per_output: int
    align_regions_to_corners: bool
    def __init__(self, *, input_tensor: BufferTensorDesc | None = ..., input_gradient_tensor: BufferTensorDesc, roi_tensor: BufferTensorDesc, batch_indices_tensor: BufferTensorDesc, output_gradient_tensor: BufferTensorDesc | None = ..., output_roi_gradient_tensor: BufferTensorDesc | None = ..., reduction_function: ReduceFunction | int, interpolation_mode: InterpolationMode | int, spatial_scale_x: float, spatial_scale_y: float, input_pixel_offset: float, output_pixel_offset: float, minimum_samples_per_output: int, maximum_samples_per_output: int, align_regions_to_corners: bool) -> None: ...

class BatchNormalizationTrainingOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    scale_tensor: BufferTensorDesc
    bias_tensor: BufferTensorDesc
    fused_add_tensor: BufferTensorDesc | None
    output_tensor: BufferTensorDesc
    output_mean_tensor: BufferTensorDesc
    output_variance_tensor: BufferTensorDesc
    epsilon: float
    fused_activation: OperatorDesc | None
    def __init__(self, *, input_tensor: BufferTensorDesc, scale_tensor: BufferTensorDesc, bias_tensor: BufferTensorDesc, fused_add_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc, output_mean_tensor: BufferTensorDesc, output_variance_tensor: BufferTensorDesc, epsilon: float, fused_activation: OperatorDesc | None = ...) -> None: ...

class BatchNormalizationTrainingGradOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    input_gradient_tensor: BufferTensorDesc
    mean_tensor: BufferTensorDesc
    variance_tensor: BufferTensorDesc
    scale_tensor: BufferTensorDesc
    output_gradient_tensor: BufferTensorDesc
    output_scale_gradient_tensor: BufferTensorDesc
    output_bias_gradient_tensor: BufferTensorDesc
    epsilon: float
    def __init__(self, *, input_tensor: BufferTensorDesc, input_gradient_tensor: BufferTensorDesc, mean_tensor: BufferTensorDesc, variance_tensor: BufferTensorDesc, scale_tensor: BufferTensorDesc, output_gradient_tensor: BufferTensorDesc, output_scale_gradient_tensor: BufferTensorDesc, output_bias_gradient_tensor: BufferTensorDesc, epsilon: float) -> None: ...

class ElementWiseClip1OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    scale_bias: ScaleBias | None
    min_max_data_type: TensorDataType
    min: Any
    max: Any
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, scale_bias: ScaleBias | tuple[float, float] | None = ..., min_max_data_type: TensorDataType | int, min: float, max: float) -> None: ...

class ElementWiseClipGrad1OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    input_gradient_tensor: BufferTensorDesc
    output_gradient_tensor: BufferTensorDesc
    min_max_data_type: TensorDataType
    min: Any
    max: Any
    def __init__(self, *, input_tensor: BufferTensorDesc, input_gradient_tensor: BufferTensorDesc, output_gradient_tensor: BufferTensorDesc, min_max_data_type: TensorDataType | int, min: float, max: float) -> None: ...

class Padding1OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    padding_mode: PaddingMode
    padding_value_data_type: TensorDataType
    padding_value: Any
    dimension_count: int
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, padding_mode: PaddingMode | int, padding_value_data_type: TensorDataType | int, padding_value: float, start_padding: Sequence[int], end_padding: Sequence[int]) -> None: ...

class ElementWiseNegateOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc) -> None: ...

class ActivationGeluOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    def __init__(self, *, input_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc | None = ...) -> None: ...

class ActivationSoftmax1OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    axis_count: int
    axes: tuple[int, ...]
    def __init__(self, *, input_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc | None = ..., axes: Sequence[int]) -> None: ...

class ActivationLogSoftmax1OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    axis_count: int
    axes: tuple[int, ...]
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, axes: Sequence[int]) -> None: ...

class ActivationHardmax1OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    axis_count: int
    axes: tuple[int, ...]
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, axes: Sequence[int]) -> None: ...

class Resample2OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    interpolation_mode: InterpolationMode
    rounding_direction: AxisDirection
    dimension_count: int
    scales: tuple[float, ...]
    input_pixel_offsets: tuple[float, ...]
    output_pixel_offsets: tuple[float, ...]
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, interpolation_mode: InterpolationMode | int, rounding_direction: AxisDirection | int, scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float]) -> None: ...

class ResampleGrad1OperatorDesc(OperatorDesc):
    input_gradient_tensor: BufferTensorDesc
    output_gradient_tensor: BufferTensorDesc
    interpolation_mode: InterpolationMode
    rounding_direction: AxisDirection
    dimension_count: int
    scales: tuple[float, ...]
    input_pixel_offsets: tuple[float, ...]
    output_pixel_offsets: tuple[float, ...]
    def __init__(self, *, input_gradient_tensor: BufferTensorDesc, output_gradient_tensor: BufferTensorDesc, interpolation_mode: InterpolationMode | int, rounding_direction: AxisDirection | int, scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float]) -> None: ...

class DiagonalMatrix1OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc | None
    output_tensor: BufferTensorDesc
    value_data_type: TensorDataType
    value: Any
    diagonal_fill_begin: int
    diagonal_fill_end: int
    def __init__(self, *, input_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc, value_data_type: TensorDataType | int, value: float, diagonal_fill_begin: int, diagonal_fill_end: int) -> None: ...

class MultiheadAttentionOperatorDesc(OperatorDesc):
    query_tensor: BufferTensorDesc | None
    key_tensor: BufferTensorDesc | None
    value_tensor: BufferTensorDesc | None
    stacked_query_key_tensor: BufferTensorDesc | None
    stacked_key_value_tensor: BufferTensorDesc | None
    stacked_query_key_value_tensor: BufferTensorDesc | None
    bias_tensor: BufferTensorDesc | None
    mask_tensor: BufferTensorDesc | None
    attention_bias_tensor: BufferTensorDesc | None
    past_key_tensor: BufferTensorDesc | None
    past_value_tensor: BufferTensorDesc | None
    output_tensor: BufferTensorDesc
    output_present_key_tensor: BufferTensorDesc | None
    output_present_value_tensor: BufferTensorDesc | None
    scale: float
    mask_filter_value: float
    head_count: int
    mask_type: MultiheadAttentionMaskType
    def __init__(self, *, query_tensor: BufferTensorDesc | None = ..., key_tensor: BufferTensorDesc | None = ..., value_tensor: BufferTensorDesc | None = ..., stacked_query_key_tensor: BufferTensorDesc | None = ..., stacked_key_value_tensor: BufferTensorDesc | None = ..., stacked_query_key_value_tensor: BufferTensorDesc | None = ..., bias_tensor: BufferTensorDesc | None = ..., mask_tensor: BufferTensorDesc | None = ..., attention_bias_tensor: BufferTensorDesc | None = ..., past_key_tensor: BufferTensorDesc | None = ..., past_value_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc, output_present_key_tensor: BufferTensorDesc | None = ..., output_present_value_tensor: BufferTensorDesc | None = ..., scale: float, mask_filter_value: float, head_count: int, mask_type: MultiheadAttentionMaskType | int) -> None: ...

class LpPooling1OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    dimension_count: int
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    dilations: tuple[int, ...]
    p: int
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, strides: Sequence[int], window_size: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int], dilations: Sequence[int], p: int) -> None: ...

class AveragePooling1OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    dimension_count: int
    strides: tuple[int, ...]
    window_size: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    dilations: tuple[int, ...]
    include_padding: bool
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, strides: Sequence[int], window_size: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int], dilations: Sequence[int], include_padding: bool) -> None: ...

class ActivationSwishOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    sigmoid_input_scale: float
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, sigmoid_input_scale: float) -> None: ...

class ActivationHardSwishOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    alpha: float
    beta: float
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, alpha: float, beta: float) -> None: ...

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

class MeanVarianceNormalization2OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    scale_tensor: BufferTensorDesc | None
    bias_tensor: BufferTensorDesc | None
    output_tensor: BufferTensorDesc
    axis_count: int
    axes: tuple[int, ...]
    use_mean: bool
    use_variance: bool
    epsilon: float
    fused_activation: OperatorDesc | None
    def __init__(self, *, input_tensor: BufferTensorDesc, scale_tensor: BufferTensorDesc | None = ..., bias_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc, axes: Sequence[int], use_mean: bool, use_variance: bool, epsilon: float, fused_activation: OperatorDesc | None = ...) -> None: ...

class MultiheadAttention1OperatorDesc(OperatorDesc):
    query_tensor: BufferTensorDesc | None
    key_tensor: BufferTensorDesc | None
    value_tensor: BufferTensorDesc | None
    stacked_query_key_tensor: BufferTensorDesc | None
    stacked_key_value_tensor: BufferTensorDesc | None
    stacked_query_key_value_tensor: BufferTensorDesc | None
    bias_tensor: BufferTensorDesc | None
    mask_tensor: BufferTensorDesc | None
    attention_bias_tensor: BufferTensorDesc | None
    past_key_tensor: BufferTensorDesc | None
    past_value_tensor: BufferTensorDesc | None
    past_sequence_lengths_tensor: BufferTensorDesc | None
    output_tensor: BufferTensorDesc
    output_present_key_tensor: BufferTensorDesc | None
    output_present_value_tensor: BufferTensorDesc | None
    scale: float
    mask_filter_value: float
    query_head_count: int
    key_value_head_count: int
    mask_type: MultiheadAttentionMaskType
    def __init__(self, *, query_tensor: BufferTensorDesc | None = ..., key_tensor: BufferTensorDesc | None = ..., value_tensor: BufferTensorDesc | None = ..., stacked_query_key_tensor: BufferTensorDesc | None = ..., stacked_key_value_tensor: BufferTensorDesc | None = ..., stacked_query_key_value_tensor: BufferTensorDesc | None = ..., bias_tensor: BufferTensorDesc | None = ..., mask_tensor: BufferTensorDesc | None = ..., attention_bias_tensor: BufferTensorDesc | None = ..., past_key_tensor: BufferTensorDesc | None = ..., past_value_tensor: BufferTensorDesc | None = ..., past_sequence_lengths_tensor: BufferTensorDesc | None = ..., output_tensor: BufferTensorDesc, output_present_key_tensor: BufferTensorDesc | None = ..., output_present_value_tensor: BufferTensorDesc | None = ..., scale: float, mask_filter_value: float, query_head_count: int, key_value_head_count: int, mask_type: MultiheadAttentionMaskType | int) -> None: ...

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

class Resample3OperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    interpolation_mode: InterpolationMode
    rounding_direction: AxisDirection
    dimension_count: int
    scales: tuple[float, ...]
    input_pixel_offsets: tuple[float, ...]
    output_pixel_offsets: tuple[float, ...]
    antialiased: bool
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, interpolation_mode: InterpolationMode | int, rounding_direction: AxisDirection | int, scales: Sequence[float], input_pixel_offsets: Sequence[float], output_pixel_offsets: Sequence[float], antialiased: bool) -> None: ...

class FoldOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    dimension_count: int
    window_sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, window_sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int]) -> None: ...

class UnfoldOperatorDesc(OperatorDesc):
    input_tensor: BufferTensorDesc
    output_tensor: BufferTensorDesc
    dimension_count: int
    window_sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]
    def __init__(self, *, input_tensor: BufferTensorDesc, output_tensor: BufferTensorDesc, window_sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int], start_padding: Sequence[int], end_padding: Sequence[int]) -> None: ...

ScatterElementsOperatorDesc = ScatterOperatorDesc

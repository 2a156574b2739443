"""DirectML's enumerations, with its numbers."""

import enum
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxdml._base.axis_direction import AxisDirection


class TensorDataType(enum.IntEnum):
    """The type of a tensor's elements, with the values of ``DML_TENSOR_DATA_TYPE``."""

    UNKNOWN = 0
    FLOAT32 = 1
    FLOAT16 = 2
    UINT32 = 3
    UINT16 = 4
    UINT8 = 5
    INT32 = 6
    INT16 = 7
    INT8 = 8
    FLOAT64 = 9
    UINT64 = 10
    INT64 = 11
    UINT4 = 12
    INT4 = 13

    @functools.cached_property
    def bits(self) -> int:
        """The width of an element; 0 for ``UNKNOWN``."""
        return int("".join(filter(str.isdigit, self.name)) or 0)

    @functools.cached_property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of an array of such elements; TypeError for ``UNKNOWN``."""
        return np.dtype(self.name.lower())


class TensorFlags(enum.IntFlag, boundary=enum.STRICT):
    """Flags of a tensor, with the values of ``DML_TENSOR_FLAGS``."""

    NONE = 0
    OWNED_BY_DML = 1


class FeatureLevel(enum.IntEnum):
    """What a device supports, with the values of ``DML_FEATURE_LEVEL``. Each level includes all lower ones."""

    LEVEL_1_0 = 0x1000
    LEVEL_2_0 = 0x2000
    LEVEL_2_1 = 0x2100
    LEVEL_3_0 = 0x3000
    LEVEL_3_1 = 0x3100
    LEVEL_4_0 = 0x4000
    LEVEL_4_1 = 0x4100
    LEVEL_5_0 = 0x5000
    LEVEL_5_1 = 0x5100
    LEVEL_5_2 = 0x5200
    LEVEL_6_0 = 0x6000
    LEVEL_6_1 = 0x6100
    LEVEL_6_2 = 0x6200
    LEVEL_6_3 = 0x6300
    LEVEL_6_4 = 0x6400

    @property
    def label(self) -> str:
        """The level as DirectML's pages write it, like ``3_1``."""
        return self.name.removeprefix("LEVEL_")


class ConvolutionMode(enum.IntEnum):
    """Whether a convolution reverses its filter, with the values of ``DML_CONVOLUTION_MODE``."""

    CONVOLUTION = 0
    CROSS_CORRELATION = 1


class ConvolutionDirection(enum.IntEnum):
    """A convolution or its transpose, with the values of ``DML_CONVOLUTION_DIRECTION``."""

    FORWARD = 0
    BACKWARD = 1


class DepthSpaceOrder(enum.IntEnum):
    """How channels are ordered, with the values of ``DML_DEPTH_SPACE_ORDER``."""

    DEPTH_COLUMN_ROW = 0
    COLUMN_ROW_DEPTH = 1


class InterpolationMode(enum.IntEnum):
    """How samples are interpolated, with the values of ``DML_INTERPOLATION_MODE``."""

    NEAREST_NEIGHBOR = 0
    LINEAR = 1


class IsInfinityMode(enum.IntEnum):
    """Which infinities are found, with the values of ``DML_IS_INFINITY_MODE``."""

    EITHER = 0
    POSITIVE = 1
    NEGATIVE = 2


class MatrixTransform(enum.IntEnum):
    """What a product does with a matrix first, with the values of ``DML_MATRIX_TRANSFORM``."""

    NONE = 0
    TRANSPOSE = 1


class MultiheadAttentionMaskType(enum.IntEnum):
    """What a mask means, with the values of ``DML_MULTIHEAD_ATTENTION_MASK_TYPE``."""

    NONE = 0
    KEY_SEQUENCE_LENGTH = 1
    KEY_SEQUENCE_END_START = 2
    KEY_QUERY_SEQUENCE_LENGTH_START_END = 3
    BOOLEAN = 4


class PaddingMode(enum.IntEnum):
    """What padding repeats, with the values of ``DML_PADDING_MODE``."""

    CONSTANT = 0
    EDGE = 1
    REFLECTION = 2
    SYMMETRIC = 3
    WRAP = 4

    @property
    def first_level(self) -> FeatureLevel:
        """The first level that has it."""
        later = {"SYMMETRIC": FeatureLevel.LEVEL_3_0, "WRAP": FeatureLevel.LEVEL_6_4}
        return later.get(self.name, FeatureLevel.LEVEL_1_0)


class QuantizationType(enum.IntEnum):
    """What the tensors of a quantization are, with the values of ``DML_QUANTIZATION_TYPE``."""

    NONE = 0
    SCALE = 1
    SCALE_ZERO_POINT = 2


class RandomGeneratorType(enum.IntEnum):
    """How random bits are made, with the values of ``DML_RANDOM_GENERATOR_TYPE``."""

    PHILOX_4X32_10 = 0


class RecurrentNetworkDirection(enum.IntEnum):
    """Which way a sequence is read, with the values of ``DML_RECURRENT_NETWORK_DIRECTION``."""

    FORWARD = 0
    BACKWARD = 1
    BIDIRECTIONAL = 2


class ReduceFunction(enum.IntEnum):
    """What a reduction computes, with the values of ``DML_REDUCE_FUNCTION``."""

    ARGMAX = 0
    ARGMIN = 1
    AVERAGE = 2
    L1 = 3
    L2 = 4
    LOG_SUM = 5
    LOG_SUM_EXP = 6
    MAX = 7
    MIN = 8
    MULTIPLY = 9
    SUM = 10
    SUM_SQUARE = 11


class RoundingMode(enum.IntEnum):
    """How numbers are rounded, with the values of ``DML_ROUNDING_MODE``."""

    HALVES_TO_NEAREST_EVEN = 0
    TOWARD_ZERO = 1
    TOWARD_INFINITY = 2


OF_FIELDS: Mapping[str, type[enum.IntEnum]] = {
    one.__name__: one
    for one in (
        AxisDirection,
        ConvolutionMode,
        ConvolutionDirection,
        DepthSpaceOrder,
        InterpolationMode,
        IsInfinityMode,
        MatrixTransform,
        MultiheadAttentionMaskType,
        PaddingMode,
        QuantizationType,
        RandomGeneratorType,
        RecurrentNetworkDirection,
        ReduceFunction,
        RoundingMode,
        TensorDataType,
    )
}
"""The enumerations of which structs have fields, by name."""

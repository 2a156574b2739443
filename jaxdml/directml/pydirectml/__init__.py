"""PyDirectML's module, name for name: its programs run on JAX when the line that imports it is changed.

``import jaxdml.directml.pydirectml as dml`` instead of ``import pydirectml as dml``. docs/departures.md says what is
different.
"""

from jaxdml.directml._enums import (
    ConvolutionDirection,
    ConvolutionMode,
    InterpolationMode,
    MatrixTransform,
    PaddingMode,
    RecurrentNetworkDirection,
    TensorDataType,
    TensorFlags,
)
from jaxdml.directml._fields import Size2D
from jaxdml.directml.pydirectml._device import Binding, Device, TensorData
from jaxdml.directml.pydirectml._enums import ExecutionFlags, OperatorType, OutputOptions
from jaxdml.directml.pydirectml._expressions import Expression, GraphBuilder, Model, input_tensor
from jaxdml.directml.pydirectml._functions import (
    FusedActivation,
    GRUOutputs,
    MaxPoolingOutputs,
    activation_identity,
    activation_linear,
    activation_relu,
    activation_sigmoid,
    activation_soft_max,
    activation_tanh,
    add,
    average_pooling,
    batch_normalization,
    convolution,
    divide,
    gather,
    gemm,
    gru,
    join,
    local_response_normalization,
    max_pooling,
    mean_variance_normalization,
    multiply,
    padding,
    reinterpret,
    slice,
    subtract,
    up_sample_2d,
    value_scale_2d,
)
from jaxdml.directml.pydirectml._tensors import TensorDesc

__all__ = [
    "Binding",
    "ConvolutionDirection",
    "ConvolutionMode",
    "Device",
    "ExecutionFlags",
    "Expression",
    "FusedActivation",
    "GRUOutputs",
    "GraphBuilder",
    "InterpolationMode",
    "MatrixTransform",
    "MaxPoolingOutputs",
    "Model",
    "OperatorType",
    "OutputOptions",
    "PaddingMode",
    "RecurrentNetworkDirection",
    "Size2D",
    "TensorData",
    "TensorDataType",
    "TensorDesc",
    "TensorFlags",
    "activation_identity",
    "activation_linear",
    "activation_relu",
    "activation_sigmoid",
    "activation_soft_max",
    "activation_tanh",
    "add",
    "average_pooling",
    "batch_normalization",
    "convolution",
    "divide",
    "gather",
    "gemm",
    "gru",
    "input_tensor",
    "join",
    "local_response_normalization",
    "max_pooling",
    "mean_variance_normalization",
    "multiply",
    "padding",
    "reinterpret",
    "slice",
    "subtract",
    "up_sample_2d",
    "value_scale_2d",
]

# As in C++, later enumerations cover members of earlier ones: NONE is that of ExecutionFlags.
for _kind in (
    *(TensorDataType, TensorFlags, MatrixTransform, RecurrentNetworkDirection, ConvolutionMode, ConvolutionDirection),
    *(InterpolationMode, PaddingMode, ExecutionFlags, OperatorType),
):
    globals().update(_kind.__members__)

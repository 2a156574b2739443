"""DirectML's structs, checked and turned into functions on arrays, for programs that are written against DirectML."""

from typing import TYPE_CHECKING, Any

from jaxdml._base.axis_direction import AxisDirection
from jaxdml.directml import _structs
from jaxdml.directml._compiled_graph import CompiledGraph, InitializedGraph, compile_graph
from jaxdml.directml._compiling import CompiledOperator, InitializedOperator, compile_operator
from jaxdml.directml._descs import OperatorDesc
from jaxdml.directml._display import describe
from jaxdml.directml._enums import (
    ConvolutionDirection,
    ConvolutionMode,
    DepthSpaceOrder,
    FeatureLevel,
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
    TensorFlags,
)
from jaxdml.directml._errors import InvalidDescError, Violation
from jaxdml.directml._fields import ScaleBias, Size2D
from jaxdml.directml._graph import ConstantNode, Graph, InputEdge, IntermediateEdge, OperatorNode, OutputEdge
from jaxdml.directml._json import from_json, to_json
from jaxdml.directml._support import TensorSupport
from jaxdml.directml._tables import SUPPORT, OperatorType
from jaxdml.directml._tensors import BufferTensorDesc

if TYPE_CHECKING:
    from jaxdml.directml._structs import *
else:

    def __getattr__(name: str) -> Any:
        return getattr(_structs, name)

    def __dir__() -> list[str]:
        return __all__


__all__ = [
    "SUPPORT",
    "AxisDirection",
    "BufferTensorDesc",
    "CompiledGraph",
    "CompiledOperator",
    "ConstantNode",
    "ConvolutionDirection",
    "ConvolutionMode",
    "DepthSpaceOrder",
    "FeatureLevel",
    "Graph",
    "InitializedGraph",
    "InitializedOperator",
    "InputEdge",
    "IntermediateEdge",
    "InterpolationMode",
    "InvalidDescError",
    "IsInfinityMode",
    "MatrixTransform",
    "MultiheadAttentionMaskType",
    "OperatorDesc",
    "OperatorNode",
    "OperatorType",
    "OutputEdge",
    "PaddingMode",
    "QuantizationType",
    "RandomGeneratorType",
    "RecurrentNetworkDirection",
    "ReduceFunction",
    "RoundingMode",
    "ScaleBias",
    "Size2D",
    "TensorDataType",
    "TensorFlags",
    "TensorSupport",
    "Violation",
    "compile_graph",
    "compile_operator",
    "describe",
    "from_json",
    "to_json",
]
__all__ += _structs.__all__

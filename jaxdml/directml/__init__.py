"""Carry programs written against DirectML over: its structs field by field, its constraints by name."""

from jaxdml._base.axis_direction import AxisDirection
from jaxdml.directml._compiling import CompiledOperator, compile_operator
from jaxdml.directml._descs import (
    OperatorDesc,
    QuantizedLinearMatrixMultiplyOperatorDesc,
    ScatterElementsOperatorDesc,
    ScatterNdOperatorDesc,
    ScatterOperatorDesc,
    TopK1OperatorDesc,
    TopKOperatorDesc,
)
from jaxdml.directml._display import describe
from jaxdml.directml._enums import FeatureLevel, OperatorType, TensorDataType, TensorFlags
from jaxdml.directml._errors import InvalidDescError, Violation
from jaxdml.directml._json import from_json, to_json
from jaxdml.directml._support import SUPPORT, TensorSupport
from jaxdml.directml._tensors import BufferTensorDesc

__all__ = [
    "SUPPORT",
    "AxisDirection",
    "BufferTensorDesc",
    "CompiledOperator",
    "FeatureLevel",
    "InvalidDescError",
    "OperatorDesc",
    "OperatorType",
    "QuantizedLinearMatrixMultiplyOperatorDesc",
    "ScatterElementsOperatorDesc",
    "ScatterNdOperatorDesc",
    "ScatterOperatorDesc",
    "TensorDataType",
    "TensorFlags",
    "TensorSupport",
    "TopK1OperatorDesc",
    "TopKOperatorDesc",
    "Violation",
    "compile_operator",
    "describe",
    "from_json",
    "to_json",
]

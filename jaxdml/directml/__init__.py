"""DirectML's structs, checked and turned into functions on arrays, for programs that are written against DirectML."""

from jaxdml._base.axis_direction import AxisDirection
from jaxdml.directml._compiling import CompiledOperator, InitializedOperator, compile_operator
from jaxdml.directml._descs import OperatorDesc
from jaxdml.directml._display import describe
from jaxdml.directml._enums import FeatureLevel, TensorDataType, TensorFlags
from jaxdml.directml._errors import InvalidDescError, Violation
from jaxdml.directml._json import from_json, to_json
from jaxdml.directml._support import TensorSupport
from jaxdml.directml._tables import SUPPORT, OperatorType
from jaxdml.directml._tensors import BufferTensorDesc
from jaxdml.directml.structs.matrix_multiply_integer import MatrixMultiplyIntegerOperatorDesc
from jaxdml.directml.structs.quantized_linear_add import ElementWiseQuantizedLinearAddOperatorDesc
from jaxdml.directml.structs.quantized_linear_average_pooling import QuantizedLinearAveragePoolingOperatorDesc
from jaxdml.directml.structs.quantized_linear_matrix_multiply import QuantizedLinearMatrixMultiplyOperatorDesc
from jaxdml.directml.structs.scatter_elements import ScatterElementsOperatorDesc, ScatterOperatorDesc
from jaxdml.directml.structs.scatter_nd import ScatterNdOperatorDesc
from jaxdml.directml.structs.top_k import TopK1OperatorDesc, TopKOperatorDesc

__all__ = [
    "SUPPORT",
    "AxisDirection",
    "BufferTensorDesc",
    "CompiledOperator",
    "ElementWiseQuantizedLinearAddOperatorDesc",
    "FeatureLevel",
    "InitializedOperator",
    "InvalidDescError",
    "MatrixMultiplyIntegerOperatorDesc",
    "OperatorDesc",
    "OperatorType",
    "QuantizedLinearAveragePoolingOperatorDesc",
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

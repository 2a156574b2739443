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
from jaxdml.directml.structs._quantization import QuantizationType
from jaxdml.directml.structs.argmax import ArgmaxOperatorDesc
from jaxdml.directml.structs.argmin import ArgminOperatorDesc
from jaxdml.directml.structs.convolution_integer import ConvolutionIntegerOperatorDesc
from jaxdml.directml.structs.dequantize_linear import DequantizeOperatorDesc, ElementWiseDequantizeLinearOperatorDesc
from jaxdml.directml.structs.dynamic_quantize_linear import DynamicQuantizeLinearOperatorDesc
from jaxdml.directml.structs.gather import GatherOperatorDesc
from jaxdml.directml.structs.gather_elements import GatherElementsOperatorDesc
from jaxdml.directml.structs.gather_nd import GatherNd1OperatorDesc, GatherNdOperatorDesc
from jaxdml.directml.structs.matrix_multiply_integer import MatrixMultiplyIntegerOperatorDesc
from jaxdml.directml.structs.matrix_multiply_integer_to_float import MatrixMultiplyIntegerToFloatOperatorDesc
from jaxdml.directml.structs.quantize_linear import ElementWiseQuantizeLinearOperatorDesc, QuantizeOperatorDesc
from jaxdml.directml.structs.quantized_linear_add import ElementWiseQuantizedLinearAddOperatorDesc
from jaxdml.directml.structs.quantized_linear_average_pooling import QuantizedLinearAveragePoolingOperatorDesc
from jaxdml.directml.structs.quantized_linear_convolution import QuantizedLinearConvolutionOperatorDesc
from jaxdml.directml.structs.quantized_linear_matrix_multiply import QuantizedLinearMatrixMultiplyOperatorDesc
from jaxdml.directml.structs.scatter_elements import ScatterElementsOperatorDesc, ScatterOperatorDesc
from jaxdml.directml.structs.scatter_nd import ScatterNdOperatorDesc
from jaxdml.directml.structs.top_k import TopK1OperatorDesc, TopKOperatorDesc

__all__ = [
    "SUPPORT",
    "ArgmaxOperatorDesc",
    "ArgminOperatorDesc",
    "AxisDirection",
    "BufferTensorDesc",
    "CompiledOperator",
    "ConvolutionIntegerOperatorDesc",
    "DequantizeOperatorDesc",
    "DynamicQuantizeLinearOperatorDesc",
    "ElementWiseDequantizeLinearOperatorDesc",
    "ElementWiseQuantizeLinearOperatorDesc",
    "ElementWiseQuantizedLinearAddOperatorDesc",
    "FeatureLevel",
    "GatherElementsOperatorDesc",
    "GatherNd1OperatorDesc",
    "GatherNdOperatorDesc",
    "GatherOperatorDesc",
    "InitializedOperator",
    "InvalidDescError",
    "MatrixMultiplyIntegerOperatorDesc",
    "MatrixMultiplyIntegerToFloatOperatorDesc",
    "OperatorDesc",
    "OperatorType",
    "QuantizationType",
    "QuantizeOperatorDesc",
    "QuantizedLinearAveragePoolingOperatorDesc",
    "QuantizedLinearConvolutionOperatorDesc",
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

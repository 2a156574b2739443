"""DirectML's structs, one file an operator: the fields, the feature levels, the constraints, the options, the call."""

from jaxdml.directml._descs import OperatorDesc
from jaxdml.directml.structs.quantized_linear_matrix_multiply import QuantizedLinearMatrixMultiplyOperatorDesc
from jaxdml.directml.structs.scatter_elements import ScatterOperatorDesc
from jaxdml.directml.structs.scatter_nd import ScatterNdOperatorDesc
from jaxdml.directml.structs.top_k import TopK1OperatorDesc, TopKOperatorDesc

STRUCTS: tuple[type[OperatorDesc], ...] = (
    TopKOperatorDesc,
    TopK1OperatorDesc,
    ScatterOperatorDesc,
    ScatterNdOperatorDesc,
    QuantizedLinearMatrixMultiplyOperatorDesc,
)

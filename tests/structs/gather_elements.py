"""Second copies of what DirectML's header and page say of GATHER_ELEMENTS."""

import jaxdml
from jaxdml import directml as dml
from tests.directml_descs import FLOAT32, INT64, UINT32, Struct, tensor

BROKEN = {
    "IndicesTensor has the sizes of InputTensor but for Axis": (
        {"indices_tensor": tensor(UINT32, 1, 1, 2, 3), "output_tensor": tensor(FLOAT32, 1, 1, 2, 3)},
        "IndicesTensor.Sizes must be [1, 1, 2, 4], those of InputTensor except along Axis; got [1, 1, 2, 3].",
    ),
    "OutputTensor has the sizes of IndicesTensor": (
        {"output_tensor": tensor(FLOAT32, 1, 1, 3, 4)},
        "OutputTensor.Sizes must be [1, 1, 2, 4], those of IndicesTensor; got [1, 1, 3, 4].",
    ),
    "OutputTensor has the DataType of InputTensor": (
        {"output_tensor": tensor(INT64, 1, 1, 2, 4)},
        "OutputTensor.DataType must be FLOAT32, as in InputTensor; got INT64.",
    ),
    "Axis ranges below the DimensionCount": (
        {"axis": 9},
        "Axis must be less than 4, InputTensor.DimensionCount; got 9.",
    ),
    "all three have the same DimensionCount": (
        {"output_tensor": tensor(FLOAT32, 2, 4)},
        "OutputTensor.DimensionCount must be 4, as in InputTensor; got 2.",
    ),
}  # fmt: skip

STRUCTS = (
    Struct(
        dml.GatherElementsOperatorDesc(
            input_tensor=tensor(FLOAT32, 1, 1, 3, 4),
            indices_tensor=tensor(UINT32, 1, 1, 2, 4),
            output_tensor=tensor(FLOAT32, 1, 1, 2, 4),
            axis=2,
        ),
        names={"GATHER_ELEMENTS": 107},
        fields="input_tensor indices_tensor output_tensor axis",
        table="""
2_1 input output | 4 | FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8
2_1 indices | 4 | UINT32
3_0 input output | 1-8 | FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8
3_0 indices | 1-8 | INT64 INT32 UINT64 UINT32
4_1 input output | 1-8 | FLOAT64 FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8
4_1 indices | 1-8 | INT64 INT32 UINT64 UINT32
""",
        public=lambda desc, *inputs: jaxdml.gather_elements(*inputs, axis=desc.axis),
        alike=(("DimensionCount", "Input Indices Output"), ("DataType", "Input Output")),
        broken=BROKEN,
        of_ones={"axis": 0},
    ),
)

"""Second copies of what DirectML's header and page say of GATHER."""

import jaxdml
from jaxdml import directml as dml
from tests.directml_descs import FLOAT32, UINT8, UINT32, Struct, tensor

BROKEN = {
    "IndicesTensor has the DimensionCount of InputTensor": (
        {"indices_tensor": tensor(UINT32, 5), "index_dimensions": 1},
        "IndicesTensor.DimensionCount must be 4, as in InputTensor; got 1.",
    ),
    "OutputTensor has the DimensionCount of InputTensor": (
        {"output_tensor": tensor(FLOAT32, 5, 4)},
        "OutputTensor.DimensionCount must be 4, as in InputTensor; got 2.",
    ),
    "OutputTensor has the DataType of InputTensor": (
        {"output_tensor": tensor(UINT8, 1, 2, 5, 4)},
        "OutputTensor.DataType must be FLOAT32, as in InputTensor; got UINT8.",
    ),
    "Axis ranges below the DimensionCount": (
        {"axis": 4},
        "Axis must be less than 4, InputTensor.DimensionCount; got 4.",
    ),
    "IndexDimensions ranges to the DimensionCount (here: inclusive)": (
        {"index_dimensions": 5},
        "IndexDimensions must be between 0 and 4, IndicesTensor.DimensionCount; got 5.",
    ),
    "the dimensions of IndicesTensor that do not count have size 1": (
        {"index_dimensions": 1},
        "IndicesTensor.Sizes must be 1 in all dimensions but the last 1, IndexDimensions; got [1, 1, 2, 5].",
    ),
    "OutputTensor has the sizes of InputTensor with those of the indices at Axis": (
        {"output_tensor": tensor(FLOAT32, 1, 3, 5, 4)},
        "OutputTensor.Sizes must be [1, 2, 5, 4], the sizes of InputTensor with the last IndexDimensions of "
        "IndicesTensor at Axis; got [1, 3, 5, 4].",
    ),
    "without a dimension of indices the output has one more leading 1": (
        {"indices_tensor": tensor(UINT32, 1, 1, 1, 1), "index_dimensions": 0},
        "OutputTensor.Sizes must be [1, 1, 1, 4], the sizes of InputTensor with the last IndexDimensions of "
        "IndicesTensor at Axis; got [1, 2, 5, 4].",
    ),
    "InputTensor has as many leading 1s as the indices add dimensions": (
        {"input_tensor": tensor(FLOAT32, 2, 3, 3, 4)},
        "OutputTensor.DimensionCount must hold the sizes [2, 3, 2, 5, 4], the sizes of InputTensor with the last "
        "IndexDimensions of IndicesTensor at Axis; got 4.",
    ),
}  # fmt: skip

STRUCTS = (
    Struct(
        dml.GatherOperatorDesc(
            input_tensor=tensor(FLOAT32, 1, 1, 3, 4),
            indices_tensor=tensor(UINT32, 1, 1, 2, 5),
            output_tensor=tensor(FLOAT32, 1, 2, 5, 4),
            axis=2,
            index_dimensions=2,
        ),
        names={"GATHER": 67},
        fields="input_tensor indices_tensor output_tensor axis index_dimensions",
        table="""
1_0 input output | 4 | FLOAT32 FLOAT16
1_0 indices | 4 | UINT32
2_1 input output | 4 | FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8
2_1 indices | 4 | UINT32
3_0 input output | 1-8 | FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8
3_0 indices | 1-8 | INT64 INT32 UINT64 UINT32
4_1 input output | 1-8 | FLOAT64 FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8
4_1 indices | 1-8 | INT64 INT32 UINT64 UINT32
""",
        public=lambda desc, x, indices: jaxdml.gather(
            x, indices.reshape(indices.shape[indices.ndim - desc.index_dimensions :]), axis=desc.axis
        ).reshape(desc.output_tensor.sizes),
        alike=(("DimensionCount", "Input Indices Output"), ("DataType", "Input Output")),
        broken=BROKEN,
        of_ones={"axis": 0, "index_dimensions": 1},
    ),
)

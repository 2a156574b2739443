"""Second copies of what DirectML's header and page say of SCATTER_ND."""

import jaxdml
from jaxdml import directml as dml
from tests.directml_descs import FLOAT32, UINT32, Struct, tensor

BROKEN = {
    "IndicesTensor has the DimensionCount of InputTensor": (
        {"indices_tensor": tensor(UINT32, 6, 2)},
        "IndicesTensor.DimensionCount must be 4, as in InputTensor; got 2.",
    ),
    "a tuple has no more coordinates than InputTensor has dimensions that count": (
        {"indices_tensor": tensor(UINT32, 1, 1, 6, 4)},
        "IndicesTensor.Sizes must end in at most 3, InputDimensionCount, since a tuple has one entry a dimension; "
        "got [1, 1, 6, 4].",
    ),
    "UpdatesTensor has the DimensionCount of InputTensor": (
        {"updates_tensor": tensor(FLOAT32, 6, 5)},
        "UpdatesTensor.DimensionCount must be 4, as in InputTensor; got 2.",
    ),
    "UpdatesTensor has the leading sizes of IndicesTensor and the trailing ones of InputTensor": (
        {"updates_tensor": tensor(FLOAT32, 1, 1, 6, 4)},
        "UpdatesTensor.Sizes must be [1, 1, 6, 5], the leading sizes of IndicesTensor and the trailing ones of "
        "InputTensor; got [1, 1, 6, 4].",
    ),
    "the sizes of UpdatesTensor are aligned to the right, after leading 1s": (
        {"updates_tensor": tensor(FLOAT32, 6, 5, 1, 1)},
        "UpdatesTensor.Sizes must be [1, 1, 6, 5], the leading sizes of IndicesTensor and the trailing ones of "
        "InputTensor; got [6, 5, 1, 1].",
    ),
    "UpdatesTensor has as many dimensions as its sizes take": (
        {"input_tensor": tensor(FLOAT32, 3, 5), "output_tensor": tensor(FLOAT32, 3, 5),
            "indices_tensor": tensor(UINT32, 6, 1), "updates_tensor": tensor(FLOAT32, 6),
            "input_dimension_count": 2, "indices_dimension_count": 2},
        "UpdatesTensor.DimensionCount must be 2, as in InputTensor; got 1.",
        "UpdatesTensor.DimensionCount must be at least 2, for updates of [6, 5]; got 1.",
    ),
    "OutputTensor has the sizes of InputTensor": (
        {"output_tensor": tensor(FLOAT32, 1, 3, 4, 6)},
        "OutputTensor.Sizes must be [1, 3, 4, 5], those of InputTensor; got [1, 3, 4, 6].",
    ),
    "OutputTensor has the DataType of InputTensor": (
        {"output_tensor": tensor(UINT32, 1, 3, 4, 5)},
        "OutputTensor.DataType must be FLOAT32, as in InputTensor; got UINT32.",
    ),
    "InputDimensionCount ranges from 1": (
        {"input_dimension_count": 0},
        "InputDimensionCount must be between 1 and 4, InputTensor.DimensionCount; got 0.",
    ),
    "InputDimensionCount ranges to the DimensionCount (here: inclusive)": (
        {"input_dimension_count": 5},
        "InputDimensionCount must be between 1 and 4, InputTensor.DimensionCount; got 5.",
    ),
    "IndicesDimensionCount ranges from 1": (
        {"indices_dimension_count": 0},
        "IndicesDimensionCount must be between 1 and 4, IndicesTensor.DimensionCount; got 0.",
    ),
    "IndicesDimensionCount ranges to the DimensionCount (here: inclusive)": (
        {"indices_dimension_count": 2**32 - 1},
        "IndicesDimensionCount must be between 1 and 4, IndicesTensor.DimensionCount; got 4294967295.",
    ),
    "the dimensions of InputTensor that do not count are irrelevant": (
        {"input_tensor": tensor(FLOAT32, 2, 3, 4, 5), "output_tensor": tensor(FLOAT32, 2, 3, 4, 5)},
        "InputTensor.Sizes must be 1 in all dimensions but the last 3, InputDimensionCount; got [2, 3, 4, 5].",
    ),
    "the dimensions of IndicesTensor that do not count are irrelevant": (
        {"indices_tensor": tensor(UINT32, 1, 3, 6, 2)},
        "IndicesTensor.Sizes must be 1 in all dimensions but the last 2, IndicesDimensionCount; "
        "got [1, 3, 6, 2].",
    ),
}  # fmt: skip

STRUCTS = (
    Struct(
        dml.ScatterNdOperatorDesc(
            input_tensor=tensor(FLOAT32, 1, 3, 4, 5),
            indices_tensor=tensor(UINT32, 1, 1, 6, 2),
            updates_tensor=tensor(FLOAT32, 1, 1, 6, 5),
            output_tensor=tensor(FLOAT32, 1, 3, 4, 5),
            input_dimension_count=3,
            indices_dimension_count=2,
        ),
        names={"SCATTER_ND": 109},
        fields="input_tensor indices_tensor updates_tensor output_tensor input_dimension_count indices_dimension_count",
        table="""
2_1 input updates output | 4 | FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8
2_1 indices | 4 | UINT32
3_0 input updates output | 1-8 | FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8
3_0 indices | 1-8 | INT64 INT32 UINT64 UINT32
4_1 input updates output | 1-8 | FLOAT64 FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8
4_1 indices | 1-8 | INT64 INT32 UINT64 UINT32
""",
        public=lambda desc, *inputs: jaxdml.scatter_nd(*inputs),
        alike=(
            ("DimensionCount", "Input Indices Updates Output"),
            ("DataType", "Input Updates Output"),
        ),
        broken=BROKEN,
        of_ones={"input_dimension_count": 1, "indices_dimension_count": 1},
    ),
)

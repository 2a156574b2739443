"""Second copies of what DirectML's header and pages say of TOP_K and TOP_K1."""

import jaxdml
from jaxdml import directml as dml
from tests.directml_descs import FLOAT16, FLOAT32, UINT32, Struct, tensor

FIELDS = "input_tensor output_value_tensor output_index_tensor axis k"
ALIKE = (("DimensionCount", "Input OutputValue OutputIndex"), ("DataType", "Input OutputValue"))
TENSORS = {
    "input_tensor": tensor(FLOAT32, 1, 1, 3, 4),
    "output_value_tensor": tensor(FLOAT32, 1, 1, 3, 2),
    "output_index_tensor": tensor(UINT32, 1, 1, 3, 2),
}
TABLE = """
2_1 input output_value | 4 | FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8
2_1 output_index | 4 | UINT32
3_1 input output_value | 1-8 | FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8
3_1 output_index | 1-8 | UINT32
5_0 input output_value | 1-8 | FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8
5_0 output_index | 1-8 | UINT64 UINT32
"""
BROKEN = {
    "OutputValueTensor has the sizes of InputTensor but for Axis": (
        {"output_value_tensor": tensor(FLOAT32, 1, 1, 2, 2)},
        "OutputValueTensor.Sizes must be [1, 1, 3, 2], those of InputTensor with K at Axis; got [1, 1, 2, 2].",
    ),
    "OutputIndexTensor has the sizes of InputTensor but for Axis": (
        {"output_index_tensor": tensor(UINT32, 1, 1, 3, 4)},
        "OutputIndexTensor.Sizes must be [1, 1, 3, 2], those of InputTensor with K at Axis; got [1, 1, 3, 4].",
    ),
    "Axis is less than the DimensionCount of InputTensor": (
        {"axis": 4},
        "Axis must be less than 4, InputTensor.DimensionCount; got 4.",
    ),
    "K is greater than 0": ({"k": 0}, "K must be between 1 and 4, InputTensor.Sizes[3]; got 0."),
    "K is less than the elements along Axis (here: or equal)": (
        {"k": 5},
        "K must be between 1 and 4, InputTensor.Sizes[3]; got 5.",
    ),
    "all three have the same DimensionCount": (
        {"output_index_tensor": tensor(UINT32, 3, 2)},
        "OutputIndexTensor.DimensionCount must be 4, as in InputTensor; got 2.",
    ),
    "InputTensor and OutputValueTensor have the same DataType": (
        {"output_value_tensor": tensor(FLOAT16, 1, 1, 3, 2)},
        "OutputValueTensor.DataType must be FLOAT32, as in InputTensor; got FLOAT16.",
    ),
}

STRUCTS = (
    Struct(
        dml.TopKOperatorDesc(**TENSORS, axis=3, k=2),
        names={"TOP_K": 71},
        fields=FIELDS,
        table="""
2_0 input output_value | 4 | FLOAT32 FLOAT16
2_0 output_index | 4 | UINT32
"""
        + TABLE,
        public=lambda desc, x: jaxdml.top_k(x, desc.k, axis=desc.axis, index_dtype="uint32"),
        alike=ALIKE,
        broken=BROKEN,
        of_ones={"axis": 0, "k": 1},
    ),
    Struct(
        dml.TopK1OperatorDesc(**TENSORS, axis=3, k=2, axis_direction=dml.AxisDirection.DECREASING),
        names={"TOP_K1": 112},
        fields=f"{FIELDS} axis_direction",
        table=TABLE,
        public=lambda desc, x: jaxdml.top_k(
            x, desc.k, axis=desc.axis, direction=desc.axis_direction, index_dtype="uint32"
        ),
        alike=ALIKE,
        broken=BROKEN,
        of_ones={"axis": 0, "k": 1},
    ),
)

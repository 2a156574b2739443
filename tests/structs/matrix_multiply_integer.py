"""Second copies of what DirectML's header and page say of MATRIX_MULTIPLY_INTEGER."""

import jaxdml
from jaxdml import directml as dml
from tests.directml_descs import INT8, UINT8, Struct, tensor

INT32 = dml.TensorDataType.INT32

BROKEN = {
    "ATensor is {BatchCount, ChannelCount, M, K}": (
        {"a_tensor": tensor(UINT8, 1, 2, 3, 7)},
        "BTensor.Sizes must be [1, 2, 7, 5], the batch of ATensor and as many rows as that has columns; "
        "got [1, 2, 4, 5].",
    ),
    "BTensor is {BatchCount, ChannelCount, K, N}": (
        {"b_tensor": tensor(INT8, 1, 1, 4, 5)},
        "BTensor.Sizes must be [1, 2, 4, 5], the batch of ATensor and as many rows as that has columns; "
        "got [1, 1, 4, 5].",
    ),
    "OutputTensor is {BatchCount, ChannelCount, M, N}": (
        {"output_tensor": tensor(INT32, 1, 2, 5, 3)},
        "OutputTensor.Sizes must be [1, 2, 3, 5], the rows of ATensor and the columns of BTensor; got [1, 2, 5, 3].",
    ),
    "OutputTensor is INT32": (
        {"output_tensor": tensor(INT8, 1, 2, 3, 5)},
        "OutputTensor.DataType must be INT32 at feature level 6_4; got INT8.",
    ),
    "the product takes 4 dimensions (the table: 2 to 4)": (
        {"a_tensor": tensor(UINT8, 1, 1, 2, 3, 4), "b_tensor": tensor(INT8, 1, 1, 2, 4, 5),
            "output_tensor": tensor(INT32, 1, 1, 2, 3, 5)},
        "ATensor.DimensionCount must be between 2 and 4 at feature level 6_4; got 5.",
        "BTensor.DimensionCount must be between 2 and 4 at feature level 6_4; got 5.",
        "OutputTensor.DimensionCount must be between 2 and 4 at feature level 6_4; got 5.",
    ),
    "AZeroPointTensor is {1, 1, 1, 1} or {1, 1, M, 1}": (
        {"a_zero_point_tensor": tensor(UINT8, 1, 2, 1, 1)},
        "AZeroPointTensor.Sizes must be [1, 1, 1, 1] or [1, 1, 3, 1], one for ATensor or one for each row of it; "
        "got [1, 2, 1, 1].",
    ),
    "BZeroPointTensor is {1, 1, 1, 1} or {1, 1, 1, N}": (
        {"b_zero_point_tensor": tensor(INT8, 1, 2, 1, 1)},
        "BZeroPointTensor.Sizes must be [1, 1, 1, 1] or [1, 1, 1, 5], one for BTensor or one for each column of it; "
        "got [1, 2, 1, 1].",
    ),
    "AZeroPointTensor, of another DimensionCount than ATensor, has one element for each row": (
        {"a_zero_point_tensor": tensor(UINT8, 5)},
        "AZeroPointTensor.Sizes must be [1] or [3], one for ATensor or one for each row of it; got [5].",
    ),
    "BZeroPointTensor, of another DimensionCount than BTensor, has one element for each column": (
        {"b_zero_point_tensor": tensor(INT8, 5, 1)},
        "BZeroPointTensor.Sizes must be [1, 1] or [1, 5], one for BTensor or one for each column of it; got [5, 1].",
    ),
    "ATensor, BTensor and OutputTensor have the same DimensionCount": (
        {"output_tensor": tensor(INT32, 2, 3, 5)},
        "OutputTensor.DimensionCount must be 4, as in ATensor; got 3.",
    ),
    "ATensor and AZeroPointTensor have the same DataType": (
        {"a_zero_point_tensor": tensor(INT8, 1, 1, 3, 1)},
        "AZeroPointTensor.DataType must be UINT8, as in ATensor; got INT8.",
    ),
    "BTensor and BZeroPointTensor have the same DataType": (
        {"b_zero_point_tensor": tensor(UINT8, 1, 1, 1, 1)},
        "BZeroPointTensor.DataType must be INT8, as in BTensor; got UINT8.",
    ),
}  # fmt: skip

STRUCTS = (
    Struct(
        dml.MatrixMultiplyIntegerOperatorDesc(
            a_tensor=tensor(UINT8, 1, 2, 3, 4),
            a_zero_point_tensor=tensor(UINT8, 1, 1, 3, 1),
            b_tensor=tensor(INT8, 1, 2, 4, 5),
            b_zero_point_tensor=tensor(INT8, 1, 1, 1, 1),
            output_tensor=tensor(INT32, 1, 2, 3, 5),
        ),
        names={"MATRIX_MULTIPLY_INTEGER": 117},
        fields="a_tensor a_zero_point_tensor b_tensor b_zero_point_tensor output_tensor",
        table="""
2_1 a b a_zero_point b_zero_point | 4 | INT8 UINT8
2_1 output | 4 | INT32
4_0 a b b_zero_point | 2-4 | INT8 UINT8
4_0 a_zero_point | 1-4 | INT8 UINT8
4_0 output | 2-4 | INT32
5_2 a b | 2-4 | INT8 UINT8
5_2 a_zero_point b_zero_point | 1-4 | INT8 UINT8
5_2 output | 2-4 | INT32
""",
        public=lambda desc, *inputs: jaxdml.matrix_multiply_integer(*inputs),
        alike=(
            ("DimensionCount", "A B Output"),
            *(("DataType", f"{of} {of}ZeroPoint") for of in ("A", "B")),
        ),
        broken=BROKEN,
        of_ones={},
    ),
)

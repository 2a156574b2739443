"""Second copies of what DirectML's header and page say of MATRIX_MULTIPLY_INTEGER_TO_FLOAT.

The page's table also has integers of 16 and 32 bits, and the page wants one data type for A and B. docs/departures.md
says why neither is here.
"""

import jaxdml
from jaxdml import directml as dml
from tests.directml_descs import FLOAT16, FLOAT32, INT8, UINT8, Struct, tensor

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
        {"output_tensor": tensor(FLOAT32, 1, 2, 5, 3), "bias_tensor": None},
        "OutputTensor.Sizes must be [1, 2, 3, 5], the rows of ATensor and the columns of BTensor; got [1, 2, 5, 3].",
    ),
    "BiasTensor is {BatchCount, ChannelCount, M, N}": (
        {"bias_tensor": tensor(FLOAT32, 1, 1, 1, 5)},
        "BiasTensor.Sizes must be [1, 2, 3, 5], those of OutputTensor; got [1, 1, 1, 5].",
    ),
    "the product takes 4 dimensions (the table: 2 to 4)": (
        {"a_tensor": tensor(UINT8, 1, 1, 2, 3, 4), "b_tensor": tensor(INT8, 1, 1, 2, 4, 5),
            "bias_tensor": tensor(FLOAT32, 1, 1, 2, 3, 5), "output_tensor": tensor(FLOAT32, 1, 1, 2, 3, 5)},
        "ATensor.DimensionCount must be between 2 and 4 at feature level 6_4; got 5.",
        "BTensor.DimensionCount must be between 2 and 4 at feature level 6_4; got 5.",
        "BiasTensor.DimensionCount must be between 2 and 4 at feature level 6_4; got 5.",
        "OutputTensor.DimensionCount must be between 2 and 4 at feature level 6_4; got 5.",
    ),
    **{
        f"{field} is {{1, 1, 1, 1}} or {alternative}": (
            {name: tensor(kind, 1, 2, 1, 1)},
            f"{field}.Sizes must be [1, 1, 1, 1] or {sizes}, one for {of} or one for each {each} of it; "
            "got [1, 2, 1, 1].",
        )
        for name, field, kind, of, each, alternative, sizes in (
            ("a_scale_tensor", "AScaleTensor", FLOAT32, "ATensor", "row", "{1, 1, M, 1}", "[1, 1, 3, 1]"),
            ("a_zero_point_tensor", "AZeroPointTensor", UINT8, "ATensor", "row", "{1, 1, M, 1}", "[1, 1, 3, 1]"),
            ("b_scale_tensor", "BScaleTensor", FLOAT32, "BTensor", "column", "{1, 1, 1, N}", "[1, 1, 1, 5]"),
            ("b_zero_point_tensor", "BZeroPointTensor", INT8, "BTensor", "column", "{1, 1, 1, N}", "[1, 1, 1, 5]"),
        )
    },
    "the four scale and zero-point tensors have the same DimensionCount": (
        {"b_zero_point_tensor": tensor(INT8, 1)},
        "BZeroPointTensor.DimensionCount must be 4, as in AScaleTensor; got 1.",
    ),
    "ATensor, BTensor and OutputTensor have the same DimensionCount": (
        {"output_tensor": tensor(FLOAT32, 2, 3, 5), "bias_tensor": None},
        "OutputTensor.DimensionCount must be 4, as in ATensor; got 3.",
    ),
    "ATensor and BiasTensor have the same DimensionCount": (
        {"bias_tensor": tensor(FLOAT32, 2, 3, 5)},
        "BiasTensor.DimensionCount must be 4, as in ATensor; got 3.",
    ),
    "ATensor and AZeroPointTensor have the same DataType": (
        {"a_zero_point_tensor": tensor(INT8, 1, 1, 3, 1)},
        "AZeroPointTensor.DataType must be UINT8, as in ATensor; got INT8.",
    ),
    "BTensor and BZeroPointTensor have the same DataType": (
        {"b_zero_point_tensor": tensor(UINT8, 1, 1, 1, 1)},
        "BZeroPointTensor.DataType must be INT8, as in BTensor; got UINT8.",
    ),
    "the scales, BiasTensor and OutputTensor have the same DataType": (
        {"a_scale_tensor": tensor(FLOAT16, 1, 1, 3, 1)},
        "BScaleTensor.DataType must be FLOAT16, as in AScaleTensor; got FLOAT32.",
        "BiasTensor.DataType must be FLOAT16, as in AScaleTensor; got FLOAT32.",
        "OutputTensor.DataType must be FLOAT16, as in AScaleTensor; got FLOAT32.",
    ),
}  # fmt: skip

STRUCTS = (
    Struct(
        dml.MatrixMultiplyIntegerToFloatOperatorDesc(
            a_tensor=tensor(UINT8, 1, 2, 3, 4),
            a_scale_tensor=tensor(FLOAT32, 1, 1, 3, 1),
            a_zero_point_tensor=tensor(UINT8, 1, 1, 3, 1),
            b_tensor=tensor(INT8, 1, 2, 4, 5),
            b_scale_tensor=tensor(FLOAT32, 1, 1, 1, 5),
            b_zero_point_tensor=tensor(INT8, 1, 1, 1, 1),
            bias_tensor=tensor(FLOAT32, 1, 2, 3, 5),
            output_tensor=tensor(FLOAT32, 1, 2, 3, 5),
        ),
        names={"MATRIX_MULTIPLY_INTEGER_TO_FLOAT": 170},
        fields="a_tensor a_scale_tensor a_zero_point_tensor b_tensor b_scale_tensor b_zero_point_tensor bias_tensor "
        "output_tensor",
        table="""
6_2 a b | 2-4 | INT8 UINT8
6_2 a_scale b_scale | 1-4 | FLOAT32 FLOAT16
6_2 a_zero_point b_zero_point | 1-4 | INT8 UINT8
6_2 bias output | 2-4 | FLOAT32 FLOAT16
""",
        public=lambda desc, *inputs: jaxdml.matrix_multiply_integer_to_float(
            *inputs, output_dtype=desc.output_tensor.data_type.dtype
        ),
        alike=(
            ("DimensionCount", "A B Output Bias"),
            ("DimensionCount", "AScale AZeroPoint BScale BZeroPoint"),
            *(("DataType", f"{of} {of}ZeroPoint") for of in ("A", "B")),
            ("DataType", "AScale BScale Bias Output"),
        ),
        broken=BROKEN,
        of_ones={},
    ),
)

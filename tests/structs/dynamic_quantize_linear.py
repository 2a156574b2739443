"""Second copies of what DirectML's header and page say of DYNAMIC_QUANTIZE_LINEAR."""

import jaxdml
from jaxdml import directml as dml
from tests.directml_descs import FLOAT16, FLOAT32, INT8, UINT8, Struct, tensor


def public(desc, x):
    """Call the operator, and give its scale and zero point the rank of the input."""
    output, scale, zero_point = jaxdml.dynamic_quantize_linear(x, output_dtype="int8")
    return jaxdml.DynamicQuantization(output, scale.reshape(1, 1, 1, 1), zero_point.reshape(1, 1, 1, 1))


BROKEN = {
    "all four tensors have one DimensionCount": (
        {"output_scale_tensor": tensor(FLOAT32, 1)},
        "OutputScaleTensor.DimensionCount must be 4, as in InputTensor; got 1.",
    ),
    "OutputTensor has the sizes of InputTensor": (
        {"output_tensor": tensor(INT8, 1, 2, 4, 3)},
        "OutputTensor.Sizes must be [1, 2, 3, 4], those of InputTensor; got [1, 2, 4, 3].",
    ),
    "OutputScaleTensor has one element": (
        {"output_scale_tensor": tensor(FLOAT32, 1, 2, 1, 1)},
        "OutputScaleTensor.Sizes must be [1, 1, 1, 1], one element; got [1, 2, 1, 1].",
    ),
    "OutputZeroPointTensor has one element": (
        {"output_zero_point_tensor": tensor(INT8, 1, 1, 1, 4)},
        "OutputZeroPointTensor.Sizes must be [1, 1, 1, 1], one element; got [1, 1, 1, 4].",
    ),
    "OutputTensor and OutputZeroPointTensor have the same DataType": (
        {"output_zero_point_tensor": tensor(UINT8, 1, 1, 1, 1)},
        "OutputZeroPointTensor.DataType must be INT8, as in OutputTensor; got UINT8.",
    ),
    "OutputScaleTensor is FLOAT32, for FLOAT16 too": (
        {"input_tensor": tensor(FLOAT16, 1, 2, 3, 4), "output_scale_tensor": tensor(FLOAT16, 1, 1, 1, 1)},
        "OutputScaleTensor.DataType must be FLOAT32 at feature level 6_4; got FLOAT16.",
    ),
}

STRUCTS = (
    Struct(
        dml.DynamicQuantizeLinearOperatorDesc(
            input_tensor=tensor(FLOAT32, 1, 2, 3, 4),
            output_tensor=tensor(INT8, 1, 2, 3, 4),
            output_scale_tensor=tensor(FLOAT32, 1, 1, 1, 1),
            output_zero_point_tensor=tensor(INT8, 1, 1, 1, 1),
        ),
        names={"DYNAMIC_QUANTIZE_LINEAR": 148},
        fields="input_tensor output_tensor output_scale_tensor output_zero_point_tensor",
        table="""
4_0 input | 1-8 | FLOAT32 FLOAT16
4_0 output output_zero_point | 1-8 | INT8 UINT8
4_0 output_scale | 1-8 | FLOAT32
""",
        public=public,
        alike=(
            ("DimensionCount", "Input Output OutputScale OutputZeroPoint"),
            ("DataType", "Output OutputZeroPoint"),
        ),
        broken=BROKEN,
        of_ones={},
    ),
)

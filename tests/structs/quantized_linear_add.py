"""Second copies of what DirectML's header and page say of ELEMENT_WISE_QUANTIZED_LINEAR_ADD."""

import jaxdml
from jaxdml import directml as dml
from tests.directml_descs import FLOAT32, INT8, UINT8, Struct, tensor

ONE = (1, 1, 1, 1)

BROKEN = {
    "all tensors have one DimensionCount": (
        {"b_scale_tensor": tensor(FLOAT32, 1)},
        "BScaleTensor.DimensionCount must be 4, as in ATensor; got 1.",
    ),
    **{
        f"{of}Tensor and {of}ZeroPointTensor have one DataType": (
            {f"{of.lower()}_zero_point_tensor": tensor(wrong, *ONE)},
            f"{of}ZeroPointTensor.DataType must be {right.name}, as in {of}Tensor; got {wrong.name}.",
        )
        for of, right, wrong in (("A", UINT8, INT8), ("B", INT8, UINT8), ("Output", UINT8, INT8))
    },
    **{
        f"{field} has one element": (
            {name: tensor(kind, 1, 1, 3, 1)},
            f"{field}.Sizes must be [1, 1, 1, 1], one element; got [1, 1, 3, 1].",
        )
        for name, field, kind in (
            ("a_scale_tensor", "AScaleTensor", FLOAT32),
            ("a_zero_point_tensor", "AZeroPointTensor", UINT8),
            ("b_scale_tensor", "BScaleTensor", FLOAT32),
            ("b_zero_point_tensor", "BZeroPointTensor", INT8),
            ("output_scale_tensor", "OutputScaleTensor", FLOAT32),
            ("output_zero_point_tensor", "OutputZeroPointTensor", UINT8),
        )
    },
    "BTensor has the sizes of ATensor (inferred)": (
        {"b_tensor": tensor(INT8, 2, 1, 1, 4)},
        "BTensor.Sizes must be [2, 1, 3, 4], those of ATensor; got [2, 1, 1, 4].",
    ),
    "OutputTensor has the sizes of ATensor (inferred)": (
        {"output_tensor": tensor(UINT8, 2, 1, 3, 5)},
        "OutputTensor.Sizes must be [2, 1, 3, 4], those of ATensor; got [2, 1, 3, 5].",
    ),
}

STRUCTS = (
    Struct(
        dml.ElementWiseQuantizedLinearAddOperatorDesc(
            a_tensor=tensor(UINT8, 2, 1, 3, 4),
            a_scale_tensor=tensor(FLOAT32, *ONE),
            a_zero_point_tensor=tensor(UINT8, *ONE),
            b_tensor=tensor(INT8, 2, 1, 3, 4),
            b_scale_tensor=tensor(FLOAT32, *ONE),
            b_zero_point_tensor=tensor(INT8, *ONE),
            output_scale_tensor=tensor(FLOAT32, *ONE),
            output_zero_point_tensor=tensor(UINT8, *ONE),
            output_tensor=tensor(UINT8, 2, 1, 3, 4),
        ),
        names={"ELEMENT_WISE_QUANTIZED_LINEAR_ADD": 147},
        fields="a_tensor a_scale_tensor a_zero_point_tensor b_tensor b_scale_tensor b_zero_point_tensor "
        "output_scale_tensor output_zero_point_tensor output_tensor",
        table="""
4_0 a b output | 1-8 | INT8 UINT8
4_0 a_scale b_scale output_scale | 1-8 | FLOAT32
4_0 a_zero_point b_zero_point output_zero_point | 1-8 | INT8 UINT8
""",
        public=lambda desc, *inputs: jaxdml.quantized_linear_add(
            *inputs, output_dtype=desc.output_tensor.data_type.dtype
        ),
        alike=(
            ("DimensionCount", "A B Output AScale AZeroPoint BScale BZeroPoint OutputScale OutputZeroPoint"),
            *(("DataType", f"{of} {of}ZeroPoint") for of in ("A", "B", "Output")),
        ),
        broken=BROKEN,
        of_ones={},
    ),
)

"""Second copies of what DirectML's header and page say of QUANTIZED_LINEAR_CONVOLUTION."""

import jaxdml
from jaxdml import directml as dml
from tests.directml_descs import FLOAT32, INT8, UINT8, Struct, tensor
from tests.structs.convolution_integer import ARRAYS, OF_ONES, OPTIONS, broken_alike

INT32 = dml.TensorDataType.INT32

BROKEN = {
    **broken_alike(UINT8, ("Filter", "Bias", "Output")),
    "BiasTensor, FilterTensor, InputTensor and OutputTensor have the same DimensionCount": (
        {"bias_tensor": tensor(INT32, 6, 1, 1)},
        "BiasTensor.DimensionCount must be 4, as in InputTensor; got 3.",
    ),
    "BiasTensor is {1, OutputChannelCount, 1, 1}": (
        {"bias_tensor": tensor(INT32, 1, 1, 1, 1)},
        "BiasTensor.Sizes must be [1, 6, 1, 1], one element for each output channel; got [1, 1, 1, 1].",
    ),
    "BiasTensor is INT32": (
        {"bias_tensor": tensor(FLOAT32, 1, 6, 1, 1)},
        "BiasTensor.DataType must be INT32 at feature level 6_4; got FLOAT32.",
    ),
    **{
        f"{field} is {{1, 1, 1, 1}}": (
            {name: tensor(kind, 1, 6, 1, 1)},
            f"{field}.Sizes must be [1, 1, 1, 1], one element; got [1, 6, 1, 1].",
        )
        for name, field, kind in (
            ("input_scale_tensor", "InputScaleTensor", FLOAT32),
            ("output_scale_tensor", "OutputScaleTensor", FLOAT32),
            ("output_zero_point_tensor", "OutputZeroPointTensor", UINT8),
        )
    },
    "FilterScaleTensor is {1, 1, 1, 1} or {1, OutputChannelCount, 1, 1}": (
        {"filter_scale_tensor": tensor(FLOAT32, 1, 2, 1, 1)},
        "FilterScaleTensor.Sizes must be [1, 1, 1, 1] or [1, 6, 1, 1], one element or one for each output channel; "
        "got [1, 2, 1, 1].",
    ),
    "OutputTensor and OutputZeroPointTensor have the same DataType": (
        {"output_zero_point_tensor": tensor(INT8, 1, 1, 1, 1)},
        "OutputZeroPointTensor.DataType must be UINT8, as in OutputTensor; got INT8.",
    ),
}  # fmt: skip

STRUCTS = (
    Struct(
        dml.QuantizedLinearConvolutionOperatorDesc(
            input_tensor=tensor(UINT8, 2, 4, 6, 5),
            input_scale_tensor=tensor(FLOAT32, 1, 1, 1, 1),
            input_zero_point_tensor=tensor(UINT8, 1, 1, 1, 1),
            filter_tensor=tensor(INT8, 6, 2, 3, 2),
            filter_scale_tensor=tensor(FLOAT32, 1, 6, 1, 1),
            filter_zero_point_tensor=tensor(INT8, 1, 1, 1, 1),
            bias_tensor=tensor(INT32, 1, 6, 1, 1),
            output_scale_tensor=tensor(FLOAT32, 1, 1, 1, 1),
            output_zero_point_tensor=tensor(UINT8, 1, 1, 1, 1),
            output_tensor=tensor(UINT8, 2, 6, 3, 6),
            **ARRAYS,
        ),
        names={"QUANTIZED_LINEAR_CONVOLUTION": 120},
        fields="input_tensor input_scale_tensor input_zero_point_tensor filter_tensor filter_scale_tensor "
        "filter_zero_point_tensor bias_tensor output_scale_tensor output_zero_point_tensor output_tensor "
        "dimension_count strides dilations start_padding end_padding group_count",
        table="""
2_1 input filter output | 4 | INT8 UINT8
2_1 bias | 4 | INT32
2_1 input_scale filter_scale output_scale | 4 | FLOAT32
2_1 input_zero_point filter_zero_point output_zero_point | 4 | INT8 UINT8
4_0 input filter output | 3-4 | INT8 UINT8
4_0 bias | 3-4 | INT32
4_0 filter_scale | 3-4 | FLOAT32
4_0 input_scale output_scale | 1-4 | FLOAT32
4_0 input_zero_point filter_zero_point output_zero_point | 1-4 | INT8 UINT8
5_2 input filter output | 3-4 | INT8 UINT8
5_2 bias | 3-4 | INT32
5_2 filter_scale input_scale output_scale | 1-4 | FLOAT32
5_2 input_zero_point filter_zero_point output_zero_point | 1-4 | INT8 UINT8
""",
        public=lambda desc, *inputs: jaxdml.quantized_linear_convolution(
            *inputs,
            **{name: getattr(desc, name) for name in OPTIONS},
            output_dtype=desc.output_tensor.data_type.dtype,
        ),
        alike=(
            ("DimensionCount", "Input Filter Bias Output"),
            *(("DataType", f"{of} {of}ZeroPoint") for of in ("Input", "Filter", "Output")),
        ),
        broken=BROKEN,
        of_ones=OF_ONES,
    ),
)

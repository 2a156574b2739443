"""Second copies of what DirectML's header and page say of CONVOLUTION_INTEGER."""

import jaxdml
from jaxdml import directml as dml
from tests.directml_descs import INT8, UINT8, Struct, tensor

INT32 = dml.TensorDataType.INT32

ARRAYS = {
    "strides": (2, 1), "dilations": (1, 2), "start_padding": (1, 0), "end_padding": (0, 3), "group_count": 2,
}  # fmt: skip
"""What the descriptions of both convolutions have beside their tensors."""

OPTIONS = tuple(ARRAYS)

OF_ONES = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0), "group_count": 1}


def broken_alike(output, others):
    """Return the constraints that the pages of both convolutions share.

    Args:
      output: the output's data type.
      others: the tensors that have the input's dimension count.
    """
    return {
        "InputTensor is {BatchCount, InputChannelCount, InputHeight, InputWidth}": (
            {"input_tensor": tensor(UINT8, 2, 4, 6, 7)},
            "OutputTensor.Sizes must be [2, 6, 3, 8], one for each filter and window; got [2, 6, 3, 6].",
        ),
        "FilterTensor is {FilterBatchCount, FilterChannelCount, FilterHeight, FilterWidth}": (
            {"filter_tensor": tensor(INT8, 6, 3, 3, 2)},
            "FilterTensor.Sizes must be [6, 2, 3, 2], with the channels of InputTensor, divided by GroupCount; "
            "got [6, 3, 3, 2].",
        ),
        "OutputTensor is {BatchCount, OutputChannelCount, OutputHeight, OutputWidth}": (
            {"output_tensor": tensor(output, 2, 6, 6, 3)},
            "OutputTensor.Sizes must be [2, 6, 3, 6], one for each filter and window; got [2, 6, 6, 3].",
        ),
        "a padded input holds a dilated filter": (
            {"dilations": (1, 9)},
            "FilterTensor.Sizes must reach over at most [7, 8], the padded height and width of InputTensor, "
            "when dilated; got [3, 10].",
        ),
        "the only valid value for DimensionCount is 2": (
            dict.fromkeys(OPTIONS[:4], (1,)),
            "DimensionCount must be 2, for the height and the width; got 1.",
        ),
        "DimensionCount is the length of every array": (
            {"end_padding": (0, 1, 0)},
            "EndPadding must have as many entries as Strides, 2; got [0, 1, 0].",
        ),
        "a stride is at least 1": ({"strides": (0, 1)}, "Strides must not contain a 0; got [0, 1]."),
        "a dilation is at least 1": ({"dilations": (1, 0)}, "Dilations must not contain a 0; got [1, 0]."),
        "GroupCount is at least 1": ({"group_count": 0}, "GroupCount must be greater than 0; got 0."),
        "GroupCount divides the channels": (
            {"group_count": 3},
            "GroupCount must divide 4, the channels of InputTensor; got 3.",
        ),
        "GroupCount divides the filters": (
            {"group_count": 4, "filter_tensor": tensor(INT8, 6, 1, 3, 2)},
            "GroupCount must divide 6, the filters of FilterTensor; got 4.",
        ),
        "the tensors take 4 dimensions (the table: 3 or 4)": (
            {"input_tensor": tensor(UINT8, 1, 2, 4, 6, 5)},
            "InputTensor.DimensionCount must be between 3 and 4 at feature level 6_4; got 5.",
            *(f"{name}Tensor.DimensionCount must be 5, as in InputTensor; got 4." for name in others),
        ),
        "InputZeroPointTensor is {1, 1, 1, 1}": (
            {"input_zero_point_tensor": tensor(UINT8, 1, 4, 1, 1)},
            "InputZeroPointTensor.Sizes must be [1, 1, 1, 1], one element; got [1, 4, 1, 1].",
        ),
        "FilterZeroPointTensor is {1, 1, 1, 1} or {1, OutputChannelCount, 1, 1}": (
            {"filter_zero_point_tensor": tensor(INT8, 6, 1, 1, 1)},
            "FilterZeroPointTensor.Sizes must be [1, 1, 1, 1] or [1, 6, 1, 1], one element or one for each output "
            "channel; got [6, 1, 1, 1].",
        ),
        "InputTensor and InputZeroPointTensor have the same DataType": (
            {"input_zero_point_tensor": tensor(INT8, 1, 1, 1, 1)},
            "InputZeroPointTensor.DataType must be UINT8, as in InputTensor; got INT8.",
        ),
        "FilterTensor and FilterZeroPointTensor have the same DataType": (
            {"filter_zero_point_tensor": tensor(UINT8, 1, 6, 1, 1)},
            "FilterZeroPointTensor.DataType must be INT8, as in FilterTensor; got UINT8.",
        ),
    }  # fmt: skip


BROKEN = broken_alike(INT32, ("Filter", "Output")) | {
    "InputTensor, FilterTensor and OutputTensor have the same DimensionCount": (
        {"output_tensor": tensor(INT32, 6, 3, 6)},
        "OutputTensor.DimensionCount must be 4, as in InputTensor; got 3.",
    ),
    "InputZeroPointTensor and FilterZeroPointTensor have the same DimensionCount": (
        {"filter_zero_point_tensor": tensor(INT8, 6)},
        "FilterZeroPointTensor.DimensionCount must be 4, as in InputZeroPointTensor; got 1.",
    ),
    "a filter's zero points that are 1-D are those of its channels": (
        {"filter_zero_point_tensor": tensor(INT8, 5), "input_zero_point_tensor": tensor(UINT8, 1)},
        "FilterZeroPointTensor.Sizes must be [1] or [6], one element or one for each output channel; got [5].",
    ),
    "the filter's zero point, without one of the input": (
        {"filter_zero_point_tensor": tensor(INT8, 5, 1), "input_zero_point_tensor": None},
        "FilterZeroPointTensor.Sizes must be [1, 1] or [6, 1], one element or one for each output channel; "
        "got [5, 1].",
    ),
    "OutputTensor is INT32": (
        {"output_tensor": tensor(INT8, 2, 6, 3, 6)},
        "OutputTensor.DataType must be INT32 at feature level 6_4; got INT8.",
    ),
}  # fmt: skip

STRUCTS = (
    Struct(
        dml.ConvolutionIntegerOperatorDesc(
            input_tensor=tensor(UINT8, 2, 4, 6, 5),
            input_zero_point_tensor=tensor(UINT8, 1, 1, 1, 1),
            filter_tensor=tensor(INT8, 6, 2, 3, 2),
            filter_zero_point_tensor=tensor(INT8, 1, 6, 1, 1),
            output_tensor=tensor(INT32, 2, 6, 3, 6),
            **ARRAYS,
        ),
        names={"CONVOLUTION_INTEGER": 119},
        fields="input_tensor input_zero_point_tensor filter_tensor filter_zero_point_tensor output_tensor "
        "dimension_count strides dilations start_padding end_padding group_count",
        table="""
2_1 input filter | 4 | INT8 UINT8
2_1 input_zero_point filter_zero_point | 4 | INT8 UINT8
2_1 output | 4 | INT32
4_0 input filter | 3-4 | INT8 UINT8
4_0 input_zero_point filter_zero_point | 1-4 | INT8 UINT8
4_0 output | 3-4 | INT32
""",
        public=lambda desc, *inputs: jaxdml.convolution_integer(
            *inputs, **{name: getattr(desc, name) for name in OPTIONS}
        ),
        alike=(
            ("DimensionCount", "Input Filter Output"),
            ("DimensionCount", "InputZeroPoint FilterZeroPoint"),
            *(("DataType", f"{of} {of}ZeroPoint") for of in ("Input", "Filter")),
        ),
        broken=BROKEN,
        of_ones=OF_ONES,
    ),
)

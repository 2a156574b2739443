"""Second copies of what DirectML's header and page say of QUANTIZED_LINEAR_AVERAGE_POOLING."""

import jaxdml
from jaxdml import directml as dml
from tests.directml_descs import FLOAT32, INT8, UINT8, Struct, tensor

BROKEN = {
    "InputTensor and OutputTensor have one DimensionCount": (
        {"output_tensor": tensor(INT8, 2, 3, 3, 4, 1)},
        "OutputTensor.DimensionCount must be 4, as in InputTensor; got 5.",
    ),
    "InputTensor and InputZeroPointTensor have one DataType": (
        {"input_zero_point_tensor": tensor(INT8, 1, 1, 1, 1)},
        "InputZeroPointTensor.DataType must be UINT8, as in InputTensor; got INT8.",
    ),
    "OutputTensor and OutputZeroPointTensor have one DataType": (
        {"output_zero_point_tensor": tensor(UINT8, 1, 1, 1, 1)},
        "OutputZeroPointTensor.DataType must be INT8, as in OutputTensor; got UINT8.",
    ),
    **{
        f"{field} is {{1, 1, 1, 1}} or {{1, C, 1, 1}}": (
            {name: tensor(kind, 1, 1, 3, 1)},
            f"{field}.Sizes must be [1, 1, 1, 1] or [1, 3, 1, 1], one for all, or one for each channel of InputTensor; "
            "got [1, 1, 3, 1].",
        )
        for name, field, kind in (
            ("input_scale_tensor", "InputScaleTensor", FLOAT32),
            ("input_zero_point_tensor", "InputZeroPointTensor", UINT8),
            ("output_scale_tensor", "OutputScaleTensor", FLOAT32),
            ("output_zero_point_tensor", "OutputZeroPointTensor", INT8),
        )
    },
    "a scale of one dimension has one element for each channel": (
        {"input_scale_tensor": tensor(FLOAT32, 2)},
        "InputScaleTensor.Sizes must be [1] or [3], one for all, or one for each channel of InputTensor; got [2].",
    ),
    "DimensionCount is 2 for 4 dimensions": (
        dict.fromkeys(("strides", "window_size", "dilations"), (1, 1, 1))
        | dict.fromkeys(("start_padding", "end_padding"), (0, 0, 0)),
        "DimensionCount must be 2, the spatial dimensions of InputTensor; got 3.",
    ),
    "WindowSize has DimensionCount entries": (
        {"window_size": (3,)},
        "WindowSize must have as many entries as Strides, 2; got [3].",
    ),
    "StartPadding has DimensionCount entries": (
        {"start_padding": (1, 0, 0)},
        "StartPadding must have as many entries as Strides, 2; got [1, 0, 0].",
    ),
    "EndPadding has DimensionCount entries": (
        {"end_padding": ()},
        "EndPadding must have as many entries as Strides, 2; got [].",
    ),
    "Dilations has DimensionCount entries": (
        {"dilations": (1,)},
        "Dilations must have as many entries as Strides, 2; got [1].",
    ),
    "Strides are at least 1 (inferred)": ({"strides": (0, 1)}, "Strides must not contain a 0; got [0, 1]."),
    "WindowSize is at least 1 (inferred)": ({"window_size": (3, 0)}, "WindowSize must not contain a 0; got [3, 0]."),
    "Dilations are at least 1 (inferred)": ({"dilations": (0, 0)}, "Dilations must not contain a 0; got [0, 0]."),
    "a window lies in the padded InputTensor (inferred)": (
        {"window_size": (3, 4)},
        "WindowSize must span at most 5 elements along dimension 3 of the padded InputTensor; got 7.",
    ),
    "OutputTensor is N, C and the number of windows, with the reach of a dilated window": (
        {"output_tensor": tensor(INT8, 2, 3, 3, 3)},
        "OutputTensor.Sizes must be [2, 3, 3, 1], N and C of InputTensor and the number of windows; got [2, 3, 3, 3].",
    ),
}

STRUCTS = (
    Struct(
        dml.QuantizedLinearAveragePoolingOperatorDesc(
            input_tensor=tensor(UINT8, 2, 3, 6, 5),
            input_scale_tensor=tensor(FLOAT32, 1, 3, 1, 1),
            input_zero_point_tensor=tensor(UINT8, 1, 1, 1, 1),
            output_scale_tensor=tensor(FLOAT32, 1, 1, 1, 1),
            output_zero_point_tensor=tensor(INT8, 1, 3, 1, 1),
            output_tensor=tensor(INT8, 2, 3, 3, 1),
            strides=(2, 1),
            window_size=(3, 3),
            start_padding=(1, 0),
            end_padding=(0, 0),
            dilations=(1, 2),
            include_padding=True,
        ),
        names={"QUANTIZED_LINEAR_AVERAGE_POOLING": 169},
        fields="input_tensor input_scale_tensor input_zero_point_tensor output_scale_tensor output_zero_point_tensor "
        "output_tensor dimension_count strides window_size start_padding end_padding dilations include_padding",
        table="""
6_2 input output | 4-5 | INT8 UINT8
6_2 input_scale output_scale | 1-5 | FLOAT32
6_2 input_zero_point output_zero_point | 1-5 | INT8 UINT8
""",
        public=lambda desc, *inputs: jaxdml.quantized_linear_average_pooling(
            *inputs,
            window=desc.window_size,
            strides=desc.strides,
            dilations=desc.dilations,
            start_padding=desc.start_padding,
            end_padding=desc.end_padding,
            include_padding=desc.include_padding,
            output_dtype=desc.output_tensor.data_type.dtype,
        ),
        alike=(
            ("DimensionCount", "Input Output"),
            *(("DataType", f"{of} {of}ZeroPoint") for of in ("Input", "Output")),
        ),
        broken=BROKEN,
        of_ones=lambda ranks: {
            **dict.fromkeys(("strides", "window_size", "dilations"), (1,) * (ranks["input_tensor"] - 2)),
            **dict.fromkeys(("start_padding", "end_padding"), (0,) * (ranks["input_tensor"] - 2)),
        },
    ),
)

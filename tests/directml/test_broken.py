"""Descriptions that break a constraint of their operator's page, and what is said of them."""

import numpy as np
import pytest

from jaxdml import directml as dml
from tests.directml.calls import Call
from tests.directml_descs import broken


def of(dtype, *sizes):
    return np.zeros(sizes, dtype)


X, Y, ONE = of("float32", 2, 3), of("float32", 2, 4), of("float32", 1, 1)
IMAGE, INTS = of("float32", 1, 4, 2, 2), of("int32", 2, 3)
RELU = dml.ActivationReluOperatorDesc(input_tensor=None, output_tensor=None)
WINDOW = {"input_window_offsets": (0, 2), "input_window_sizes": (2, 2), "input_window_strides": (1, -1)}
PADS = {"start_padding": (1, 0), "end_padding": (0, 1)}
PATCHES = {"window_sizes": (2,), "strides": (1,), "dilations": (1,), "start_padding": (0,), "end_padding": (0,)}
TYPED = {"value_data_type": ..., "value": 1}

WORDS = of("float32", 1, 3, 4)
ATTENTION = (
    *("query", "key", "value", "stacked_query_key", "stacked_key_value", "stacked_query_key_value"),
    *("bias", "mask", "attention_bias", "past_key", "past_value", "past_sequence_lengths"),
)


def attention(tensors, head_count=2, kind=0, **heads):
    """Return a call with an output like ``WORDS``; with heads of groups it is one of MULTIHEAD_ATTENTION1."""
    names = ATTENTION[: 11 + bool(heads)]
    fields = {"scale": 1.0, "mask_filter_value": 0.0, "mask_type": kind, **(heads or {"head_count": head_count})}
    inputs = [tensors.get(name) for name in names]
    return Call(f"MULTIHEAD_ATTENTION{'1' * bool(heads)}", inputs, [WORDS, None, None], fields)


BROKEN = {
    "other sizes": (
        Call("ELEMENT_WISE_ADD", [X, Y], [X]),
        "BTensor.Sizes must be [2, 3], those of ATensor; got [2, 4].",
    ),
    "another dimension count": (
        Call("ELEMENT_WISE_ADD", [X, X[None]], [X]),
        "BTensor.DimensionCount must be 2, as in ATensor; got 3.",
    ),
    "another type": (
        Call("ELEMENT_WISE_LOGICAL_EQUALS", [X, INTS], [of("uint8", 2, 3)]),
        "BTensor.DataType must be FLOAT32, as in ATensor; got INT32.",
    ),
    "a scale of 64 bits": (
        Call("ELEMENT_WISE_IDENTITY", [of("int64", 2)], [of("int64", 2)], {"scale_bias": (2, 0)}),
        "ScaleBias must be null, or 1 and 0, for elements of 64 bits; got [2.0, 0.0].",
    ),
    "channels": (
        Call("VALUE_SCALE_2D", [IMAGE], [IMAGE], {"scale": 1, "bias": (1, 2)}),
        "ChannelCount must be 1 or 3; got 2.",
        "InputTensor.Sizes[1] must be 2, ChannelCount; got 4.",
    ),
    "an image of one dimension": (
        Call("UPSAMPLE_2D", [X[0]], [X[0]], {"scale_size": (1, 1), "interpolation_mode": 0}),
        "InputTensor.DimensionCount must be between 4 and 5 at feature level 6_4; got 1.",
        "OutputTensor.DimensionCount must be between 4 and 5 at feature level 6_4; got 1.",
    ),
    "a rank above 2": (
        Call("ACTIVATION_SOFTMAX", [IMAGE], [IMAGE]),
        "InputTensor.Sizes must be 1 in all dimensions but the last 2; got [1, 4, 2, 2].",
    ),
    "axes": (
        Call("ACTIVATION_SOFTMAX1", [X], [X], {"axes": (1, 2, 1)}),
        "Axes[1] must be less than 2, InputTensor.DimensionCount; got 2.",
        "Axes must name each dimension once; got [1, 2, 1].",
    ),
    "steepness": (
        Call("ACTIVATION_SOFTPLUS", [X], [X], {"steepness": 0.0}),
        "Steepness must be greater than 0; got 0.0.",
    ),
    "a slice": (
        Call("SLICE", [X], [ONE], {"offsets": (0, 2), "sizes": (1, 2), "strides": (0, 1)}),
        "Strides must not contain a 0; got [0, 1].",
        "Offsets[1] must keep the last element, 3, below 3, InputTensor.Sizes[1]; got 2.",
        "OutputTensor.Sizes must be [1, 2], the field Sizes; got [1, 1].",
    ),
    "too few offsets": (
        Call("SLICE", [X], [X], {"offsets": (0,), "sizes": (2,), "strides": (1,)}),
        "DimensionCount must be 2, InputTensor.DimensionCount; got 1.",
    ),
    "a window": (
        Call("SLICE1", [X], [X], WINDOW),
        "InputWindowOffsets[1] must end the window within 3, InputTensor.Sizes[1]; got 2.",
        "OutputTensor.Sizes[1] must be at most 2, what the window has at this stride; got 3.",
    ),
    "a window of a gradient": (
        Call("SLICE_GRAD", [X], [Y], WINDOW | {"input_window_strides": (1, 0)}),
        "InputWindowStrides must not contain a 0; got [1, 0].",
    ),
    "no parts": (
        Call("JOIN", [()], [X], {"axis": 1}),
        "InputTensors must contain a tensor; got [].",
    ),
    "parts": (
        Call("SPLIT", [X], [(X, Y[:1])], {"axis": 1}),
        "OutputTensors[1].Sizes must be [2, 4], those of InputTensor except along Axis; got [1, 4].",
        "InputTensor.Sizes[1] must be 7, the sum of those of OutputTensors; got 3.",
    ),
    "an axis of parts": (
        Call("SPLIT", [X], [(X,)], {"axis": 2}),
        "Axis must be less than 2, InputTensor.DimensionCount; got 2.",
    ),
    "tiles": (
        Call("TILE", [X], [X], {"repeats": (2, 1)}),
        "OutputTensor.Sizes must be [4, 3], those of InputTensor, times Repeats; got [2, 3].",
    ),
    "padding": (
        Call("PADDING1", [X], [Y], {"padding_mode": 1, "padding_value_data_type": ..., "padding_value": 0, **PADS}),
        "OutputTensor.Sizes must be [3, 4], those of InputTensor, with StartPadding and EndPadding; got [2, 4].",
    ),
    "blocks of nothing": (
        Call("DEPTH_TO_SPACE", [IMAGE], [IMAGE], {"block_size": 0}),
        "BlockSize must be greater than 0; got 0.",
    ),
    "blocks": (
        Call("SPACE_TO_DEPTH", [IMAGE], [of("float32", 1, 15, 1, 1)], {"block_size": 2}),
        "OutputTensor.Sizes[1] must be divisible by 4, the square of BlockSize; got 15.",
        "InputTensor.Sizes must be [1, 3, 2, 2], those of OutputTensor with blocks for channels; got [1, 4, 2, 2].",
    ),
    "lengths": (
        Call("REVERSE_SUBSEQUENCES", [X, of("uint32", 1, 2)], [X], {"axis": 1}),
        "SequenceLengthsTensor.Sizes must be [2, 1], those of InputTensor with 1 at Axis; got [1, 2].",
    ),
    "a cumulative axis": (
        Call("CUMULATIVE_SUMMATION", [X], [X], {"axis": 2, "axis_direction": 0, "has_exclusive_sum": 0}),
        "Axis must be less than 2, InputTensor.DimensionCount; got 2.",
    ),
    "positions as floats": (
        Call("REDUCE", [X], [of("float32", 1, 3)], {"function": 0, "axes": (0,)}),
        "OutputTensor.DataType must be one of INT64, INT32, UINT64, UINT32 for ARGMAX; got FLOAT32.",
    ),
    "a mean of integers": (
        Call("REDUCE", [INTS], [of("int32", 1, 3)], {"function": 2, "axes": (0,)}),
        "InputTensor.DataType must be FLOAT32 or FLOAT16 for AVERAGE; got INT32.",
    ),
    "a sum of bytes": (
        Call("REDUCE", [of("int8", 2, 3)], [of("int8", 2, 3)], {"function": 10, "axes": (0,)}),
        "InputTensor.DataType must be a float or have at least 32 bits for SUM; got INT8.",
        "OutputTensor.Sizes must be [1, 3], those of InputTensor with 1 at Axes; got [2, 3].",
    ),
    "one hot": (
        Call("ONE_HOT", [of("uint32", 2, 2), ONE], [X], {"axis": 1}),
        "IndicesTensor.Sizes must be [2, 1], those of OutputTensor with 1 at Axis; got [2, 2].",
        "ValuesTensor.Sizes must give at least 2 elements; got [1, 1].",
    ),
    "a diagonal of another type": (
        Call("DIAGONAL_MATRIX1", [INTS], [X], TYPED | {"diagonal_fill_begin": 0, "diagonal_fill_end": 1}),
        "OutputTensor.DataType must be INT32, as in InputTensor; got FLOAT32.",
    ),
    "states": (
        Call("RANDOM_GENERATOR", [of("uint32", 1, 5)], [of("uint32", 8), of("uint32", 6)], {"type": 0}),
        "OutputStateTensor.DimensionCount must be 2, as in InputStateTensor; got 1.",
        "InputStateTensor.Sizes must be [1, 6], the counter's four words and the key's two; got [1, 5].",
    ),
    "coordinates": (
        Call("NONZERO_COORDINATES", [X], [of("uint32", 2), of("uint32", 2, 6, 1)]),
        "OutputCountTensor.Sizes must be [1], one number; got [2].",
        "OutputCoordinatesTensor.Sizes must be 1 in all dimensions but the last 2, of which the first is 6, "
        "InputTensor's elements; got [2, 6, 1].",
        "OutputCoordinatesTensor.Sizes[2] must be between 2 and 2, of which InputTensor's first 0 are 1; got 1.",
    ),
    "no windows": (
        Call("UNFOLD", [of("float32", 1, 2, 3)], [of("float32", 1, 4, 2)], PATCHES | {"window_sizes": (), "strides": (),
            "dilations": (), "start_padding": (), "end_padding": ()}),
        "DimensionCount must be between 1 and 1, InputTensor.DimensionCount less 2; got 0.",
    ),
    "columns": (
        Call("FOLD", [of("float32", 1, 2, 2)], [of("float32", 1, 2, 3)], PATCHES | {"dilations": (0,)}),
        "Dilations must not contain a 0; got [0].",
        "InputTensor.Sizes must be [1, 4, 3], the columns of all windows; got [1, 2, 2].",
    ),
}  # fmt: skip

CONVOLVED = {"mode": 1, "direction": 0, "group_count": 1, "strides": (1, 1), "dilations": (1, 1)}
CONVOLVED |= {"start_padding": (0, 0), "end_padding": (0, 0), "output_padding": (0, 0)}
POOLED = {"strides": (1, 1), "window_size": (1, 1), "dilations": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0)}


def plain(fields):
    return {name: value for name, value in fields.items() if name != "dilations"}


BROKEN |= {
    "channels of filters": (
        Call("CONVOLUTION", [IMAGE, of("float32", 3, 2, 1, 1), of("float32", 1, 2, 1, 1)], [IMAGE], CONVOLVED),
        "InputTensor.Sizes[1] must be 2, FilterTensor.Sizes[1] * GroupCount; got 4.",
        "BiasTensor.Sizes must be [1, 3, 1, 1], one element for each channel of the output; got [1, 2, 1, 1].",
        "OutputTensor.Sizes must begin with [1, 3], images and channels; got [1, 4, 2, 2].",
    ),
    "channels of a transposed convolution": (
        Call(
            "CONVOLUTION",
            [IMAGE, of("float32", 3, 2, 1, 1), None],
            [IMAGE],
            CONVOLVED | {"direction": 1, "group_count": 2},
        ),
        "GroupCount must divide 3, the first size of FilterTensor; got 2.",
        "InputTensor.Sizes[1] must be 3, the first of FilterTensor.Sizes, for "
        "DML_CONVOLUTION_DIRECTION_BACKWARD; got 4.",
    ),
    "sizes of a convolution": (
        Call("CONVOLUTION", [IMAGE, of("float32", 4, 4, 2, 1), None], [IMAGE], CONVOLVED),
        "OutputTensor.Sizes[2] must be 1, as input, filter, strides and padding say; got 2.",
    ),
    "sizes of a transposed convolution": (
        Call(
            "CONVOLUTION",
            [IMAGE, of("float32", 4, 4, 1, 1), None],
            [IMAGE],
            CONVOLVED | {"direction": 1, "strides": (2, 1)},
        ),
        "OutputTensor.Sizes[2] must be 3 to 4, as input, filter, strides and padding say; got 2.",
    ),
    "no strides and groups": (
        Call(
            "CONVOLUTION",
            [IMAGE, of("float32", 4, 4, 1, 1), None],
            [IMAGE],
            CONVOLVED | {"strides": (0, 1), "group_count": 0},
        ),
        "Strides must not contain a 0; got [0, 1].",
        "GroupCount must be greater than 0; got 0.",
    ),
    "no stride": (
        Call("CONVOLUTION", [IMAGE, of("float32", 4, 4, 1, 1), None], [IMAGE], CONVOLVED | {"strides": (0, 1)}),
        "Strides must not contain a 0; got [0, 1].",
    ),
    "spatial dimensions of a convolution": (
        Call(
            "CONVOLUTION",
            [IMAGE, of("float32", 4, 4, 1, 1), None],
            [IMAGE],
            {name: each[:1] if isinstance(each, tuple) else each for name, each in CONVOLVED.items()},
        ),
        "DimensionCount must be 2, the spatial dimensions of InputTensor; got 1.",
    ),
    "sizes of a product": (
        Call("GEMM", [X, X, Y], [X], {"trans_a": 1, "trans_b": 1, "alpha": 1, "beta": 1}),
        "BTensor.Sizes must be [2, 2], a matrix for each of ATensor, whose columns are its rows; got [2, 3].",
        "CTensor.Sizes must be [3, 2], the rows of ATensor and the columns of BTensor; got [2, 4].",
        "OutputTensor.Sizes must be [3, 2], the rows of ATensor and the columns of BTensor; got [2, 3].",
    ),
    "ranks of a product": (
        Call("GEMM", [X, X[None], None], [X], {"trans_a": 0, "trans_b": 0, "alpha": 1, "beta": 1}),
        "BTensor.DimensionCount must be 2, as in ATensor; got 3.",
    ),
    "windows that are too large": (
        Call("MAX_POOLING2", [IMAGE], [IMAGE, of("uint32", 1, 4, 2, 1)], POOLED | {"window_size": (3, 1)}),
        "OutputIndicesTensor.Sizes must be [1, 4, 2, 2], those of OutputTensor; got [1, 4, 2, 1].",
        "WindowSize must span at most 2 elements along dimension 2 of the padded InputTensor; got 3.",
    ),
    "too many windows": (
        Call("AVERAGE_POOLING", [IMAGE], [of("float32", 1, 3, 3, 2)], plain(POOLED) | {"include_padding": 0}),
        "OutputTensor.Sizes must begin with [1, 4], as InputTensor; got [1, 3, 3, 2].",
        "OutputTensor.Sizes[2] must be 2, the windows that fit, or up to 2, those that begin in the padded tensor; "
        "got 3.",
    ),
    "windows of other dimensions": (
        Call("MAX_POOLING", [of("float32", 1, 4, 2, 2, 2)], [of("float32", 1, 4, 2, 2, 2)], plain(POOLED)),
        "DimensionCount must be 3, the spatial dimensions of InputTensor; got 2.",
    ),
    "windows of nothing": (
        Call("LP_POOLING1", [IMAGE], [IMAGE], POOLED | {"p": 2, "window_size": (0, 1)}),
        "WindowSize must not contain a 0; got [0, 1].",
    ),
    "a gradient of windows": (
        Call("MAX_POOLING_GRAD", [IMAGE, IMAGE], [of("float32", 1, 4, 2, 1)], POOLED),
        "OutputGradientTensor.Sizes must be [1, 4, 2, 2], those of InputTensor; got [1, 4, 2, 1].",
    ),
    "statistics": (
        Call(
            "BATCH_NORMALIZATION",
            [IMAGE, *[of("float32", 1, 4, 1, 1)] * 3, of("float32", 1, 3, 1, 1)],
            [IMAGE],
            {"spatial": 1, "epsilon": 0.0},
        ),
        "BiasTensor.Sizes must be 1 or those of InputTensor, [1, 4, 2, 2]; got [1, 3, 1, 1].",
    ),
    "statistics of training": (
        Call(
            "BATCH_NORMALIZATION_TRAINING",
            [IMAGE, of("float32", 1, 4, 1, 1), of("float32", 1, 1, 1, 1), None],
            [IMAGE, *[of("float32", 1, 4, 1, 1)] * 2],
            {"epsilon": 0.0},
        ),
        "BiasTensor.Sizes must be [1, 4, 1, 1], those of ScaleTensor; got [1, 1, 1, 1].",
    ),
    "axes of a normalization": (
        Call(
            "MEAN_VARIANCE_NORMALIZATION1",
            [X, None, None],
            [Y],
            {"axes": (2,), "normalize_variance": 1, "epsilon": 0.0},
        ),
        "OutputTensor.Sizes must be [2, 3], those of InputTensor; got [2, 4].",
        "Axes[0] must be less than 2, InputTensor.DimensionCount; got 2.",
    ),
    "nothing around": (
        Call(
            "LOCAL_RESPONSE_NORMALIZATION",
            [IMAGE],
            [IMAGE],
            {"cross_channel": 1, "local_size": 0, "alpha": 1, "beta": 1, "bias": 1},
        ),
        "LocalSize must be greater than 0; got 0.",
    ),
    "a network": (
        Call(
            "RNN",
            [of("float32", 2, 5, 3, 4), of("float32", 1, 2, 2, 4), of("float32", 1, 1, 2, 2), *[None] * 3],
            [of("float32", 5, 1, 2, 3), of("float32", 1, 1, 3, 2)],
            {"direction": 0, "activation_descs": (RELU, RELU)},
        ),
        "ActivationDescCount must be 1, 1 for each direction; got 2.",
        "InputTensor.Sizes must be [1, 5, 3, 4], times, batch and inputs behind a 1; got [2, 5, 3, 4].",
        "WeightTensor.Sizes must be [1, 1, 2, 4], for 1 direction and a state of 2; got [1, 2, 2, 4].",
        "OutputSequenceTensor.Sizes must be [5, 1, 3, 2], for 1 direction and a state of 2; got [5, 1, 2, 3].",
    ),
    "a network of two dimensions": (
        Call(
            "RNN",
            [of("float32", 5, 4), of("float32", 1, 1, 2, 4), of("float32", 1, 1, 2, 2), *[None] * 3],
            [None, of("float32", 1, 1, 3, 2)],
            {"direction": 0, "activation_descs": (RELU,)},
        ),
        "InputTensor.DimensionCount must be 4 at feature level 6_4; got 2.",
    ),
    "a step of training": (
        Call(
            "ADAM_OPTIMIZER",
            [X, X, Y, X, of("uint32", 1, 2)],
            [X, X, X],
            {"learning_rate": 1.0, "beta1": 1.0, "beta2": -0.5, "epsilon": 0.0},
        ),
        "InputSecondMomentTensor.Sizes must be [2, 3], those of InputParametersTensor; got [2, 4].",
        "TrainingStepTensor.Sizes must be [1, 1], one number; got [1, 2].",
        "Beta1 must be at least 0 and less than 1; got 1.0.",
        "Beta2 must be at least 0 and less than 1; got -0.5.",
    ),
    "heads of attention": (
        attention({"query": of("float32", 1, 3, 5), "stacked_query_key": of("float32", 1, 3, 2, 2, 2)}, 0),
        "HeadCount must be greater than 0; got 0.",
        "QueryTensor must be the only one given of QueryTensor, StackedQueryKeyTensor, StackedQueryKeyValueTensor; "
        "got ['QueryTensor', 'StackedQueryKeyTensor'].",
        "ValueTensor must be the only one given of ValueTensor, StackedKeyValueTensor, StackedQueryKeyValueTensor; "
        "got [].",
    ),
    "half of a past": (
        attention({"query": WORDS, "key": WORDS, "value": WORDS, "past_value": of("float32", 1, 2, 3, 2)}),
        "PastKeyTensor must be given together with PastValueTensor; got PastValueTensor.",
    ),
    "sizes of attention": (
        attention({"query": WORDS, "key": of("float32", 1, 5, 5), "value": of("float16", 1, 6, 4)}),
        "ValueTensor.DataType must be FLOAT32, as in OutputTensor; got FLOAT16.",
        "KeyTensor.Sizes must be [1, 5, 4], behind any 1s; got [1, 5, 5].",
        "ValueTensor.Sizes must be [1, 5, 4], behind any 1s; got [1, 6, 4].",
    ),
    "a rank of attention": (
        attention({"query": X, "key": WORDS, "value": WORDS}),
        "QueryTensor.DimensionCount must be between 3 and 5 at feature level 6_4; got 2.",
    ),
    "a mask that is not wanted": (
        attention({"query": WORDS, "key": WORDS, "value": WORDS, "mask": of("int32", 1, 1)}),
        "MaskTensor must be nullptr for a MaskType of NONE, and only then; got NONE.",
    ),
    "a mask of lengths": (
        attention({"query": WORDS, "key": WORDS, "value": WORDS, "mask": of("int32", 2, 1, 2)}, kind=2),
        "MaskTensor.Sizes must be [2, 1], behind any 1s; got [2, 1, 2].",
    ),
    "a mask of keys": (
        attention({"query": WORDS, "key": WORDS, "value": WORDS, "mask": of("int32", 2, 1, 1, 1, 4)}, kind=4),
        "MaskTensor.Sizes must be 1 or those of the scores, [1, 2, 3, 3]; got [2, 1, 1, 1, 4].",
    ),
    "a mask of an unknown rank": (
        attention({"query": X, "key": WORDS, "value": WORDS, "mask": of("int32", 1)}, kind=4),
        "QueryTensor.DimensionCount must be between 3 and 5 at feature level 6_4; got 2.",
    ),
    "groups": (
        attention(
            {"query": WORDS, "key": WORDS, "value": WORDS, "past_sequence_lengths": of("int32", 1)},
            query_head_count=2,
            key_value_head_count=4,
        ),
        "QueryHeadCount must be divisible by 4, KeyValueHeadCount; got 2.",
    ),
    "what is written nowhere": (
        attention({"query": WORDS, "bias": of("float32", 12)}, kind=1, query_head_count=2, key_value_head_count=2),
        "BiasTensor must be nullptr: what it does here is written nowhere; got a tensor.",
        "KeyTensor must be given: what happens without it is written nowhere; got nullptr.",
        "ValueTensor must be given: what happens without it is written nowhere; got nullptr.",
        "PastSequenceLengthsTensor must be given: what happens without it is written nowhere; got nullptr.",
        "MaskType must be NONE: what it does here is written nowhere; got KEY_SEQUENCE_LENGTH.",
    ),
    "another norm": (
        Call("LP_NORMALIZATION", [X], [X], {"axis": 2, "epsilon": 0.0, "p": 3}),
        "Axis must be less than 2, InputTensor.DimensionCount; got 2.",
        "P must be 1 or 2; got 3.",
    ),
}

ROI = {"reduction_function": 2, "interpolation_mode": 1, "spatial_scale_x": 1.0, "spatial_scale_y": 1.0}
ROI |= {"out_of_bounds_input_value": 0.0, "minimum_samples_per_output": 1, "maximum_samples_per_output": 1}
ROI_GRAD = {name: value for name, value in ROI.items() if name != "out_of_bounds_input_value"}
ROI_GRAD |= {"input_pixel_offset": 0.5, "output_pixel_offset": -0.5, "align_regions_to_corners": 0}
ONE_ROI, ONE_BATCH, POINTS = of("float32", 1, 4), of("uint32", 1), of("float32", 1, 4, 1, 1)

BROKEN |= {
    "scales": (
        Call("RESAMPLE", [X], [Y], {"interpolation_mode": 0, "scales": [1, 0, 2]}),
        "Scales must have 2 numbers, one for each dimension of InputTensor; got [1.0, 0.0, 2.0].",
        "Scales must be greater than 0, and finite; got [1.0, 0.0, 2.0].",
    ),
    "sizes of an upsampling": (
        Call("UPSAMPLE_2D", [IMAGE], [IMAGE], {"scale_size": (2, 1), "interpolation_mode": 0}),
        "OutputTensor.Sizes must be [1, 4, 2, 4], those of InputTensor times ScaleSize; got [1, 4, 2, 2].",
    ),
    "an upsampling to nothing": (
        Call("UPSAMPLE_2D", [IMAGE], [IMAGE], {"scale_size": (0, 1), "interpolation_mode": 0}),
        "ScaleSize must be greater than 0; got [0, 1].",
    ),
    "pooled regions": (
        Call("ROI_POOLING", [IMAGE, of("float32", 1, 1, 3, 4)], [IMAGE], {"spatial_scale": 1.0, "pooled_size": (2, 1)}),
        "ROITensor.Sizes must be [1, 1, 3, 5], a batch and two corners for each region; got [1, 1, 3, 4].",
        "OutputTensor.Sizes must be [3, 4, 1, 2], the regions, the channels and PooledSize; got [1, 4, 2, 2].",
    ),
    "pooled regions of another rank": (
        Call("ROI_POOLING", [IMAGE, of("float32", 1, 5)], [IMAGE], {"spatial_scale": 1.0, "pooled_size": (2, 2)}),
        "ROITensor.DimensionCount must be 4 at feature level 6_4; got 2.",
        "ROITensor.DimensionCount must be 4, as in InputTensor; got 2.",
    ),
    "aligned regions of another rank": (
        Call("ROI_ALIGN", [IMAGE, ONE_ROI, ONE_BATCH], [ONE_ROI], ROI),
        "OutputTensor.DimensionCount must be 4 at feature level 6_4; got 2.",
        "OutputTensor.DimensionCount must be 4, as in InputTensor; got 2.",
    ),
    "aligned regions": (
        Call(
            "ROI_ALIGN",
            [IMAGE, of("float32", 2, 4), of("uint32", 3)],
            [of("float32", 1, 3, 1, 1)],
            ROI | {"reduction_function": 10, "minimum_samples_per_output": 2},
        ),
        "ReductionFunction must be AVERAGE or MAX; got SUM.",
        "MinimumSamplesPerOutput must be at most 1, MaximumSamplesPerOutput; got 2.",
        "ROITensor.Sizes must be [1, 4], two corners for each region; got [2, 4].",
        "BatchIndicesTensor.Sizes must be [1], one for each region; got [3].",
        "OutputTensor.Sizes[1] must be 4, as in InputTensor; got 3.",
    ),
    "no gradient of regions": (
        Call("ROI_ALIGN_GRAD", [None, POINTS, ONE_ROI, ONE_BATCH], [None, None], ROI_GRAD),
        "OutputGradientTensor must be described, or OutputROIGradientTensor; got None.",
    ),
    "a gradient of regions without an input": (
        Call("ROI_ALIGN_GRAD", [None, POINTS, ONE_ROI, ONE_BATCH], [None, ONE_ROI], ROI_GRAD),
        "InputTensor must be described for the gradient of the regions, and for MAX; got None.",
    ),
    "gradients of other sizes": (
        Call("ROI_ALIGN_GRAD", [IMAGE, POINTS, ONE_ROI, ONE_BATCH], [POINTS, of("float32", 2, 4)], ROI_GRAD),
        "OutputGradientTensor.Sizes must be [1, 4, 2, 2], those of InputTensor; got [1, 4, 1, 1].",
        "OutputROIGradientTensor.Sizes must be [1, 4], those of ROITensor; got [2, 4].",
    ),
    "places of an unpooling": (
        Call("MAX_UNPOOLING", [IMAGE, of("uint32", 1, 4, 2, 1)], [IMAGE]),
        "IndicesTensor.Sizes must be [1, 4, 2, 2], those of InputTensor; got [1, 4, 2, 1].",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_said(name):
    call, *lines = BROKEN[name]
    assert broken(call.desc) == lines


def test_a_number_has_the_type_of_the_output():
    float32, int32 = (dml.BufferTensorDesc(dml.TensorDataType[kind], (2, 3)) for kind in ("FLOAT32", "INT32"))
    line = "must be FLOAT32, as in OutputTensor; got INT32."
    assert broken(
        dml.FillValueConstantOperatorDesc(output_tensor=float32, value_data_type=int32.data_type, value=1)
    ) == [f"ValueDataType {line}"]
    clip = dml.ElementWiseClip1OperatorDesc(
        input_tensor=float32, output_tensor=float32, min_max_data_type=int32.data_type, min=1, max=2
    )
    assert broken(clip) == [f"MinMaxDataType {line}"]

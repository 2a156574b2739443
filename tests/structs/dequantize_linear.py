"""Second copies of what DirectML's header and pages say of ELEMENT_WISE_DEQUANTIZE_LINEAR and DEQUANTIZE."""

import numpy as np

import jaxdml
from jaxdml import directml as dml
from tests.directml_descs import FLOAT16, FLOAT32, INT8, UINT8, Struct, tensor

SCALE, BOTH = dml.QuantizationType.SCALE, dml.QuantizationType.SCALE_ZERO_POINT

BROKEN = {
    "all four tensors have one DimensionCount": (
        {"zero_point_tensor": tensor(UINT8, 4)},
        "ZeroPointTensor.DimensionCount must be 4, as in InputTensor; got 1.",
    ),
    "ScaleTensor has the sizes of InputTensor": (
        {"scale_tensor": tensor(FLOAT32, 1, 2, 3, 1)},
        "ScaleTensor.Sizes must be [1, 2, 3, 4], those of InputTensor; got [1, 2, 3, 1].",
    ),
    "ZeroPointTensor has the sizes of InputTensor": (
        {"zero_point_tensor": tensor(UINT8, 1, 1, 1, 1)},
        "ZeroPointTensor.Sizes must be [1, 2, 3, 4], those of InputTensor; got [1, 1, 1, 1].",
    ),
    "OutputTensor has the sizes of InputTensor": (
        {"output_tensor": tensor(FLOAT32, 1, 2, 4, 3)},
        "OutputTensor.Sizes must be [1, 2, 3, 4], those of InputTensor; got [1, 2, 4, 3].",
    ),
    "InputTensor and ZeroPointTensor have the same DataType": (
        {"zero_point_tensor": tensor(INT8, 1, 2, 3, 4)},
        "ZeroPointTensor.DataType must be UINT8, as in InputTensor; got INT8.",
    ),
    "ScaleTensor and OutputTensor have the same DataType": (
        {"output_tensor": tensor(FLOAT16, 1, 2, 3, 4)},
        "OutputTensor.DataType must be FLOAT32, as in ScaleTensor; got FLOAT16.",
    ),
}

BROKEN_BLOCKS = {
    "QuantizationType is SCALE or SCALE_ZERO_POINT": (
        {"quantization_type": 0},
        "QuantizationType must be SCALE or SCALE_ZERO_POINT; got NONE.",
    ),
    "SCALE has one tensor": (
        {"quantization_tensors": [tensor(FLOAT16, 1, 1, 3, 1), tensor(UINT8, 1, 1, 3, 1)]},
        "QuantizationTensorCount must be 1, the tensors of SCALE; got 2.",
    ),
    "the input, the output and every quantization tensor have the same DimensionCount": (
        {"quantization_tensors": [tensor(FLOAT16, 3)]},
        "QuantizationTensors[0].DimensionCount must be 4, as in InputTensor; got 1.",
    ),
    "OutputTensor has the sizes of InputTensor": (
        {"output_tensor": tensor(FLOAT16, 1, 1, 8, 6)},
        "OutputTensor.Sizes must be [1, 1, 6, 8], those of InputTensor; got [1, 1, 8, 6].",
    ),
    "the scale has the DataType of OutputTensor": (
        {"quantization_tensors": [tensor(FLOAT32, 1, 1, 3, 1)]},
        "QuantizationTensors[0].DataType must be FLOAT16, as in OutputTensor; got FLOAT32.",
    ),
    "the zero point has the DataType of InputTensor": (
        {"quantization_type": BOTH, "quantization_tensors": [tensor(FLOAT16, 1, 1, 3, 1), tensor(INT8, 1, 1, 3, 1)]},
        "QuantizationTensors[1].DataType must be UINT8, as in InputTensor; got INT8.",
    ),
    "the zero point has the sizes of the scale": (
        {"quantization_type": BOTH, "quantization_tensors": [tensor(FLOAT16, 1, 1, 3, 1), tensor(UINT8, 1, 1, 3, 2)]},
        "QuantizationTensors[1].Sizes must be [1, 1, 3, 1], those of QuantizationTensors[0]; got [1, 1, 3, 2].",
    ),
    "the sizes of the scale divide those of InputTensor": (
        {"quantization_tensors": [tensor(FLOAT16, 1, 1, 3, 16)]},
        "QuantizationTensors[0].Sizes must divide [1, 1, 6, 8], those of InputTensor; got [1, 1, 3, 16].",
    ),
}

INTEGERS = "INT32 INT16 INT8 UINT32 UINT16 UINT8"

STRUCTS = (
    Struct(
        dml.ElementWiseDequantizeLinearOperatorDesc(
            input_tensor=tensor(UINT8, 1, 2, 3, 4),
            scale_tensor=tensor(FLOAT32, 1, 2, 3, 4),
            zero_point_tensor=tensor(UINT8, 1, 2, 3, 4),
            output_tensor=tensor(FLOAT32, 1, 2, 3, 4),
        ),
        names={"ELEMENT_WISE_DEQUANTIZE_LINEAR": 34},
        fields="input_tensor scale_tensor zero_point_tensor output_tensor",
        table=f"""
1_0 input zero_point | 4 | UINT8
1_0 scale output | 4 | FLOAT32
2_1 input zero_point | 4 | {INTEGERS}
2_1 scale output | 4 | FLOAT32
3_0 input zero_point | 1-8 | {INTEGERS}
3_0 scale output | 1-8 | FLOAT32
6_0 input zero_point | 1-8 | {INTEGERS}
6_0 scale output | 1-8 | FLOAT32 FLOAT16
6_2 input zero_point | 1-8 | {INTEGERS}
6_2 scale output | 1-8 | FLOAT32 FLOAT16
""",
        public=lambda desc, *inputs: jaxdml.dequantize_linear(*inputs),
        alike=(
            ("DimensionCount", "Input Scale ZeroPoint Output"),
            ("DataType", "Input ZeroPoint"),
            ("DataType", "Scale Output"),
        ),
        broken=BROKEN,
        of_ones={},
    ),
    Struct(
        dml.DequantizeOperatorDesc(
            input_tensor=tensor(UINT8, 1, 1, 6, 8),
            quantization_type=SCALE,
            quantization_tensors=[tensor(FLOAT16, 1, 1, 3, 1)],
            output_tensor=tensor(FLOAT16, 1, 1, 6, 8),
        ),
        names={"DEQUANTIZE": 174},
        fields="input_tensor quantization_type quantization_tensor_count quantization_tensors output_tensor",
        table="""
6_3 input | 1-8 | INT8 UINT8
6_3 quantization_tensors | 1-8 | FLOAT32 FLOAT16 INT8 UINT8
6_3 output | 1-8 | FLOAT32 FLOAT16
""",
        # Without a zero point UINT8 is centred.
        public=lambda desc, x, tensors: jaxdml.dequantize_linear(
            x, *tensors, np.full((1, 1, 1, 1), 128, np.uint8), axis=(0, 1, 2, 3), block_size=(1, 1, 2, 8)
        ),
        alike=(
            ("DimensionCount", "Input QuantizationTensors[0] Output"),
            ("DataType", "Output QuantizationTensors[0]"),
        ),
        broken=BROKEN_BLOCKS,
        of_ones={},
    ),
)

"""Second copies of what DirectML's header and pages say of ELEMENT_WISE_QUANTIZE_LINEAR and QUANTIZE."""

import jaxdml
from jaxdml import directml as dml
from tests.directml_descs import FLOAT16, FLOAT32, INT8, UINT8, Struct, tensor

INT32 = dml.TensorDataType.INT32
SCALE, BOTH = dml.QuantizationType.SCALE, dml.QuantizationType.SCALE_ZERO_POINT

BROKEN = {
    "all four tensors have one DimensionCount": (
        {"scale_tensor": tensor(FLOAT32, 3, 4)},
        "ScaleTensor.DimensionCount must be 4, as in InputTensor; got 2.",
    ),
    "ScaleTensor has the sizes of InputTensor": (
        {"scale_tensor": tensor(FLOAT32, 1, 1, 1, 1)},
        "ScaleTensor.Sizes must be [1, 2, 3, 4], those of InputTensor; got [1, 1, 1, 1].",
    ),
    "ZeroPointTensor has the sizes of InputTensor": (
        {"zero_point_tensor": tensor(UINT8, 1, 2, 3, 1)},
        "ZeroPointTensor.Sizes must be [1, 2, 3, 4], those of InputTensor; got [1, 2, 3, 1].",
    ),
    "OutputTensor has the sizes of InputTensor": (
        {"output_tensor": tensor(UINT8, 1, 2, 4, 3)},
        "OutputTensor.Sizes must be [1, 2, 3, 4], those of InputTensor; got [1, 2, 4, 3].",
    ),
    "ZeroPointTensor and OutputTensor have the same DataType": (
        {"zero_point_tensor": tensor(INT8, 1, 2, 3, 4)},
        "ZeroPointTensor.DataType must be UINT8, as in OutputTensor; got INT8.",
    ),
    "a float InputTensor and ScaleTensor have the same DataType": (
        {"scale_tensor": tensor(FLOAT16, 1, 2, 3, 4)},
        "ScaleTensor.DataType must be FLOAT32, as in InputTensor; got FLOAT16.",
    ),
    "an INT32 InputTensor has a FLOAT32 ScaleTensor": (
        {"input_tensor": tensor(INT32, 1, 2, 3, 4), "scale_tensor": tensor(FLOAT16, 1, 2, 3, 4)},
        "ScaleTensor.DataType must be FLOAT32 for an InputTensor of INT32; got FLOAT16.",
    ),
}

BROKEN_BLOCKS = {
    "QuantizationType is SCALE or SCALE_ZERO_POINT": (
        {"quantization_type": 0},
        "QuantizationType must be SCALE or SCALE_ZERO_POINT; got NONE.",
    ),
    "SCALE has one tensor": (
        {"quantization_type": SCALE},
        "QuantizationTensorCount must be 1, the tensors of SCALE; got 2.",
    ),
    "SCALE_ZERO_POINT has two tensors": (
        {"quantization_tensors": [tensor(FLOAT32, 1, 1, 3, 2)]},
        "QuantizationTensorCount must be 2, the tensors of SCALE_ZERO_POINT; got 1.",
    ),
    "there is a tensor": (
        {"quantization_tensors": []},
        "QuantizationTensorCount must be 2, the tensors of SCALE_ZERO_POINT; got 0.",
    ),
    "the input, the output and every quantization tensor have the same DimensionCount": (
        {"quantization_tensors": [tensor(FLOAT32, 1, 3, 2), tensor(UINT8, 2)]},
        "QuantizationTensors[0].DimensionCount must be 4, as in InputTensor; got 3.",
        "QuantizationTensors[1].DimensionCount must be 4, as in InputTensor; got 1.",
    ),
    "OutputTensor has the sizes of InputTensor": (
        {"output_tensor": tensor(UINT8, 1, 1, 8, 6)},
        "OutputTensor.Sizes must be [1, 1, 6, 8], those of InputTensor; got [1, 1, 8, 6].",
    ),
    "the scale has the DataType of InputTensor": (
        {"quantization_tensors": [tensor(FLOAT16, 1, 1, 3, 2), tensor(UINT8, 1, 1, 3, 2)]},
        "QuantizationTensors[0].DataType must be FLOAT32, as in InputTensor; got FLOAT16.",
    ),
    "the zero point has the DataType of OutputTensor": (
        {"quantization_tensors": [tensor(FLOAT32, 1, 1, 3, 2), tensor(INT8, 1, 1, 3, 2)]},
        "QuantizationTensors[1].DataType must be UINT8, as in OutputTensor; got INT8.",
    ),
    "the zero point has the sizes of the scale": (
        {"quantization_tensors": [tensor(FLOAT32, 1, 1, 3, 2), tensor(UINT8, 1, 1, 3, 1)]},
        "QuantizationTensors[1].Sizes must be [1, 1, 3, 2], those of QuantizationTensors[0]; got [1, 1, 3, 1].",
    ),
    "the sizes of the scale divide those of InputTensor": (
        {"quantization_tensors": [tensor(FLOAT32, 1, 1, 4, 2), tensor(UINT8, 1, 1, 4, 2)]},
        "QuantizationTensors[0].Sizes must divide [1, 1, 6, 8], those of InputTensor; got [1, 1, 4, 2].",
    ),
}

STRUCTS = (
    Struct(
        dml.ElementWiseQuantizeLinearOperatorDesc(
            input_tensor=tensor(FLOAT32, 1, 2, 3, 4),
            scale_tensor=tensor(FLOAT32, 1, 2, 3, 4),
            zero_point_tensor=tensor(UINT8, 1, 2, 3, 4),
            output_tensor=tensor(UINT8, 1, 2, 3, 4),
        ),
        names={"ELEMENT_WISE_QUANTIZE_LINEAR": 33},
        fields="input_tensor scale_tensor zero_point_tensor output_tensor",
        table="""
1_0 input scale | 4 | FLOAT32
1_0 zero_point output | 4 | UINT8
2_1 input | 4 | FLOAT32 INT32
2_1 scale | 4 | FLOAT32
2_1 zero_point output | 4 | INT8 UINT8
3_0 input | 1-8 | FLOAT32 INT32
3_0 scale | 1-8 | FLOAT32
3_0 zero_point output | 1-8 | INT8 UINT8
6_0 input | 1-8 | FLOAT32 FLOAT16 INT32
6_0 scale | 1-8 | FLOAT32 FLOAT16
6_0 zero_point output | 1-8 | INT8 UINT8
6_2 input | 1-8 | FLOAT32 FLOAT16 INT32
6_2 scale | 1-8 | FLOAT32 FLOAT16
6_2 zero_point output | 1-8 | INT8 UINT8
""",
        public=lambda desc, *inputs: jaxdml.quantize_linear(*inputs, output_dtype=desc.output_tensor.data_type.dtype),
        alike=(("DimensionCount", "Input Scale ZeroPoint Output"), ("DataType", "Output ZeroPoint")),
        broken=BROKEN,
        of_ones={},
        together=lambda kinds: (
            kinds["scale_tensor"] == (FLOAT32 if kinds["input_tensor"] == INT32 else kinds["input_tensor"])
        ),
    ),
    Struct(
        dml.QuantizeOperatorDesc(
            input_tensor=tensor(FLOAT32, 1, 1, 6, 8),
            quantization_type=BOTH,
            quantization_tensors=[tensor(FLOAT32, 1, 1, 3, 2), tensor(UINT8, 1, 1, 3, 2)],
            output_tensor=tensor(UINT8, 1, 1, 6, 8),
        ),
        names={"QUANTIZE": 173},
        fields="input_tensor quantization_type quantization_tensor_count quantization_tensors output_tensor",
        table="""
6_3 input | 1-8 | FLOAT32 FLOAT16
6_3 quantization_tensors | 1-8 | FLOAT32 FLOAT16 INT8 UINT8
6_3 output | 1-8 | INT8 UINT8
""",
        public=lambda desc, x, tensors: jaxdml.quantize_linear(
            x, *tensors, axis=(0, 1, 2, 3), block_size=(1, 1, 2, 4), output_dtype=desc.output_tensor.data_type.dtype
        ),
        alike=(
            ("DimensionCount", "Input QuantizationTensors[0] QuantizationTensors[1] Output"),
            ("DataType", "Input QuantizationTensors[0]"),
            ("DataType", "Output QuantizationTensors[1]"),
        ),
        broken=BROKEN_BLOCKS,
        of_ones={},
    ),
)

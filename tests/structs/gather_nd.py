"""Second copies of what DirectML's header and pages say of GATHER_ND and GATHER_ND1."""

import jaxdml
from jaxdml import directml as dml
from tests.directml_descs import FLOAT16, FLOAT32, UINT32, Struct, tensor

ALIKE = (("DimensionCount", "Input Indices Output"), ("DataType", "Input Output"))
TABLE = """
3_0 input output | 1-8 | FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8
3_0 indices | 1-8 | INT64 INT32 UINT64 UINT32
4_1 input output | 1-8 | FLOAT64 FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8
4_1 indices | 1-8 | INT64 INT32 UINT64 UINT32
"""
WHY = "the leading sizes of IndicesTensor and the trailing ones of InputTensor"
BROKEN = {
    "IndicesTensor has the DimensionCount of InputTensor": (
        {"indices_tensor": tensor(UINT32, 3, 6, 1)},
        "IndicesTensor.DimensionCount must be 4, as in InputTensor; got 3.",
    ),
    "InputDimensionCount ranges from 1": (
        {"input_dimension_count": 0},
        "InputDimensionCount must be between 1 and 4, InputTensor.DimensionCount; got 0.",
    ),
    "InputDimensionCount ranges to the DimensionCount": (
        {"input_dimension_count": 5},
        "InputDimensionCount must be between 1 and 4, InputTensor.DimensionCount; got 5.",
    ),
    "IndicesDimensionCount ranges from 1": (
        {"indices_dimension_count": 0},
        "IndicesDimensionCount must be between 1 and 4, IndicesTensor.DimensionCount; got 0.",
    ),
    "IndicesDimensionCount ranges to the DimensionCount": (
        {"indices_dimension_count": 2**32 - 1},
        "IndicesDimensionCount must be between 1 and 4, IndicesTensor.DimensionCount; got 4294967295.",
    ),
    "the dimensions of InputTensor that do not count are ignored (here: 1)": (
        {"input_tensor": tensor(FLOAT32, 2, 3, 4, 5)},
        "InputTensor.Sizes must be 1 in all dimensions but the last 3, InputDimensionCount; got [2, 3, 4, 5].",
    ),
    "the dimensions of IndicesTensor that do not count are ignored (here: 1)": (
        {"indices_tensor": tensor(UINT32, 2, 3, 6, 1)},
        "IndicesTensor.Sizes must be 1 in all dimensions but the last 3, IndicesDimensionCount; got [2, 3, 6, 1].",
    ),
}  # fmt: skip
OF_ND = {
    "OutputTensor has the DataType of InputTensor": (
        {"output_tensor": tensor(FLOAT16, 3, 6, 4, 5)},
        "OutputTensor.DataType must be FLOAT32, as in InputTensor; got FLOAT16.",
    ),
    "a tuple has no more coordinates than InputTensor has dimensions that count": (
        {"indices_tensor": tensor(UINT32, 1, 3, 6, 4)},
        "IndicesTensor.Sizes must end in a size between 1 and 3, InputDimensionCount, since a tuple has one entry a "
        "dimension; got [1, 3, 6, 4].",
    ),
    "OutputTensor has the leading sizes of IndicesTensor and the trailing ones of InputTensor": (
        {"indices_tensor": tensor(UINT32, 1, 3, 6, 2)},
        f"OutputTensor.Sizes must be [1, 3, 6, 5], {WHY}; got [3, 6, 4, 5].",
    ),
    "OutputTensor has as many dimensions as its sizes take": (
        {"indices_tensor": tensor(UINT32, 2, 3, 6, 1), "indices_dimension_count": 4,
            "output_tensor": tensor(FLOAT32, 3, 6, 4, 5)},
        f"OutputTensor.DimensionCount must hold the sizes [2, 3, 6, 4, 5], {WHY}; got 4.",
    ),
}  # fmt: skip
OF_ND1 = {
    "OutputTensor has the DataType of InputTensor": (
        {"output_tensor": tensor(FLOAT16, 1, 3, 6, 5)},
        "OutputTensor.DataType must be FLOAT32, as in InputTensor; got FLOAT16.",
    ),
    "a tuple has no more coordinates than InputTensor has dimensions after the batch": (
        {"indices_tensor": tensor(UINT32, 1, 3, 6, 3)},
        "IndicesTensor.Sizes must end in a size between 1 and 2, InputDimensionCount less BatchDimensionCount, since a "
        "tuple has one entry a dimension; got [1, 3, 6, 3].",
    ),
    "BatchDimensionCount ranges below the DimensionCount (here: below both counts)": (
        {"batch_dimension_count": 3},
        "BatchDimensionCount must be less than 3, the lesser of InputDimensionCount and IndicesDimensionCount; got 3.",
    ),
    "InputTensor and IndicesTensor have the same batch": (
        {"indices_tensor": tensor(UINT32, 1, 2, 6, 1)},
        "IndicesTensor.Sizes must have the batch sizes of InputTensor, [3]; got [1, 2, 6, 1].",
    ),
    "OutputTensor has the leading sizes of IndicesTensor and the trailing ones of InputTensor": (
        {"output_tensor": tensor(FLOAT32, 1, 3, 6, 4)},
        f"OutputTensor.Sizes must be [1, 3, 6, 5], {WHY}; got [1, 3, 6, 4].",
    ),
    "the sizes of OutputTensor are aligned to the right, after leading 1s": (
        {"output_tensor": tensor(FLOAT32, 3, 6, 5, 1)},
        f"OutputTensor.Sizes must be [1, 3, 6, 5], {WHY}; got [3, 6, 5, 1].",
    ),
}
TENSORS = {
    "input_tensor": tensor(FLOAT32, 1, 3, 4, 5),
    "indices_tensor": tensor(UINT32, 1, 3, 6, 1),
    "input_dimension_count": 3,
    "indices_dimension_count": 3,
}
FIELDS = "input_tensor indices_tensor output_tensor input_dimension_count indices_dimension_count"
COUNTS = {"input_dimension_count": 1, "indices_dimension_count": 1}


def public(desc, x, indices, batch=0):
    used = x.shape[-desc.input_dimension_count :], indices.shape[-desc.indices_dimension_count :]
    read = jaxdml.gather_nd(x.reshape(used[0]), indices.reshape(used[1]), batch_dims=batch)
    return read.reshape(desc.output_tensor.sizes)


STRUCTS = (
    Struct(
        dml.GatherNdOperatorDesc(**TENSORS, output_tensor=tensor(FLOAT32, 3, 6, 4, 5)),
        names={"GATHER_ND": 108},
        fields=FIELDS,
        table="""
2_1 input output | 4 | FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8
2_1 indices | 4 | UINT32
"""
        + TABLE,
        public=public,
        alike=ALIKE,
        broken=BROKEN | OF_ND,
        of_ones=COUNTS,
    ),
    Struct(
        dml.GatherNd1OperatorDesc(**TENSORS, output_tensor=tensor(FLOAT32, 1, 3, 6, 5), batch_dimension_count=1),
        names={"GATHER_ND1": 140},
        fields=f"{FIELDS} batch_dimension_count",
        table=TABLE,
        public=lambda desc, *inputs: public(desc, *inputs, batch=desc.batch_dimension_count),
        alike=ALIKE,
        broken=BROKEN | OF_ND1,
        of_ones=COUNTS | {"batch_dimension_count": 0},
    ),
)

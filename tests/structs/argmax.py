"""A second copy of what DirectML's header and page say of ARGMAX, and of what they say of ARGMIN alike."""

import jaxdml
from jaxdml import directml as dml
from tests.directml_descs import FLOAT32, UINT32, Struct, tensor

BROKEN = {
    "both have the same DimensionCount": (
        {"output_tensor": tensor(UINT32, 2, 1, 4)},
        "OutputTensor.DimensionCount must be 4, as in InputTensor; got 3.",
    ),
    "OutputTensor has the sizes of InputTensor, 1 at the axes": (
        {"output_tensor": tensor(UINT32, 2, 3, 4, 1)},
        "OutputTensor.Sizes must be [2, 1, 4, 1], those of InputTensor with 1 at Axes; got [2, 3, 4, 1].",
    ),
    "every axis is less than DimensionCount": (
        {"axes": (1, 4, 3)},
        "Axes[1] must be less than 4, InputTensor.DimensionCount; got 4.",
    ),
    "no axis occurs twice (not on the page)": (
        {"axes": (1, 3, 1)},
        "Axes must name each dimension once; got [1, 3, 1].",
    ),
    "OutputTensor is an integer of 32 or 64 bits": (
        {"output_tensor": tensor(FLOAT32, 2, 1, 4, 1)},
        "OutputTensor.DataType must be one of INT64, INT32, UINT64, UINT32 at feature level 6_4; got FLOAT32.",
    ),
}


def struct(kind, name, number, public):
    """Return the copy for ARGMAX or ARGMIN."""
    return Struct(
        kind(
            input_tensor=tensor(FLOAT32, 2, 3, 4, 5),
            output_tensor=tensor(UINT32, 2, 1, 4, 1),
            axes=(1, 3),
            axis_direction=dml.AxisDirection.DECREASING,
        ),
        names={name: number},
        fields="input_tensor output_tensor axis_count axes axis_direction",
        table="""
3_0 input | 1-8 | FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8
3_0 output | 1-8 | INT64 INT32 UINT64 UINT32
4_1 input | 1-8 | FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8
4_1 output | 1-8 | INT64 INT32 UINT64 UINT32
""",
        public=lambda desc, x: public(
            x,
            axis=desc.axes,
            keepdims=True,
            select_last_index=desc.axis_direction == dml.AxisDirection.DECREASING,
            index_dtype=desc.output_tensor.data_type.name.lower(),
        ),
        alike=(("DimensionCount", "Input Output"),),
        broken=BROKEN,
        of_ones={"axes": (0,)},
    )


STRUCTS = (struct(dml.ArgmaxOperatorDesc, "ARGMAX", 138, jaxdml.argmax),)

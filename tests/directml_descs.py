"""Valid descriptions of every operator, for tests to change one field of."""

import dataclasses

from jaxdml import directml as dml
from jaxdml.directml._checks import alike
from jaxdml.directml._descs import Operator, OperatorDesc
from jaxdml.directml._fields import Input, Output
from jaxdml.directml._support import row

FLOAT32, UINT32, INT8, UINT8 = (dml.TensorDataType[name] for name in ("FLOAT32", "UINT32", "INT8", "UINT8"))
DECREASING = dml.AxisDirection.DECREASING


def tensor(data_type, *sizes, **others):
    return dml.BufferTensorDesc(data_type, sizes, **others)


def _selected(kind, **others):
    return kind(
        input_tensor=tensor(FLOAT32, 1, 1, 3, 4),
        output_value_tensor=tensor(FLOAT32, 1, 1, 3, 2),
        output_index_tensor=tensor(UINT32, 1, 1, 3, 2),
        axis=3, k=2, **others,
    )  # fmt: skip


VALID = {
    "TOP_K": _selected(dml.TopKOperatorDesc),
    "TOP_K1": _selected(dml.TopK1OperatorDesc, axis_direction=DECREASING),
    "SCATTER": dml.ScatterOperatorDesc(
        input_tensor=tensor(FLOAT32, 1, 1, 3, 4), indices_tensor=tensor(UINT32, 1, 1, 2, 4),
        updates_tensor=tensor(FLOAT32, 1, 1, 2, 4), output_tensor=tensor(FLOAT32, 1, 1, 3, 4), axis=2,
    ),
    "SCATTER_ND": dml.ScatterNdOperatorDesc(
        input_tensor=tensor(FLOAT32, 1, 3, 4, 5), indices_tensor=tensor(UINT32, 1, 1, 6, 2),
        updates_tensor=tensor(FLOAT32, 1, 1, 6, 5), output_tensor=tensor(FLOAT32, 1, 3, 4, 5),
        input_dimension_count=3, indices_dimension_count=2,
    ),
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": dml.QuantizedLinearMatrixMultiplyOperatorDesc(
        a_tensor=tensor(UINT8, 1, 2, 3, 4), a_scale_tensor=tensor(FLOAT32, 1, 1, 3, 1),
        a_zero_point_tensor=tensor(UINT8, 1, 1, 3, 1),
        b_tensor=tensor(INT8, 1, 2, 4, 5), b_scale_tensor=tensor(FLOAT32, 1, 1, 1, 5),
        b_zero_point_tensor=tensor(INT8, 1, 1, 1, 1),
        output_scale_tensor=tensor(FLOAT32, 1, 1, 1, 1), output_zero_point_tensor=tensor(UINT8, 1, 1, 1, 1),
        output_tensor=tensor(UINT8, 1, 2, 3, 5),
    ),
}  # fmt: skip


def changed(operator, **fields):
    """Return the valid description of an operator with these fields instead."""
    return dataclasses.replace(VALID[operator], **fields)


def broken(desc, level=dml.FeatureLevel.LEVEL_6_4):
    """Return what compile_operator finds wrong, a line for each, without the operator's own line."""
    try:
        dml.compile_operator(desc, level)
    except dml.InvalidDescError as error:
        return str(error).split("\n  ")[1:]
    return []


ALL_TYPES = tuple(dml.TensorDataType)[1:]


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class CopyOperatorDesc(OperatorDesc):
    """A made-up struct: what it reads it writes, so that only buffers are at work."""

    operator = Operator(
        "COPY", 9001, {dml.FeatureLevel.LEVEL_1_0: row(("input_tensor output_tensor", range(1, 9), ALL_TYPES))}
    )

    input_tensor: Input
    output_tensor: Output

    def constraints(self):
        return alike(self, "data_type", "input_tensor", "output_tensor")

    def call(self, x):
        return x

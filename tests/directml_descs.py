"""What the tests of descriptions share: tensors, the record of a struct, a made-up struct."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from jaxdml import directml as dml
from jaxdml.directml._checks import alike
from jaxdml.directml._descs import OperatorDesc
from jaxdml.directml._making import make_struct
from jaxdml.directml._operator import Operator
from jaxdml.directml._support import row

FLOAT32, FLOAT16, UINT32, INT64, INT8, UINT8 = (
    dml.TensorDataType[name] for name in ("FLOAT32", "FLOAT16", "UINT32", "INT64", "INT8", "UINT8")
)


def tensor(data_type, *sizes, **others):
    return dml.BufferTensorDesc(data_type, sizes, **others)


@dataclasses.dataclass(frozen=True)
class Struct:
    """What DirectML's header and pages say of a struct, copied independently of the struct itself."""

    valid: OperatorDesc
    """A valid description."""
    names: Mapping[str, int]
    """Its names in DML_OPERATOR_TYPE, the usual one first, with their number."""
    fields: str
    """The names of its fields in order."""
    table: str
    """Its table of feature levels: in every line the lowest level, tensors, their dimension counts and data types."""
    public: Callable[..., Any]
    """Call the public operator: with the description, and with an array for every input."""
    alike: tuple[tuple[str, str], ...]
    """DimensionCount or DataType, and the tensors that have the same one; the first one decides."""
    broken: Mapping[str, tuple[Any, ...]]
    """For every constraint: fields that break it, and all that compile_operator says of them."""
    of_ones: Mapping[str, Any] | Callable[[Mapping[str, int]], Mapping[str, Any]]
    """The fields beside the tensors, for tensors of one element; or what returns them for given ranks of tensors."""
    together: Callable[[Mapping[str, Any]], bool] = lambda kinds: True
    """Take the data type of every tensor; tell whether they go together, where that is more than being alike."""

    @property
    def name(self):
        return next(iter(self.names))


def broken(desc, level=dml.FeatureLevel.LEVEL_6_4):
    """Return what compile_operator finds wrong, a line for each, without the operator's own line."""
    try:
        dml.compile_operator(desc, level)
    except dml.InvalidDescError as error:
        return str(error).split("\n  ")[1:]
    return []


ALL_TYPES = tuple(dml.TensorDataType)[1:]


CopyOperatorDesc = make_struct(
    "COPY",
    {"InputTensor": "input", "OutputTensor": "output"},
    Operator(
        9001,
        {dml.FeatureLevel.LEVEL_1_0: row(("input_tensor output_tensor", range(1, 9), ALL_TYPES))},
        lambda desc, x: x,
        lambda desc: alike(desc, "data_type", "input_tensor", "output_tensor"),
        doc="Copy.",
    ),
)
"""A made-up struct: what it reads it writes, so that only buffers are at work."""

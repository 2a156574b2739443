"""Show a description as a table."""

from collections.abc import Mapping

from jaxdml._base.display import Side, display
from jaxdml.directml._c import c_field, c_value
from jaxdml.directml._descs import OperatorDesc, require
from jaxdml.directml._tensors import BufferTensorDesc

_COLUMNS: Mapping[str, Side] = {
    "tensor": "left",
    "role": "left",
    "data type": "left",
    "sizes": "left",
    "strides": "left",
    "bytes": "right",
    "flags": "left",
}


def describe(desc: OperatorDesc) -> None:
    """Print the tensors of a description as a table, and below it the other fields.

    Args:
      desc: the description of an operator, valid or not.

    Raises:
      TypeError: ``desc`` is not the description of an operator.

    Example:
      >>> tensor = dml.BufferTensorDesc(dml.TensorDataType.INT8, (1, 1, 1, 4))
      >>> index = dml.BufferTensorDesc(dml.TensorDataType.UINT32, (1, 1, 1, 4))
      >>> desc = dml.TopKOperatorDesc(
      ...     input_tensor=tensor, output_value_tensor=tensor, output_index_tensor=index, axis=3, k=4)
      >>> dml.describe(desc)  # doctest: +ELLIPSIS
      DML_OPERATOR_TOP_K
      ...
      Axis = 3
      K = 4
    """
    require("describe", desc)
    show = display()
    show.line(desc.c_name())
    rows = []
    for name, role in desc.roles().items():
        labels = [label for label in desc.tensors if label.partition("[")[0] == name] or [name]
        rows += [(c_field(label), str(role), *_cells(desc.tensors.get(label))) for label in labels]
    show.table(_COLUMNS, rows)
    for name, value in desc.scalars.items():
        show.line(f"{c_field(name)} = {c_value(value)}")


def _cells(tensor: BufferTensorDesc | None) -> list[str]:
    if tensor is None:
        return ["-"] * 5
    strides = "packed" if tensor.strides is None else str(list(tensor.strides))
    size = str(tensor.size_in_bytes)
    return [tensor.data_type.name, str(list(tensor.sizes)), strides, size, tensor.flags.name or ""]

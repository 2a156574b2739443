"""Write descriptions in the JSON of DxDispatch, DirectML's own tool, and read them from it."""

import math
from collections.abc import Mapping
from dataclasses import fields
from enum import IntEnum
from typing import Any

import numpy as np

from jaxdml._base.errors import compose
from jaxdml.directml._c import c_field, c_name, scalar_member, shortest
from jaxdml.directml._descs import OperatorDesc, require
from jaxdml.directml._fields import ScaleBias, Size2D
from jaxdml.directml._reading import desc_from_json
from jaxdml.directml._tensors import BufferTensorDesc


def to_json(desc: OperatorDesc) -> dict[str, Any]:
    """Return a description in the layout of DxDispatch, for ``json.dump``.

    Left out are optional tensors that are not described, and values that are DxDispatch's defaults.

    Args:
      desc: the description of an operator.

    Returns:
      ``{"Type": "DML_OPERATOR_...", "Desc": {...}}`` of strings, integers, lists and dicts.

    Raises:
      TypeError: ``desc`` is not the description of an operator.

    Source:
      DxDispatch, in DirectML's repository.

    Example:
      >>> tensor = dml.BufferTensorDesc(dml.TensorDataType.INT8, (1, 1, 1, 4))
      >>> index = dml.BufferTensorDesc(dml.TensorDataType.UINT32, (1, 1, 1, 4))
      >>> desc = dml.TopKOperatorDesc(
      ...     input_tensor=tensor, output_value_tensor=tensor, output_index_tensor=index, axis=3, k=4)
      >>> dml.to_json(desc)["Desc"]["InputTensor"]
      {'DataType': 'INT8', 'Sizes': [1, 1, 1, 4]}
    """
    require("to_json", desc)
    values = {field.name: getattr(desc, field.name) for field in fields(desc)}
    return {"Type": desc.c_name(), "Desc": _named(values)}


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    return {c_field(name): _to_json(value) for name, value in values.items() if value is not None}


def _to_json(value: Any) -> Any:
    match value:
        case BufferTensorDesc():
            return _tensor_to_json(value)
        case OperatorDesc():
            return to_json(value)
        case ScaleBias() | Size2D():
            return _named(value._asdict())
        case tuple():
            return list(map(_to_json, value))
    return _plain_to_json(value)


def _plain_to_json(value: Any) -> Any:
    match value:
        case IntEnum():
            return c_name(value)
        case np.generic():
            member, held = scalar_member(value.dtype)
            return {member: _float(value.view(held).item())}
        case float():
            return _float(shortest(value))
    return value


def _float(number: Any) -> Any:
    """Return a number, or one of the strings that stand for what JSON has no numbers of."""
    return number if math.isfinite(number) else str(number)


def _tensor_to_json(tensor: BufferTensorDesc) -> dict[str, Any]:
    written: dict[str, Any] = {"DataType": tensor.data_type.name, "Sizes": list(tensor.sizes)}
    if tensor.strides is not None:
        written["Strides"] = list(tensor.strides)
    if tensor.flags:
        written["Flags"] = [c_name(flag) for flag in tensor.flags]
    if tensor.total_tensor_size_in_bytes is not None:
        written["TotalTensorSizeInBytes"] = tensor.total_tensor_size_in_bytes
    if tensor.guaranteed_base_offset_alignment:
        written["GuaranteedBaseOffsetAlignment"] = tensor.guaranteed_base_offset_alignment
    return written


def from_json(value: Mapping[str, Any]) -> OperatorDesc:
    """Return the description of an operator from the layout of DxDispatch, as ``json.load`` gives it.

    An entry of a model's ``dispatchables`` can be given as it is: the keys ``Type`` and ``Desc`` may be in lower case,
    enumerations may lack their prefix, and the fields may stand beside ``Type`` instead of in ``Desc``.

    Args:
      value: a dict with a type and the fields of its struct.

    Returns:
      The description. It is checked by ``compile_operator``, not here.

    Raises:
      TypeError: ``value`` is not a dict.
      InvalidDescError: the type is unknown, or a field is missing, unknown or has the wrong type.

    Source:
      DxDispatch, in DirectML's repository. It ignores unknown keys, and a ``DimensionCount`` that is not the length of
      ``Sizes``. Here both are errors.

    Example:
      >>> tensor = {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 4]}
      >>> index = {"DataType": "UINT32", "Sizes": [1, 1, 1, 4]}
      >>> desc = dml.from_json({"type": "DML_OPERATOR_TOP_K", "desc": {
      ...     "InputTensor": tensor, "OutputValueTensor": tensor, "OutputIndexTensor": index, "Axis": 3, "K": 4}})
      >>> desc.input_tensor.sizes
      (1, 1, 1, 4)
    """
    if not isinstance(value, Mapping):
        raise TypeError(compose("directml.from_json", f"value must be a dict; got {value!r}."))
    return desc_from_json("", value)

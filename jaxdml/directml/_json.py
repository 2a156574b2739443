"""Write descriptions as DxDispatch, DirectML's own tool, reads them, and read those."""

import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import Field, fields
from functools import reduce
from typing import Any, NoReturn

from jaxdml._base.axis_direction import AxisDirection
from jaxdml.directml._descs import DESCS, OperatorDesc, Role, require, role_of
from jaxdml.directml._enums import PREFIXES, OperatorType, TensorDataType, TensorFlags, c_field, c_name, c_value
from jaxdml.directml._errors import InvalidDescError, Violation
from jaxdml.directml._tensors import LARGEST_UINT, LARGEST_UINT64, BufferTensorDesc

_BESIDE = frozenset({"Type", "type", "dmlCompileType", "executionFlags", "bindings"})
"""What may stand beside the fields of a description that stands in a model; none of it is of the description."""


def to_json(desc: OperatorDesc) -> dict[str, Any]:
    """Return a description in the layout of DxDispatch, for ``json.dump``.

    What has the value that DxDispatch takes without being told is left out, and so are optional tensors that are not
    there.

    Args:
      desc: the description of an operator.

    Returns:
      ``{"Type": "DML_OPERATOR_...", "Desc": {...}}`` of strings, integers, lists and dicts.

    Raises:
      TypeError: ``desc`` is no description.

    Source:
      DxDispatch, of DirectML's repository.

    Example:
      >>> tensor = dml.BufferTensorDesc(dml.TensorDataType.INT8, (1, 1, 1, 4))
      >>> index = dml.BufferTensorDesc(dml.TensorDataType.UINT32, (1, 1, 1, 4))
      >>> desc = dml.TopKOperatorDesc(
      ...     input_tensor=tensor, output_value_tensor=tensor, output_index_tensor=index, axis=3, k=4)
      >>> dml.to_json(desc)["Desc"]["InputTensor"]
      {'DataType': 'INT8', 'Sizes': [1, 1, 1, 4]}
    """
    require("to_json", desc)
    written: dict[str, Any] = {}
    for field in fields(desc):
        value = getattr(desc, field.name)
        if isinstance(value, BufferTensorDesc):
            written[c_field(field.name)] = _tensor_to_json(value)
        elif value is not None:
            written[c_field(field.name)] = c_value(value)
    return {"Type": c_name(desc.operator_type), "Desc": written}


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
    """Return the description of an operator that is in the layout of DxDispatch, as ``json.load`` gives it.

    Keys may be spelled ``Type`` or ``type``, ``Desc`` or ``desc``, enumerations may have their prefix or not, and
    fields may stand beside the type. So an entry of a model's ``dispatchables`` can be given as it is.

    Args:
      value: a dict with a type and the fields of its struct.

    Returns:
      The description. Whether it is valid is for ``compile_operator`` to judge.

    Raises:
      TypeError: ``value`` is no dict.
      InvalidDescError: the type is none of those here, a field is missing, unknown, or of another kind.

    Source:
      DxDispatch, of DirectML's repository. It ignores keys that it does not know, and a ``DimensionCount`` that is not
      the length of ``Sizes``; here those are errors.

    Example:
      >>> tensor = {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 4]}
      >>> index = {"DataType": "UINT32", "Sizes": [1, 1, 1, 4]}
      >>> desc = dml.from_json({"type": "DML_OPERATOR_TOP_K", "desc": {
      ...     "InputTensor": tensor, "OutputValueTensor": tensor, "OutputIndexTensor": index, "Axis": 3, "K": 4}})
      >>> desc.input_tensor.sizes
      (1, 1, 1, 4)
    """
    if not isinstance(value, Mapping):
        raise TypeError(f"jaxdml.directml.from_json: value must be a dict; got {value!r}.")
    kind = _enumerated(OperatorType)("Type", value.get("Type", value.get("type")))
    struct = DESCS[kind]
    readers = {one.name: (_reader(one), role_of(one) is not Role.OPTIONAL_INPUT) for one in fields(struct)}
    return struct(**_fields("", _within("", value, ("Desc", "desc"), _BESIDE), readers))


def _within(field: str, value: Mapping[str, Any], names: tuple[str, ...], beside: Collection[str]) -> Any:
    """Return what holds the fields: an object in a field of one of these names, or what stands beside the type."""
    others = {name: part for name, part in value.items() if name not in beside}
    name = next((name for name in names if name in others), None)
    if name is None:
        return others
    if more := others.keys() - {name}:
        prefix = f"{field}." if field else ""
        broken = [Violation(f"{prefix}{key}", f"must not stand beside {name}", "it") for key in more]
        raise InvalidDescError(_UNREADABLE, sorted(broken))
    return others[name]


_UNREADABLE = "JSON that cannot be read as a description."

Reader = Callable[[str, Any], Any]
"""Takes the name of a field and what JSON has there; raises InvalidDescError where that is not what the field takes."""


def _reader(field: Field[Any]) -> Reader:
    if role_of(field):
        return _tensor
    return _enumerated(AxisDirection) if field.type is AxisDirection else _integer(LARGEST_UINT)


def _refuse(field: str, rule: str, got: Any) -> NoReturn:
    raise InvalidDescError(_UNREADABLE, [Violation(field, rule, got)])


def _fields(within: str, found: Any, readers: Mapping[str, tuple[Reader, bool]]) -> dict[str, Any]:
    """Read the fields that are there; name all that cannot be read, that are missing, and that there are not."""
    if not isinstance(found, Mapping):
        _refuse(within or "Desc", "must be an object", repr(found))
    prefix = f"{within}." if within else ""
    known = {c_field(name): reader for name, reader in readers.items()}
    given: dict[str, Any] = {}
    unknown = [key for key in found if key not in known]
    broken = [Violation(f"{prefix}{key}", f"is none of {', '.join(known)}", repr(found[key])) for key in unknown]
    for name, (key, (read, required)) in zip(readers, known.items(), strict=True):
        try:
            if key in found:
                given[name] = read(prefix + key, found[key])
            elif required:
                _refuse(prefix + key, "is required", "nothing")
        except InvalidDescError as error:
            broken.extend(error.violations)
    if broken:
        raise InvalidDescError(_UNREADABLE, broken)
    return given


def _integer(largest: int) -> Reader:
    def read(field: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest:
            _refuse(field, f"must be an integer from 0 to {largest}", repr(value))
        return value

    return read


def _integers(field: str, value: Any) -> list[int]:
    if not isinstance(value, list):
        _refuse(field, "must be a list", repr(value))
    return [_integer(LARGEST_UINT)(f"{field}[{place}]", one) for place, one in enumerate(value)]


def _enumerated(kind: Any) -> Reader:
    def read(field: str, value: Any) -> Any:
        names = list(kind.__members__)
        if not isinstance(value, str) or value.removeprefix(PREFIXES[kind]) not in names:
            _refuse(field, f"must be one of {', '.join(names)}", repr(value))
        return kind[value.removeprefix(PREFIXES[kind])]

    return read


def _flags(field: str, value: Any) -> TensorFlags:
    read, given = _enumerated(TensorFlags), value if isinstance(value, list) else [value]
    return reduce(operator.or_, (read(field, one) for one in given), TensorFlags.NONE)


_TENSOR: Mapping[str, tuple[Reader, bool]] = {
    "data_type": (_enumerated(TensorDataType), True),
    "sizes": (_integers, True),
    "strides": (_integers, False),
    "flags": (_flags, False),
    "dimension_count": (_integer(LARGEST_UINT), False),
    "total_tensor_size_in_bytes": (_integer(LARGEST_UINT64), False),
    "guaranteed_base_offset_alignment": (_integer(LARGEST_UINT), False),
}


def _tensor(field: str, value: Any) -> BufferTensorDesc:
    found = value
    if isinstance(value, Mapping):
        kind = value.get("Type", "BUFFER")
        if kind not in ("DML_TENSOR_TYPE_BUFFER", "BUFFER"):
            _refuse(f"{field}.Type", "must be DML_TENSOR_TYPE_BUFFER", repr(kind))
        found = _within(field, value, ("Desc",), ("Type",))
    given = _fields(field, found, _TENSOR)
    count = given.pop("dimension_count", len(given["sizes"]))
    if count != len(given["sizes"]):
        _refuse(f"{field}.DimensionCount", f"must be {len(given['sizes'])}, the length of Sizes", count)
    # To DxDispatch these say the same as nothing at all.
    for name, nothing in (("strides", []), ("total_tensor_size_in_bytes", 0)):
        if given.get(name) == nothing:
            del given[name]
    return BufferTensorDesc(**given)

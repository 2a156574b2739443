"""Read the fields of descriptions from JSON, and name everything that cannot be read."""

import operator
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, Field, fields
from functools import reduce
from typing import Any, NoReturn

import numpy as np

from jaxdml.directml._c import c_field, c_prefix, scalar_member
from jaxdml.directml._converting import LARGEST_UINT, LARGEST_UINT64
from jaxdml.directml._descs import OperatorDesc
from jaxdml.directml._enums import TensorDataType, TensorFlags
from jaxdml.directml._errors import InvalidDescError, Violation, shown
from jaxdml.directml._fields import Counts, Role, Scalar, counts_of, kind_of
from jaxdml.directml._structs import struct_of
from jaxdml.directml._support import UP_TO_64_BITS
from jaxdml.directml._tables import OperatorType
from jaxdml.directml._tensors import BufferTensorDesc

_BESIDE = frozenset({"Type", "type", "dmlCompileType", "executionFlags", "bindings"})
"""Keys that a model has beside the fields of a description, and that are not fields."""


def desc_from_json(path: str, value: Mapping[str, Any]) -> OperatorDesc:
    """Return a description from an object with a type and the fields of its struct."""
    return struct_from_json(_struct(path, value), within(path, value, ("Desc", "desc"), _BESIDE), path)


def _struct(path: str, value: Mapping[str, Any]) -> type[OperatorDesc]:
    return struct_of(enumerated(OperatorType)(_beneath(path, "Type"), value.get("Type", value.get("type"))))


def struct_from_json(struct: type[OperatorDesc], found: Any, path: str = "") -> OperatorDesc:
    """Return a description from an object with the fields of this struct.

    Args:
      struct: the class.
      found: the object.
      path: where the object is, for the errors.
    """
    required = {one.name for one in fields(struct) if one.init and one.default is MISSING}
    given = _fields(path, found, {one.name: (_reader(one), one.name in required) for one in fields(struct)})
    for name, counts in counts_of(struct):
        label, array = _beneath(path, c_field(name)), c_field(counts.array)
        _check_count(label, given.pop(name, None), array, given[counts.array])
    for one in fields(struct):
        kind = kind_of(one)
        if isinstance(kind, Scalar):
            given[one.name] = _scalar(_beneath(path, c_field(one.name)), given[one.name], given[kind.data_type])
    return struct(**given)


def _beneath(path: str, name: Any) -> str:
    return f"{path}.{name}" if path else str(name)


def within(field: str, value: Mapping[str, Any], names: tuple[str, ...], beside: Collection[str]) -> Any:
    """Return the object with the fields: the value of a key in ``names``, or else ``value`` without ``beside``."""
    others = {name: part for name, part in value.items() if name not in beside}
    name = next((name for name in names if name in others), None)
    if name is None:
        return others
    more = {_beneath(field, key): shown(others[key]) for key in sorted(others.keys() - {name}, key=str)}
    _raise(list(_unwanted(more, f"must not stand beside {name}")))
    return others[name]


_ignored: ContextVar[list[str] | None] = ContextVar("_ignored", default=None)


@contextmanager
def ignoring_unknown_keys() -> Iterator[list[str]]:
    """Ignore what is no field, as DxDispatch does, and list where it stands; else it is an error."""
    found: list[str] = []
    token = _ignored.set(found)
    try:
        yield found
    finally:
        _ignored.reset(token)


def _unwanted(keys: Mapping[str, str], rule: str) -> Iterator[Violation]:
    ignored = _ignored.get()
    for path, got in keys.items():
        if ignored is None:
            yield Violation(path, rule, got)
        else:
            ignored.append(path)


_UNREADABLE = "JSON that cannot be read as a description."

Reader = Callable[[str, Any], Any]
"""Takes the name of a field and its value in JSON. Raises InvalidDescError if the field cannot have that value."""


def _reader(field: Field[Any]) -> Reader:
    match kind_of(field):
        case Role(several=several):
            return _list(_tensor) if several else _tensor
        case Counts():
            return _integer(0, LARGEST_UINT)
        case Scalar():
            return lambda field, value: value
        case str() as word:
            return _PLAIN[word]
        case kind:
            return enumerated(kind)


def _check_count(name: str, count: int | None, array: str, counted: list[Any]) -> None:
    if count not in (None, len(counted)):
        _refuse(name, f"must be {len(counted)}, the length of {array}", count)


def _refuse(field: str, rule: str, got: Any) -> NoReturn:
    raise InvalidDescError(_UNREADABLE, [Violation(field, rule, got)])


@contextmanager
def _collected(broken: list[Violation]) -> Iterator[None]:
    """Add the violations of an InvalidDescError to the list, so that the next field is read too."""
    try:
        yield
    except InvalidDescError as error:
        broken.extend(error.violations)


def _raise(broken: list[Violation]) -> None:
    if broken:
        raise InvalidDescError(_UNREADABLE, broken)


def _fields(within: str, found: Any, readers: Mapping[str, tuple[Reader, bool]]) -> dict[str, Any]:
    """Read every field. The error names all that cannot be read, are missing or do not exist."""
    if not isinstance(found, Mapping):
        _refuse(within or "Desc", "must be an object", shown(found))
    prefix = f"{within}." if within else ""
    known = {c_field(name): reader for name, reader in readers.items()}
    given: dict[str, Any] = {}
    unknown = {f"{prefix}{key}": shown(found[key]) for key in found if key not in known}
    broken = list(_unwanted(unknown, f"is none of {', '.join(known)}"))
    for name, (key, (read, required)) in zip(readers, known.items(), strict=True):
        with _collected(broken):
            if key in found:
                given[name] = read(prefix + key, found[key])
            elif required:
                _refuse(prefix + key, "is required", "nothing")
    _raise(broken)
    return given


def _integer(least: int, most: int) -> Reader:
    def read(field: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            _refuse(field, f"must be an integer from {least} to {most}", shown(value))
        return value

    return read


def _float(field: str, value: Any) -> float:
    if isinstance(value, str) and value.lower() in ("nan", "inf", "-inf"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(field, "must be a number, or one of nan, inf, -inf", shown(value))
    return value


def _scalar(field: str, value: Any, data_type: TensorDataType) -> Any:
    """Read a number, or the member of the union that has its data type."""
    if data_type not in UP_TO_64_BITS:
        return value  # The struct refuses the data type.
    dtype = data_type.dtype
    if not isinstance(value, Mapping):
        return _number(dtype)(field, value)
    member, held = scalar_member(dtype)
    if list(value) != [member]:
        _refuse(field, f"must be a number, or an object with {member}", shown(value))
    number = _number(held)(f"{field}.{member}", value[member])
    return number if held == dtype else held.type(number).view(dtype)


def _number(dtype: np.dtype[Any]) -> Reader:
    return _float if dtype.kind == "f" else _integer(int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


def _object(**readers: Reader) -> Reader:
    """Return a reader of an object with these fields, which returns their values."""
    required = {name: (reader, True) for name, reader in readers.items()}
    return lambda field, value: tuple(_fields(field, value, required).values())


def _activation(field: str, value: Any) -> OperatorDesc:
    if not isinstance(value, Mapping):
        _refuse(field, "must be an object", shown(value))
    struct = _struct(field, value)
    if struct.operator.fused_from is None:  # Else descriptions could be nested without end.
        _refuse(f"{field}.Type", "must be an activation that can be fused", struct.c_name())
    return desc_from_json(field, value)


def _boolean(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        _refuse(field, "must be true or false", shown(value))
    return value


def _list(reader: Reader) -> Reader:
    def read(field: str, value: Any) -> list[Any]:
        if not isinstance(value, list):
            _refuse(field, "must be a list", shown(value))
        given, broken = [], list[Violation]()
        for place, one in enumerate(value):
            with _collected(broken):
                given.append(reader(f"{field}[{place}]", one))
        _raise(broken)
        return given

    return read


def enumerated(enumeration: Any) -> Reader:
    """Return a reader of an enumeration's names, with their prefix or without it."""

    def read(field: str, value: Any) -> Any:
        names, prefix = list(enumeration.__members__), c_prefix(enumeration)
        if not isinstance(value, str) or value.removeprefix(prefix) not in names:
            _refuse(field, f"must be one of {', '.join(names)}", shown(value))
        return enumeration[value.removeprefix(prefix)]

    return read


_UINT, _INT = _integer(0, LARGEST_UINT), _integer(-(2**31), 2**31 - 1)

_PLAIN: Mapping[str, Reader] = {
    "uint": _UINT,
    "int": _INT,
    "float": _float,
    "float?": _float,
    "bool": _boolean,
    "uint[]": _list(_UINT),
    "int[]": _list(_INT),
    "float[]": _list(_float),
    "scale_bias?": _object(scale=_float, bias=_float),
    "size_2d": _object(width=_UINT, height=_UINT),
    "activation?": _activation,
    "activation[]": _list(_activation),
}


def _flags(field: str, value: Any) -> TensorFlags:
    read, given = enumerated(TensorFlags), value if isinstance(value, list) else [value]
    return reduce(operator.or_, (read(field, one) for one in given), TensorFlags.NONE)


_TENSOR: Mapping[str, tuple[Reader, bool]] = {
    "data_type": (enumerated(TensorDataType), True),
    "sizes": (_PLAIN["uint[]"], True),
    "strides": (_PLAIN["uint[]"], False),
    "flags": (_flags, False),
    "dimension_count": (_UINT, False),
    "total_tensor_size_in_bytes": (_integer(0, LARGEST_UINT64), False),
    "guaranteed_base_offset_alignment": (_UINT, False),
}


def _tensor(field: str, value: Any) -> BufferTensorDesc:
    found = value
    if isinstance(value, Mapping):
        kind = value.get("Type", "BUFFER")
        if kind not in ("DML_TENSOR_TYPE_BUFFER", "BUFFER"):
            _refuse(f"{field}.Type", "must be DML_TENSOR_TYPE_BUFFER", shown(kind))
        found = within(field, value, ("Desc",), ("Type",))
    given = _fields(field, found, _TENSOR)
    _check_count(f"{field}.DimensionCount", given.pop("dimension_count", None), "Sizes", given["sizes"])
    # DxDispatch reads these as if the key were missing.
    for name, nothing in (("strides", []), ("total_tensor_size_in_bytes", 0)):
        if given.get(name) == nothing:
            del given[name]
    return BufferTensorDesc(**given)

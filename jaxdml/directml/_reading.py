"""Read the fields of descriptions from JSON, and name everything that cannot be read."""

import operator
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import Field, fields
from functools import reduce
from typing import Any, NoReturn

from jaxdml.directml._c import c_field, c_prefix
from jaxdml.directml._converting import LARGEST_UINT, LARGEST_UINT64
from jaxdml.directml._descs import OperatorDesc
from jaxdml.directml._enums import TensorDataType, TensorFlags
from jaxdml.directml._errors import InvalidDescError, Violation
from jaxdml.directml._fields import Counts, Role, counts_of, kind_of
from jaxdml.directml._tensors import BufferTensorDesc


def struct_from_json(struct: type[OperatorDesc], found: Any) -> OperatorDesc:
    """Return a description from an object with the fields of this struct."""
    given = _fields("", found, {field.name: (_reader(field), _required(field)) for field in fields(struct)})
    for name, counts in counts_of(struct):
        _check_count(c_field(name), given.pop(name, None), c_field(counts.array), given[counts.array])
    return struct(**given)


def within(field: str, value: Mapping[str, Any], names: tuple[str, ...], beside: Collection[str]) -> Any:
    """Return the object with the fields: the value of a key in ``names``, or else ``value`` without ``beside``."""
    others = {name: part for name, part in value.items() if name not in beside}
    name = next((name for name in names if name in others), None)
    if name is None:
        return others
    if more := others.keys() - {name}:
        prefix = f"{field}." if field else ""
        broken = [Violation(f"{prefix}{key}", f"must not stand beside {name}", repr(others[key])) for key in more]
        raise InvalidDescError(_UNREADABLE, sorted(broken))
    return others[name]


_UNREADABLE = "JSON that cannot be read as a description."

Reader = Callable[[str, Any], Any]
"""Takes the name of a field and its value in JSON. Raises InvalidDescError if the field cannot have that value."""


def _reader(field: Field[Any]) -> Reader:
    match kind_of(field):
        case Role(several=several):
            return _list(_tensor) if several else _tensor
        case Counts():
            return _integer(LARGEST_UINT)
        case kind:
            return _SCALARS[kind] if kind in _SCALARS else enumerated(kind)


def _required(field: Field[Any]) -> bool:
    kind = kind_of(field)
    return not isinstance(kind, Counts) and not (isinstance(kind, Role) and kind.optional)


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
        _refuse(within or "Desc", "must be an object", repr(found))
    prefix = f"{within}." if within else ""
    known = {c_field(name): reader for name, reader in readers.items()}
    given: dict[str, Any] = {}
    unknown = [key for key in found if key not in known]
    broken = [Violation(f"{prefix}{key}", f"is none of {', '.join(known)}", repr(found[key])) for key in unknown]
    for name, (key, (read, required)) in zip(readers, known.items(), strict=True):
        with _collected(broken):
            if key in found:
                given[name] = read(prefix + key, found[key])
            elif required:
                _refuse(prefix + key, "is required", "nothing")
    _raise(broken)
    return given


def _integer(largest: int) -> Reader:
    def read(field: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest:
            _refuse(field, f"must be an integer from 0 to {largest}", repr(value))
        return value

    return read


def _boolean(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        _refuse(field, "must be true or false", repr(value))
    return value


def _list(reader: Reader) -> Reader:
    def read(field: str, value: Any) -> list[Any]:
        if not isinstance(value, list):
            _refuse(field, "must be a list", repr(value))
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
            _refuse(field, f"must be one of {', '.join(names)}", repr(value))
        return enumeration[value.removeprefix(prefix)]

    return read


_SCALARS: Mapping[Any, Reader] = {
    int: _integer(LARGEST_UINT),
    bool: _boolean,
    tuple[int, ...]: _list(_integer(LARGEST_UINT)),
}


def _flags(field: str, value: Any) -> TensorFlags:
    read, given = enumerated(TensorFlags), value if isinstance(value, list) else [value]
    return reduce(operator.or_, (read(field, one) for one in given), TensorFlags.NONE)


_TENSOR: Mapping[str, tuple[Reader, bool]] = {
    "data_type": (enumerated(TensorDataType), True),
    "sizes": (_SCALARS[tuple[int, ...]], True),
    "strides": (_SCALARS[tuple[int, ...]], False),
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
        found = within(field, value, ("Desc",), ("Type",))
    given = _fields(field, found, _TENSOR)
    _check_count(f"{field}.DimensionCount", given.pop("dimension_count", None), "Sizes", given["sizes"])
    # DxDispatch reads these as if the key were missing.
    for name, nothing in (("strides", []), ("total_tensor_size_in_bytes", 0)):
        if given.get(name) == nothing:
            del given[name]
    return BufferTensorDesc(**given)

"""What the descriptions of all operators have in common."""

import enum
import functools
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, fields
from types import MappingProxyType
from typing import Any, ClassVar

from jaxdml._base.errors import compose
from jaxdml.directml._c import c_field, c_value
from jaxdml.directml._converting import FieldConverter
from jaxdml.directml._errors import Violation
from jaxdml.directml._fields import Role, Scalar, ScaleBias, Size2D, counts_of, kind_of
from jaxdml.directml._operator import Operator
from jaxdml.directml._support import UP_TO_64_BITS
from jaxdml.directml._tensors import BufferTensorDesc


@dataclass(frozen=True, kw_only=True, repr=False)
class OperatorDesc:
    """The base of all descriptions of operators: immutable, hashable, and shown by ``repr`` as a C initializer."""

    operator: ClassVar[Operator]
    operator_name: ClassVar[str]
    operator_type: ClassVar[enum.IntEnum]
    result: ClassVar[type[tuple[Any, ...]]]

    def __post_init__(self) -> None:
        """Convert every field to its type."""
        if type(self) is OperatorDesc:
            rule = "it describes no operator; use a class that is derived from it."
            raise TypeError(compose("directml.OperatorDesc", rule))
        given = FieldConverter(type(self).__name__)
        for one in fields(self):
            if one.init:
                object.__setattr__(self, one.name, _converted(given, one, self))
        given.check()
        for name, counts in counts_of(self):
            object.__setattr__(self, name, len(getattr(self, counts.array)))

    @classmethod
    @functools.cache
    def roles(cls) -> Mapping[str, Role]:
        """Return the fields that hold tensors, in the struct's order, and the role of each."""
        roles = ((one.name, kind_of(one)) for one in fields(cls))
        return MappingProxyType({name: role for name, role in roles if isinstance(role, Role)})

    @property
    def tensors(self) -> dict[str, BufferTensorDesc]:
        """The described tensors by their fields; in an array of tensors by ``field[0]``, ``field[1]`` and so on."""
        found: dict[str, BufferTensorDesc] = {}
        for name, role in self.roles().items():
            value = getattr(self, name)
            if role.several:
                found |= {f"{name}[{place}]": tensor for place, tensor in enumerate(value)}
            elif value is not None:
                found[name] = value
        return found

    @property
    def scalars(self) -> dict[str, Any]:
        """The fields that hold no tensors, by their names."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name not in self.roles()}

    @classmethod
    def c_name(cls) -> str:
        """Return the operator's full name in ``DML_OPERATOR_TYPE``."""
        return f"DML_OPERATOR_{cls.operator_name}"

    def __repr__(self) -> str:
        """Return it as a C initializer."""
        lines = (f"  .{c_field(one.name)} = {c_value(getattr(self, one.name))}," for one in fields(self))
        return "\n".join([f"DML_{self.operator_name}_OPERATOR_DESC{{", *lines, "}"])


Converter = Callable[[FieldConverter, str, Any], Any]


def _tuple_of(convert: Converter, words: str) -> Converter:
    def converted(given: FieldConverter, name: str, values: Any) -> tuple[Any, ...]:
        return tuple(convert(given, label, value) for label, value in given.sequence(name, values, words))

    return converted


def _pair(named: Any, convert: Converter) -> Converter:
    def converted(given: FieldConverter, name: str, value: Any) -> Any:
        if not isinstance(value, tuple | list) or len(value) != 2:
            given.refuse(name, f"a {named.__name__}, or a pair", value)
        labels = (f"{name}.{c_field(part)}" for part in named._fields)
        return named(*(convert(given, label, one) for label, one in zip(labels, value, strict=True)))

    return converted


def _or_none(convert: Converter) -> Converter:
    return lambda given, name, value: None if value is None else convert(given, name, value)


def _activation(given: FieldConverter, name: str, value: Any) -> "OperatorDesc":
    if not isinstance(value, OperatorDesc):
        given.refuse(name, "the description of an activation", value)
    return value


_PLAIN: Mapping[Any, Converter] = {
    "uint": FieldConverter.unsigned,
    "int": FieldConverter.signed,
    "float": FieldConverter.floating,
    "float?": FieldConverter.floating,
    "bool": FieldConverter.boolean,
    "uint[]": FieldConverter.unsigned_tuple,
    "int[]": _tuple_of(FieldConverter.signed, "integers"),
    "float[]": _tuple_of(FieldConverter.floating, "numbers"),
    "scale_bias?": _or_none(_pair(ScaleBias, FieldConverter.floating)),
    "size_2d": _pair(Size2D, FieldConverter.unsigned),
    "activation?": _or_none(_activation),
    "activation[]": _tuple_of(_activation, "descriptions of activations"),
}


def _converted(given: FieldConverter, one: Field[Any], desc: "OperatorDesc") -> Any:
    """Return what a field of a description is given as the type of the field."""
    name, kind, value = c_field(one.name), kind_of(one), getattr(desc, one.name)
    match kind:
        case str():
            return _PLAIN[kind](given, name, value)
        case Scalar():
            return _scalar(given, name, value, getattr(desc, kind.data_type))
        case Role(several=True):
            if not isinstance(value, tuple | list):
                given.refuse(name, "a sequence of BufferTensorDescs", value)
            return tuple(_tensor(given, f"{name}[{place}]", tensor) for place, tensor in enumerate(value))
        case Role():
            return None if value is None and one.default is None else _tensor(given, name, value)
    return given.enumerated(name, kind, value)


def _scalar(given: FieldConverter, name: str, value: Any, data_type: Any) -> Any:
    if data_type in UP_TO_64_BITS:
        return given.scalar(name, value, data_type.dtype)
    shown = getattr(data_type, "name", data_type)
    given.violations.append(Violation(name, "must have a data type of 8 to 64 bits", shown))
    return value


def _tensor(given: FieldConverter, name: str, value: Any) -> BufferTensorDesc:
    if not isinstance(value, BufferTensorDesc):
        given.refuse(name, "a BufferTensorDesc", value)
    return value


def require(function: str, desc: Any) -> None:
    """Raise TypeError if ``desc``, an argument of ``function``, is not the description of an operator."""
    if not isinstance(desc, OperatorDesc):
        rule = f"desc must be the description of an operator; got {desc!r}."
        raise TypeError(compose(f"directml.{function}", rule))

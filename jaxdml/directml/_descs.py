"""What the descriptions of all operators have in common."""

import enum
import functools
from abc import abstractmethod
from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar

from jaxdml._base.errors import compose
from jaxdml.directml._c import c_field, c_value
from jaxdml.directml._converting import FieldConverter
from jaxdml.directml._enums import FeatureLevel
from jaxdml.directml._errors import Violations
from jaxdml.directml._fields import Role, counts_of, kind_of
from jaxdml.directml._support import Levels
from jaxdml.directml._tensors import BufferTensorDesc


@dataclass(frozen=True)
class OperatorFacts:
    """The facts of an operator.

    Attributes:
      name: its name in ``DML_OPERATOR_TYPE``, without the prefix.
      number: its number there.
      levels: its table of feature levels.
      aliases: other names of that number.
      options: the options that ``compile_operator`` takes for it; for each one its values, the default first.
      optional_from: for an optional tensor that older levels require, the first level at which it may be left out.
      outputs: the NamedTuple in which several outputs are returned. None means one with the names of the fields.
    """

    name: str
    number: int
    levels: Levels
    aliases: tuple[str, ...] = ()
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    optional_from: Mapping[str, FeatureLevel] = field(default_factory=dict)
    outputs: Callable[..., tuple[Any, ...]] | None = None

    @property
    def c_name(self) -> str:
        """Its full name in ``DML_OPERATOR_TYPE``."""
        return f"DML_OPERATOR_{self.name}"


@dataclass(frozen=True, kw_only=True, repr=False)
class OperatorDesc:
    """The base of all descriptions of operators: immutable, hashable, and shown by ``repr`` as a C initializer."""

    operator: ClassVar[OperatorFacts]
    operator_type: ClassVar[enum.IntEnum]

    @abstractmethod
    def constraints(self) -> Violations:
        """Yield the broken constraints of this operator's page.

        The caller checks each tensor by itself and the table of feature levels.
        """

    @abstractmethod
    def call(self, *inputs: Any, **options: Any) -> Any:
        """Compute the outputs from arrays of the described sizes.

        Args:
          inputs: an array for every input field, in order; None for a tensor left out; a tuple for ``Inputs``; what
            ``prepared`` returned for a tensor that is bound at initialization.
          options: a value for every option of the operator.

        Returns:
          The array if the struct has one output, otherwise a tuple of them in the order of the fields.
        """

    def prepared(self, name: str, tensor: Any) -> Any:
        """Return an input that is bound at initialization in the form in which ``call`` takes it fastest.

        By default that is the array as it is.

        Args:
          name: the field.
          tensor: a JAX array of the described sizes, or a NumPy array of 64-bit indices.

        Returns:
          An array, or a pytree of arrays that has the ``shape`` and ``dtype`` of the array.
        """
        return tensor

    def __post_init__(self) -> None:
        """Convert every field to its type."""
        if type(self) is OperatorDesc:
            rule = "it describes no operator; use a class that is derived from it."
            raise TypeError(compose("directml.OperatorDesc", rule))
        given = FieldConverter(type(self).__name__)
        for one in fields(self):
            if one.init:
                object.__setattr__(self, one.name, _converted(given, one, getattr(self, one.name)))
        given.check()
        for name, counts in counts_of(self):
            object.__setattr__(self, name, len(getattr(self, counts.array)))

    @classmethod
    @functools.cache
    def roles(cls) -> Mapping[str, Role]:
        """Return the fields that hold tensors, in the struct's order, and the role of each."""
        roles = ((one.name, kind_of(one)) for one in fields(cls))
        return MappingProxyType({name: role for name, role in roles if isinstance(role, Role)})

    @classmethod
    @functools.cache
    def result(cls) -> Callable[..., tuple[Any, ...]]:
        """Return the NamedTuple of several outputs: the operator's own, or one with the names of their fields."""
        names = [name for name, role in cls.roles().items() if role.output]
        return cls.operator.outputs or namedtuple(cls.__name__.removesuffix("OperatorDesc") + "Outputs", names)

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

    def __repr__(self) -> str:
        """Return it as a C initializer."""
        lines = (f"  .{c_field(one.name)} = {c_value(getattr(self, one.name))}," for one in fields(self))
        return "\n".join([f"DML_{self.operator.name}_OPERATOR_DESC{{", *lines, "}"])


_SCALARS: Mapping[Any, Callable[[FieldConverter, str, Any], Any]] = {
    int: FieldConverter.unsigned,
    bool: FieldConverter.boolean,
    tuple[int, ...]: FieldConverter.unsigned_tuple,
}


def _converted(given: FieldConverter, one: Field[Any], value: Any) -> Any:
    """Return what a field is given as the type of the field."""
    name, kind = c_field(one.name), kind_of(one)
    if kind in _SCALARS:
        return _SCALARS[kind](given, name, value)
    if not isinstance(kind, Role):
        return given.enumerated(name, kind, value)
    if kind.several:
        if not isinstance(value, tuple | list):
            given.refuse(name, "a sequence of BufferTensorDescs", value)
        return tuple(_tensor(given, f"{name}[{place}]", tensor) for place, tensor in enumerate(value))
    return None if kind.optional and value is None else _tensor(given, name, value)


def _tensor(given: FieldConverter, name: str, value: Any) -> BufferTensorDesc:
    if not isinstance(value, BufferTensorDesc):
        given.refuse(name, "a BufferTensorDesc", value)
    return value


def require(function: str, desc: Any) -> None:
    """Raise TypeError if ``desc``, an argument of ``function``, is not the description of an operator."""
    if not isinstance(desc, OperatorDesc):
        rule = f"desc must be the description of an operator; got {desc!r}."
        raise TypeError(compose(f"directml.{function}", rule))

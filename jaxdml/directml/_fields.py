"""The kinds of fields that an operator's struct may have, by the words of schema.json.

=================================  ======================================================
word                               in C
=================================  ======================================================
``input``, ``output``              ``const DML_TENSOR_DESC*``
``input?``, ``output?``            the same, or null
``indices``                        the same, of indices: 64-bit NumPy arrays stay 64-bit
``inputs``, ``outputs``            ``const DML_TENSOR_DESC*``, an array of them
``uint``, ``int``, ``float``       ``UINT``, ``INT``, ``FLOAT``
``bool``                           ``BOOL``
``uint[]``, ``int[]``, ``float[]``  arrays of these
the name of an ``enum.IntEnum``    that enumeration
``scale_bias?``                    ``const DML_SCALE_BIAS*``, or null
``size_2d``                        ``DML_SIZE_2D``
``scalar ValueDataType``           ``DML_SCALAR_UNION`` of the data type in that field
``activation?``                    ``const DML_OPERATOR_DESC*`` without tensors, or null
``activation[]``                   an array of these
``count Axes``                     ``UINT``, the length of arrays; not given but counted
=================================  ======================================================
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, fields
from typing import Any, NamedTuple

from jaxdml.directml._enums import OF_FIELDS


class ScaleBias(NamedTuple):
    """What is done with an input first, as ``DML_SCALE_BIAS`` says: ``x * scale + bias``."""

    scale: float
    bias: float


class Size2D(NamedTuple):
    """A size in two dimensions, as ``DML_SIZE_2D`` has it: the width first."""

    width: int
    height: int


@dataclass(frozen=True)
class Role:
    """What an operator does with the tensor of a field.

    Attributes:
      output: the operator writes it.
      optional: it may be None.
      several: the field holds a tuple of tensors.
      indices: its elements are indices, so a NumPy array keeps 64 bits even where JAX has only 32.
    """

    output: bool = False
    optional: bool = False
    several: bool = False
    indices: bool = False

    def __str__(self) -> str:
        """Return ``input``, ``optional output`` and so on."""
        return f"{'optional ' if self.optional else ''}{'output' if self.output else 'input'}"


@dataclass(frozen=True)
class Counts:
    """Make a field the length of the field ``array``, and require ``others`` to be as long."""

    array: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scalar:
    """A number of the data type that another field names."""

    data_type: str


Kind = Any
"""A ``Role``, ``Counts`` or ``Scalar``, an enumeration, or the word itself."""

_ROLES: Mapping[str, Role] = {
    "input": Role(),
    "input?": Role(optional=True),
    "inputs": Role(several=True),
    "indices": Role(indices=True),
    "output": Role(output=True),
    "output?": Role(output=True, optional=True),
    "outputs": Role(output=True, several=True),
}

OPTIONAL: Mapping[str, Any] = {"scale_bias?": None, "activation?": None, "float?": 0.0}
"""The words of fields that hold no tensor and may be left out, and what they hold then."""


def kind(words: str) -> Kind:
    """Return the kind of field that the words of the schema mean."""
    word, *others = words.split()
    names = [python_field(name) for name in others]
    if word == "count":
        return Counts(names[0], tuple(names[1:]))
    return Scalar(*names) if word == "scalar" else _ROLES.get(word) or OF_FIELDS.get(word, word)


def python_field(name: str) -> str:
    """Return the name of a field in Python: ``input_tensor`` for ``InputTensor``."""
    return "_".join(re.findall("[A-Z]+(?![a-z])|[A-Z][a-z0-9]*", name)).lower()


def kind_of(field: Field[Any]) -> Kind:
    """Return the kind of a struct's field."""
    return field.metadata["kind"]


def counts_of(struct: Any) -> Iterator[tuple[str, Counts]]:
    """Go through the fields of a struct that count others."""
    return ((field.name, kind) for field in fields(struct) if isinstance(kind := kind_of(field), Counts))

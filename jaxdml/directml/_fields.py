"""The kinds of fields that an operator's struct may have.

==============================  ======================================================
annotation                      in C
==============================  ======================================================
``Input``, ``Output``           ``const DML_TENSOR_DESC*``
``OptionalInput``               the same, or null; so ``OptionalOutput``
``Indices``                     the same, of indices: 64-bit NumPy arrays stay 64-bit
``Inputs``                      ``const DML_TENSOR_DESC*``, an array of them
``int``                         ``UINT``
``bool``                        ``BOOL``
``tuple[int, ...]``             ``const UINT*``, an array of them
an ``enum.IntEnum``             that enumeration
``Annotated[int, Counts(...)]`` ``UINT``, the length of an array; not given but counted
==============================  ======================================================
"""

from collections.abc import Iterator
from dataclasses import Field, dataclass, fields
from typing import Annotated, Any

from jaxdml.directml._tensors import BufferTensorDesc


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


Input = Annotated[BufferTensorDesc, Role()]
OptionalInput = Annotated[BufferTensorDesc | None, Role(optional=True)]
Inputs = Annotated[tuple[BufferTensorDesc, ...], Role(several=True)]
Indices = Annotated[BufferTensorDesc, Role(indices=True)]
Output = Annotated[BufferTensorDesc, Role(output=True)]
OptionalOutput = Annotated[BufferTensorDesc | None, Role(output=True, optional=True)]


@dataclass(frozen=True)
class Counts:
    """Make a field the length of the field ``array``, and require ``others`` to be as long.

    The field itself is declared with ``dataclasses.field(init=False)``.
    """

    array: str
    others: tuple[str, ...] = ()


def kind_of(field: Field[Any]) -> Any:
    """Return the kind of a field: its ``Role``, its ``Counts``, or its type."""
    return next(iter(getattr(field.type, "__metadata__", ())), field.type)


def counts_of(struct: Any) -> Iterator[tuple[str, Counts]]:
    """Go through the fields of a struct that count others."""
    return ((field.name, kind) for field in fields(struct) if isinstance(kind := kind_of(field), Counts))

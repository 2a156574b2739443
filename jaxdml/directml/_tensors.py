"""Describe a tensor in a buffer."""

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from jaxdml.directml._enums import TensorDataType, TensorFlags, c_name
from jaxdml.directml._errors import InvalidDescError, Violation

LARGEST_UINT, LARGEST_UINT64 = 2**32 - 1, 2**64 - 1


@dataclass(frozen=True, repr=False)
class BufferTensorDesc:
    """Describe a tensor in a buffer, as ``DML_BUFFER_TENSOR_DESC`` does.

    ``sizes`` and ``strides`` may be any sequences of integers; they are kept as tuples, and their length is the
    dimension count.

    Args:
      data_type: a ``TensorDataType``, or its number.
      sizes: of each dimension, in elements.
      strides: from one element of a dimension to the next, in elements; 0 repeats one element, and more than is needed
        leaves gaps. None means packed, the last dimension closest together.
      flags: ``TensorFlags``. ``OWNED_BY_DML`` changes nothing: close over an array that stays the same.
      total_tensor_size_in_bytes: of the buffer; None means the least that holds the tensor, rounded up to 4 bytes.
      guaranteed_base_offset_alignment: 0, or a power of two of at least the size of an element, in bytes. Checked, and
        otherwise without meaning here.

    Raises:
      TypeError: an argument is of another kind.
      InvalidDescError: a number does not fit its field, or stands for no member of its enumeration. All else is for
        ``compile_operator`` to judge.

    Source:
      DML_BUFFER_TENSOR_DESC, ``DMLCalcBufferTensorSize``.

    Example:
      >>> dml.BufferTensorDesc(dml.TensorDataType.FLOAT16, (1, 3)).size_in_bytes
      8
    """

    data_type: TensorDataType
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    flags: TensorFlags = TensorFlags.NONE
    total_tensor_size_in_bytes: int | None = None
    guaranteed_base_offset_alignment: int = 0

    def __post_init__(self) -> None:
        """Bring every field to its kind."""
        given = Given("BufferTensorDesc")
        total, alignment = self.total_tensor_size_in_bytes, self.guaranteed_base_offset_alignment
        fields: dict[str, Any] = {
            "data_type": given.enumerated("DataType", TensorDataType, self.data_type),
            "sizes": given.unsigned_tuple("Sizes", self.sizes),
            "strides": None if self.strides is None else given.unsigned_tuple("Strides", self.strides),
            "flags": given.enumerated("Flags", TensorFlags, self.flags),
            "total_tensor_size_in_bytes": None
            if total is None
            else given.unsigned("TotalTensorSizeInBytes", total, LARGEST_UINT64),
            "guaranteed_base_offset_alignment": given.unsigned("GuaranteedBaseOffsetAlignment", alignment),
        }
        given.check()
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def dimension_count(self) -> int:
        """How many dimensions there are."""
        return len(self.sizes)

    @property
    def span(self) -> int:
        """How many elements there are from the first one to the last one in the buffer, both counted."""
        if self.strides is None or 0 in self.sizes:
            return math.prod(self.sizes)
        # Of strides that are too few or too many, compile_operator says so.
        return 1 + sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=False))

    @property
    def size_in_bytes(self) -> int:
        """The size of the buffer: as given, or else the least."""
        given = self.total_tensor_size_in_bytes
        return self.least_size_in_bytes if given is None else given

    @property
    def least_size_in_bytes(self) -> int:
        """The size of the smallest buffer that holds the tensor, rounded up to 4 bytes; at most what 64 bits hold."""
        return min(size_in_bytes(self.span, self.data_type.bits), LARGEST_UINT64)

    def __repr__(self) -> str:
        """Write it as C initializes it."""
        strides = "nullptr" if self.strides is None else braced(self.strides)
        parts = {
            "DataType": c_name(self.data_type),
            "Flags": c_name(self.flags),
            "DimensionCount": self.dimension_count,
            "Sizes": braced(self.sizes),
            "Strides": strides,
            "TotalTensorSizeInBytes": self.size_in_bytes,
            "GuaranteedBaseOffsetAlignment": self.guaranteed_base_offset_alignment,
        }
        return "DML_BUFFER_TENSOR_DESC" + braced(f".{name} = {part}" for name, part in parts.items())


def size_in_bytes(elements: int, bits: int) -> int:
    """Return the bytes that so many elements of so many bits take, rounded up to 4."""
    return (elements * bits + 31) // 32 * 4


def braced(parts: Iterable[object]) -> str:
    """Write a list as C initializes it."""
    return "{" + ", ".join(map(str, parts)) + "}"


class Given:
    """What the fields of a description are given, brought to their kinds; ``check`` names all that they do not hold."""

    def __init__(self, struct: str) -> None:
        self.struct = struct
        self.violations: list[Violation] = []

    def unsigned(self, field: str, value: Any, largest: int = LARGEST_UINT) -> int:
        """Return an integer without sign as an ``int``."""
        try:
            if isinstance(value, bool):
                raise TypeError
            number = operator.index(value)
        except TypeError:
            self.refuse(field, "an integer", value)
        if not 0 <= number <= largest:
            rule = f"must be between 0 and {largest}, as an unsigned integer"
            self.violations.append(Violation(field, rule, number))
        return number

    def unsigned_tuple(self, field: str, values: Any) -> tuple[int, ...]:
        """Return a sequence of integers without sign as a tuple."""
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            self.refuse(field, "a sequence of integers", values)
        return tuple(self.unsigned(f"{field}[{place}]", value) for place, value in enumerate(values))

    def enumerated(self, field: str, kind: Any, value: Any) -> Any:
        """Return the member of an enumeration that a number stands for."""
        if not isinstance(value, int):
            self.refuse(field, f"a {kind.__name__}, or its number", value)
        number = self.unsigned(field, value)
        members = kind.__members__.values()
        if number not in list(members):
            listed = ", ".join(f"{member.name} ({member.value})" for member in members)
            self.violations.append(Violation(field, f"must be one of {listed}", number))
            return number
        return kind(number)

    def refuse(self, field: str, kind: str, value: Any) -> NoReturn:
        """Say that a field is given something of another kind."""
        raise TypeError(f"jaxdml.directml.{self.struct}: {field} must be {kind}; got {value!r}.")

    def check(self) -> None:
        """Raise what does not fit, all of it."""
        if self.violations:
            raise InvalidDescError(f"{self.struct} is given what its fields do not hold.", self.violations)

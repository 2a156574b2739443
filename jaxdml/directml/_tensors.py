"""Describe a tensor in a buffer."""

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jaxdml.directml._enums import TensorDataType, TensorFlags, c_name
from jaxdml.directml._errors import InvalidDescError, Violation

LARGEST_UINT, LARGEST_UINT64 = 2**32 - 1, 2**64 - 1


@dataclass(frozen=True, repr=False)
class BufferTensorDesc:
    """Describe a tensor in a buffer, as ``DML_BUFFER_TENSOR_DESC`` does.

    A sequence of any integers serves as ``sizes`` and ``strides``; both are kept as tuples, and the dimension count is
    their length.

    Args:
      data_type: a ``TensorDataType``, or its number.
      sizes: of each dimension, in elements.
      strides: from one element of a dimension to the next, in elements; 0 repeats one element, and more than is needed
        leaves gaps. None means packed, the last dimension closest together.
      flags: ``TensorFlags``. ``OWNED_BY_DML`` changes nothing: close over an array that stays the same.
      total_tensor_size_in_bytes: of the buffer; None means the least that holds the tensor, rounded up to 4 bytes.
      guaranteed_base_offset_alignment: 0, or a power of two. Checked, and otherwise without meaning here.

    Raises:
      TypeError: an argument is of another kind.
      InvalidDescError: a number does not fit its field, or names no member of the enumeration. All else is for
        ``compile_operator`` to judge.

    Source:
      DML_BUFFER_TENSOR_DESC, ``DMLCalcBufferTensorSize``.

    Example:
      >>> dml.BufferTensorDesc(dml.TensorDataType.FLOAT16, (1, 3)).total_tensor_size_in_bytes
      8
    """

    data_type: TensorDataType
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    flags: TensorFlags = TensorFlags.NONE
    total_tensor_size_in_bytes: int = None  # type: ignore[assignment]
    guaranteed_base_offset_alignment: int = 0

    def __post_init__(self) -> None:
        """Bring every field to its kind."""
        total: Any = self.total_tensor_size_in_bytes
        fields: dict[str, Any] = {
            "data_type": enumerated("DataType", TensorDataType, self.data_type),
            "sizes": _unsigned_tuple("Sizes", self.sizes),
            "strides": None if self.strides is None else _unsigned_tuple("Strides", self.strides),
            "flags": enumerated("Flags", TensorFlags, self.flags),
            "guaranteed_base_offset_alignment": unsigned(
                "GuaranteedBaseOffsetAlignment", self.guaranteed_base_offset_alignment
            ),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        size = self.least_size_in_bytes if total is None else unsigned("TotalTensorSizeInBytes", total, LARGEST_UINT64)
        object.__setattr__(self, "total_tensor_size_in_bytes", size)

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
    def least_size_in_bytes(self) -> int:
        """The size of the smallest buffer that holds the tensor, in bytes, rounded up to 4."""
        return (self.span * self.data_type.bits + 31) // 32 * 4

    def __repr__(self) -> str:
        """Write it as C initializes it."""
        strides = "nullptr" if self.strides is None else braced(self.strides)
        parts = {
            "DataType": c_name(self.data_type),
            "Flags": c_name(self.flags),
            "DimensionCount": self.dimension_count,
            "Sizes": braced(self.sizes),
            "Strides": strides,
            "TotalTensorSizeInBytes": self.total_tensor_size_in_bytes,
            "GuaranteedBaseOffsetAlignment": self.guaranteed_base_offset_alignment,
        }
        return "DML_BUFFER_TENSOR_DESC" + braced(f".{name} = {part}" for name, part in parts.items())


def braced(parts: Iterable[object]) -> str:
    """Write a list as C initializes it."""
    return "{" + ", ".join(map(str, parts)) + "}"


def unsigned(field: str, value: Any, largest: int = LARGEST_UINT) -> int:
    """Return ``value`` as an ``int`` that the field holds."""
    if isinstance(value, bool):
        raise TypeError(f"jaxdml.directml: {field} must be an integer; got {value}.")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"jaxdml.directml: {field} must be an integer; got {value!r}.") from None
    if not 0 <= number <= largest:
        rule = f"must be between 0 and {largest}, as an unsigned integer"
        raise InvalidDescError("a number does not fit its field.", [Violation(field, rule, number)])
    return number


def enumerated(field: str, kind: Any, value: Any) -> Any:
    """Return the member of an enumeration that ``value`` is the number of."""
    number = unsigned(field, value)
    try:
        return kind(number)
    except ValueError:
        listed = ", ".join(f"{member.name} ({member.value})" for member in kind)
        raise InvalidDescError(
            "a number names nothing.", [Violation(field, f"must be one of {listed}", number)]
        ) from None


def _unsigned_tuple(field: str, values: Any) -> tuple[int, ...]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError(f"jaxdml.directml: {field} must be a sequence of integers; got {values!r}.")
    return tuple(unsigned(field, value) for value in values)

"""The description of a tensor in a buffer."""

import math
from dataclasses import dataclass
from typing import Any

from jaxdml.directml._c import c_list, c_name
from jaxdml.directml._converting import LARGEST_UINT64, FieldConverter
from jaxdml.directml._enums import TensorDataType, TensorFlags


@dataclass(frozen=True, repr=False)
class BufferTensorDesc:
    """Describe a tensor in a buffer, as ``DML_BUFFER_TENSOR_DESC`` does.

    ``sizes`` and ``strides`` may be any sequences of integers. They are kept as tuples, and the length of ``sizes`` is
    the dimension count.

    Args:
      data_type: a ``TensorDataType``, or its number.
      sizes: the size of each dimension, in elements.
      strides: for each dimension, the distance from one element to the next, in elements. 0 repeats one element; a
        large stride leaves gaps. None means packed in row-major order.
      flags: ``TensorFlags``. An input that is ``OWNED_BY_DML`` is passed to ``CompiledOperator.initialize``, not to
        the call.
      total_tensor_size_in_bytes: the size of the buffer. None means the smallest that holds the tensor, rounded up to
        4 bytes.
      guaranteed_base_offset_alignment: 0, or a power of two that is at least the size of an element, in bytes. It is
        checked and not used.

    Raises:
      TypeError: an argument has the wrong type.
      InvalidDescError: a number does not fit its field, or is not the number of an enumeration's member. All other
        constraints are checked by ``compile_operator``.

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
        """Convert every field to its type."""
        given = FieldConverter("BufferTensorDesc")
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
        """The number of dimensions."""
        return len(self.sizes)

    @property
    def span(self) -> int:
        """The number of elements in the buffer from the tensor's first element to its last, both included."""
        if self.strides is None or 0 in self.sizes:
            return math.prod(self.sizes)
        # compile_operator refuses a wrong number of strides.
        return 1 + sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=False))

    @property
    def size_in_bytes(self) -> int:
        """The size of the buffer, as given, or else the smallest."""
        given = self.total_tensor_size_in_bytes
        return self.least_size_in_bytes if given is None else given

    @property
    def least_size_in_bytes(self) -> int:
        """The size of the smallest buffer that holds the tensor, rounded up to 4 bytes; at most 2**64 - 1."""
        return min(size_in_bytes(self.span, self.data_type.bits), LARGEST_UINT64)

    def __repr__(self) -> str:
        """Return it as a C initializer."""
        strides = "nullptr" if self.strides is None else c_list(self.strides)
        parts = {
            "DataType": c_name(self.data_type),
            "Flags": c_name(self.flags),
            "DimensionCount": self.dimension_count,
            "Sizes": c_list(self.sizes),
            "Strides": strides,
            "TotalTensorSizeInBytes": self.size_in_bytes,
            "GuaranteedBaseOffsetAlignment": self.guaranteed_base_offset_alignment,
        }
        return "DML_BUFFER_TENSOR_DESC" + c_list(f".{name} = {part}" for name, part in parts.items())


def buffer_length(tensor: BufferTensorDesc) -> int:
    """Return the length of the array that is a tensor's buffer. An element of 4 bits is an entry of its own there."""
    return -(-8 * tensor.size_in_bytes // tensor.data_type.bits)


def size_in_bytes(elements: int, bits: int) -> int:
    """Return how many bytes this many elements of this many bits take, rounded up to 4."""
    return (elements * bits + 31) // 32 * 4


def payload_in_bytes(tensor: BufferTensorDesc) -> int:
    """Return how many bytes a tensor reaches over, without rounding up."""
    return (tensor.span * tensor.data_type.bits + 7) // 8


def is_owned(tensor: BufferTensorDesc) -> bool:
    """Tell whether a tensor is bound when its operator is initialized."""
    return TensorFlags.OWNED_BY_DML in tensor.flags

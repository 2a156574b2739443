"""Descriptions of tensors as PyDirectML constructs them."""

from collections.abc import Sequence
from typing import Any

from jaxdml.directml._enums import TensorDataType, TensorFlags
from jaxdml.directml._tensors import BufferTensorDesc

_AFTER_FLAGS = "sizes", "strides", "total_tensor_size_in_bytes", "guaranteed_base_offset_alignment"


class TensorDesc:
    """Describe a tensor, in one of the forms of PyDirectML's constructor.

    These are ``(data_type, sizes)``, ``(data_type, flags, sizes)``, ``(data_type, sizes, strides)`` and ``(data_type,
    flags, sizes, strides, total_tensor_size_in_bytes, guaranteed_base_offset_alignment)``; arguments may be named.
    """

    def __init__(self, data_type: TensorDataType, *given: Any, tensor_policy: None = None, **named: Any) -> None:
        flags, rest = named.pop("flags", TensorFlags.NONE), list(given)
        if rest and isinstance(rest[0], TensorFlags):
            flags = rest.pop(0)
        self._desc = BufferTensorDesc(data_type, flags=flags, **dict(zip(_AFTER_FLAGS, rest, strict=False)), **named)

    @classmethod
    def _of(cls, desc: BufferTensorDesc) -> "TensorDesc":
        made = cls.__new__(cls)
        made._desc = desc
        return made

    @property
    def data_type(self) -> TensorDataType:
        """The type of the elements."""
        return self._desc.data_type

    @property
    def flags(self) -> TensorFlags:
        """Whether the tensor is bound when the model is initialized."""
        return self._desc.flags

    @property
    def sizes(self) -> list[int]:
        """The size of each dimension."""
        return list(self._desc.sizes)

    @property
    def strides(self) -> list[int] | None:
        """The distance between elements in each dimension, or None where they are packed."""
        return None if self._desc.strides is None else list(self._desc.strides)

    @property
    def total_tensor_size_in_bytes(self) -> int:
        """The size of the buffer."""
        return self._desc.size_in_bytes

    @property
    def guaranteed_base_offset_alignment(self) -> int:
        """The alignment that is promised of the buffer's offset."""
        return self._desc.guaranteed_base_offset_alignment

    def __repr__(self) -> str:
        sizes = ",".join(map(str, self.sizes))
        return f"dml.TensorDesc of type {self.data_type.value} and shape [{sizes}] with flags {self.flags.value}"


def packed(like: BufferTensorDesc, sizes: Sequence[int]) -> BufferTensorDesc:
    """Return the description of what a function makes: packed, without flags, of its first input's type."""
    return BufferTensorDesc(like.data_type, tuple(sizes))

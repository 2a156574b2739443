"""Describe the operators, field by field as DirectML's structs do."""

import enum
import functools
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, get_args

from jaxdml._base.axis_direction import AxisDirection
from jaxdml.directml._enums import OperatorType, c_field, c_value
from jaxdml.directml._tensors import BufferTensorDesc, Given


class Role(enum.Enum):
    """What an operator does with a tensor."""

    INPUT = "input"
    OPTIONAL_INPUT = "optional input"
    OUTPUT = "output"


Input = Annotated[BufferTensorDesc, Role.INPUT]
OptionalInput = Annotated[BufferTensorDesc | None, Role.OPTIONAL_INPUT]
Output = Annotated[BufferTensorDesc, Role.OUTPUT]


def role_of(field: Field[Any]) -> Role | None:
    """Return what the tensor of a field is for; None where the field is no tensor."""
    return next((said for said in get_args(field.type) if isinstance(said, Role)), None)


@dataclass(frozen=True, kw_only=True, repr=False)
class OperatorDesc:
    """What the descriptions of all operators have in common: hash, equality, and a ``repr`` as C initializes it."""

    operator_type: ClassVar[OperatorType]

    def __post_init__(self) -> None:
        """Bring every field to its kind."""
        if type(self) is OperatorDesc:
            raise TypeError("jaxdml.directml.OperatorDesc: it describes no operator; take one that is derived from it.")
        given = Given(type(self).__name__)
        for field in fields(self):
            value, name, role = getattr(self, field.name), c_field(field.name), role_of(field)
            if role:
                if not isinstance(value, BufferTensorDesc) and not (value is None and role is Role.OPTIONAL_INPUT):
                    given.refuse(name, "a BufferTensorDesc", value)
            elif field.type is AxisDirection:
                object.__setattr__(self, field.name, given.enumerated(name, AxisDirection, value))
            else:
                object.__setattr__(self, field.name, given.unsigned(name, value))
        given.check()

    @classmethod
    @functools.cache
    def roles(cls) -> Mapping[str, Role]:
        """Return the names of the tensors' fields, in the struct's order, and what each is for."""
        roles = ((field.name, role_of(field)) for field in fields(cls))
        return MappingProxyType({name: role for name, role in roles if role})

    @property
    def tensors(self) -> dict[str, BufferTensorDesc]:
        """The tensors that there are, by the names of their fields."""
        found = {name: getattr(self, name) for name in self.roles()}
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    @property
    def scalars(self) -> dict[str, int]:
        """The fields that are no tensors, by their names."""
        names = (field.name for field in fields(self))
        return {name: getattr(self, name) for name in names if name not in self.roles()}

    def __repr__(self) -> str:
        """Write it as C initializes it."""
        lines = [f"DML_{self.operator_type.name}_OPERATOR_DESC{{"]
        for field in fields(self):
            value = getattr(self, field.name)
            lines.append(f"  .{c_field(field.name)} = {'nullptr' if value is None else c_value(value)},")
        return "\n".join([*lines, "}"])


@dataclass(frozen=True, kw_only=True, repr=False)
class TopKOperatorDesc(OperatorDesc):
    """Describe the selection of the k largest, as ``DML_TOP_K_OPERATOR_DESC`` does.

    Args:
      input_tensor: what to select from.
      output_value_tensor: the selected elements: the sizes of the input, but ``k`` along ``axis``; its data type.
      output_index_tensor: where they stood: those sizes, unsigned.
      axis: the dimension to select along.
      k: how many to take, from 1 to the size of that dimension.

    Raises:
      TypeError: a field is given another kind.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_TOP_K_OPERATOR_DESC.
    """

    operator_type = OperatorType.TOP_K

    input_tensor: Input
    output_value_tensor: Output
    output_index_tensor: Output
    axis: int
    k: int


@dataclass(frozen=True, kw_only=True, repr=False)
class TopK1OperatorDesc(OperatorDesc):
    """Describe the selection of the k largest or smallest, as ``DML_TOP_K1_OPERATOR_DESC`` does.

    Args:
      input_tensor: what to select from.
      output_value_tensor: the selected elements: the sizes of the input, but ``k`` along ``axis``; its data type.
      output_index_tensor: where they stood: those sizes, unsigned.
      axis: the dimension to select along.
      k: how many to take, from 1 to the size of that dimension.
      axis_direction: an ``AxisDirection``, or its number: ``DECREASING`` takes the largest.

    Raises:
      TypeError: a field is given another kind.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_TOP_K1_OPERATOR_DESC.
    """

    operator_type = OperatorType.TOP_K1

    input_tensor: Input
    output_value_tensor: Output
    output_index_tensor: Output
    axis: int
    k: int
    axis_direction: AxisDirection


@dataclass(frozen=True, kw_only=True, repr=False)
class ScatterOperatorDesc(OperatorDesc):
    """Describe a scatter of elements, as ``DML_SCATTER_OPERATOR_DESC`` does.

    Args:
      input_tensor: what to copy.
      indices_tensor: integers; negative ones count from the end, if they have a sign.
      updates_tensor: what to write, of the input's data type and the sizes of ``indices_tensor``.
      output_tensor: the sizes and the data type of the input.
      axis: the dimension that the indices are of; off it they have the sizes of the input.

    Raises:
      TypeError: a field is given another kind.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_SCATTER_OPERATOR_DESC, by its alias DML_SCATTER_ELEMENTS_OPERATOR_DESC.
    """

    operator_type = OperatorType.SCATTER

    input_tensor: Input
    indices_tensor: Input
    updates_tensor: Input
    output_tensor: Output
    axis: int


ScatterElementsOperatorDesc = ScatterOperatorDesc


@dataclass(frozen=True, kw_only=True, repr=False)
class ScatterNdOperatorDesc(OperatorDesc):
    """Describe a scatter of slices, as ``DML_SCATTER_ND_OPERATOR_DESC`` does.

    Args:
      input_tensor: what to copy.
      indices_tensor: integers; negative ones count from the end, if they have a sign.
      updates_tensor: what to write, of the input's data type.
      output_tensor: the sizes and the data type of the input.
      input_dimension_count: how many of the last dimensions of the input count; those before are of size 1.
      indices_dimension_count: the same of the indices, whose last size is the number of coordinates of each.

    Raises:
      TypeError: a field is given another kind.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_SCATTER_ND_OPERATOR_DESC.
    """

    operator_type = OperatorType.SCATTER_ND

    input_tensor: Input
    indices_tensor: Input
    updates_tensor: Input
    output_tensor: Output
    input_dimension_count: int
    indices_dimension_count: int


@dataclass(frozen=True, kw_only=True, repr=False)
class QuantizedLinearMatrixMultiplyOperatorDesc(OperatorDesc):
    """Describe a quantized product, as ``DML_QUANTIZED_LINEAR_MATRIX_MULTIPLY_OPERATOR_DESC`` does.

    Scales and zero points are of size 1 in all dimensions; or of size M in the last but one, for ``a`` and the output,
    or of size N in the last, for ``b``. All that there are have one dimension count.

    Args:
      a_tensor: ``{..., M, K}`` of INT8 or UINT8.
      a_scale_tensor: FLOAT32.
      a_zero_point_tensor: the data type of ``a_tensor``; None is 0.
      b_tensor: ``{..., K, N}`` of INT8 or UINT8, whatever ``a_tensor`` is of.
      b_scale_tensor: FLOAT32.
      b_zero_point_tensor: the data type of ``b_tensor``; None is 0.
      output_scale_tensor: FLOAT32.
      output_zero_point_tensor: the data type of ``output_tensor``; None is 0.
      output_tensor: ``{..., M, N}`` of INT8 or UINT8.

    Raises:
      TypeError: a field is given another kind.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_QUANTIZED_LINEAR_MATRIX_MULTIPLY_OPERATOR_DESC.
    """

    operator_type = OperatorType.QUANTIZED_LINEAR_MATRIX_MULTIPLY

    a_tensor: Input
    a_scale_tensor: Input
    a_zero_point_tensor: OptionalInput = None
    b_tensor: Input
    b_scale_tensor: Input
    b_zero_point_tensor: OptionalInput = None
    output_scale_tensor: Input
    output_zero_point_tensor: OptionalInput = None
    output_tensor: Output


def require(function: str, desc: Any) -> None:
    """Raise TypeError where ``desc``, which a function is given, is no description of an operator."""
    if not isinstance(desc, OperatorDesc):
        raise TypeError(f"jaxdml.directml.{function}: desc must be the description of an operator; got {desc!r}.")


DESCS: dict[OperatorType, type[OperatorDesc]] = {
    kind.operator_type: kind
    for kind in (
        TopKOperatorDesc,
        TopK1OperatorDesc,
        ScatterOperatorDesc,
        ScatterNdOperatorDesc,
        QuantizedLinearMatrixMultiplyOperatorDesc,
    )
}

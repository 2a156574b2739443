"""GATHER_ND and GATHER_ND1: read slices at index tuples."""

from dataclasses import dataclass
from typing import Any

from jaxdml import gather_nd
from jaxdml.directml._checks import only_ones_before
from jaxdml.directml._descs import OperatorDesc, OperatorFacts
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._fields import Indices, Input, Output
from jaxdml.directml.structs._gathers import LEVELS, LEVELS_FROM_2_1, gather_constraints, output_sizes


@dataclass(frozen=True, kw_only=True, repr=False)
class GatherNdOperatorDesc(OperatorDesc):
    """Describe a gather of slices, as ``DML_GATHER_ND_OPERATOR_DESC`` does.

    An index out of range reads at the nearest valid one.

    Args:
      input_tensor: the tensor to read from.
      indices_tensor: tuples of integers, along the last dimension. Negative ones count from the end, if the data type
        is signed.
      output_tensor: the input's data type. Its sizes are those of the indices without their last one, and those of the
        input after the dimensions that a tuple addresses, after leading sizes of 1.
      input_dimension_count: how many of the input's last dimensions are used. The dimensions before have size 1.
      indices_dimension_count: how many of the indices' last dimensions are used, likewise.

    Raises:
      TypeError: a field is given a value of the wrong type.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_GATHER_ND_OPERATOR_DESC.
    """

    operator = OperatorFacts("GATHER_ND", 108, LEVELS_FROM_2_1)

    input_tensor: Input
    indices_tensor: Indices
    output_tensor: Output
    input_dimension_count: int
    indices_dimension_count: int

    def constraints(self) -> Violations:
        """Yield the broken constraints of the operator's page."""
        return _constraints(self, 0)

    def call(self, x: Any, indices: Any) -> Any:
        """Read, without the leading dimensions of size 1."""
        return _call(self, x, indices, 0)


@dataclass(frozen=True, kw_only=True, repr=False)
class GatherNd1OperatorDesc(OperatorDesc):
    """Describe a gather of slices in a batch, as ``DML_GATHER_ND1_OPERATOR_DESC`` does.

    An index out of range reads at the nearest valid one.

    Args:
      input_tensor: the tensor to read from.
      indices_tensor: tuples of integers, along the last dimension. Negative ones count from the end, if the data type
        is signed.
      output_tensor: the input's data type. Its sizes are those of the indices without their last one, and those of the
        input after the batch and the dimensions that a tuple addresses, after leading sizes of 1.
      input_dimension_count: how many of the input's last dimensions are used. The dimensions before have size 1.
      indices_dimension_count: how many of the indices' last dimensions are used, likewise.
      batch_dimension_count: how many of the used dimensions, from the first on, the input and the indices have in
        common.

    Raises:
      TypeError: a field is given a value of the wrong type.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_GATHER_ND1_OPERATOR_DESC.
    """

    operator = OperatorFacts("GATHER_ND1", 140, LEVELS)

    input_tensor: Input
    indices_tensor: Indices
    output_tensor: Output
    input_dimension_count: int
    indices_dimension_count: int
    batch_dimension_count: int

    def constraints(self) -> Violations:
        """Yield the broken constraints of the operator's page."""
        return _constraints(self, self.batch_dimension_count)

    def call(self, x: Any, indices: Any) -> Any:
        """Read, without the leading dimensions of size 1."""
        return _call(self, x, indices, self.batch_dimension_count)


def _constraints(desc: GatherNdOperatorDesc | GatherNd1OperatorDesc, batch: int) -> Violations:
    yield from gather_constraints(desc)
    wrong = [*only_ones_before(desc, "input_dimension_count", "input_tensor", 1)]
    wrong += only_ones_before(desc, "indices_dimension_count", "indices_tensor", 1)
    yield from wrong
    if not wrong:
        yield from _of_used(desc, batch)


def _of_used(desc: GatherNdOperatorDesc | GatherNd1OperatorDesc, batch: int) -> Violations:
    """Yield the broken constraints of the dimensions that the counts include."""
    sizes = desc.input_tensor.sizes[-desc.input_dimension_count :]
    indices = desc.indices_tensor.sizes[-desc.indices_dimension_count :]
    least = min(len(sizes), len(indices))
    if batch >= least:
        rule = f"must be less than {least}, the lesser of InputDimensionCount and IndicesDimensionCount"
        yield Violation("BatchDimensionCount", rule, batch)
        return
    *leading, coordinates = indices
    most = len(sizes) - batch
    if not 1 <= coordinates <= most:
        counts = "InputDimensionCount" + (" less BatchDimensionCount" if batch else "")
        rule = f"must end in a size between 1 and {most}, {counts}, since a tuple has one entry a dimension"
        yield Violation("IndicesTensor.Sizes", rule, desc.indices_tensor.sizes)
        return
    if sizes[:batch] != indices[:batch]:
        rule = f"must have the batch sizes of InputTensor, {list(sizes[:batch])}"
        yield Violation("IndicesTensor.Sizes", rule, desc.indices_tensor.sizes)
        return
    if desc.output_tensor.dimension_count == desc.input_tensor.dimension_count:
        why = "the leading sizes of IndicesTensor and the trailing ones of InputTensor"
        yield from output_sizes(desc, (*leading, *sizes[batch + coordinates :]), why)


def _call(desc: GatherNdOperatorDesc | GatherNd1OperatorDesc, x: Any, indices: Any, batch: int) -> Any:
    sizes = x.shape[-desc.input_dimension_count :]
    tuples = indices.shape[-desc.indices_dimension_count :]
    read = gather_nd(x.reshape(sizes), indices.reshape(tuples), batch_dims=batch)
    return read.reshape(desc.output_tensor.sizes)

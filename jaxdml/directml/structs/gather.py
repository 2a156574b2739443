"""GATHER: read slices at the indices of one axis."""

from dataclasses import dataclass
from typing import Any

from jaxdml import gather
from jaxdml.directml._checks import in_range, only_ones_before
from jaxdml.directml._descs import OperatorDesc, OperatorFacts
from jaxdml.directml._enums import FeatureLevel
from jaxdml.directml._errors import Violations
from jaxdml.directml._fields import Indices, Input, Output
from jaxdml.directml._support import FLOATS, FOUR, UINT32
from jaxdml.directml.structs._gathers import LEVELS_FROM_2_1, gather_constraints, gather_row, output_sizes


@dataclass(frozen=True, kw_only=True, repr=False)
class GatherOperatorDesc(OperatorDesc):
    """Describe a gather of slices, as ``DML_GATHER_OPERATOR_DESC`` does.

    An index out of range reads at the nearest valid one.

    Args:
      input_tensor: the tensor to read from.
      indices_tensor: integers. Negative ones count from the end, if the data type is signed.
      output_tensor: the input's data type, and its sizes with the dimension ``axis`` replaced by those of the indices,
        after as many leading sizes of 1 as it needs to have the dimension count of the others.
      axis: the dimension of the input that the indices point into.
      index_dimensions: how many of the indices' last dimensions are used. The dimensions before have size 1.

    Raises:
      TypeError: a field is given a value of the wrong type.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_GATHER_OPERATOR_DESC.
    """

    operator = OperatorFacts(
        "GATHER", 67, {FeatureLevel.LEVEL_1_0: gather_row(FOUR, FLOATS, UINT32), **LEVELS_FROM_2_1}
    )

    input_tensor: Input
    indices_tensor: Indices
    output_tensor: Output
    axis: int
    index_dimensions: int

    def constraints(self) -> Violations:
        """Yield the broken constraints of the operator's page."""
        yield from gather_constraints(self)
        wrong = [*in_range(self, "axis", "input_tensor")]
        wrong += only_ones_before(self, "index_dimensions", "indices_tensor", 0)
        yield from wrong
        sizes, indices = self.input_tensor.sizes, self.indices_tensor.sizes
        if not wrong and len(sizes) == len(indices) == len(self.output_tensor.sizes):
            want = (*sizes[: self.axis], *self._of_indices, *sizes[self.axis + 1 :])
            why = "the sizes of InputTensor with the last IndexDimensions of IndicesTensor at Axis"
            yield from output_sizes(self, want, why)

    @property
    def _of_indices(self) -> tuple[int, ...]:
        sizes = self.indices_tensor.sizes
        return sizes[len(sizes) - self.index_dimensions :]

    def call(self, x: Any, indices: Any) -> Any:
        """Read, with as many dimensions of indices as are used."""
        read = gather(x, indices.reshape(self._of_indices), axis=self.axis)
        return read.reshape(self.output_tensor.sizes)

"""SCATTER_ND: write slices at index tuples."""

from dataclasses import dataclass
from typing import Any

from jaxdml import scatter_nd
from jaxdml.directml._checks import only_ones_before, sized
from jaxdml.directml._descs import OperatorDesc, OperatorFacts
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._fields import Indices, Input, Output
from jaxdml.directml.structs._scatters import LEVELS, OPTIONS, scatter_constraints


@dataclass(frozen=True, kw_only=True, repr=False)
class ScatterNdOperatorDesc(OperatorDesc):
    """Describe a scatter of slices, as ``DML_SCATTER_ND_OPERATOR_DESC`` does.

    The option ``duplicates`` of ``compile_operator`` decides which of two updates of one element remains, as in
    ``jaxdml.scatter_nd``. DirectML calls such updates invalid. ``"last"`` gives the result of its own example.

    Args:
      input_tensor: the tensor that the output is a copy of, before the updates are written.
      indices_tensor: tuples of integers, along the last dimension. Negative ones count from the end, if the data type
        is signed.
      updates_tensor: the slices to write, of the input's data type.
      output_tensor: the input's data type and sizes.
      input_dimension_count: how many of the input's last dimensions are used. The dimensions before have size 1.
      indices_dimension_count: how many of the indices' last dimensions are used, likewise.

    Raises:
      TypeError: a field is given a value of the wrong type.
      InvalidDescError: a number does not fit its field.

    Source:
      DML_SCATTER_ND_OPERATOR_DESC.
    """

    operator = OperatorFacts("SCATTER_ND", 109, LEVELS, options=OPTIONS)

    input_tensor: Input
    indices_tensor: Indices
    updates_tensor: Input
    output_tensor: Output
    input_dimension_count: int
    indices_dimension_count: int

    def constraints(self) -> Violations:
        """Yield the broken constraints of the operator's page."""
        yield from scatter_constraints(self)
        wrong = [*only_ones_before(self, "input_dimension_count", "input_tensor", 1)]
        wrong += only_ones_before(self, "indices_dimension_count", "indices_tensor", 1)
        yield from wrong
        if not any(violation.field.endswith("Count") for violation in wrong):
            yield from self._updates()

    def _updates(self) -> Violations:
        sizes = self.input_tensor.sizes[-self.input_dimension_count :]
        *leading, coordinates = self.indices_tensor.sizes[-self.indices_dimension_count :]
        if coordinates > len(sizes):
            rule = f"must end in at most {len(sizes)}, InputDimensionCount, since a tuple has one entry a dimension"
            yield Violation("IndicesTensor.Sizes", rule, self.indices_tensor.sizes)
            return
        want = (*leading, *sizes[coordinates:])
        count = self.updates_tensor.dimension_count
        if len(want) > count:
            rule = f"must be at least {len(want)}, for updates of {list(want)}"
            yield Violation("UpdatesTensor.DimensionCount", rule, count)
            return
        filled = (*(1,) * (count - len(want)), *want)
        why = "the leading sizes of IndicesTensor and the trailing ones of InputTensor"
        yield from sized(self, "updates_tensor", why, filled)

    def call(self, x: Any, indices: Any, updates: Any, *, duplicates: Any) -> Any:
        """Scatter the updates, without the leading dimensions of size 1."""
        sizes = x.shape[-self.input_dimension_count :]
        tuples = indices.shape[-self.indices_dimension_count :]
        slices = (*tuples[:-1], *sizes[tuples[-1] :])
        given = (part.reshape(shape) for part, shape in ((x, sizes), (indices, tuples), (updates, slices)))
        return scatter_nd(*given, duplicates=duplicates).reshape(x.shape)

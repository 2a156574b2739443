"""Operators that read at indices: GATHER, GATHER_ELEMENTS, GATHER_ND, GATHER_ND1."""

from collections.abc import Callable, Mapping
from typing import Any

from jaxdml import gather, gather_elements, gather_nd
from jaxdml.directml._checks import alike, in_range, only_ones_before, sized, sized_except_along
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._operator import Operator
from jaxdml.directml._support import Levels, growing
from jaxdml.directml.operators._indices import COUNTS, INDICES, TUPLES, counts_in_range, used

_VALUES, _INDICES = "input_tensor output_tensor", "indices_tensor"
_FROM_2_1 = growing("2_1 4, 3_0 1-8", (_VALUES, "2_1 F+I, 4_1 A"), (_INDICES, "2_1 UINT32, 3_0 L+INT32+UINT32"))


def _gather_constraints(desc: Any) -> Violations:
    yield from alike(desc, "dimension_count", "input_tensor", "indices_tensor", "output_tensor")
    yield from alike(desc, "data_type", "input_tensor", "output_tensor")


def _output_sizes(desc: Any, want: tuple[int, ...], why: str) -> Violations:
    """Require the output to have the sizes ``want``. Leading sizes of 1 may be added or left out."""
    sizes = desc.output_tensor.sizes
    count = len(sizes)
    own = want[max(0, len(want) - count) :]
    if any(size != 1 for size in want[: len(want) - len(own)]):
        yield Violation("OutputTensor.DimensionCount", f"must hold the sizes {list(want)}, {why}", count)
    elif sizes != (filled := (*(1,) * (count - len(own)), *own)):
        yield Violation("OutputTensor.Sizes", f"must be {list(filled)}, {why}", sizes)


def _of_indices(desc: Any) -> tuple[int, ...]:
    """Return the sizes of the dimensions of indices that are used."""
    sizes = desc.indices_tensor.sizes
    return sizes[len(sizes) - desc.index_dimensions :]


def _of_slices(desc: Any) -> Violations:
    yield from _gather_constraints(desc)
    wrong = [*in_range(desc, "axis", "input_tensor")]
    wrong += only_ones_before(desc, "index_dimensions", "indices_tensor", 0)
    yield from wrong
    sizes, indices = desc.input_tensor.sizes, desc.indices_tensor.sizes
    if not wrong and len(sizes) == len(indices) == len(desc.output_tensor.sizes):
        want = (*sizes[: desc.axis], *_of_indices(desc), *sizes[desc.axis + 1 :])
        why = "the sizes of InputTensor with the last IndexDimensions of IndicesTensor at Axis"
        yield from _output_sizes(desc, want, why)


def _slices(desc: Any, x: Any, indices: Any) -> Any:
    """Read, with as many dimensions of indices as are used."""
    read = gather(x, indices.reshape(_of_indices(desc)), axis=desc.axis)
    return read.reshape(desc.output_tensor.sizes)


def _of_elements(desc: Any) -> Violations:
    yield from _gather_constraints(desc)
    yield from in_range(desc, "axis", "input_tensor")
    yield from sized_except_along(desc, "axis", "input_tensor", "indices_tensor")
    yield from sized(desc, "output_tensor", "those of IndicesTensor", desc.indices_tensor.sizes)


def _of_tuples(desc: Any, batch: int) -> Violations:
    yield from _gather_constraints(desc)
    wrong = [*counts_in_range(desc)]
    yield from wrong
    if not wrong:
        yield from _of_used(desc, batch)


def _of_used(desc: Any, batch: int) -> Violations:
    """Yield the broken constraints of the dimensions that the counts include."""
    sizes, indices = used(desc)
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
        yield from _output_sizes(desc, (*leading, *sizes[batch + coordinates :]), why)


def _tuples(desc: Any, x: Any, indices: Any, batch: int) -> Any:
    """Read, without the leading dimensions of size 1."""
    sizes, tuples = used(desc)
    read = gather_nd(x.reshape(sizes), indices.reshape(tuples), batch_dims=batch)
    return read.reshape(desc.output_tensor.sizes)


def _gather(
    number: int,
    levels: Levels,
    compute: Callable[..., Any],
    constraints: Callable[[Any], Violations],
    what: str,
    **fields: str,
) -> Operator:
    return Operator(
        number,
        levels,
        compute,
        constraints,
        doc=f"Read {what}. An index out of range reads at the nearest valid one.",
        fields={
            "input_tensor": "the tensor to read from.",
            "indices_tensor": INDICES,
            **fields,
        },
    )


_OF_TUPLES = {
    **COUNTS,
    "indices_tensor": TUPLES,
    "output_tensor": "the input's data type. Its sizes are those of the indices without their last one, and those of "
    "the input after the batch and the dimensions that a tuple addresses, after leading sizes of 1.",
}

OPERATORS: Mapping[str, Operator] = {
    "GATHER": _gather(
        67,
        growing("1_0 4, 3_0 1-8", (_VALUES, "1_0 F, 2_1 F+I, 4_1 A"), (_INDICES, "1_0 UINT32, 3_0 L+INT32+UINT32")),
        _slices,
        _of_slices,
        "slices at the indices of one axis",
        output_tensor="the input's data type, and its sizes with the dimension ``axis`` replaced by those of the "
        "indices, after as many leading sizes of 1 as it needs to have the dimension count of the others.",
        axis="the dimension of the input that the indices point into.",
        index_dimensions="how many of the indices' last dimensions are used. The dimensions before have size 1.",
    ),
    "GATHER_ELEMENTS": _gather(
        107,
        _FROM_2_1,
        lambda desc, x, indices: gather_elements(x, indices, axis=desc.axis),
        _of_elements,
        "elements at the indices of one axis",
        output_tensor="the input's data type and the sizes of ``indices_tensor``.",
        axis="the dimension that the indices point into. In all other dimensions they have the input's sizes.",
    ),
    "GATHER_ND": _gather(
        108,
        _FROM_2_1,
        lambda desc, x, indices: _tuples(desc, x, indices, 0),
        lambda desc: _of_tuples(desc, 0),
        "slices at index tuples",
        **_OF_TUPLES,
    ),
    "GATHER_ND1": _gather(
        140,
        growing("3_0 1-8", (_VALUES, "3_0 F+I, 4_1 A"), (_INDICES, "3_0 L+INT32+UINT32")),
        lambda desc, x, indices: _tuples(desc, x, indices, desc.batch_dimension_count),
        lambda desc: _of_tuples(desc, desc.batch_dimension_count),
        "slices at index tuples, in a batch",
        **_OF_TUPLES,
        batch_dimension_count="how many of the used dimensions, from the first on, the input and the indices have in "
        "common.",
    ),
}

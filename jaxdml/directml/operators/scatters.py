"""Operators that write at indices: SCATTER, also called SCATTER_ELEMENTS, and SCATTER_ND."""

from collections.abc import Callable, Mapping
from typing import Any

from jaxdml import scatter_elements, scatter_nd
from jaxdml._base.duplicates import DUPLICATES
from jaxdml.directml._checks import alike, in_range, sized, sized_except_along
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._operator import Operator
from jaxdml.directml._support import Levels, growing
from jaxdml.directml.operators._indices import COUNTS, INDICES, TUPLES, counts_in_range, used

_VALUES, _INDICES = "input_tensor updates_tensor output_tensor", "indices_tensor"


def _scatter_constraints(desc: Any) -> Violations:
    yield from alike(desc, "dimension_count", "input_tensor", "indices_tensor", "updates_tensor", "output_tensor")
    yield from alike(desc, "data_type", "input_tensor", "updates_tensor", "output_tensor")
    yield from sized(desc, "output_tensor", "those of InputTensor", desc.input_tensor.sizes)


def _of_elements(desc: Any) -> Violations:
    yield from _scatter_constraints(desc)
    yield from in_range(desc, "axis", "input_tensor")
    yield from sized_except_along(desc, "axis", "input_tensor", "indices_tensor")
    yield from sized(desc, "updates_tensor", "those of IndicesTensor", desc.indices_tensor.sizes)


def _elements(desc: Any, x: Any, indices: Any, updates: Any, *, duplicates: Any) -> Any:
    return scatter_elements(x, indices, updates, axis=desc.axis, duplicates=duplicates)


def _of_slices(desc: Any) -> Violations:
    yield from _scatter_constraints(desc)
    wrong = [*counts_in_range(desc)]
    yield from wrong
    if not any(violation.field.endswith("Count") for violation in wrong):
        yield from _of_updates(desc)


def _of_updates(desc: Any) -> Violations:
    sizes, (*leading, coordinates) = used(desc)
    if coordinates > len(sizes):
        rule = f"must end in at most {len(sizes)}, InputDimensionCount, since a tuple has one entry a dimension"
        yield Violation("IndicesTensor.Sizes", rule, desc.indices_tensor.sizes)
        return
    want = (*leading, *sizes[coordinates:])
    count = desc.updates_tensor.dimension_count
    if len(want) > count:
        rule = f"must be at least {len(want)}, for updates of {list(want)}"
        yield Violation("UpdatesTensor.DimensionCount", rule, count)
        return
    filled = (*(1,) * (count - len(want)), *want)
    why = "the leading sizes of IndicesTensor and the trailing ones of InputTensor"
    yield from sized(desc, "updates_tensor", why, filled)


def _slices(desc: Any, x: Any, indices: Any, updates: Any, *, duplicates: Any) -> Any:
    """Scatter the updates, without the leading dimensions of size 1."""
    sizes, tuples = used(desc)
    slices = (*tuples[:-1], *sizes[tuples[-1] :])
    given = (part.reshape(shape) for part, shape in ((x, sizes), (indices, tuples), (updates, slices)))
    return scatter_nd(*given, duplicates=duplicates).reshape(x.shape)


def _scatter(
    number: int,
    levels: Levels,
    compute: Callable[..., Any],
    constraints: Callable[[Any], Violations],
    what: str,
    aliases: tuple[str, ...] = (),
    /,
    **fields: str,
) -> Operator:
    return Operator(
        number,
        levels,
        compute,
        constraints,
        doc=f"Write {what}. The option ``duplicates`` of ``compile_operator`` decides which of two updates of one "
        "element remains, as in jaxdml's functions. DirectML calls such updates invalid. ``last`` gives the result of "
        "its own example.",
        fields={
            "input_tensor": "the tensor that the output is a copy of, before the updates are written.",
            "output_tensor": "the input's data type and sizes.",
            **fields,
        },
        aliases=aliases,
        options={"duplicates": DUPLICATES},
    )


OPERATORS: Mapping[str, Operator] = {
    "SCATTER": _scatter(
        94,
        growing("1_0 4, 3_0 1-8", (_VALUES, "1_0 F, 2_1 F+I, 4_1 A"), (_INDICES, "1_0 UINT32, 3_0 L+INT32+UINT32")),
        _elements,
        _of_elements,
        "elements at indices along an axis",
        ("SCATTER_ELEMENTS",),
        indices_tensor=INDICES,
        updates_tensor="the elements to write: the input's data type and the sizes of ``indices_tensor``.",
        axis="the dimension that the indices point into. In all other dimensions they have the input's sizes.",
    ),
    "SCATTER_ND": _scatter(
        109,
        growing("2_1 4, 3_0 1-8", (_VALUES, "2_1 F+I, 4_1 A"), (_INDICES, "2_1 UINT32, 3_0 L+INT32+UINT32")),
        _slices,
        _of_slices,
        "slices at index tuples",
        indices_tensor=TUPLES,
        updates_tensor="the slices to write, of the input's data type.",
        **COUNTS,
    ),
}

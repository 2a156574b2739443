"""Operators that select elements by their order: TOP_K, TOP_K1, ARGMAX, ARGMIN."""

from collections.abc import Callable, Mapping
from typing import Any

from jaxdml import TopK, argmax, argmin, top_k
from jaxdml._base.axis_direction import AxisDirection
from jaxdml.directml._checks import alike, axes_in_range, in_range, ones_at_axes, sized
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._operator import Operator
from jaxdml.directml._support import Levels, growing

_VALUES, _PLACES = "input_tensor output_value_tensor", "output_index_tensor"


def _top_k_constraints(desc: Any) -> Violations:
    outputs = "output_value_tensor", "output_index_tensor"
    yield from alike(desc, "dimension_count", "input_tensor", *outputs)
    yield from alike(desc, "data_type", "input_tensor", "output_value_tensor")
    yield from in_range(desc, "axis", "input_tensor")
    sizes, axis, k = desc.input_tensor.sizes, desc.axis, desc.k
    n = sizes[axis] if axis < len(sizes) else 0
    if n and not 1 <= k <= n:
        yield Violation("K", f"must be between 1 and {n}, InputTensor.Sizes[{axis}]", k)
    elif k < 1:
        yield Violation("K", "must be greater than 0", k)
    for name in outputs:
        own = getattr(desc, name).sizes
        if axis < len(sizes) == len(own):
            taken = k if 1 <= k <= n else own[axis]
            want = (*sizes[:axis], taken, *sizes[axis + 1 :])
            yield from sized(desc, name, "those of InputTensor with K at Axis", want)


def _select(desc: Any, x: Any, direction: AxisDirection) -> TopK:
    index_dtype: Any = desc.output_index_tensor.data_type.dtype
    return top_k(x, desc.k, axis=desc.axis, direction=direction, index_dtype=index_dtype)


def _top_k(number: int, levels: Levels, doc: str, compute: Callable[..., Any]) -> Operator:
    return Operator(
        number,
        levels,
        compute,
        _top_k_constraints,
        doc=doc,
        fields={
            "input_tensor": "the tensor to select from.",
            "output_value_tensor": "the selected elements: the input's data type and sizes, with ``k`` along ``axis``.",
            "output_index_tensor": "their positions along ``axis``, of the same sizes.",
            "axis": "the dimension to select along.",
            "k": "how many elements to select, from 1 to the size of that dimension.",
            "axis_direction": "``DECREASING`` selects the largest, ``INCREASING`` the smallest.",
        },
        outputs=TopK,
    )


def _extreme_constraints(desc: Any) -> Violations:
    yield from alike(desc, "dimension_count", "input_tensor", "output_tensor")
    yield from axes_in_range(desc, "input_tensor")
    yield from ones_at_axes(desc, "input_tensor", "output_tensor")


def _extreme(number: int, what: str, function: Callable[..., Any]) -> Operator:
    def compute(desc: Any, x: Any) -> Any:
        return function(
            x,
            axis=desc.axes,
            keepdims=True,
            select_last_index=desc.axis_direction == AxisDirection.DECREASING,
            index_dtype=desc.output_tensor.data_type.dtype,
        )

    return Operator(
        number,
        growing("3_0 1-8", ("input_tensor", "3_0 F+I, 4_1 F+I+L"), ("output_tensor", "3_0 L+INT32+UINT32")),
        compute,
        _extreme_constraints,
        doc=f"Find the {what} element along axes.",
        fields={
            "input_tensor": "the tensor to search.",
            "output_tensor": "the indices, of the input's sizes with 1 at ``axes``.",
            "axes": "the dimensions to search.",
            "axis_direction": "of equal elements ``INCREASING`` chooses the first, ``DECREASING`` the last.",
        },
    )


OPERATORS: Mapping[str, Operator] = {
    "TOP_K": _top_k(
        71,
        growing("2_0 4, 3_1 1-8", (_VALUES, "2_0 F, 2_1 F+I, 5_0 F+I+L"), (_PLACES, "2_0 UINT32, 5_0 UINT64+UINT32")),
        "Select the k largest elements along an axis.",
        lambda desc, x: _select(desc, x, AxisDirection.DECREASING),
    ),
    "TOP_K1": _top_k(
        112,
        growing("2_1 4, 3_1 1-8", (_VALUES, "2_1 F+I, 5_0 F+I+L"), (_PLACES, "2_1 UINT32, 5_0 UINT64+UINT32")),
        "Select the k largest or smallest elements along an axis.",
        lambda desc, x: _select(desc, x, desc.axis_direction),
    ),
    "ARGMAX": _extreme(138, "greatest", argmax),
    "ARGMIN": _extreme(137, "least", argmin),
}

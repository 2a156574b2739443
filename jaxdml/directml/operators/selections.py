"""Operators that select elements by their order: TOP_K, TOP_K1, ARGMAX, ARGMIN."""

from collections.abc import Callable, Mapping
from typing import Any

from jaxdml import TopK, argmax, argmin, top_k
from jaxdml._base.axis_direction import AxisDirection
from jaxdml.directml._checks import alike, axes_in_range, in_range, sized
from jaxdml.directml._enums import FeatureLevel
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._operator import Operator
from jaxdml.directml._support import (
    ALL_BUT_FLOAT64,
    FLOATS,
    FOUR,
    INDICES,
    UINT32,
    UNSIGNED_INDICES,
    UP_TO_32_BITS,
    UP_TO_EIGHT,
    Levels,
    Row,
    Types,
    row,
)


def _top_k_row(counts: range, types: Types, index_types: Types) -> Row:
    return row(("input_tensor output_value_tensor", counts, types), ("output_index_tensor", counts, index_types))


_TOP_K1_LEVELS: Mapping[FeatureLevel, Row] = {
    FeatureLevel.LEVEL_2_1: _top_k_row(FOUR, UP_TO_32_BITS, UINT32),
    FeatureLevel.LEVEL_3_1: _top_k_row(UP_TO_EIGHT, UP_TO_32_BITS, UINT32),
    FeatureLevel.LEVEL_5_0: _top_k_row(UP_TO_EIGHT, ALL_BUT_FLOAT64, UNSIGNED_INDICES),
}


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
    sizes = desc.input_tensor.sizes
    yield from axes_in_range(desc, "input_tensor")
    want = tuple(1 if d in desc.axes else size for d, size in enumerate(sizes))
    yield from sized(desc, "output_tensor", "those of InputTensor with 1 at Axes", want)


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
        {
            level: row(("input_tensor", UP_TO_EIGHT, types), ("output_tensor", UP_TO_EIGHT, INDICES))
            for level, types in ((FeatureLevel.LEVEL_3_0, UP_TO_32_BITS), (FeatureLevel.LEVEL_4_1, ALL_BUT_FLOAT64))
        },
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
        {FeatureLevel.LEVEL_2_0: _top_k_row(FOUR, FLOATS, UINT32), **_TOP_K1_LEVELS},
        "Select the k largest elements along an axis.",
        lambda desc, x: _select(desc, x, AxisDirection.DECREASING),
    ),
    "TOP_K1": _top_k(
        112,
        _TOP_K1_LEVELS,
        "Select the k largest or smallest elements along an axis.",
        lambda desc, x: _select(desc, x, desc.axis_direction),
    ),
    "ARGMAX": _extreme(138, "greatest", argmax),
    "ARGMIN": _extreme(137, "least", argmin),
}

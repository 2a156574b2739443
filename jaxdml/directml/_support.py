"""Hold DirectML's tables of what each feature level supports, one row a level."""

from collections.abc import Mapping
from typing import NamedTuple

from jaxdml.directml._enums import FeatureLevel, OperatorType, TensorDataType


class TensorSupport(NamedTuple):
    """What a tensor may be.

    Attributes:
      dimension_counts: how many dimensions it may have.
      data_types: what its elements may be.
    """

    dimension_counts: range
    data_types: tuple[TensorDataType, ...]


Row = Mapping[str, TensorSupport]
"""What each tensor may be, by its field."""


def _types(names: str) -> tuple[TensorDataType, ...]:
    return tuple(TensorDataType[name] for name in names.split())


_FLOATS = _types("FLOAT32 FLOAT16")
_NARROW = _types("FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8")
_WIDE = _types("FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8")
_ALL = _types("FLOAT64 FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8")
_UINT32 = _types("UINT32")
_UNSIGNED_INDICES = _types("UINT64 UINT32")
_INDICES = _types("INT64 INT32 UINT64 UINT32")
_BYTES = _types("INT8 UINT8")
_FLOAT32 = _types("FLOAT32")

_FOUR = range(4, 5)
_UP_TO_FOUR = range(1, 5)
_TWO_TO_FOUR = range(2, 5)
_UP_TO_EIGHT = range(1, 9)


def _row(*groups: tuple[str, range, tuple[TensorDataType, ...]]) -> Row:
    return {field: TensorSupport(counts, types) for fields, counts, types in groups for field in fields.split()}


def _selected(counts: range, types: tuple[TensorDataType, ...], indices: tuple[TensorDataType, ...] = _UINT32) -> Row:
    return _row(("input_tensor output_value_tensor", counts, types), ("output_index_tensor", counts, indices))


def _scattered(counts: range, types: tuple[TensorDataType, ...], indices: tuple[TensorDataType, ...] = _UINT32) -> Row:
    return _row(("input_tensor updates_tensor output_tensor", counts, types), ("indices_tensor", counts, indices))


def _multiplied(counts: range, counts_of_parameters: range) -> Row:
    return _row(
        ("a_tensor b_tensor output_tensor", counts, _BYTES),
        ("a_scale_tensor b_scale_tensor output_scale_tensor", counts_of_parameters, _FLOAT32),
        ("a_zero_point_tensor b_zero_point_tensor output_zero_point_tensor", counts_of_parameters, _BYTES),
    )


_BOTH_SELECTIONS = {
    FeatureLevel.LEVEL_2_1: _selected(_FOUR, _NARROW),
    FeatureLevel.LEVEL_3_1: _selected(_UP_TO_EIGHT, _NARROW),
    FeatureLevel.LEVEL_5_0: _selected(_UP_TO_EIGHT, _WIDE, _UNSIGNED_INDICES),
}

_BOTH_SCATTERS = {
    FeatureLevel.LEVEL_2_1: _scattered(_FOUR, _NARROW),
    FeatureLevel.LEVEL_3_0: _scattered(_UP_TO_EIGHT, _NARROW, _INDICES),
    FeatureLevel.LEVEL_4_1: _scattered(_UP_TO_EIGHT, _ALL, _INDICES),
}

SUPPORT: Mapping[OperatorType, Mapping[FeatureLevel, Row]] = {
    OperatorType.TOP_K: {FeatureLevel.LEVEL_2_0: _selected(_FOUR, _FLOATS), **_BOTH_SELECTIONS},
    OperatorType.TOP_K1: _BOTH_SELECTIONS,
    OperatorType.SCATTER: {FeatureLevel.LEVEL_1_0: _scattered(_FOUR, _FLOATS), **_BOTH_SCATTERS},
    OperatorType.SCATTER_ND: _BOTH_SCATTERS,
    OperatorType.QUANTIZED_LINEAR_MATRIX_MULTIPLY: {
        FeatureLevel.LEVEL_2_1: _multiplied(_FOUR, _FOUR),
        FeatureLevel.LEVEL_4_0: _multiplied(_TWO_TO_FOUR, _UP_TO_FOUR),
    },
}
"""For each operator, the levels at which its support grows, in order, and what each tensor may be from there on.

As the operators' own pages have it. A field is named as in the descriptions.
"""

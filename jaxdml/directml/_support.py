"""The words in which an operator's table of feature levels is written."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxdml.directml._enums import FeatureLevel, TensorDataType


class TensorSupport(NamedTuple):
    """The tensors that a field accepts.

    Attributes:
      dimension_counts: the allowed numbers of dimensions.
      data_types: the allowed types of the elements.
    """

    dimension_counts: range
    data_types: tuple[TensorDataType, ...]


Types = tuple[TensorDataType, ...]
"""Data types, in the order of the pages."""

Row = Mapping[str, TensorSupport]
"""What each tensor's field accepts, by the name of the field."""

Levels = Mapping[FeatureLevel, Row]
"""An operator's table: the levels at which its support grows, in order, and what is accepted from each one on."""


def row(*groups: tuple[str, range, Types]) -> Row:
    """Make a row from groups of fields, with the names of a group separated by spaces."""
    return {field: TensorSupport(counts, types) for fields, counts, types in groups for field in fields.split()}


def growing(counts: str, *groups: tuple[str, ...]) -> Levels:
    """Make a table of levels from what changes at each one.

    ``growing("1_0 4, 3_0 1-8", ("input_tensor output_tensor", "1_0 F, 2_1 F+I"))`` has a row for each level named.

    Args:
      counts: the dimension counts of the tensors.
      groups: fields; their data types, as ``types`` takes them; their dimension counts if they are not
        those of the others. The first level of the first group's types is the operator's.
    """
    parsed = [
        (fields, _steps(own[0] if own else counts, _counts), _steps(named, types)) for fields, named, *own in groups
    ]
    first = min(parsed[0][2])
    levels = sorted({level for _, *steps in parsed for step in steps for level in step if level >= first})
    return {
        level: row(*((fields, _at(counted, level), _at(named, level)) for fields, counted, named in parsed))
        for level in levels
    }


_LETTERS: Mapping[str, str] = {
    "F": "FLOAT32 FLOAT16",
    "S": "INT32 INT16 INT8",
    "U": "UINT32 UINT16 UINT8",
    "I": "INT32 INT16 INT8 UINT32 UINT16 UINT8",
    "B": "INT8 UINT8",
    "L": "INT64 UINT64",
    "A": "FLOAT64 FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8",
}

UP_TO_64_BITS: Types = tuple(TensorDataType[name] for name in _LETTERS["A"].split())
"""All data types that tensors have here, in the order of the pages."""


def _steps(text: str, meaning: Callable[[str], Any]) -> dict[FeatureLevel, Any]:
    steps = (step.split() for step in text.split(", "))
    return {FeatureLevel[f"LEVEL_{level}"]: meaning(what) for level, what in steps}


def _counts(text: str) -> range:
    least, _, most = text.partition("-")
    return range(int(least), int(most or least) + 1)


def types(text: str) -> Types:
    """Return the data types of names and letters: ``types("F+INT32")``."""
    names = {name for word in text.split("+") for name in _LETTERS.get(word, word).split()}
    return tuple(kind for kind in UP_TO_64_BITS if kind.name in names)


def _at(steps: Mapping[FeatureLevel, Any], level: FeatureLevel) -> Any:
    return steps[max(reached for reached in steps if reached <= level)]

"""Tables by operator, made from the structs."""

import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jaxdml.directml._descs import OperatorDesc
from jaxdml.directml._support import Levels
from jaxdml.directml.structs import STRUCTS


def _numbers() -> dict[str, int]:
    """Return the number of each operator, and of its aliases after it."""
    operators = sorted((struct.operator for struct in STRUCTS), key=lambda operator: operator.number)
    return {name: operator.number for operator in operators for name in (operator.name, *operator.aliases)}


if TYPE_CHECKING:

    class _Named(enum.EnumMeta):
        def __getattr__(cls, name: str) -> Any: ...  # The names come from a table, which type checkers do not read.

    class OperatorType(enum.IntEnum, metaclass=_Named): ...

else:
    OperatorType = enum.IntEnum("OperatorType", _numbers(), module=__name__)
    OperatorType.__doc__ = "The operator that a description is of, with the values of ``DML_OPERATOR_TYPE``."

for _struct in STRUCTS:
    _struct.operator_type = OperatorType(_struct.operator.number)

DESCS: Mapping[OperatorType, type[OperatorDesc]] = {OperatorType(one.operator.number): one for one in STRUCTS}

SUPPORT: Mapping[OperatorType, Levels] = {kind: struct.operator.levels for kind, struct in DESCS.items()}
"""For each operator, the levels at which its support grows, in order, and what each tensor may be from there on.

The tables are those of the operators' own pages. Fields have their names in the descriptions.
"""

"""Tables by operator, made from the structs."""

import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jaxdml.directml._descs import OperatorDesc
from jaxdml.directml._support import Levels
from jaxdml.directml.structs import STRUCTS


class _Derived(enum.EnumMeta):
    if TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any: ...  # The members come from a table, where type checkers miss them.


class OperatorType(enum.IntEnum, metaclass=_Derived):
    """The operator that a description is of, with the values of ``DML_OPERATOR_TYPE``."""

    vars().update(
        (name, operator.number)
        for operator in sorted((struct.operator for struct in STRUCTS), key=lambda operator: operator.number)
        for name in (operator.name, *operator.aliases)
    )


for _struct in STRUCTS:
    _struct.operator_type = OperatorType(_struct.operator.number)

DESCS: Mapping[OperatorType, type[OperatorDesc]] = {OperatorType(one.operator.number): one for one in STRUCTS}

SUPPORT: Mapping[OperatorType, Levels] = {kind: struct.operator.levels for kind, struct in DESCS.items()}
"""For each operator, the levels at which its support grows, in order, and what each tensor may be from there on.

The tables are those of the operators' own pages. Fields have their names in the descriptions.
"""

"""Tables by operator, made from the facts of all."""

import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jaxdml.directml._support import Levels
from jaxdml.directml.operators import OPERATORS

if TYPE_CHECKING:

    class _Named(enum.EnumMeta):
        def __getattr__(cls, name: str) -> Any: ...  # The names come from a table, which type checkers do not read.

    class OperatorType(enum.IntEnum, metaclass=_Named): ...

else:
    _NUMBERS = {alias: one.number for name, one in OPERATORS.items() for alias in (name, *one.aliases)}
    OperatorType = enum.IntEnum("OperatorType", _NUMBERS, module=__name__)
    OperatorType.__doc__ = "The operator that a description is of, with the values of ``DML_OPERATOR_TYPE``."

SUPPORT: Mapping[OperatorType, Levels] = {OperatorType(one.number): one.levels for one in OPERATORS.values()}
"""For each operator, the levels at which its support grows, in order, and what each tensor may be from there on.

The tables are those of the operators' own pages. Fields have their names in the descriptions.
"""

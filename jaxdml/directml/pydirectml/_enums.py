"""Enumerations that only PyDirectML has."""

import enum

from jaxdml.directml._tables import OperatorType as _Every


class ExecutionFlags(enum.IntFlag):
    """How a graph is computed, with the values of ``DML_EXECUTION_FLAGS``; all of them compute the same here."""

    NONE = 0
    ALLOW_HALF_PRECISION_COMPUTATION = 1
    DISABLE_META_COMMANDS = 2
    DESCRIPTORS_VOLATILE = 4


class OutputOptions(enum.IntEnum):
    """Which outputs ``gru`` has."""

    Both = 0
    Sequence = 1
    Single = 2


_LAST = 96
"""PyDirectML knows operators up to RESAMPLE."""

OperatorType = enum.IntEnum(  # type: ignore[misc]  # The members come from a table.
    "OperatorType",
    {"INVALID": 0, **{name: one.value for name, one in _Every.__members__.items() if one.value <= _LAST}},
    module=__name__,
)
OperatorType.__doc__ = "The operators that PyDirectML knows, with the values of ``DML_OPERATOR_TYPE``."

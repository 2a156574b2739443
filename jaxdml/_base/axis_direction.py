"""Name the order of selected elements."""

import enum


class AxisDirection(enum.IntEnum):
    """Order selected elements smallest or largest first; the values are those of ``DML_AXIS_DIRECTION``."""

    INCREASING = 0
    DECREASING = 1

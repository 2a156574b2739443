"""Hold the direction in which a selection is sorted."""

import enum


class AxisDirection(enum.IntEnum):
    """Which end of a sequence comes first, with the values of ``DML_AXIS_DIRECTION``."""

    INCREASING = 0
    DECREASING = 1

"""DirectML's enumerations that belong to no operator, with its numbers."""

import enum
import functools
from typing import Any

import numpy as np


class TensorDataType(enum.IntEnum):
    """The type of a tensor's elements, with the values of ``DML_TENSOR_DATA_TYPE``."""

    UNKNOWN = 0
    FLOAT32 = 1
    FLOAT16 = 2
    UINT32 = 3
    UINT16 = 4
    UINT8 = 5
    INT32 = 6
    INT16 = 7
    INT8 = 8
    FLOAT64 = 9
    UINT64 = 10
    INT64 = 11
    UINT4 = 12
    INT4 = 13

    @functools.cached_property
    def bits(self) -> int:
        """The width of an element; 0 for ``UNKNOWN``."""
        return int("".join(filter(str.isdigit, self.name)) or 0)

    @functools.cached_property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of an array of such elements; TypeError for ``UNKNOWN``."""
        return np.dtype(self.name.lower())


class TensorFlags(enum.IntFlag, boundary=enum.STRICT):
    """Flags of a tensor, with the values of ``DML_TENSOR_FLAGS``."""

    NONE = 0
    OWNED_BY_DML = 1


class FeatureLevel(enum.IntEnum):
    """What a device supports, with the values of ``DML_FEATURE_LEVEL``. Each level includes all lower ones."""

    LEVEL_1_0 = 0x1000
    LEVEL_2_0 = 0x2000
    LEVEL_2_1 = 0x2100
    LEVEL_3_0 = 0x3000
    LEVEL_3_1 = 0x3100
    LEVEL_4_0 = 0x4000
    LEVEL_4_1 = 0x4100
    LEVEL_5_0 = 0x5000
    LEVEL_5_1 = 0x5100
    LEVEL_5_2 = 0x5200
    LEVEL_6_0 = 0x6000
    LEVEL_6_1 = 0x6100
    LEVEL_6_2 = 0x6200
    LEVEL_6_3 = 0x6300
    LEVEL_6_4 = 0x6400

    @property
    def label(self) -> str:
        """The level as DirectML's pages write it, like ``3_1``."""
        return self.name.removeprefix("LEVEL_")

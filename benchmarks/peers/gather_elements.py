"""How the peers read elements along an axis: ``gather_elements``."""

from functools import partial
from typing import Any

import numpy as np

from benchmarks.peers import _gathering

expected = partial(_gathering.expected, lambda axis: (axis, axis))


def _torch(x: Any, indices: Any, axis: int) -> Any:
    return x.gather(axis, indices)


PEERS = _gathering.peers("GatherElements", _torch, np.take_along_axis)

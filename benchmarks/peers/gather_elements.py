"""How the peers read elements along an axis: ``gather_elements``."""

from typing import Any

import numpy as np

from benchmarks.peers import _gathering

expected = _gathering.expected


def _torch(x: Any, indices: Any, axis: int) -> Any:
    return x.gather(axis, indices)


PEERS = _gathering.peers("GatherElements", _torch, np.take_along_axis)

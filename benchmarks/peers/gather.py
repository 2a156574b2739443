"""How the peers read slices along an axis: ``gather``."""

from functools import partial
from typing import Any

import numpy as np

from benchmarks.peers import _gathering

expected = partial(_gathering.expected, lambda axis: (0, axis))


def _torch(x: Any, indices: Any, axis: int) -> Any:
    return x.index_select(axis, indices)


PEERS = _gathering.peers("Gather", _torch, np.take)

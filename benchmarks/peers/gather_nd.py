"""How the peers read slices at tuples of indices: ``gather_nd``."""

from functools import partial
from typing import Any

import numpy as np

from benchmarks.peers import _gathering

expected = partial(_gathering.expected, lambda batch_dims: (batch_dims, batch_dims), tuples=True)


def _torch(x: Any, indices: Any, batch_dims: int) -> Any:
    import torch

    batch = torch.meshgrid(*map(torch.arange, indices.shape[:-1]), indexing="ij")[:batch_dims]
    return x[(*(part.to(x.device) for part in batch), *indices.unbind(-1))]


def _numpy(x: Any, indices: Any, batch_dims: int) -> Any:
    batch = np.ogrid[tuple(map(slice, indices.shape[:-1]))][:batch_dims]
    return x[(*batch, *np.moveaxis(indices, -1, 0))]


PEERS = _gathering.peers("GatherND", _torch, _numpy)

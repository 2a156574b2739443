"""How the peers write elements."""

from typing import Any

import numpy as np

from benchmarks.cases import Arguments, Case
from benchmarks.peers import _scattering
from benchmarks.peers.contender import Peers
from benchmarks.peers.usual import usual
from jaxdml import reference

_torch = _scattering.torch(lambda x, _, indices, updates: x.scatter_(0, indices, updates))

PEERS: Peers = usual(
    _scattering.lax,
    _scattering.onnxruntime("ScatterElements"),
    _torch,
    _scattering.numpy(lambda arguments: (arguments[1], np.arange(arguments[0].shape[1])[None])),
)


def expected(case: Case, arguments: Arguments) -> tuple[Any, Arguments]:
    """Ask the oracle about everything."""
    return ..., (reference.scatter_elements(*arguments, **case.keywords),)

"""How the peers write elements."""

from typing import Any

import numpy as np

from benchmarks.cases import Arguments, Case
from benchmarks.peers import _scattering, with_jax, with_torch
from benchmarks.peers.contender import Peers, each
from jaxdml import reference

_torch = _scattering.torch(lambda x, _, indices, updates: x.scatter_(0, indices, updates))

PEERS: Peers = {
    "lax": with_jax.ready(_scattering.lax),
    "onnxruntime": each(_scattering.onnxruntime("ScatterElements")),
    "torch": each(_torch),
    "torch.compile": each(with_torch.compiled(_torch)),
    "numpy": each(_scattering.numpy(lambda arguments: (arguments[1], np.arange(arguments[0].shape[1])[None]))),
}


def expected(case: Case, arguments: Arguments) -> tuple[Any, Arguments]:
    """Ask the oracle about everything."""
    return ..., (reference.scatter_elements(*arguments, **case.keywords),)

"""How the peers dequantize."""

from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases import Arguments, Case
from benchmarks.peers import _quantizing, with_jax, with_numpy, with_torch
from benchmarks.peers._quantizing import by_row
from benchmarks.peers.contender import Contender, Peers
from benchmarks.peers.usual import usual
from jaxdml import reference


def _torch(case: Case, arguments: Arguments, compiled: bool = False) -> Contender:
    import torch

    x, scale, zero_point = with_torch.operands(case, arguments)
    scale, zero_point = by_row(case, scale), by_row(case, zero_point)
    dtype = with_torch.dtype(arguments[1])

    def start() -> Any:
        return (x.to(torch.int32) - zero_point).to(dtype) * scale

    return with_torch.contender(start, "exact", compiled)


def _numpy(case: Case, arguments: Arguments) -> Contender:
    x, scale, zero_point = arguments
    scale, zero = by_row(case, scale), by_row(case, zero_point).astype(np.int32)

    def run() -> Any:
        return (x.astype(np.int32, copy=False) - zero).astype(scale.dtype) * scale

    return with_numpy.contender(run, "exact")


PEERS: Peers = usual(
    with_jax.stock, _quantizing.onnxruntime("DequantizeLinear", lambda arguments: arguments[1].dtype), _torch, _numpy
)

expected = partial(_quantizing.expected, reference.dequantize_linear)
"""Ask the oracle of ``dequantize_linear`` about some rows."""

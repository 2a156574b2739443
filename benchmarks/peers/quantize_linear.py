"""How the peers quantize."""

from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases import Arguments, Case
from benchmarks.peers import _quantizing, with_numpy, with_torch
from benchmarks.peers._quantizing import by_row
from benchmarks.peers.contender import Contender, Peers
from benchmarks.peers.usual import usual
from benchmarks.peers.with_jax import Program
from jaxdml import reference
from jaxdml._cases.quantize_linear import stock


def _lax(case: Case) -> Program:
    return Program(stock(case), "within one")


def _torch(case: Case, arguments: Arguments, compiled: bool = False) -> Contender:
    import torch

    x, scale, zero_point = with_torch.operands(case, arguments)
    kind = with_torch.dtype(arguments[2])
    if case.keywords or compiled or x.dtype != torch.float32:
        scale, zero_point = by_row(case, scale), by_row(case, zero_point)
        bounds = torch.iinfo(kind)

        def start() -> Any:
            shifted = torch.round(x.float() / scale) + zero_point
            return shifted.clamp(bounds.min, bounds.max).to(kind)

        return with_torch.contender(start, "within one", compiled)
    dtype = torch.quint8 if kind == torch.uint8 else torch.qint8
    given = float(scale), int(zero_point), dtype
    made = with_torch.contender(lambda: torch.quantize_per_tensor(x, *given), "within one", compiled)
    return Contender(made.run, lambda result: (result.int_repr().cpu().numpy(),), made.promises)


def _numpy(case: Case, arguments: Arguments) -> Contender:
    x, scale, zero_point = arguments
    scale, zero = by_row(case, scale), by_row(case, zero_point).astype(np.float32)
    bounds = np.iinfo(zero_point.dtype)

    def run() -> Any:
        shifted = np.rint(x.astype(np.float32, copy=False) / scale) + zero
        return np.clip(shifted, bounds.min, bounds.max).astype(bounds.dtype)

    return with_numpy.contender(run, "exact")


PEERS: Peers = usual(
    _lax, _quantizing.onnxruntime("QuantizeLinear", lambda arguments: arguments[2].dtype), _torch, _numpy
)

expected = partial(_quantizing.expected, reference.quantize_linear)
"""Ask the oracle about some rows."""

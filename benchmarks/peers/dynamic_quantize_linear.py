"""How the peers quantize by the range of the array."""

from typing import Any

import numpy as np

from benchmarks.cases import Arguments, Case
from benchmarks.peers import with_numpy, with_onnxruntime, with_torch
from benchmarks.peers.contender import Contender, Peers
from benchmarks.peers.usual import usual
from benchmarks.peers.with_jax import Program
from jaxdml import reference
from jaxdml._cases.dynamic_quantize_linear import stock

_LOOPS = 2**12
"""So many elements the oracle's loop quantizes in no time."""


def _lax(case: Case) -> Program:
    return Program(stock(case), "within one")


def _onnxruntime(case: Case, arguments: Arguments) -> Contender:
    outputs = {"output": np.uint8, "scale": np.float32, "zero_point": np.uint8}
    return with_onnxruntime.session("DynamicQuantizeLinear", {"x": arguments[0]}, outputs, "exact")


def _torch(case: Case, arguments: Arguments, compiled: bool = False) -> Contender:
    import torch

    (x,) = with_torch.tensors(arguments)

    def start() -> Any:
        low, high = torch.aminmax(x)
        low, high = low.clamp(max=0), high.clamp(min=0)
        scale = (high - low) / 255
        zero_point = torch.round(-low / scale).clamp(0, 255)
        output = (torch.round(x / scale) + zero_point).clamp(0, 255)
        return output.to(torch.uint8), scale, zero_point.to(torch.uint8)

    return with_torch.contender(start, "within one", compiled)


def _quantized(x: np.ndarray[Any, Any]) -> Arguments:
    low, high = min(np.float32(0), x.min()), max(np.float32(0), x.max())
    scale = (high - low) / np.float32(255)
    zero_point = np.clip(np.rint(-low / scale), 0, 255)
    output = np.clip(np.rint(x / scale) + zero_point, 0, 255)
    return output.astype(np.uint8), np.asarray(scale), np.asarray(zero_point, np.uint8)


def _numpy(case: Case, arguments: Arguments) -> Contender:
    return with_numpy.contender(lambda: _quantized(arguments[0]), "exact")


PEERS: Peers = usual(_lax, _onnxruntime, _torch, _numpy)


def expected(case: Case, arguments: Arguments) -> tuple[Any, Arguments]:
    """Ask the oracle of ``dynamic_quantize_linear``; where its loop would be long, compute the same at once."""
    (x,) = arguments
    return ..., reference.dynamic_quantize_linear(x) if x.size <= _LOOPS else _quantized(x)

"""How the peers convolve integers."""

from typing import Any

import numpy as np

from benchmarks.cases import Arguments, Case
from benchmarks.peers import _convolving, with_onnxruntime, with_torch
from benchmarks.peers.contender import Contender, Peers
from benchmarks.peers.usual import usual
from benchmarks.peers.with_jax import Program
from jaxdml import reference
from jaxdml._cases.convolution_integer import stock


def _lax(case: Case) -> Program:
    # A float32 holds every sum, but a device may transform the operands of a convolution.
    return Program(stock(case), "within one")


def _onnxruntime(case: Case, arguments: Arguments, prepacked: bool) -> Contender:
    x, x_zero, w, w_zero = arguments
    operands = {"x": x, "w": w, "x_zero": x_zero, "w_zero": w_zero}
    # Filters that are a constant get onnxruntime's layout beforehand.
    constants = {"x_zero", "w_zero", *(["w"] if prepacked else [])}
    options = _convolving.of_onnx(case)
    outputs = {"output": np.int32}
    return with_onnxruntime.session("ConvInteger", operands, outputs, "exact", constants=constants, **options)


def _torch(case: Case, arguments: Arguments, compiled: bool = False) -> Contender:
    import torch

    operands = with_torch.tensors(arguments)

    def start() -> Any:
        return torch.round(_convolving.torch_sums(case, *operands)).to(torch.int32)

    return with_torch.contender(start, "within one", compiled)


PEERS: Peers = usual(_lax, _onnxruntime, _torch, prepacks=True)


def expected(case: Case, arguments: Arguments) -> tuple[Any, Arguments]:
    """Ask the oracle about some filters and the last image."""
    x, x_zero, w, w_zero = arguments
    chosen, x, w, options = _convolving.part(case, x, w)
    return (slice(-1, None), chosen), (reference.convolution_integer(x, x_zero, w, w_zero, **options),)

"""How the peers compute quantized_linear_add."""

import warnings
from typing import Any

import numpy as np

from benchmarks.cases import Arguments, Case
from benchmarks.peers import with_numpy, with_onnxruntime, with_torch
from benchmarks.peers.contender import Absent, Contender, Peers
from benchmarks.peers.usual import usual
from benchmarks.peers.with_jax import Program
from jaxdml import reference
from jaxdml._cases.quantized_linear_add import stock

_COMPARED = 4096
"""So many elements of a result are compared."""

_NAMES = ("a", "a_scale", "a_zero", "b", "b_scale", "b_zero", "output_scale", "output_zero")


def _lax(case: Case) -> Program:
    return Program(stock(case), "within one")


def _onnxruntime(case: Case, arguments: Arguments) -> Contender:
    operands = dict(zip(_NAMES, arguments, strict=True))
    constants = {name for name in operands if name not in "ab"}
    outputs = {"output": operands["output_zero"].dtype}
    return with_onnxruntime.session(
        "QLinearAdd", operands, outputs, "within one", constants=constants, domain="com.microsoft"
    )


def _torch(case: Case, arguments: Arguments, compiled: bool = False) -> Contender:
    import torch

    a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero = with_torch.operands(case, arguments)
    dtype = with_torch.dtype(arguments[-1])
    bounds = torch.iinfo(dtype)

    def start() -> Any:
        real = ((a.float() - a_zero) * a_scale + (b.float() - b_zero) * b_scale) / output_scale
        return (torch.round(real) + output_zero).clamp(bounds.min, bounds.max).to(dtype)

    return with_torch.contender(start, "within one", compiled)


def _torch_quantized(case: Case, arguments: Arguments) -> Contender:
    import torch

    if case.dtype != "uint8":
        raise Absent("quantized.add takes uint8")
    a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero = with_torch.tensors(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # That it is going to be replaced.
        make = torch._make_per_tensor_quantized_tensor
        left, right = make(a, float(a_scale), int(a_zero)), make(b, float(b_scale), int(b_zero))
    scale, zero = float(output_scale), int(output_zero)

    def start() -> Any:
        return torch.ops.quantized.add(left, right, scale, zero)

    contender = with_torch.contender(start, "within one", compiled=False)
    return Contender(start, lambda result: (result.int_repr().numpy(),), contender.promises)


def _numpy(case: Case, arguments: Arguments) -> Contender:
    a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero = arguments
    bounds = np.iinfo(output_zero.dtype)

    def run() -> Any:
        left, right = (x.astype(np.float32) - np.float32(zero) for x, zero in ((a, a_zero), (b, b_zero)))
        real = np.rint((left * a_scale + right * b_scale) / output_scale) + np.float32(output_zero)
        return np.clip(real, bounds.min, bounds.max).astype(bounds.dtype)

    return with_numpy.contender(run, "within one")


PEERS: Peers = usual(_lax, _onnxruntime, _torch, _numpy, torch_quantized=_torch_quantized)


def expected(case: Case, arguments: Arguments) -> tuple[Any, Arguments]:
    """Ask the oracle about some elements."""
    a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero = arguments
    a, b = np.broadcast_arrays(a, b)
    places = np.unravel_index(np.unique(np.linspace(0, a.size - 1, _COMPARED).astype(int)), a.shape)
    part = a[places], a_scale, a_zero, b[places], b_scale, b_zero, output_scale, output_zero
    return places, (reference.quantized_linear_add(*part),)

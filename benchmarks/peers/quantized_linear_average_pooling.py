"""How the peers compute quantized_linear_average_pooling."""

import math
from typing import Any

import numpy as np

from benchmarks.cases import Arguments, Case
from benchmarks.peers import with_numpy, with_onnxruntime, with_torch
from benchmarks.peers.contender import Contender, Peers
from benchmarks.peers.usual import usual
from benchmarks.peers.with_jax import Program
from jaxdml import reference
from jaxdml._cases.quantized_linear_average_pooling import stock

_CHANNELS = 8
"""So many channels of the first image are compared."""


def _sizes(case: Case, arguments: Arguments) -> tuple[list[int], list[int]]:
    """Return the window and the strides along each spatial dimension."""
    rank = arguments[0].ndim - 2
    window, strides = (np.broadcast_to(case.options[name], rank).tolist() for name in ("window", "strides"))
    return window, strides


def _lax(case: Case) -> Program:
    return Program(stock(case), "within one")


def _onnxruntime(case: Case, arguments: Arguments) -> Contender:
    operands = dict(zip(("x", "x_scale", "x_zero", "output_scale", "output_zero"), arguments, strict=True))
    window, strides = _sizes(case, arguments)
    if window == [*arguments[0].shape[2:]]:
        node, attributes = "QLinearGlobalAveragePool", {}
    else:
        node, attributes = "QLinearAveragePool", {"kernel_shape": window, "strides": strides}
    outputs, constants = {"output": operands["output_zero"].dtype}, [name for name in operands if name != "x"]
    return with_onnxruntime.session(
        node, operands, outputs, "within one", constants=constants, domain="com.microsoft", **attributes
    )


def _torch(case: Case, arguments: Arguments, compiled: bool = False) -> Contender:
    import torch

    x, x_scale, x_zero, output_scale, output_zero = with_torch.operands(case, arguments)
    window, strides = _sizes(case, arguments)
    dtype = with_torch.dtype(arguments[-1])
    bounds = torch.iinfo(dtype)
    ratio = x_scale / output_scale

    def start() -> Any:
        mean = torch.nn.functional.avg_pool2d(x.float() - x_zero, window, strides)
        return (torch.round(mean * ratio) + output_zero).clamp(bounds.min, bounds.max).to(dtype)

    return with_torch.contender(start, "within one", compiled)


def _numpy(case: Case, arguments: Arguments) -> Contender:
    x, x_scale, x_zero, output_scale, output_zero = arguments
    window, strides = _sizes(case, arguments)
    bounds = np.iinfo(output_zero.dtype)
    ratio = np.float32(x_scale / output_scale / math.prod(window))
    middle = int(x_zero) * math.prod(window)

    def run() -> Any:
        views = np.lib.stride_tricks.sliding_window_view(x, window, axis=(2, 3))[:, :, :: strides[0], :: strides[1]]
        total = views.sum(axis=(-2, -1), dtype=np.int32) - middle
        real = np.rint(total.astype(np.float32) * ratio) + np.float32(output_zero)
        return np.clip(real, bounds.min, bounds.max).astype(bounds.dtype)

    return with_numpy.contender(run, "within one")


PEERS: Peers = usual(_lax, _onnxruntime, _torch, _numpy)


def expected(case: Case, arguments: Arguments) -> tuple[Any, Arguments]:
    """Ask the oracle about some channels of the first image."""
    x, *parameters = arguments
    cut = np.s_[:1, :_CHANNELS]
    return cut, (reference.quantized_linear_average_pooling(x[cut], *parameters, **case.keywords),)

"""How the peers multiply matrices of integers and return floats."""

from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases import Arguments, Case
from benchmarks.peers import _products, with_numpy, with_onnxruntime, with_torch
from benchmarks.peers.contender import Absent, Contender, Peers
from benchmarks.peers.usual import usual
from benchmarks.peers.with_jax import Program
from jaxdml import reference
from jaxdml._cases.matrix_multiply_integer_to_float import stock


def _lax(case: Case) -> Program:
    # It may join the last product and the sum to one operation.
    return Program(stock(case), "close")


def _onnxruntime(case: Case, arguments: Arguments, prepacked: bool) -> Contender:
    if case.options.get("scales"):
        raise Absent("one scale for all of the left matrix")
    a, a_scale, a_zero, b, b_scale, b_zero, bias = arguments
    operands = {
        "a": a,
        "b": b,
        "a_scale": a_scale,
        "b_scale": b_scale,
        "a_zero": a_zero,
        "b_zero": b_zero,
        "bias": bias,
    }
    # A right matrix that is a constant gets onnxruntime's layout beforehand.
    constants = {name for name, value in operands.items() if value.ndim == 0 or (prepacked and name == "b")}
    outputs = {"output": np.float32}
    return with_onnxruntime.session(
        "MatMulIntegerToFloat", operands, outputs, "exact", constants=constants, domain="com.microsoft"
    )


def _torch(case: Case, arguments: Arguments, compiled: bool = False) -> Contender:
    import torch

    a, a_scale, a_zero, b, b_scale, b_zero, bias = with_torch.tensors(arguments)
    sums = _products.torch_sums(a, a_zero, b, b_zero)

    def start() -> Any:
        return sums().to(torch.float32) * (a_scale * b_scale) + bias

    return with_torch.contender(start, "close", compiled)


def _numpy(case: Case, arguments: Arguments) -> Contender:
    a, a_scale, a_zero, b, b_scale, b_zero, bias = arguments

    def run() -> Any:
        # NumPy's product of integers calls no BLAS, and a float64 holds these sums exactly.
        left, right = (x.astype(np.float64) - float(zero) for x, zero in ((a, a_zero), (b, b_zero)))
        return np.matmul(left, right).astype(np.float32) * (a_scale * b_scale) + bias

    return with_numpy.contender(run, "exact")


PEERS: Peers = {
    "jaxdml prepacked": partial(_products.prepacked, 3),
    **usual(_lax, _onnxruntime, _torch, _numpy, prepacks=True),
}


def expected(case: Case, arguments: Arguments) -> tuple[Any, Arguments]:
    """Ask the oracle about some rows and columns, at their full K."""
    a, a_scale, a_zero, b, b_scale, b_zero, bias = arguments
    rows, columns = _products.part(a, b)
    a_scale = a_scale if a_scale.ndim == 0 else a_scale[rows]
    b_scale = b_scale if b_scale.ndim == 0 else b_scale[:, columns]
    parts = a[..., rows, :], a_scale, a_zero, b[..., columns], b_scale, b_zero, bias[columns]
    return (..., rows[:, None], columns), (reference.matrix_multiply_integer_to_float(*parts),)

"""How the peers multiply matrices of integers and return floats."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks import environment
from benchmarks.cases import Arguments, Case
from benchmarks.peers import with_jax, with_numpy, with_onnxruntime, with_torch
from benchmarks.peers.contender import Absent, Contender, Peers, each
from benchmarks.peers.quantized_linear_matrix_multiply import packed
from benchmarks.peers.with_jax import Program
from jaxdml import reference
from jaxdml._cases.matrix_multiply_integer_to_float import stock

_ROWS, _COLUMNS = 4, 256
"""So many rows, and columns, of a result are compared."""


def _prepacked(case: Case, draws: Sequence[Arguments]) -> Contender:
    """Prepare jaxdml's own product with a right matrix that was packed beforehand."""
    return with_jax.prepare(with_jax.ours(case), case, list(map(packed, draws)))


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
    # A right matrix that is a constant gets the kernel's layout beforehand.
    constants = {name for name, value in operands.items() if value.ndim == 0 or (prepacked and name == "b")}
    outputs = {"output": np.float32}
    return with_onnxruntime.session(
        "MatMulIntegerToFloat", operands, outputs, "exact", constants=constants, domain="com.microsoft"
    )


def _torch(case: Case, arguments: Arguments, compiled: bool = False) -> Contender:
    import torch

    a, a_scale, a_zero, b, b_scale, b_zero, bias = with_torch.tensors(arguments)
    shifts = [128 if x.dtype == torch.uint8 else 0 for x in (a, b)]
    zero_points = [zero.to(torch.int32) - shift for zero, shift in zip((a_zero, b_zero), shifts, strict=True)]
    on_gpu, length = environment.platform() == "gpu", a.shape[-1]

    def signed(x: Any) -> Any:
        return (x ^ 128).view(torch.int8) if x.dtype == torch.uint8 else x

    def product(left: Any, right: Any) -> Any:
        if not on_gpu:
            return torch._int_mm(left, right)
        # Here _int_mm wants more than 16 rows and sizes that are multiples of 8, and the right matrix transposed.
        pad = torch.nn.functional.pad
        rows, columns = left.shape[0], right.shape[1]
        padded = pad(left, (0, -length % 16, 0, max(0, 17 - rows)))
        transposed = pad(right, (0, -columns % 16, 0, -length % 16)).t().contiguous().t()
        return torch._int_mm(padded, transposed)[:rows, :columns]

    def start() -> Any:
        left, right = signed(a), signed(b)
        left_sums = left.sum(-1, keepdim=True, dtype=torch.int32)
        right_sums = right.sum(-2, keepdim=True, dtype=torch.int32)
        corrections = zero_points[1] * (left_sums - length * zero_points[0]) + zero_points[0] * right_sums
        return (product(left, right) - corrections).to(torch.float32) * (a_scale * b_scale) + bias

    return with_torch.contender(start, "close", compiled)


def _numpy(case: Case, arguments: Arguments) -> Contender:
    a, a_scale, a_zero, b, b_scale, b_zero, bias = arguments

    def run() -> Any:
        # NumPy's product of integers calls no BLAS, and a float64 holds these sums exactly.
        left, right = (x.astype(np.float64) - float(zero) for x, zero in ((a, a_zero), (b, b_zero)))
        return np.matmul(left, right).astype(np.float32) * (a_scale * b_scale) + bias

    return with_numpy.contender(run, "exact")


PEERS: Peers = {
    "jaxdml prepacked": _prepacked,
    "lax": with_jax.ready(_lax),
    "onnxruntime": each(partial(_onnxruntime, prepacked=False)),
    "onnxruntime prepacked": each(partial(_onnxruntime, prepacked=True)),
    "torch": each(_torch),
    "torch.compile": each(with_torch.compiled(_torch)),
    "numpy": each(_numpy),
}


def expected(case: Case, arguments: Arguments) -> tuple[Any, Arguments]:
    """Ask the oracle about some rows and columns, at their full K."""
    a, a_scale, a_zero, b, b_scale, b_zero, bias = arguments
    rows = np.unique(np.linspace(0, a.shape[-2] - 1, _ROWS).astype(int))
    columns = np.unique(np.linspace(0, b.shape[-1] - 1, _COLUMNS).astype(int))
    a_scale = a_scale if a_scale.ndim == 0 else a_scale[rows]
    b_scale = b_scale if b_scale.ndim == 0 else b_scale[:, columns]
    parts = a[..., rows, :], a_scale, a_zero, b[..., columns], b_scale, b_zero, bias[columns]
    return (..., rows[:, None], columns), (reference.matrix_multiply_integer_to_float(*parts),)

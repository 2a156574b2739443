"""How the peers multiply quantized matrices."""

import math
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

import jaxdml
from benchmarks import environment
from benchmarks.cases import Arguments, Case
from benchmarks.peers import with_jax, with_numpy, with_onnxruntime, with_torch
from benchmarks.peers.contender import Absent, Contender, Peers, each
from benchmarks.peers.with_jax import Program
from jaxdml import reference
from jaxdml._cases.quantized_linear_matrix_multiply import stock

_ROWS, _COLUMNS = 4, 256
"""So many rows, and columns, of a result are compared."""


def packed(arguments: Arguments) -> Any:
    """Return the arguments with a packed right matrix."""
    return (*arguments[:3], jaxdml.prepack(arguments[3]), *arguments[4:])


def _prepacked(case: Case, draws: Sequence[Arguments]) -> Contender:
    """Prepare jaxdml's own product with a right matrix that was packed beforehand."""
    return with_jax.prepare(with_jax.ours(case), case, list(map(packed, draws)))


def _lax(case: Case) -> Program:
    return Program(stock(case), "within one")


def _onnxruntime(case: Case, arguments: Arguments, prepacked: bool) -> Contender:
    if case.options.get("scales"):
        raise Absent("one scale for all of the left matrix")
    names = ("a", "a_scale", "a_zero", "b", "b_scale", "b_zero", "output_scale", "output_zero")
    operands = dict(zip(names, arguments, strict=True))
    # A right matrix that is a constant gets the kernel's layout beforehand.
    constants = {name for name, value in operands.items() if value.ndim == 0 or (prepacked and name == "b")}
    outputs = {"output": operands["output_zero"].dtype}
    return with_onnxruntime.session("QLinearMatMul", operands, outputs, "within one", constants=constants)


def _torch(case: Case, arguments: Arguments, compiled: bool = False) -> Contender:
    import torch

    a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero = with_torch.tensors(arguments)
    bounds = torch.iinfo(output_zero.dtype)
    by_axis = case.options.get("scales")
    scales = (a_scale / output_scale, b_scale) if by_axis else (a_scale * b_scale / output_scale,)
    shifts = [128 if x.dtype == torch.uint8 else 0 for x in (a, b)]
    zero_points = [zero.to(torch.int32) - shift for zero, shift in zip((a_zero, b_zero), shifts, strict=True)]
    on_gpu = environment.platform() == "gpu"
    length = a.shape[-1]

    def signed(x: Any) -> Any:
        return (x ^ 128).view(torch.int8) if x.dtype == torch.uint8 else x

    def centered(total: Any, left: Any, right: Any) -> Any:
        left_sums = left.sum(-1, keepdim=True, dtype=torch.int32)
        right_sums = right.sum(-2, keepdim=True, dtype=torch.int32)
        return total - (zero_points[1] * (left_sums - length * zero_points[0]) + zero_points[0] * right_sums)

    def rounded(total: Any) -> Any:
        real = math.prod(scales, start=total.to(torch.float32))
        return (torch.round(real) + output_zero).clamp(bounds.min, bounds.max).to(output_zero.dtype)

    def of_floats() -> Any:
        # _int_mm takes no batch, but the sums of these few products are whole numbers that a float32 holds.
        if not on_gpu:
            return rounded((a.float() - a_zero) @ (b.float() - b_zero))
        left, right = signed(a), signed(b)
        total = torch.bmm(left.bfloat16(), right.bfloat16(), out_dtype=torch.float32)
        return rounded(centered(total, left, right))

    def start() -> Any:
        left, right = signed(a), signed(b)
        if not on_gpu:
            return rounded(centered(torch._int_mm(left, right), left, right))
        # Here _int_mm wants more than 16 rows and sizes that are multiples of 8, and is much quicker with the right
        # matrix transposed, even with the time that transposing takes.
        pad = torch.nn.functional.pad
        rows, columns = left.shape[0], right.shape[1]
        padded = pad(left, (0, -length % 16, 0, max(0, 17 - rows)))
        transposed = pad(right, (0, -columns % 16, 0, -length % 16)).t().contiguous().t()
        return rounded(centered(torch._int_mm(padded, transposed)[:rows, :columns], left, right))

    return with_torch.contender(of_floats if a.ndim > 2 else start, "within one", compiled)


def _torch_prepacked(case: Case, arguments: Arguments) -> Contender:
    import torch

    if case.dtype != "uint8 x int8":
        raise Absent("quantized.linear takes uint8 x int8")
    if arguments[0].ndim > 2:
        raise Absent("quantized.linear takes no batch of weights")
    if case.options.get("scales"):
        raise Absent("quantized.linear takes one scale for all of the left matrix")
    a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero = with_torch.tensors(arguments)
    make = torch._make_per_tensor_quantized_tensor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # That it is going to be replaced.
        weights = make(b.T.contiguous(), float(b_scale), int(b_zero))
    packed = torch.ops.quantized.linear_prepack(weights, None)
    x = make(a, float(a_scale), int(a_zero))
    scale, zero = float(output_scale), int(output_zero)

    def start() -> Any:
        return torch.ops.quantized.linear(x, packed, scale, zero)

    contender = with_torch.contender(start, "within one", compiled=False)
    return Contender(start, lambda result: (result.int_repr().numpy(),), contender.promises)


def _numpy(case: Case, arguments: Arguments) -> Contender:
    a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero = arguments
    bounds = np.iinfo(output_zero.dtype)
    scale = a_scale * b_scale / output_scale

    def run() -> Any:
        left = a.astype(np.float32) - np.float32(a_zero)
        right = b.astype(np.float32) - np.float32(b_zero)
        real = np.rint(np.matmul(left, right) * scale) + np.float32(output_zero)
        return np.clip(real, bounds.min, bounds.max).astype(bounds.dtype)

    return with_numpy.contender(run, "within one")


PEERS: Peers = {
    "jaxdml prepacked": _prepacked,
    "lax": with_jax.ready(_lax),
    "onnxruntime": each(partial(_onnxruntime, prepacked=False)),
    "onnxruntime prepacked": each(partial(_onnxruntime, prepacked=True)),
    "torch": each(_torch),
    "torch prepacked": each(_torch_prepacked),
    "torch.compile": each(with_torch.compiled(_torch)),
    "numpy": each(_numpy),
}


def expected(case: Case, arguments: Arguments) -> tuple[Any, Arguments]:
    """Ask the oracle about some rows and columns, at their full K."""
    a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero = arguments
    rows = np.unique(np.linspace(0, a.shape[-2] - 1, _ROWS).astype(int))
    columns = np.unique(np.linspace(0, b.shape[-1] - 1, _COLUMNS).astype(int))
    of_rows = [part if part.ndim == 0 else part[rows] for part in (a_scale, a_zero, output_scale, output_zero)]
    of_columns = [part if part.ndim == 0 else part[:, columns] for part in (b_scale, b_zero)]
    parts = a[..., rows, :], *of_rows[:2], b[..., columns], *of_columns, *of_rows[2:]
    return (..., rows[:, None], columns), (reference.quantized_linear_matrix_multiply(*parts),)

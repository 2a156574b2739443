"""How the peers multiply quantized matrices."""

import math
import warnings
from functools import partial
from typing import Any

import numpy as np

from benchmarks import environment
from benchmarks.cases import Arguments, Case
from benchmarks.peers import _products, with_numpy, with_onnxruntime, with_torch
from benchmarks.peers.contender import Absent, Contender, Peers
from benchmarks.peers.usual import usual
from benchmarks.peers.with_jax import Program
from jaxdml import reference
from jaxdml._cases.quantized_linear_matrix_multiply import stock


def _lax(case: Case) -> Program:
    return Program(stock(case), "within one")


def _onnxruntime(case: Case, arguments: Arguments, prepacked: bool) -> Contender:
    if case.options.get("scales"):
        raise Absent("one scale for all of the left matrix")
    names = ("a", "a_scale", "a_zero", "b", "b_scale", "b_zero", "output_scale", "output_zero")
    operands = dict(zip(names, arguments, strict=True))
    # A right matrix that is a constant gets onnxruntime's layout beforehand.
    constants = {name for name, value in operands.items() if value.ndim == 0 or (prepacked and name == "b")}
    outputs = {"output": operands["output_zero"].dtype}
    return with_onnxruntime.session("QLinearMatMul", operands, outputs, "within one", constants=constants)


def _torch(case: Case, arguments: Arguments, compiled: bool = False) -> Contender:
    import torch

    a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero = with_torch.operands(case, arguments)
    dtype = with_torch.dtype(arguments[-1])
    bounds = torch.iinfo(dtype)
    by_axis = case.options.get("scales")
    on_gpu = environment.platform() == "gpu"
    scales = (a_scale / output_scale, b_scale) if by_axis else (a_scale * b_scale / output_scale,)

    def rounded(total: Any) -> Any:
        real = math.prod(scales, start=total.to(torch.float32))
        return (torch.round(real) + output_zero).clamp(bounds.min, bounds.max).to(dtype)

    def of_bfloat16(left: Any, right: Any) -> Any:
        return torch.bmm(left.bfloat16(), right.bfloat16(), out_dtype=torch.float32)

    # _int_mm takes no batch, but the sums of these few products are integers that a float32 holds.
    batched = a.ndim > 2
    sums = _products.torch_sums(a, a_zero, b, b_zero, of_bfloat16 if batched else _products.int_mm)

    def start() -> Any:
        if batched and not on_gpu:
            return rounded((a.float() - a_zero) @ (b.float() - b_zero))
        return rounded(sums())

    return with_torch.contender(start, "within one", compiled)


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
    "jaxdml prepacked": partial(_products.prepacked, 3),
    **usual(_lax, _onnxruntime, _torch, _numpy, prepacks=True, torch_prepacked=_torch_prepacked),
}


def expected(case: Case, arguments: Arguments) -> tuple[Any, Arguments]:
    """Ask the oracle about some rows and columns, at their full K."""
    a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero = arguments
    rows, columns = _products.part(a, b)
    of_rows = [part if part.ndim == 0 else part[rows] for part in (a_scale, a_zero, output_scale, output_zero)]
    of_columns = [part if part.ndim == 0 else part[:, columns] for part in (b_scale, b_zero)]
    parts = a[..., rows, :], *of_rows[:2], b[..., columns], *of_columns, *of_rows[2:]
    return (..., rows[:, None], columns), (reference.quantized_linear_matrix_multiply(*parts),)

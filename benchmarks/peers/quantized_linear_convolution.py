"""How the peers convolve quantized arrays."""

import warnings
from typing import Any

from benchmarks import environment
from benchmarks.cases import Arguments, Case
from benchmarks.peers import _convolving, with_onnxruntime, with_torch
from benchmarks.peers.contender import Absent, Contender, Peers
from benchmarks.peers.usual import usual
from benchmarks.peers.with_jax import Program
from jaxdml import reference
from jaxdml._cases.quantized_linear_convolution import stock


def _lax(case: Case) -> Program:
    return Program(stock(case), "within one")


def _onnxruntime(case: Case, arguments: Arguments, prepacked: bool) -> Contender:
    x, x_scale, x_zero, w, w_scale, w_zero, bias, output_scale, output_zero = arguments
    operands = {"x": x, "x_scale": x_scale, "x_zero": x_zero, "w": w, "w_scale": w_scale, "w_zero": w_zero}
    operands |= {"output_scale": output_scale, "output_zero": output_zero, "bias": bias}
    # Filters that are a constant get onnxruntime's layout beforehand.
    constants = operands.keys() - ({"x"} if prepacked else {"x", "w"})
    outputs, options = {"output": output_zero.dtype}, _convolving.of_onnx(case)
    return with_onnxruntime.session("QLinearConv", operands, outputs, "within one", constants=constants, **options)


def _torch(case: Case, arguments: Arguments, compiled: bool = False) -> Contender:
    import torch

    x, x_scale, x_zero, w, w_scale, w_zero, bias, output_scale, output_zero = with_torch.operands(case, arguments)
    dtype = with_torch.dtype(arguments[-1])
    bounds = torch.iinfo(dtype)
    scale = (x_scale * w_scale / output_scale)[:, None, None]

    def start() -> Any:
        sums = _convolving.torch_sums(case, x, x_zero, w, w_zero) + bias.float()[:, None, None]
        real = torch.round(sums * scale) + output_zero
        return real.clamp(bounds.min, bounds.max).to(dtype)

    return with_torch.contender(start, "within one", compiled)


def _torch_prepacked(case: Case, arguments: Arguments) -> Contender:
    import torch

    if environment.platform() != "cpu":
        raise Absent("quantized.conv2d runs on CPUs")
    x, x_scale, x_zero, w, w_scale, w_zero, bias, output_scale, output_zero = with_torch.tensors(arguments)
    if (x.dtype, w.dtype) != (torch.uint8, torch.int8):
        raise Absent("quantized.conv2d takes uint8 x int8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # That it is going to be replaced.
        zeros = torch.full(w_scale.shape, int(w_zero))
        weights = torch._make_per_channel_quantized_tensor(w, w_scale.double(), zeros, 0)
        given = torch._make_per_tensor_quantized_tensor(x, float(x_scale), int(x_zero))
    options = _convolving.of_torch(case)
    both_ways = ([options["stride"]] * 2, [options["padding"]] * 2, [1, 1])
    packed = torch.ops.quantized.conv2d_prepack(weights, bias * x_scale * w_scale, *both_ways, options["groups"])
    scale, zero = float(output_scale), int(output_zero)

    def start() -> Any:
        return torch.ops.quantized.conv2d(given, packed, scale, zero)

    contender = with_torch.contender(start, "within one", compiled=False)
    return Contender(start, lambda result: (result.int_repr().numpy(),), contender.promises)


PEERS: Peers = usual(_lax, _onnxruntime, _torch, prepacks=True, torch_prepacked=_torch_prepacked)


def expected(case: Case, arguments: Arguments) -> tuple[Any, Arguments]:
    """Ask the oracle about some filters and the last image."""
    x, x_scale, x_zero, w, w_scale, w_zero, bias, output_scale, output_zero = arguments
    chosen, x, w, options = _convolving.part(case, x, w)
    of_x, of_w = (x, x_scale, x_zero), (w, w_scale[chosen], w_zero, bias[chosen])
    answer = reference.quantized_linear_convolution(*of_x, *of_w, output_scale, output_zero, **options)
    return (slice(-1, None), chosen), (answer,)

"""PyTorch, eager and compiled, on the device that JAX uses."""

import math
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from benchmarks import environment
from benchmarks.cases import Arguments, Case
from benchmarks.peers.contender import Absent, Contender

_UNSIGNED_BEYOND_BYTES = ("uint16", "uint32", "uint64")


def _tensors(arguments: Arguments) -> list[Any]:
    import torch

    torch.set_num_threads(environment.THREADS)
    where = "cuda" if environment.platform() == "gpu" else "cpu"
    if environment.platform() == "gpu" and not torch.cuda.is_available():
        raise Absent("this build of torch does not see the device")
    if environment.platform() == "tpu":
        raise Absent("not measured on TPUs")
    return [_tensor(value).to(where) for value in arguments]


def _tensor(value: np.ndarray[Any, Any]) -> Any:
    import torch

    if value.dtype.name == "bfloat16":
        return torch.from_numpy(value.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(value.copy())


def _array(tensor: Any) -> np.ndarray[Any, Any]:
    import torch

    if tensor.dtype == torch.bfloat16:
        return tensor.cpu().view(torch.int16).numpy().view("bfloat16")
    return tensor.cpu().numpy()


def _contender(start: Callable[[], Any], promises: str, compiled: bool) -> Contender:
    import torch

    compile_s = None
    if compiled:
        torch._dynamo.reset()  # After a number of programs from one place it compiles no more.
        start = torch.compile(start, mode="max-autotune", dynamic=False)
        begin = time.perf_counter()
        start()
        compile_s = time.perf_counter() - begin

    def run() -> Any:
        result = start()
        if environment.platform() == "gpu":
            torch.cuda.synchronize()
        return result

    def answers(result: Any) -> tuple[np.ndarray[Any, Any], ...]:
        return tuple(map(_array, result if isinstance(result, tuple) else (result,)))

    return Contender(run, answers, promises, compile_s)


def _top_k(case: Case, arguments: Arguments) -> Contender:
    import torch

    if case.dtype in _UNSIGNED_BEYOND_BYTES:
        raise Absent(f"no topk of {case.dtype}")
    (x,) = _tensors(arguments)
    k, largest = case.options["k"], case.options["direction"] == "decreasing"
    return _contender(lambda: tuple(torch.topk(x, k, dim=1, largest=largest, sorted=True)), "values", False)


def _scatter(case: Case, arguments: Arguments, compiled: bool) -> Contender:
    import torch

    x, places, updates = _tensors(arguments)
    wide = places.long()
    rows = wide[:, 0].contiguous()

    rule = case.options.get("duplicates")
    if rule == "last" and compiled:
        raise Absent("no rule for duplicates")
    torch.utils.deterministic.fill_uninitialized_memory = False

    def start() -> Any:
        target = x if case.options["memory"] == "donated" else x.clone()
        if rule == "last":
            # Then it sorts the places first, as a stable sort does.
            torch.use_deterministic_algorithms(True)
            try:
                return target.index_put_((rows,), updates)
            finally:
                torch.use_deterministic_algorithms(False)
        if case.operator == "scatter_nd":
            return target.index_copy_(0, rows, updates)
        return target.scatter_(0, wide, updates)

    return _contender(start, "exact", compiled)


def _product(case: Case, arguments: Arguments, compiled: bool) -> Contender:
    import torch

    a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero = _tensors(arguments)
    bounds = torch.iinfo(output_zero.dtype)
    by_axis = case.options.get("scales")
    scales = (a_scale / output_scale, b_scale) if by_axis else (a_scale * b_scale / output_scale,)
    shifts = [128 if x.dtype == torch.uint8 else 0 for x in (a, b)]
    zero_points = [zero.to(torch.int32) - shift for zero, shift in zip((a_zero, b_zero), shifts, strict=True)]
    on_gpu = environment.platform() == "gpu"
    depth = a.shape[-1]

    def signed(x: Any) -> Any:
        return (x ^ 128).view(torch.int8) if x.dtype == torch.uint8 else x

    def centered(total: Any, left: Any, right: Any) -> Any:
        left_sums = left.sum(-1, keepdim=True, dtype=torch.int32)
        right_sums = right.sum(-2, keepdim=True, dtype=torch.int32)
        return total - (zero_points[1] * (left_sums - depth * zero_points[0]) + zero_points[0] * right_sums)

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
        # matrix turned, the turning included.
        pad = torch.nn.functional.pad
        rows, columns = left.shape[0], right.shape[1]
        filled = pad(left, (0, -depth % 16, 0, max(0, 17 - rows)))
        turned = pad(right, (0, -columns % 16, 0, -depth % 16)).t().contiguous().t()
        return rounded(centered(torch._int_mm(filled, turned)[:rows, :columns], left, right))

    return _contender(of_floats if a.ndim > 2 else start, "within one", compiled)


def _prepacked_product(case: Case, arguments: Arguments) -> Contender:
    import torch

    if case.dtype != "uint8 x int8":
        raise Absent("quantized.linear takes uint8 x int8")
    if arguments[0].ndim > 2:
        raise Absent("quantized.linear takes no batch of weights")
    if case.options.get("scales"):
        raise Absent("quantized.linear takes one scale for all of the left matrix")
    a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero = _tensors(arguments)
    make = torch._make_per_tensor_quantized_tensor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # That it is going to be replaced.
        weights = make(b.T.contiguous(), float(b_scale), int(b_zero))
    packed = torch.ops.quantized.linear_prepack(weights, None)
    x = make(a, float(a_scale), int(a_zero))
    scale, zero = float(output_scale), int(output_zero)

    def start() -> Any:
        return torch.ops.quantized.linear(x, packed, scale, zero)

    contender = _contender(start, "within one", compiled=False)
    return Contender(start, lambda result: (result.int_repr().numpy(),), contender.promises)


EAGER: Mapping[str, Callable[[Case, Arguments], Contender]] = {
    "top_k": _top_k,
    "scatter_nd": partial(_scatter, compiled=False),
    "scatter_elements": partial(_scatter, compiled=False),
    "quantized_linear_matrix_multiply": partial(_product, compiled=False),
}

PREPACKED: Mapping[str, Callable[[Case, Arguments], Contender]] = {
    "quantized_linear_matrix_multiply": _prepacked_product,
}


def _compile(prepare: Callable[..., Contender]) -> Callable[[Case, Arguments], Contender]:
    def prepared(case: Case, arguments: Arguments) -> Contender:
        if environment.platform() != "gpu":
            raise Absent("compiled on GPUs only")
        return prepare(case, arguments, compiled=True)

    return prepared


COMPILED: Mapping[str, Callable[[Case, Arguments], Contender]] = {
    "scatter_nd": _compile(_scatter),
    "scatter_elements": _compile(_scatter),
    "quantized_linear_matrix_multiply": _compile(_product),
}

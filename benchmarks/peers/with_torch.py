"""PyTorch, eager and compiled, on the device that JAX uses."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import environment
from benchmarks.cases import Arguments, Case
from benchmarks.peers.contender import Absent, Contender


def tensors(arguments: Arguments) -> list[Any]:
    """Bring the arguments to the device; raises Absent where torch does not reach it."""
    import torch

    torch.set_num_threads(environment.THREADS)
    where = "cuda" if environment.platform() == "gpu" else "cpu"
    if environment.platform() == "gpu" and not torch.cuda.is_available():
        raise Absent("this build of torch does not see the device")
    if environment.platform() == "tpu":
        raise Absent("not measured on TPUs")
    return [_tensor(value).to(where) for value in arguments]


def operands(case: Case, arguments: Arguments) -> list[Any]:
    """Return the arguments as tensors, but single numbers that the program knows as numbers."""
    made = tensors(arguments)
    return [
        value.item() if place in case.known and not value.ndim else tensor
        for place, (value, tensor) in enumerate(zip(arguments, made, strict=True))
    ]


def dtype(value: np.ndarray[Any, Any]) -> Any:
    """Return the dtype of an array as torch has it."""
    import torch

    return getattr(torch, value.dtype.name)


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


def contender(start: Callable[[], Any], promises: str, compiled: bool, mode: str = "max-autotune") -> Contender:
    """Make a contender of a function that returns one tensor or a tuple of them."""
    import torch

    compile_s = None
    if compiled:
        torch._dynamo.reset()  # After a number of programs from one place it compiles no more.
        start = torch.compile(start, mode=mode, dynamic=False)
        begin = time.perf_counter()
        start()
        compile_s = time.perf_counter() - begin

    def many(calls: int) -> Any:
        results = [start() for _ in range(calls)]
        if environment.platform() == "gpu":
            torch.cuda.synchronize()
        return results

    def run() -> Any:
        return many(1)[0]

    def answers(result: Any) -> tuple[np.ndarray[Any, Any], ...]:
        return tuple(map(_array, result if isinstance(result, tuple) else (result,)))

    return Contender(run, answers, promises, compile_s, many=many)


def compiled(prepare: Callable[..., Contender]) -> Callable[[Case, Arguments], Contender]:
    """Return what prepares the same with ``torch.compile``."""

    def prepared(case: Case, arguments: Arguments) -> Contender:
        if environment.platform() != "gpu":
            raise Absent("compiled on GPUs only")
        return prepare(case, arguments, compiled=True)

    return prepared

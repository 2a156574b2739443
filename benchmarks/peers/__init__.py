"""Who is measured: each peer says how it does a case, or why it cannot."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle

from benchmarks import environment
from benchmarks.cases import Arguments, Case
from benchmarks.peers import cupy_programs, jax_programs, numpy_programs, onnxruntime_programs, torch_programs
from benchmarks.peers.contender import Absent, Contender

Prepare = Callable[[Case, Sequence[Arguments]], Contender]


def _jax(programs: Mapping[str, Callable[[Case], jax_programs.Program]]) -> Mapping[str, Prepare]:
    def prepared(case: Case, draws: Sequence[Arguments]) -> Contender:
        return jax_programs.prepare(programs[case.operator](case), case, draws)

    return dict.fromkeys(programs, prepared)


def _each(programs: Mapping[str, Callable[[Case, Arguments], Contender]]) -> Mapping[str, Prepare]:
    """Make a peer ready for every draw on its own, and run those in turn."""

    def prepared(case: Case, draws: Sequence[Arguments]) -> Contender:
        contenders = [programs[case.operator](case, arguments) for arguments in draws]
        turns = cycle(contenders)
        return replace(contenders[0], run=lambda: next(turns).run())

    return dict.fromkeys(programs, prepared)


OURS = "jaxdml"

PEERS: Mapping[str, Mapping[str, Prepare]] = {
    OURS: _jax(jax_programs.JAXDML),
    "lax": _jax(jax_programs.LAX),
    "lax unstable": _jax(jax_programs.UNSTABLE),
    "onnxruntime": _each(onnxruntime_programs.PLAIN),
    "onnxruntime prepacked": _each(onnxruntime_programs.PREPACKED),
    "torch": _each(torch_programs.EAGER),
    "torch prepacked": _each(torch_programs.PREPACKED),
    "torch.compile": _each(torch_programs.COMPILED),
    "cupy": _each(cupy_programs.CUPY),
    "numpy": _each(numpy_programs.NUMPY),
}
"""For every peer, how it does each operator that it can do in a way of its own."""

ONLY_ON_CPUS = frozenset({"onnxruntime", "onnxruntime prepacked", "torch prepacked", "numpy"})


def prepare(peer: str, case: Case, draws: Sequence[Arguments]) -> Contender:
    """Make a peer ready for a case, to run on the draws in turn; raises Absent where it cannot, or is not installed."""
    if case.operator not in PEERS[peer]:
        raise Absent("no way of its own")
    if peer in ONLY_ON_CPUS and environment.platform() != "cpu":
        raise Absent("measured on CPUs only")
    try:
        return PEERS[peer][case.operator](case, draws)
    except ModuleNotFoundError as missing:
        raise Absent(f"{missing.name} is not installed") from missing


__all__ = ["OURS", "PEERS", "Absent", "Contender", "prepare"]

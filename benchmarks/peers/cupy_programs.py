"""CuPy's own functions, on the device that JAX uses."""

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks import environment
from benchmarks.cases import Arguments, Case
from benchmarks.peers.contender import Absent, Contender


def _scatter(case: Case, arguments: Arguments) -> Contender:
    if environment.platform() != "gpu":
        raise Absent("measured on GPUs only")
    if case.options.get("duplicates") == "last":
        raise Absent("no rule for duplicates")
    import cupy

    x, places, updates = map(cupy.asarray, arguments)

    def run() -> Any:
        written = x if case.options["memory"] == "donated" else x.copy()
        written[places[:, 0]] = updates
        cupy.cuda.Device().synchronize()
        return written

    return Contender(run, lambda written: (cupy.asnumpy(written),), "exact")


CUPY: Mapping[str, Callable[[Case, Arguments], Contender]] = {"scatter_nd": _scatter}

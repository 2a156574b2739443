"""How the peers write slices."""

from typing import Any

from benchmarks import environment
from benchmarks.cases import Arguments, Case
from benchmarks.peers import _scattering
from benchmarks.peers.contender import Absent, Contender, Peers
from benchmarks.peers.usual import usual
from jaxdml import reference

_LOOPS = 2**20
"""So many updates the oracle's loop writes in some seconds."""


def _cupy(case: Case, arguments: Arguments) -> Contender:
    if environment.platform() != "gpu":
        raise Absent("measured on GPUs only")
    if case.options.get("duplicates") == "last":
        raise Absent("no rule for duplicates")
    import cupy

    x, indices, updates = map(cupy.asarray, arguments)

    def run() -> Any:
        written = x if case.options["memory"] == "donated" else x.copy()
        written[indices[:, 0]] = updates
        cupy.cuda.Device().synchronize()
        return written

    return Contender(run, lambda written: (cupy.asnumpy(written),), "exact")


_torch = _scattering.torch(lambda x, rows, _, updates: x.index_copy_(0, rows, updates))

PEERS: Peers = usual(
    _scattering.lax,
    _scattering.onnxruntime("ScatterND"),
    _torch,
    _scattering.numpy(lambda arguments: arguments[1][:, 0]),
    cupy=_cupy,
)


def expected(case: Case, arguments: Arguments) -> tuple[Any, Arguments]:
    """Ask the oracle about everything; where there are too many updates for its loop, assign them at once."""
    x, indices, updates = arguments
    if indices.size <= _LOOPS:
        return ..., (reference.scatter_nd(*arguments, **case.keywords),)
    # No index occurs twice, so the order does not matter.
    written = x.copy()
    written[indices[:, 0]] = updates
    return ..., (written,)

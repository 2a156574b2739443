"""How the peers compute on several devices: programs of JAX, on a mesh of one axis."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import jax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from benchmarks.cases import Arguments, Case, sharded
from benchmarks.cases.shardings import mesh_of
from benchmarks.peers import with_jax
from benchmarks.peers.contender import Contender, Peers
from benchmarks.peers.with_jax import Program


def _prepared(
    program: Callable[[Case], Program], kind: AxisType, case: Case, draws: Sequence[Arguments], alone: bool = False
) -> Contender:
    """Compile a program for sharded arguments, or for one device."""
    devices = 1 if alone else sharded.devices_of(case)
    mesh = mesh_of({sharded.AXIS: devices}, jax.devices()[:devices], kind)

    def placed(arguments: Arguments) -> Arguments:
        specs = [P() for _ in arguments] if alone else sharded.specs(case, arguments)
        return tuple(jax.device_put(x, NamedSharding(mesh, spec)) for x, spec in zip(arguments, specs, strict=True))

    # A chain would write into an element of a sharded array: such calls are timed one by one.
    return replace(with_jax.prepare(program(case), case, list(map(placed, draws))), chain=None)


PEERS: Peers = {
    "jaxdml": partial(_prepared, with_jax.ours, AxisType.Explicit),
    "jaxdml auto axes": partial(_prepared, with_jax.ours, AxisType.Auto),
    "jaxdml one device": partial(_prepared, with_jax.ours, AxisType.Explicit, alone=True),
    "lax": partial(_prepared, with_jax.stock, AxisType.Auto),
}
"""How each peer does a sharded case."""

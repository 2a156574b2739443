"""Compile sharded calls for eight devices, virtual CPUs or TPUs that need not be there, and read what they send."""

import os
import time
from collections.abc import Mapping, Sequence
from importlib import util
from typing import Any

import jax
from jax.experimental import topologies
from jax.sharding import PartitionSpec as P

from benchmarks.collectives import Collective, collectives
from benchmarks.shardings import DEVICES, Bound, Sharded, same

TPU = "v5e:2x4"
"""The topology whose compiler is asked."""

_TPU_SETTINGS = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-8",
    "TPU_WORKER_HOSTNAMES": "localhost",
    # Compiling uses no TPU, so other processes may compile too.
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
"""Settings with which libtpu compiles on a machine without a TPU, and does not look for one."""

PLATFORMS = "cpu", "tpu"

_OPTIONS = {"cpu": {"xla_backend_optimization_level": 0}}
"""Machine code that nobody runs need not be fast. The HLO is the same."""


def has(platform: str) -> bool:
    """Tell whether this machine can compile for the platform."""
    return platform == "cpu" or util.find_spec("libtpu") is not None


def devices_of(platform: str) -> Sequence[Any]:
    """Return eight devices to compile for. The CPUs must have been asked for before JAX is used."""
    if platform == "cpu":
        return jax.devices("cpu")[:DEVICES]
    for name, value in _TPU_SETTINGS.items():
        os.environ.setdefault(name, value)
    return topologies.get_topology_desc(platform="tpu", topology_name=TPU).devices


def compiled(call: Sharded, way: str, devices: Any, *, stock: bool = False) -> dict[str, Any]:
    """Compile a call and return what it sends, or why it raises."""
    started = time.perf_counter()
    try:
        function, arguments = call.program(way, devices, stock=stock)
        lowered = jax.jit(function).trace(*arguments).lower()
        program = lowered.compile(compiler_options=_OPTIONS.get(devices[0].platform))
    except Exception as error:  # Whatever it raises is the result.
        first, _, _ = str(error).partition("\n")
        return {"raises": f"{type(error).__name__}: {first}"}
    spent = time.perf_counter() - started
    found = collectives(program.as_text() or "")
    results = [sharding.spec for sharding in jax.tree.leaves(program.output_shardings)]
    wanted = jax.tree.leaves(call.results, is_leaf=lambda part: isinstance(part, P))
    return {
        "raises": None,
        **summary(found, call.bound_of(way)),
        "results": [str(spec) for spec in results],
        "as_written": all(map(same, results, wanted)),
        "estimate_us": _estimate_us(program),
        "compile_s": round(spent, 2),
    }


def summary(found: Sequence[Collective], bound: Bound) -> dict[str, Any]:
    """Add up the collectives, all of them and by kind. One in a loop of unknown length counts once, and is told."""
    by_kind = {kind: _total([one for one in found if one.kind == kind]) for kind in sorted({one.kind for one in found})}
    total = _total(found)
    endless = any(one.rounds is None for one in found)
    keeps = not endless and bound.keeps(total["elements"], total["count"])
    return {**total, "kinds": by_kind, "loops_of_unknown_length": endless, "keeps": keeps}


def _total(found: Sequence[Collective]) -> Mapping[str, int]:
    rounds = [1 if one.rounds is None else one.rounds for one in found]
    return {
        "count": sum(rounds),
        "elements": sum(one.elements * times for one, times in zip(found, rounds, strict=True)),
        "bytes": sum(one.bytes * times for one, times in zip(found, rounds, strict=True)),
    }


def _estimate_us(program: Any) -> float | None:
    """Return the compiler's own estimate of the time, without what collectives wait; None where it has none.

    The TPU's compiler gives an operation that it cannot estimate minus one second.
    """
    seconds = (program.cost_analysis() or {}).get("optimal_seconds", -1.0)
    return None if seconds < 0 else round(seconds * 1e6, 3)

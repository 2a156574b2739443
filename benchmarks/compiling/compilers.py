"""Compile sharded calls for eight devices, virtual CPUs or others that need not be there, and read what they send."""

import os
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import util
from pathlib import Path
from typing import Any

import jax
from jax.experimental import topologies
from jax.sharding import PartitionSpec as P

from benchmarks.cases.shardings import DEVICES, Bound, Sharded, same
from benchmarks.compiling.collectives import Collective, collectives

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

CUDA = """
platform_name: "CUDA"
device_description_str: "NVIDIA H200"
dnn_version_info { major: 9 minor: 10 }
gpu_device_info {
  cuda_compute_capability { major: 9 minor: 0 }
  core_count: 132
  fpus_per_core: 128
  clock_rate_ghz: 1.98
  memory_bandwidth: 4800000000000
  device_memory_size: 150000000000
  l2_cache_size: 52428800
  shared_memory_per_core: 233472
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: 232448
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  threads_per_core_limit: 2048
  threads_per_block_limit: 1024
  threads_per_warp: 32
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
}
"""
"""The GPU that XLA compiles for. It times no GPU kernels to choose between them, since there is no GPU."""

PLATFORMS = "cpu", "tpu", "cuda"

_OPTIONS = {"cpu": {"xla_backend_optimization_level": 0}}
"""Machine code that nobody runs need not be fast. The HLO is the same."""


def has(platform: str) -> bool:
    """Tell whether this machine can compile for the platform: for TPUs with libtpu, for CUDA with jax-cuda12-pjrt."""
    if platform == "cuda":
        return _cuda_plugin() is not None
    return platform == "cpu" or util.find_spec("libtpu") is not None


def _cuda_plugin() -> Path | None:
    """Return the library of the package jax-cuda12-pjrt, which needs neither a GPU nor a driver to compile."""
    try:
        found = util.find_spec("jax_plugins.xla_cuda12")
    except ModuleNotFoundError:
        return None
    places = (Path(place) / "xla_cuda_plugin.so" for place in (found and found.submodule_search_locations) or ())
    return next((place for place in places if place.exists()), None)


def devices_of(platform: str) -> Sequence[Any]:
    """Return eight devices to compile for. The CPUs must have been asked for before JAX is used."""
    if platform == "cpu":
        return jax.devices("cpu")[:DEVICES]
    if platform == "cuda":
        return _gpus()
    return _tpus(TPU)


def device_of(target: str) -> Any:
    """Return one device to compile for: ``"v5e"``, ``"v6e"`` or ``"h200"``."""
    if target == "h200":
        return devices_of("cuda")[0]
    return _tpus(f"{target}:2x4")[0]


@cache
def _tpus(topology: str) -> Sequence[Any]:
    for name, value in _TPU_SETTINGS.items():
        os.environ.setdefault(name, value)
    return topologies.get_topology_desc(platform="tpu", topology_name=topology).devices


@cache
def _gpus() -> Sequence[Any]:
    # JAX's own way, get_topology_desc, wants the plugin to have found a driver.
    from jax._src.lib import xla_client  # type: ignore[attr-defined]

    name = "compiler_for_cuda"
    plugin = xla_client.load_pjrt_plugin_dynamically(name, str(_cuda_plugin()))
    xla_client.initialize_pjrt_plugin(name)
    options = {"target_config": CUDA, "topology": f"1x1x{DEVICES}"}
    topology: Any = xla_client.make_c_api_device_topology(plugin, "", **options)
    return topologies.TopologyDescription(topology._make_compile_only_devices()).devices


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
        "estimate_us": estimate_us(program),
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


def estimate_us(program: Any) -> float | None:
    """Return the compiler's own estimate of the time, without what collectives wait; None where it has none.

    The TPU's compiler gives an operation that it cannot estimate minus one second.
    """
    seconds = (program.cost_analysis() or {}).get("optimal_seconds", -1.0)
    return None if seconds < 0 else round(seconds * 1e6, 3)

"""Describe where a run happens, and settle what has to be the same for every peer."""

import contextlib
import datetime
import os
import platform as host
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
"""Threads of every peer on a CPU: one for each core, as XLA has them."""

ALLOCATOR = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "100000000000",
    "MALLOC_TOP_PAD_": "268435456",
}
"""Settings by which glibc keeps freed memory. Otherwise every large result lies in fresh pages, and most of the time
measured is that of clearing them."""

_FLAGS = ("JAX_", "XLA_", "LIBTPU_", "CUDA_VISIBLE", "NVIDIA_TF32", "OMP_", "KMP_", *ALLOCATOR)
"""How the names of variables begin that decide what is measured. All settings of JAX can be given by such a one."""

_LSCPU = {
    "sockets": "Socket(s)",
    "cores_per_socket": "Core(s) per socket",
    "threads_per_core": "Thread(s) per core",
    "l1d_cache": "L1d cache",
    "l2_cache": "L2 cache",
    "l3_cache": "L3 cache",
    "max_mhz": "CPU max MHz",
    "hypervisor": "Hypervisor vendor",
}
"""What ``lscpu`` knows of a machine, and how it says so. What is not there it leaves out."""

_NVIDIA_SMI = (
    *("name", "driver_version", "memory.total", "power.limit", "power.max_limit", "persistence_mode"),
    *("clocks.sm", "clocks.max.sm", "clocks.applications.graphics", "clocks.mem", "clocks.max.mem"),
)
_PACKAGES = ("jax", "jaxlib", "libtpu", "numpy", "onnxruntime", "torch")


def settle() -> None:
    """Start this process again with the allocator's settings, which glibc reads only at start."""
    if sys.platform == "linux" and any(os.environ.get(name) != value for name, value in ALLOCATOR.items()):
        os.execve(sys.executable, sys.orig_argv, os.environ | ALLOCATOR)


def dispatch(asynchronous: bool) -> None:
    """Set, before the first computation, whether JAX runs programs for the CPU on another thread, its default.

    Other libraries compute on the thread that calls them. What the change of threads costs does not depend on the
    operator, and a program of many operators pays it once.
    """
    jax.config.update("jax_cpu_enable_async_dispatch", asynchronous)


class TooFewError(ValueError):
    """There are fewer devices than are asked for."""


def need(devices: int) -> None:
    """Ask for so many devices, before the first computation: a CPU makes virtual ones."""
    if devices > 1:
        with contextlib.suppress(RuntimeError):  # JAX has been used: it has those that it has.
            jax.config.update("jax_num_cpu_devices", devices)
        if (there := len(jax.devices())) < devices:
            raise TooFewError(f"JAX sees {there} device{'s' * (there > 1)}, not {devices}.")


def busy() -> tuple[float, float] | None:
    """Return the CPU seconds of the whole machine and of this process so far; None where they cannot be read.

    None, too, where an accelerator computes: what else the host does changes no time that a profiler sees there.
    """
    if platform() != "cpu":
        return None
    try:
        ticks = [int(part) for part in Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:9]]
    except OSError:
        return None
    idle, waiting = ticks[3:5]
    return (sum(ticks) - idle - waiting) / os.sysconf("SC_CLK_TCK"), time.process_time()


def busy_elsewhere(before: tuple[float, float] | None, elapsed_s: float) -> float | None:
    """Return how many cores other processes kept busy since then; they spoil figures, those of OpenMP above all."""
    after = busy()
    if before is None or after is None:
        return None
    return max(0.0, (after[0] - before[0]) - (after[1] - before[1])) / elapsed_s


def platform() -> str:
    """Return ``cpu``, ``gpu`` or ``tpu``."""
    return jax.default_backend()


def describe() -> dict[str, Any]:
    """Return what a reader needs to judge the figures, or to reproduce them."""
    cpu = f"{_processor()}, {THREADS} thread{'s' * (THREADS > 1)}"
    return {
        "device": cpu if platform() == "cpu" else jax.devices()[0].device_kind,
        "host": cpu,
        "platform": platform(),
        "threads": THREADS,
        "machine": _machine(),
        **({"gpu": _gpu()} if platform() == "gpu" else {}),
        "memory_bytes": (jax.devices()[0].memory_stats() or {}).get("bytes_limit"),
        "versions": {"python": host.python_version()} | dict(filter(None, map(_version, _PACKAGES))),
        "flags": {name: value for name, value in sorted(os.environ.items()) if name.startswith(_FLAGS)},
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": _commit(),
    }


def _machine() -> dict[str, Any]:
    """Return what is known of the machine below JAX."""
    said = dict(line.split(":", 1) for line in _said_by("lscpu").splitlines() if ":" in line)
    found: dict[str, Any] = {name: said[key].strip() for name, key in _LSCPU.items() if key in said}
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    with contextlib.suppress(OSError):  # A virtual machine does not say.
        found["governor"] = governor.read_text(encoding="utf-8").strip()
    with contextlib.suppress(OSError, ValueError, AttributeError):  # Windows
        found["memory_bytes"] = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {"cpu": _processor(), "cores": os.cpu_count(), "kernel": f"{host.system()} {host.release()}"} | found


def _gpu() -> dict[str, str]:
    """Return what the driver says of the first GPU, and CUDA or ROCm as XLA has it."""
    lines = _said_by("nvidia-smi", f"--query-gpu={','.join(_NVIDIA_SMI)}", "--format=csv,noheader").splitlines()
    values = [value.strip() for value in lines[0].split(",")] if lines else []
    built = jax.devices()[0].client.platform_version.strip().splitlines()
    return {"runtime": built[-1]} | dict(zip(_NVIDIA_SMI, values, strict=False))


def _said_by(*command: str) -> str:
    """Return what a command prints, in English; nothing where there is none."""
    english = os.environ | {"LC_ALL": "C"}
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, env=english, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def _version(package: str) -> tuple[str, str] | None:
    try:
        return package, metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str:
    """Name the commit, and whether the tree differs from it; a copy without its history does not know."""
    folder = str(Path(__file__).parent)
    said = _said_by("git", "-C", folder, "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12")
    return said.strip() or "unknown"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return host.processor() or host.machine()

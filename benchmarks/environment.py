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

_FLAGS = ("XLA_FLAGS", "JAX_PLATFORMS", "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "KMP_BLOCKTIME", *ALLOCATOR)
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
    """Return the CPU seconds of the whole machine and of this process so far; None where they cannot be read."""
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
        "frequency": _frequency(),
        "memory_bytes": (jax.devices()[0].memory_stats() or {}).get("bytes_limit"),
        "versions": {"python": host.python_version()} | dict(filter(None, map(_version, _PACKAGES))),
        "flags": {name: os.environ[name] for name in _FLAGS if name in os.environ},
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": _commit(),
    }


def _frequency() -> dict[str, str]:
    """Return what Linux says of the first core's clock: who governs it, and its limits in kHz."""
    folder = Path("/sys/devices/system/cpu/cpu0/cpufreq")
    found = {}
    for name in ("scaling_governor", "scaling_min_freq", "scaling_max_freq"):
        with contextlib.suppress(OSError):  # A virtual machine does not say.
            found[name] = (folder / name).read_text(encoding="utf-8").strip()
    return found


def _version(package: str) -> tuple[str, str] | None:
    try:
        return package, metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str:
    """Name the commit, and whether the tree differs from it; a copy without its history does not know."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return host.processor() or host.machine()

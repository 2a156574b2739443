"""The only place that asks on which platform a program will run, and it asks at lowering."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from jax import lax


def by_platform(*operands: Any, default: Callable[..., Any] | None = None, **branches: Callable[..., Any]) -> Any:
    """Call the branch of the platform that the program is lowered for: ``cpu``, ``cuda``, ``rocm``, ``tpu``."""
    return lax.platform_dependent(*operands, default=default, **branches)


@cache
def cpu_features() -> frozenset[str]:
    """Return what Linux says the CPU here can do, by its names; nothing where nobody says.

    XLA compiles for the CPU that it runs on but does not tell what that has.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    listed = (line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features")))
    return frozenset(next(listed, ()))

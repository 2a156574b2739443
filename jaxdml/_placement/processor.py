"""What is known of the CPU here before a program is lowered."""

from functools import cache
from pathlib import Path

import jax


def is_on_cpu(x: jax.Array) -> bool:
    """Tell whether an array is on CPUs; False for a traced one, which is on no device yet."""
    return _is_on(x, "cpu")


def is_on_gpu(x: jax.Array) -> bool:
    """Tell whether an array is on GPUs; False for a traced one."""
    return _is_on(x, "gpu")


def _is_on(x: jax.Array, platform: str) -> bool:
    return not isinstance(x, jax.core.Tracer) and all(device.platform == platform for device in x.devices())


@cache
def cpu_features() -> frozenset[str]:
    """Return the features of this CPU by the names that Linux has for them; nothing on other systems.

    XLA compiles for the CPU that it runs on, but does not tell which features that CPU has.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    listed = (line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features")))
    return frozenset(next(listed, ()))

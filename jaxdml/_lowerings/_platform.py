"""The only place that asks on which platform a program will run, and it asks at lowering."""

from collections.abc import Callable
from typing import Any

from jax import lax


def by_platform(*operands: Any, default: Callable[..., Any] | None = None, **branches: Callable[..., Any]) -> Any:
    """Call the branch of the platform that the program is lowered for: ``cpu``, ``cuda``, ``rocm``, ``tpu``."""
    return lax.platform_dependent(*operands, default=default, **branches)

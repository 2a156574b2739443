"""How much memory there is, and what does not fit into it."""

import math
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import cache
from typing import Any

import jax
import numpy as np

from jaxdml._base.scoped import scoped


class TooLargeError(Exception):
    """An array takes more memory than there is; whoever knows the node says so."""


def must_fit(shape: Sequence[Any], dtype: Any) -> None:
    """Refuse an array that no memory here holds."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if isinstance(size, int) and size > of_devices():  # Symbolic sizes are no numbers.
        raise TooLargeError(f"{dtype}{list(shape)}, which takes {size} bytes; there are {of_devices()}")


@cache
def of_host() -> int:
    """Return the bytes of memory that this machine has; 1 TiB where the system does not say."""
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" not in names or "SC_PAGE_SIZE" not in names:
        return 2**40
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@cache
def of_devices() -> int:
    """Return the bytes of all machines, or of all devices where these have more: an array may be sharded."""
    stats = [device.memory_stats() or {} for device in jax.local_devices()]
    of_one = max(each.get("bytes_limit", 0) for each in stats)
    return max(of_host() * jax.process_count(), of_one * jax.device_count())


_ON_HOST = ContextVar("on_host", default=False)


def on_host() -> AbstractContextManager[None]:
    """Compute with NumPy what it can compute, however large: nothing becomes a constant of a program."""
    return scoped(_ON_HOST, True)


def is_on_host() -> bool:
    """Whether all is computed on the host, and no program is traced."""
    return _ON_HOST.get()

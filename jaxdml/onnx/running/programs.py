"""Compiled programs, of which those that were not called for long are let go."""

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any

MOST = 64
"""So many programs are kept for each stage of a model."""


class Programs:
    """Functions that ``jax.jit`` returns, each for one combination of shapes."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, Any] = {}
        self._lock = Lock()

    def of(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the program for a key; it is the newest then."""
        with self._lock:
            found = self._kept.pop(key, None)
            if found is None:
                found = make()
                if len(self._kept) == MOST:
                    self._kept.pop(next(iter(self._kept))).clear_cache()
            self._kept[key] = found
            return found

    def drop(self, key: Hashable) -> None:
        """Let a program go that could not be compiled."""
        with self._lock:
            self._kept.pop(key, None)

    def __len__(self) -> int:
        return len(self._kept)

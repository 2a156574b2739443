"""NumPy's own functions."""

from collections.abc import Callable
from typing import Any

from benchmarks.peers.contender import Contender


def contender(run: Callable[[], Any], promises: str) -> Contender:
    """Make a contender of a function that returns one array or a tuple of them."""
    return Contender(run, lambda result: result if isinstance(result, tuple) else (result,), promises)

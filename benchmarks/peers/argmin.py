"""How the peers do ``argmin``."""

from benchmarks.peers._extremes import expected, peers

__all__ = ["PEERS", "expected"]

PEERS = peers("argmin", "ArgMin")

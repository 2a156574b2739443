"""How the peers do ``argmax``."""

from benchmarks.peers._extremes import expected, peers

__all__ = ["PEERS", "expected"]

PEERS = peers("argmax", "ArgMax")

"""Who is measured: each peer says how it does a case, or why it cannot.

What the peers do of an operator is in the file of its name, which holds

- ``PEERS``, by the names in ``NAMES``: those that can do the operator in a way of their own, ``OURS`` apart;
- ``expected``: what the oracle says of a case, or of as much of it as its loops can compute.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module

from benchmarks import environment
from benchmarks.cases import MODELS, OPERATORS, Arguments, Case
from benchmarks.peers import sharded, whole_models, with_jax
from benchmarks.peers.contender import Absent, Contender, Expected, Peers, Prepare

OURS = "jaxdml"

NAMES = (
    *(OURS, "jaxdml prepacked", "jaxdml QDQ", "jaxdml float32", "jaxdml bfloat16"),
    *("jaxdml auto axes", "jaxdml one device", "lax", "lax unstable"),
    *("onnxruntime", "onnxruntime prepacked", "onnxruntime float32"),
    *("torch", "torch prepacked", "torch quantized", "torch.compile", "torch.compile bfloat16", "cupy", "numpy"),
)
"""Every peer; tables show them in this order."""

NO_WAY = "no way of its own"
"""Why a peer is absent that cannot do an operator, or only as another peer does."""

ONLY_ON_CPUS = frozenset(
    {"onnxruntime", "onnxruntime prepacked", "onnxruntime float32", "torch prepacked", "torch quantized", "numpy"}
)

_KNOWS_SCALES = frozenset({"onnxruntime", "onnxruntime prepacked", "torch prepacked", "torch quantized"})
"""Peers whose scales and zero points are constants in every case."""

_MODULES = {operator: import_module(f"{__name__}.{operator}") for operator in OPERATORS}

EXPECTED: Mapping[str, Expected] = {operator: module.expected for operator, module in _MODULES.items()} | dict.fromkeys(
    MODELS, whole_models.expected
)
"""For each operator, what the oracle says; for each model, what its floats are."""


def _of(operator: str) -> Peers:
    if operator in MODELS:
        return whole_models.PEERS[operator]
    found: Peers = {OURS: with_jax.ready(with_jax.ours)} | _MODULES[operator].PEERS
    if unknown := found.keys() - set(NAMES):
        raise KeyError(f"{operator} has peers without a place in NAMES: {sorted(unknown)}")
    return found


_BY_OPERATOR = {operator: _of(operator) for operator in (*OPERATORS, *MODELS)}

PEERS: dict[str, Mapping[str, Prepare]] = {
    name: {operator: peers[name] for operator, peers in _BY_OPERATOR.items() if name in peers} for name in NAMES
}
"""For every peer, how it does each operator that it can do in a way of its own."""


def prepare(peer: str, case: Case, draws: Sequence[Arguments]) -> Contender:
    """Make a peer ready for a case, to run on the draws in turn; raises Absent where it cannot, or is not installed."""
    way = sharded.PEERS.get(peer) if "sharding" in case.options else PEERS[peer].get(case.operator)
    if way is None:
        raise Absent(NO_WAY)
    if peer in ONLY_ON_CPUS and environment.platform() != "cpu":
        raise Absent("measured on CPUs only")
    if peer in _KNOWS_SCALES and case.options.get("given"):
        raise Absent("knows its scales")
    try:
        return way(case, draws)
    except ModuleNotFoundError as missing:
        raise Absent(f"{missing.name} is not installed") from missing


__all__ = ["EXPECTED", "NO_WAY", "OURS", "PEERS", "Absent", "Contender", "prepare"]

"""Measure a case: every peer checked against the oracle, then timed in turn."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

import numpy as np

from benchmarks import environment
from benchmarks.cases import Case, whole_models
from benchmarks.measuring import answers
from benchmarks.peers import OURS, Absent, Contender, prepare
from benchmarks.timing import by_calls, by_profiler
from benchmarks.timing.clocks import clock, interleaved

FAILED = "failed:"
"""How the reason of a peer that raised begins."""


def measure(
    case: Case,
    peers: Sequence[str],
    *,
    rounds: int,
    budget_s: float,
    spread: float = 0.0,
    seed: int = 0,
    by: str | None = None,
    begins: Callable[[str | None], None] = lambda peer: None,
    broken: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return what each peer did: its timing, or why there is none; and what else worked meanwhile.

    Args:
      case: to measure.
      peers: their names.
      rounds: see ``interleaved``, as for ``budget_s``, ``spread`` and ``by``.
      budget_s: for each peer.
      spread: at which a case ends.
      seed: of the data.
      by: the clock.
      begins: is told which peer is prepared, and None when all are timed.
      broken: peers that ended a process before, and how.
    """
    start = time.perf_counter()
    before = environment.busy()
    results = _nothing(peers)
    ready: dict[str, Contender] = {}
    digest = None
    begins(None)
    try:
        draws = [case.draw(np.random.default_rng(seed + number)) for number in range(case.draws)]
        judge = answers.Judge(case, draws[0])
    except Exception as error:  # The host may lack the memory, or what makes a whole model.
        return lost(peers, _reason(error))
    for peer in peers:
        if peer in broken:
            results[peer]["absent"] = f"{FAILED} {broken[peer]}"
            continue
        begins(peer)
        try:
            contender = prepare(peer, case, draws)
            # The call that is checked is also the one that warms up.
            given = contender.answers(contender.run())
        except Absent as absent:
            results[peer]["absent"] = str(absent)
            continue
        except Exception as error:  # A peer that breaks, for lack of memory perhaps, must not end the run.
            results[peer]["absent"] = _reason(error)
            continue
        verdict = judge.judge(given, contender.promises)
        results[peer] |= {"verdict": asdict(verdict), "compile_s": contender.compile_s}
        if verdict.accepted:
            ready[peer] = contender
            # What is only near has other bits on each device.
            digest = answers.digest(given) if peer == OURS and contender.promises == "exact" else digest
    begins(None)
    plan: dict[str, Any] = {"rounds": rounds, "budget_s": budget_s, "spread": spread, "by": by}
    # On a CPU the times are of calls from Python anyway.
    in_flight = case.group == whole_models.GROUP and environment.platform() != "cpu"
    for peer, found in _timed(ready, plan, in_flight).items():
        results[peer] |= found
    elapsed = time.perf_counter() - start
    elsewhere = environment.busy_elsewhere(before, elapsed)
    return {"digest": digest, "busy_elsewhere": elsewhere, "seconds": elapsed, "contenders": results}


def lost(peers: Sequence[str], reason: str) -> dict[str, Any]:
    """Return the same of a case that broke before any peer was prepared, or ended a process when all were timed."""
    contenders = {peer: nothing | {"absent": reason} for peer, nothing in _nothing(peers).items()}
    return {"digest": None, "busy_elsewhere": None, "seconds": 0.0, "contenders": contenders}


def _nothing(peers: Sequence[str]) -> dict[str, dict[str, Any]]:
    return {peer: dict.fromkeys(("absent", "verdict", "compile_s", "timing", "wall_us", "kernels")) for peer in peers}


def _timed(
    ready: Mapping[str, Contender], plan: Mapping[str, Any], in_flight: bool = False
) -> dict[str, dict[str, Any]]:
    """Time contenders, if asked for also by the wall; where that breaks, say so of each that breaks alone as well."""
    runs, chains = ({peer: getattr(ready[peer], part) for peer in ready} for part in ("run", "chain"))
    try:
        found: dict[str, dict[str, Any]] = {
            peer: {"timing": asdict(each)} for peer, each in interleaved(runs, chains=chains, **plan).items()
        }
        for peer in ready if in_flight else ():
            if many := ready[peer].many:
                found[peer]["wall_us"] = by_calls.in_flight_us(many)
        if OURS in ready and (plan["by"] or clock()) == "profiler":
            found[OURS]["kernels"] = by_profiler.kernels(ready[OURS].run)
    except Exception as error:  # The device may have too little memory for what is timed.
        if len(ready) == 1:
            return {peer: {"absent": _reason(error)} for peer in ready}
        return {peer: _timed({peer: each}, plan, in_flight)[peer] for peer, each in ready.items()}
    return found


def _reason(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed"
    return f"{FAILED} {type(error).__name__}: {str(error).partition(chr(10))[0]}"

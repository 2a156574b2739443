"""Measure a case: every peer checked against the oracle, then timed in turn."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np

from benchmarks import answers, chained_timing, device_timing, environment, timing
from benchmarks.cases import Case
from benchmarks.peers import OURS, Absent, Contender, prepare

FAILED = "failed:"
"""How the reason of a peer that raised begins."""

CLOCKS = {
    "calls": "the clock, around calls from Python",
    "profiler": "the profiler's times of what the device did",
    "chains": "the clock, around programs in which calls wait for one another",
}


@cache
def clock() -> str:
    """Return how this device is timed: what dispatch costs counts on CPUs only."""
    if environment.platform() == "cpu":
        return "calls"
    return "profiler" if device_timing.sees() else "chains"


def interleaved(
    runs: Mapping[str, Callable[[], Any]],
    *,
    rounds: int,
    budget_s: float,
    spread: float = 0.0,
    chains: Mapping[str, chained_timing.Chain | None] | None = None,
    by: str | None = None,
) -> dict[str, timing.Timing]:
    """Time runs in turn.

    Args:
      runs: by name.
      rounds: samples of each at most.
      budget_s: seconds for each at most.
      spread: stop when it is known so well.
      chains: how to make dependent calls, by name, where there is no profiler. Runs without are timed as on CPUs.
      by: one of ``CLOCKS``; None for that of the device.
    """
    plan: dict[str, Any] = {"rounds": rounds, "budget_s": budget_s, "spread": spread}
    kind = by or clock()
    if kind == "profiler":
        return device_timing.interleaved(runs, **plan)
    linked = {name: each for name, each in (chains or {}).items() if each and kind == "chains"}
    others = {name: run for name, run in runs.items() if name not in linked}
    found = (chained_timing.interleaved(linked, **plan) if linked else {}) | timing.interleaved(others, **plan)
    return {name: found[name] for name in runs}


def measure(
    case: Case,
    peers: Sequence[str],
    *,
    rounds: int,
    budget_s: float,
    spread: float = 0.0,
    seed: int = 0,
    by: str | None = None,
) -> dict[str, Any]:
    """Return what each peer did: its timing, or why there is none; and what else worked meanwhile."""
    begin, before = time.perf_counter(), environment.busy()
    draws = [case.draw(np.random.default_rng(seed + number)) for number in range(case.draws)]
    judge = answers.Judge(case, draws[0])
    results: dict[str, dict[str, Any]] = {}
    ready: dict[str, Contender] = {}
    digest = None
    for peer in peers:
        results[peer] = dict.fromkeys(("absent", "verdict", "compile_s", "timing", "kernels"))
        try:
            contender = prepare(peer, case, draws)
            # The call that is checked is also the one that warms up.
            given = contender.answers(contender.run())
        except Absent as absent:
            results[peer]["absent"] = str(absent)
            continue
        except Exception as error:  # A peer that breaks, for lack of memory perhaps, must not end the run.
            first_line = str(error).partition("\n")[0]
            results[peer]["absent"] = f"{FAILED} {type(error).__name__}: {first_line}"
            continue
        verdict = judge.judge(given, contender.promises)
        results[peer] |= {"verdict": asdict(verdict), "compile_s": contender.compile_s}
        if verdict.accepted:
            ready[peer] = contender
            digest = answers.digest(given) if peer == OURS else digest
    runs, chains = ({peer: getattr(ready[peer], part) for peer in ready} for part in ("run", "chain"))
    taken = interleaved(runs, rounds=rounds, budget_s=budget_s, spread=spread, chains=chains, by=by)
    for peer, each in taken.items():
        results[peer]["timing"] = asdict(each)
    if OURS in ready and (by or clock()) == "profiler":
        results[OURS]["kernels"] = device_timing.kernels(ready[OURS].run)
    elapsed = time.perf_counter() - begin
    busy = environment.busy_elsewhere(before, elapsed)
    return {"digest": digest, "busy_elsewhere": busy, "seconds": elapsed, "contenders": results}

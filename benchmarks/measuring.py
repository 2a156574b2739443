"""Measure a case: every peer checked against the oracle, then timed in turn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from benchmarks import device_timing, environment, timing
from benchmarks.answers import Judge
from benchmarks.cases import Case
from benchmarks.peers import OURS, Absent, Contender, prepare

FAILED = "failed:"
"""How the reason of a peer that raised begins."""


def interleaved(runs: Mapping[str, Callable[[], Any]], *, rounds: int, budget_s: float) -> dict[str, timing.Timing]:
    """Time runs in turn: by the clock on a CPU, by the profiler on an accelerator."""
    clock = timing if environment.platform() == "cpu" else device_timing
    return clock.interleaved(runs, rounds=rounds, budget_s=budget_s)


def measure(case: Case, peers: Sequence[str], *, rounds: int, budget_s: float, seed: int = 0) -> dict[str, Any]:
    """Return what each peer did: its timing, or why there is none."""
    draws = [case.draw(np.random.default_rng(seed + number)) for number in range(case.draws)]
    judge = Judge(case, draws[0])
    results: dict[str, dict[str, Any]] = {}
    ready: dict[str, Contender] = {}
    for peer in peers:
        results[peer] = dict.fromkeys(("absent", "verdict", "compile_s", "timing", "kernels"))
        try:
            contender = prepare(peer, case, draws)
            # The call that is checked is also the one that warms up.
            answers = contender.answers(contender.run())
        except Absent as absent:
            results[peer]["absent"] = str(absent)
            continue
        except Exception as error:  # A peer that breaks, for lack of memory perhaps, must not end the run.
            first_line = str(error).partition("\n")[0]
            results[peer]["absent"] = f"{FAILED} {type(error).__name__}: {first_line}"
            continue
        verdict = judge.judge(answers, contender.promises)
        results[peer] |= {"verdict": asdict(verdict), "compile_s": contender.compile_s}
        if verdict.accepted:
            ready[peer] = contender
    timings = interleaved({peer: ready[peer].run for peer in ready}, rounds=rounds, budget_s=budget_s)
    for peer, taken in timings.items():
        results[peer]["timing"] = asdict(taken)
    if OURS in ready and environment.platform() != "cpu":
        results[OURS]["kernels"] = device_timing.kernels(ready[OURS].run)
    return results

"""Time calls as the device allows."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from benchmarks import environment
from benchmarks.timing import by_calls, by_chains, by_profiler

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
    return "profiler" if by_profiler.sees() else "chains"


def interleaved(
    runs: Mapping[str, Callable[[], Any]],
    *,
    rounds: int,
    budget_s: float,
    spread: float = 0.0,
    chains: Mapping[str, by_chains.Chain | None] | None = None,
    by: str | None = None,
) -> dict[str, by_calls.Timing]:
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
        return by_profiler.interleaved(runs, **plan)
    linked = {name: each for name, each in (chains or {}).items() if each and kind == "chains"}
    others = {name: run for name, run in runs.items() if name not in linked}
    found = (by_chains.interleaved(linked, **plan) if linked else {}) | by_calls.interleaved(others, **plan)
    return {name: found[name] for name in runs}

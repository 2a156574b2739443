"""Time calls: the contenders take turns, with many short samples each; the results are quartiles."""

import contextlib
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

SAMPLE_S = 0.004
"""A sample repeats the call until it takes about this long, well above what reading a clock costs."""

WARM_S = 0.02
"""How long, and at least once, a contender runs untimed before each sample.

Then the caches hold its data and its threads have cores of their own: Linux may wake a thread on the core of the thread
that waits for it, and moves it only after some ticks of 4 ms."""

_FEW_PAGES, _LONGEST_WARM_S = 64, 0.5
"""A call that takes at most so many fresh pages reuses its memory; after so long the sample starts in any case."""

_NAP_S, _NAPS, _LONGEST_DOZE_S = 0.001, 3, 0.2
"""The pause between two looks at the threads; how many looks in a row must find none running; when to stop looking."""

_BLIND_DOZE_S = 0.06
"""How long to wait where threads cannot be seen: longer than any pool was seen to spin."""

_THREADS = Path("/proc/self/task")


IN_FLIGHT = 10
"""Calls that a program has handed to a device before it waits for the first."""

FEWEST = 5
"""Samples that are always taken, where the budget allows."""


@dataclass(frozen=True)
class Timing:
    """How long a call took, over the samples.

    ``low_us`` and ``high_us`` are the ends of an interval that holds the median with a confidence of 95 %.
    """

    median_us: float
    lower_quartile_us: float
    upper_quartile_us: float
    samples: int
    calls_per_sample: int
    low_us: float
    high_us: float

    @property
    def spread(self) -> float:
        """Half the width of that interval, as a fraction of the median."""
        return (self.high_us - self.low_us) / 2 / self.median_us


def doze() -> None:
    """Sleep until every other thread of this process sleeps as well.

    Thread pools spin after a call and wait for the next: onnxruntime's for tens of milliseconds, OpenMP's for a few. A
    pool that spins can take whole time slices from the one that works. To forbid it would slow the pool's own calls, so
    the next contender waits instead.
    """
    if not _THREADS.exists():
        time.sleep(_BLIND_DOZE_S)
        return
    end, quiet = time.perf_counter() + _LONGEST_DOZE_S, 0
    while quiet < _NAPS and time.perf_counter() < end:
        time.sleep(_NAP_S)
        quiet = 0 if _others_run() else quiet + 1


def _others_run() -> bool:
    """Tell whether Linux has another thread of this process running, or waiting for a core."""
    for thread in _THREADS.iterdir():
        with contextlib.suppress(OSError):  # It has just ended.
            if int(thread.name) != threading.get_native_id() and _state(thread) == "R":
                return True
    return False


def _state(thread: Path) -> str:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]


def seconds(run: Callable[[], Any], calls: int = 1) -> float:
    """Time some calls, one after the other."""
    begin = time.perf_counter()
    for _ in range(calls):
        run()
    return time.perf_counter() - begin


def in_flight_us(many: Callable[[int], Any]) -> float:
    """Return the wall time of a call when ``IN_FLIGHT`` are made before the first is waited for: a median."""
    many(IN_FLIGHT)
    return summary([seconds(partial(many, IN_FLIGHT)) / IN_FLIGHT for _ in range(FEWEST)], IN_FLIGHT).median_us


def interleaved(
    runs: Mapping[str, Callable[[], Any]], *, rounds: int, budget_s: float, spread: float = 0.0
) -> dict[str, Timing]:
    """Time every run in turn, at most ``rounds`` times over.

    In a round each run waits until the others sleep, warms up and gives a sample. A run whose ``rounds`` samples would
    take more than ``budget_s`` gives fewer; one that takes longer in a single call gives that call only. All stop when
    the spread of each is known to be at most ``spread``.
    """
    once: dict[str, float] = {}
    for name, run in runs.items():
        doze()
        once[name] = _warm(run)
    calls = {name: max(1, min(1000, int(SAMPLE_S / took))) for name, took in once.items()}
    turns = {name: max(1, int(budget_s / (max(WARM_S, took) + took * calls[name]))) for name, took in once.items()}
    # A run that exceeds the budget in one call has that call as its sample.
    samples = {name: [] if took < budget_s else [took] for name, took in once.items()}
    for turn in range(rounds):
        if turn >= FEWEST and all(summary(taken, 1).spread <= spread for taken in samples.values()):
            break
        for name, run in runs.items():
            if once[name] < budget_s and turn < turns[name]:
                doze()
                _warm(run)
                samples[name].append(seconds(run, calls[name]) / calls[name])
    return {name: summary(taken, calls[name]) for name, taken in samples.items()}


def _warm(run: Callable[[], Any]) -> float:
    """Run for a while, and return the seconds of the fastest call.

    It goes on while calls still take fresh pages: glibc reuses a freed block for an aligned one only after a dozen
    calls or so, when enough of the neighbouring blocks are free.
    """
    begin, fastest, fresh = time.perf_counter(), math.inf, False
    while fastest == math.inf or (took := time.perf_counter() - begin) < WARM_S or (fresh and took < _LONGEST_WARM_S):
        before = _faults()
        fastest = min(fastest, seconds(run))
        fresh = _faults() - before > _FEW_PAGES
    return fastest


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt if resource else 0


def summary(taken_s: list[float], calls: int) -> Timing:
    """Return the quartiles of some samples, and between which of them the median is."""
    ordered = sorted(taken_s)
    lower, median, upper = (float(part) * 1e6 for part in np.quantile(ordered, (0.25, 0.5, 0.75)))
    # Of n samples, the number below the median is binomial: n / 2, give or take 1.96 times the root of n / 4.
    place = max(0, int((len(ordered) - 1.96 * len(ordered) ** 0.5) / 2))
    low, high = ordered[place] * 1e6, ordered[-1 - place] * 1e6
    return Timing(median, lower, upper, len(ordered), calls, low, high)

"""Measure what stands before a program runs: tracing, compiling, and the way of an eager call, against stock lax.

The result is a list, one entry an operator: ``operator``, ``size``, ``dtype``, and for ``jaxdml`` and ``lax`` each
``trace_s``, ``lower_s``, ``compile_s`` (medians) and ``eager_us`` (median of a call on small inputs without ``jit``).
"""

import statistics
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import numpy as np

from benchmarks import cases, timing
from benchmarks.peers.jax_programs import JAXDML, LAX

_SMALL = (
    cases.top_k("overheads", 1, 1024, 8, "float32", "decreasing"),
    cases.scatter("scatter_nd", "overheads", (64, 16), 8, "float32", memory="copied", origin="a small call"),
    cases.scatter("scatter_elements", "overheads", (64, 16), 8, "float32", memory="copied", origin="a small call"),
    cases.multiply("overheads", (), 16, 64, 16, "uint8", "int8", origin="a small call"),
)


def measure(rounds: int) -> list[dict[str, Any]]:
    """Measure every operator and its stock form."""
    return [_measure(case, rounds) for case in _SMALL]


def _measure(case: cases.Case, rounds: int) -> dict[str, Any]:
    given = jax.device_put(case.draw(np.random.default_rng(0)))
    functions = {peer: programs[case.operator](case).function for peer, programs in (("jaxdml", JAXDML), ("lax", LAX))}
    stages: dict[str, list[tuple[float, ...]]] = {peer: [] for peer in functions}
    for _ in range(rounds):
        for peer, function in functions.items():
            stages[peer].append(_stages(function, given))
    runs = {peer: partial(_eagerly, function, given) for peer, function in functions.items()}
    for run in runs.values():
        run()
    eager = timing.interleaved(runs, rounds=rounds, budget_s=2)
    entry: dict[str, Any] = {"operator": case.operator, "size": case.size, "dtype": case.dtype}
    for peer in functions:
        medians = map(statistics.median, zip(*stages[peer], strict=True))
        entry[peer] = dict(zip(("trace_s", "lower_s", "compile_s"), medians, strict=True))
        entry[peer]["eager_us"] = eager[peer].median_us
    return entry


def _stages(function: Callable[..., Any], given: Any) -> tuple[float, ...]:
    """Time the stages from a Python function to a program that nothing remembers."""
    jax.clear_caches()
    times = [time.perf_counter()]
    traced = jax.jit(function).trace(*given)
    times.append(time.perf_counter())
    lowered = traced.lower()
    times.append(time.perf_counter())
    lowered.compile()
    times.append(time.perf_counter())
    return tuple(end - begin for begin, end in pairwise(times))


def _eagerly(function: Callable[..., Any], given: Any) -> Any:
    return jax.block_until_ready(function(*given))

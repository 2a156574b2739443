"""Measure the overhead of a call: tracing, lowering, compiling, and a call without ``jit``, against stock lax.

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

from benchmarks.cases import SMALL, Case
from benchmarks.peers import with_jax
from benchmarks.timing import by_calls


def measure(rounds: int) -> list[dict[str, Any]]:
    """Measure every operator and its stock form."""
    return [_measure(case, rounds) for case in SMALL]


def _measure(case: Case, rounds: int) -> dict[str, Any]:
    arguments = case.draw(np.random.default_rng(0))
    given = jax.device_put(case.inputs(arguments))
    programs = {"jaxdml": with_jax.ours(case), "lax": with_jax.stock(case)}
    functions = {peer: case.program(each.function, arguments) for peer, each in programs.items()}
    stages: dict[str, list[tuple[float, ...]]] = {peer: [] for peer in functions}
    for _ in range(rounds):
        for peer, function in functions.items():
            stages[peer].append(_stages(function, given))
    runs = {peer: partial(_eagerly, function, given) for peer, function in functions.items()}
    for run in runs.values():
        run()
    eager = by_calls.interleaved(runs, rounds=rounds, budget_s=2)
    entry: dict[str, Any] = {"operator": case.operator, "size": case.size, "dtype": case.dtype}
    for peer in functions:
        medians = map(statistics.median, zip(*stages[peer], strict=True))
        entry[peer] = dict(zip(("trace_s", "lower_s", "compile_s"), medians, strict=True))
        entry[peer]["eager_us"] = eager[peer].median_us
    return entry


def _stages(function: Callable[..., Any], given: Any) -> tuple[float, ...]:
    """Time the stages from a Python function to a program, with no cache filled."""
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

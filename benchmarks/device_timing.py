"""Time calls on an accelerator: what its profiler saw it do, with a cold cache, whoever asked for it."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.timing import Timing, seconds, summary

_FLUSHED_BYTES = 2**28
"""More than four times the largest cache among current GPUs, an H200's 50 MiB."""

_Span = tuple[float, float]


@jax.jit
def _flush(x: jax.Array) -> jax.Array:
    return x + 1


def interleaved(runs: Mapping[str, Callable[[], Any]], *, rounds: int, budget_s: float) -> dict[str, Timing]:
    """Time every run in turn, ``rounds`` times over, each after a flush of the cache.

    The profiler of JAX sees every kernel and copy of the process, and so times torch by the same clock. A sample is
    the time that the device was busy for one call: neither the dispatch counts nor the gaps that it leaves.
    """
    trash = [jnp.zeros(_FLUSHED_BYTES // 4, jnp.int32)]

    def flush() -> None:
        trash[0] = jax.block_until_ready(_flush(trash[0]))

    flush()
    once = {name: seconds(run) for name, run in runs.items()}
    flushing = len(_spans(flush, 1))
    samples: dict[str, list[float]] = {name: [] for name in runs}
    # Two visits of half the calls each: a device that gets warm or slow does so to everybody.
    for calls in ((rounds + 1) // 2, rounds // 2):
        for name, run in runs.items():
            if calls and once[name] * len(samples[name]) < budget_s:

                def call(run: Callable[[], Any] = run) -> None:
                    flush()
                    run()

                samples[name] += _busy_seconds(_spans(call, calls), calls, flushing)
    return {name: summary(taken, 1) for name, taken in samples.items()}


def _spans(call: Callable[[], Any], calls: int) -> list[_Span]:
    """Return when what the device did began and ended, in nanoseconds."""
    with tempfile.TemporaryDirectory() as folder:
        with _tracing(folder):
            for _ in range(calls):
                call()
        (file,) = Path(folder).rglob("*.xplane.pb")
        data = jax.profiler.ProfileData.from_file(str(file))
    planes = [plane for plane in data.planes if plane.name.startswith(("/device:GPU:0", "/device:TPU:0"))]
    # A GPU's streams hold kernels and copies; a TPU's programs are on one line, its operations on others.
    lines = [line for plane in planes for line in plane.lines if line.name.startswith(("Stream", "XLA Modules"))]
    return sorted((event.start_ns, event.end_ns) for line in lines for event in line.events)


@contextlib.contextmanager
def _tracing(folder: str) -> Iterator[None]:
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    options.host_tracer_level = 0
    with jax.profiler.trace(folder, profiler_options=options):
        yield


def _busy_seconds(spans: list[_Span], calls: int, flushing: int) -> list[float]:
    """Split what was seen into calls, and sum each without the flush that it begins with.

    Every call of the same program on the same data does the same, so each has an equal share of the events.
    """
    share, rest = divmod(len(spans), calls)
    if rest or share <= flushing:
        raise RuntimeError(f"the profiler saw {len(spans)} events in {calls} calls, {flushing} of each to flush")
    return [_covered(spans[begin + flushing : begin + share]) for begin in range(0, len(spans), share)]


def _covered(spans: list[_Span]) -> float:
    """Return the seconds in which at least one of the spans, sorted by their begin, ran."""
    total, until = 0.0, 0.0
    for begin, end in spans:
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total / 1e9

"""Time calls on an accelerator, from what the profiler saw the device do, with a cold cache."""

import contextlib
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from benchmarks.timing.by_calls import Timing, seconds, summary

_FLUSHED_BYTES = 2**28
"""More than four times the largest cache among current GPUs, an H200's 50 MiB."""

_ATTEMPTS = 3

_CALLS = 3
"""Calls from which the time of each GPU kernel is taken."""


_COLLECTIVE = "nccl"
"""The GPU kernels of collectives have names that begin so."""


class Span(NamedTuple):
    """A GPU kernel or copy, with the nanoseconds when it began and ended."""

    begin: float
    end: float
    name: str


@jax.jit
def _flush(x: jax.Array) -> jax.Array:
    return x + 1


def sees() -> bool:
    """Whether the profiler has a plane of the device that JAX computes on, with what it does there."""
    try:
        return bool(_spans(lambda: jax.block_until_ready(_flush(jnp.zeros(8, jnp.int32))), 1))
    except Exception:  # A plugin need not have a profiler, and may break in its own way.
        return False


def interleaved(
    runs: Mapping[str, Callable[[], Any]], *, rounds: int, budget_s: float, spread: float = 0.0
) -> dict[str, Timing]:
    """Time every run in turn, ``rounds`` times over, each after a flush of the cache.

    The profiler of JAX sees every GPU kernel and copy of the process, so it times torch by the same clock. A sample is
    how long the device was busy for one call; dispatch, the gaps that it leaves, and waiting for other devices do not
    count.
    """
    flush, flushing = _flusher()
    once = {name: seconds(run) for name, run in runs.items()}
    samples: dict[str, list[float]] = {name: [] for name in runs}
    # Every run has visits in turn, so that a device that slows down slows all runs.
    for calls in _visits(rounds):
        if samples and all(taken and summary(taken, 1).spread <= spread for taken in samples.values()):
            break
        for name, run in runs.items():
            if calls and once[name] * len(samples[name]) < budget_s:

                def call(run: Callable[[], Any] = run) -> None:
                    flush()
                    run()

                samples[name] += map(_covered, _without_waiting(_calls(call, calls, flushing)))
    return {name: summary(taken, 1) for name, taken in samples.items()}


def _visits(rounds: int) -> list[int]:
    """Divide the calls: two visits of at most nine, then as many as are needed."""
    first = min(rounds, 9)
    return [(first + 1) // 2, first // 2, *[9] * ((rounds - first) // 9)]


def kernels(run: Callable[[], Any]) -> list[tuple[str, float]]:
    """Return the name and the microseconds of every GPU kernel and copy of a call, in order, each after a flush."""
    flush, flushing = _flusher()

    def call() -> None:
        flush()
        run()

    run()
    alike = zip(*_without_waiting(_calls(call, _CALLS, flushing)), strict=True)
    return [(same[0].name, statistics.median((span.end - span.begin) / 1e3 for span in same)) for same in alike]


def _flusher() -> tuple[Callable[[], None], int]:
    """Return a function that empties the cache, and how many device events one call of it makes."""
    # Each device has a cache. One that no call uses costs nothing here.
    trash = [jax.device_put(jnp.zeros(_FLUSHED_BYTES // 4, jnp.int32), device) for device in jax.local_devices()]

    def flush() -> None:
        trash[:] = jax.block_until_ready([_flush(each) for each in trash])

    flush()
    return flush, len(_spans(flush, 1))


def _spans(call: Callable[[], Any], calls: int) -> list[Span]:
    """Return what the device did in some calls, in the order of beginning."""
    with tempfile.TemporaryDirectory() as folder:
        with _tracing(folder):
            for _ in range(calls):
                call()
        (file,) = Path(folder).rglob("*.xplane.pb")
        data = jax.profiler.ProfileData.from_file(str(file))
    planes = sorted((p for p in data.planes if p.name.startswith("/device:")), key=lambda plane: plane.name)
    of_one = [line for plane in planes[:1] for line in plane.lines]
    # A GPU's streams have kernels and copies; a TPU's programs are on one line, its operations on others. Of devices
    # that are not known, all lines count: what overlaps is counted once.
    lines = [line for line in of_one if line.name.startswith(("Stream", "XLA Modules"))] or of_one
    return sorted(Span(event.start_ns, event.end_ns, event.name) for line in lines for event in line.events)


@contextlib.contextmanager
def _tracing(folder: str) -> Iterator[None]:
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    options.host_tracer_level = 0
    with jax.profiler.trace(folder, profiler_options=options):
        yield


def _calls(call: Callable[[], Any], calls: int, flushing: int) -> list[list[Span]]:
    """Profile some calls and return the spans of each, without the flush that it begins with.

    Calls of one program on the same data make the same events, so each call has an equal share of them. When the
    profiler has lost some, the calls are made again.
    """
    for _ in range(_ATTEMPTS):
        spans = _spans(call, calls)
        share, rest = divmod(len(spans), calls)
        if not rest and share > flushing:
            return [spans[begin + flushing : begin + share] for begin in range(0, len(spans), share)]
    raise RuntimeError(f"the profiler saw {len(spans)} events in {calls} calls, {flushing} of each to flush")


def _without_waiting(calls: list[list[Span]]) -> list[list[Span]]:
    """Return the spans of calls, collectives with their shortest time of these calls.

    A collective begins when one device has come to it, and waits for the last one.
    """
    shortest = [min(span.end - span.begin for span in alike) for alike in zip(*calls, strict=True)]
    return [
        [
            span._replace(end=span.begin + least) if span.name.startswith(_COLLECTIVE) else span
            for span, least in zip(spans, shortest, strict=True)
        ]
        for spans in calls
    ]


def _covered(spans: list[Span]) -> float:
    """Return the seconds in which at least one of the spans, sorted by their begin, ran."""
    total, until = 0.0, 0.0
    for begin, end, _ in spans:
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total / 1e9

"""Show progress, and the results as tables."""

import contextlib
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from rich import progress
from rich.console import Console

from benchmarks.cases import Case
from benchmarks.peers import NO_WAY, OURS
from benchmarks.reporting.report import best_other, fraction, geometric_mean, known, medians, missing, ratio
from benchmarks.reporting.tables import microseconds, on_console
from benchmarks.timing.by_calls import Timing

console = Console(highlight=False)
if not console.is_terminal:
    console = Console(highlight=False, width=200)  # A file has no width to fit.


class Named(Protocol):
    """What has a name to show."""

    @property
    def name(self) -> str:
        """Return the name."""


_Named = TypeVar("_Named", bound=Named)


def follow(cases: Sequence[_Named]) -> Iterator[_Named]:
    """Go through the cases and show which one is running."""
    columns = progress.BarColumn(), progress.MofNCompleteColumn(), progress.TimeRemainingColumn()
    with progress.Progress(*columns, progress.TextColumn("{task.description}"), console=console, transient=True) as bar:
        task = bar.add_task("", total=len(cases))
        for case in cases:
            bar.update(task, description=case.name)
            yield case
            bar.advance(task)


def go_through(
    cases: Sequence[Case], measured: Callable[[Case], Mapping[str, Any]], end: float | None
) -> Sequence[Case]:
    """Measure cases, with a line for each, and return those for which there was no time.

    Args:
      cases: in the order in which they are measured.
      measured: measures one.
      end: when to stop, by ``time.time``; None for never.
    """
    taken: dict[str, list[float]] = {}
    for place, case in enumerate(cases):
        expected = [_expected(taken, other) for other in cases[place:]]
        if end is not None and taken and time.time() + expected[0] > end:
            return cases[place:]
        left = sum(expected) if end is None else max(0.0, min(sum(expected), end - time.time()))
        with _running(case.name):
            entry = measured(case)
        taken.setdefault(case.operator, []).append(entry["seconds"])
        before = f"{place + 1}/{len(cases)}" + (f", {left / 60:.0f} min left" if taken and left else "")
        console.print(f"{before}: {case.name}: {_said(entry)}", markup=False, soft_wrap=True)
    return []


def _expected(taken: Mapping[str, Sequence[float]], case: Case) -> float:
    """Return how many seconds a case may take, by those of its operator, or by all."""
    known = taken.get(case.operator) or [each for found in taken.values() for each in found] or [0.0]
    return statistics.fmean(known)


def _running(name: str) -> Any:
    """Show on a terminal what is being measured."""
    return console.status(name[: console.width - 4]) if console.is_terminal else contextlib.nullcontext()


def _said(entry: Mapping[str, Any]) -> str:
    """Say in a few words what was found."""
    ours = entry["contenders"].get(OURS, {})
    if not ours.get("timing"):
        return str(ours.get("absent") or ("jaxdml was not asked for" if not ours else "jaxdml is WRONG"))
    spread = Timing(**ours["timing"]).spread
    against = f"; {ratio(entry):.2f} times as fast as {best}" if (best := best_other(entry)) else ""
    return f"{microseconds(ours['timing']['median_us'])} us, within {spread:.0%}{against}"


def show(cases: Sequence[Mapping[str, Any]], peers: Sequence[str]) -> None:
    """Show the table of the cases, and why a peer has no time."""
    present = [peer for peer in peers if any(not case["contenders"][peer]["absent"] for case in cases)]
    of_ours = "best other / ours", "quartiles of ours", "of the roofline", "ours compiles in s"
    rows = [(case["name"], *(_cell(case, peer) for peer in present), *_of_ours(case)) for case in cases]
    console.print(on_console(("case; medians in us", *present, *of_ours), rows))
    if found := known(ratio, cases):
        console.print(f"Best other / ours: geometric mean {geometric_mean(found):.2f}, worst {min(found):.2f}.")
    for (peer, reason), count in missing(cases).items():
        if reason != NO_WAY:
            console.print(
                f"{peer} has no time for {count} of {len(cases)} cases: {reason}.", markup=False, soft_wrap=True
            )


def _cell(case: Mapping[str, Any], peer: str) -> str:
    taken = medians(case)
    if peer in taken:
        return microseconds(taken[peer])
    return "-" if case["contenders"][peer]["absent"] else "WRONG"


def _of_ours(case: Mapping[str, Any]) -> Iterable[str]:
    ours = case["contenders"].get(OURS, {"timing": None})
    if not ours["timing"]:
        return [""] * 4
    against = ratio(case)
    quartiles = "-".join(microseconds(ours["timing"][f"{name}_quartile_us"]) for name in ("lower", "upper"))
    return "" if against is None else f"{against:.2f}", quartiles, f"{fraction(case):.0%}", f"{ours['compile_s']:.2f}"

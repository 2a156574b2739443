"""Show progress, and the results as tables."""

import contextlib
import statistics
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from rich import progress
from rich.console import Console

from benchmarks.peers import NO_WAY, OURS
from benchmarks.reporting.report import (
    MARK,
    STOCK,
    UNSURE,
    best_other,
    geometric_mean,
    known,
    medians,
    missing,
    ratio,
    ratio_prepacked,
    unsure,
)
from benchmarks.reporting.tables import filled, microseconds, on_console
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


class Step(Named, Protocol):
    """What is measured: a case, or the roofline."""

    @property
    def operator(self) -> str:
        """Return what takes about as long."""


_Step = TypeVar("_Step", bound=Step)


def go_through(
    cases: Sequence[_Step], measured: Callable[[_Step], Mapping[str, Any]], end: float | None
) -> Sequence[_Step]:
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


def _expected(taken: Mapping[str, Sequence[float]], case: Step) -> float:
    """Return how many seconds a case may take, by those of its operator, or by all."""
    known = taken.get(case.operator) or [each for found in taken.values() for each in found] or [0.0]
    return statistics.fmean(known)


def _running(name: str) -> Any:
    """Show on a terminal what is being measured."""
    return console.status(name[: console.width - 4]) if console.is_terminal else contextlib.nullcontext()


def _said(entry: Mapping[str, Any]) -> str:
    """Say in a few words what was found."""
    if rates := entry.get("copy_gb_per_s"):
        products = f"{entry['int8_gop_per_s']:,.0f} billion int8 operations a second"
        return f"copies up to {max(rates.values()):.1f} GB/s, {products}"
    ours = entry["contenders"].get(OURS, {})
    if not ours.get("timing"):
        return str(ours.get("absent") or ("jaxdml was not asked for" if not ours else "jaxdml is WRONG"))
    spread = Timing(**ours["timing"]).spread
    against = f"; {in_words(found)} {best_other(entry)}" if (found := ratio(entry)) else ""
    return f"{microseconds(ours['timing']['median_us'])} us, known within {spread:.0%}{against}"


def in_words(ratio: float) -> str:
    """Say which of two takes longer: ``ratio`` is the time of the other by that of the first."""
    return f"{ratio:.2f} times as fast as" if ratio >= 1 else f"{1 / ratio:.2f} times as long as"


def show(cases: Sequence[Mapping[str, Any]]) -> None:
    """Show the table of the cases, and why a peer has no time."""
    header = "case; medians in us", OURS, STOCK, "fastest\nother", "ratio", "pre-\npacked"
    rows = [(_name(case), _cell(case, OURS), _cell(case, STOCK), _fastest(case), *_of_ours(case)) for case in cases]
    console.print(on_console(*filled(header, rows)))
    console.print("Ratio: fastest other / ours. The report has every library, and the fraction of the roofline.")
    if any(unsure(case, peer) for case in cases for peer in medians(case)):
        console.print(f"{MARK}: known no better than within {UNSURE:.0%}, or disturbed by other processes.")
    for value, condition in ((ratio, ""), (ratio_prepacked, ", both prepacked")):
        if found := known(value, cases):
            said = f"geometric mean {geometric_mean(found):.2f}, worst {min(found):.2f}"
            console.print(f"Fastest other / ours{condition}: {said}.")
    for (peer, reason), count in missing(cases).items():
        if reason != NO_WAY:
            console.print(
                f"{peer} has no time for {count} of {len(cases)} cases: {reason}.", markup=False, soft_wrap=True
            )


def _cell(case: Mapping[str, Any], peer: str) -> str:
    contender = case["contenders"].get(peer, {"absent": NO_WAY})
    if contender["absent"]:
        return "-"
    if not contender["timing"]:
        return "WRONG"
    wall = contender["wall_us"]
    time = microseconds(contender["timing"]["median_us"]) + MARK * unsure(case, peer)
    return f"{time} ({microseconds(wall)} by the wall)" if wall else time


def _fastest(case: Mapping[str, Any]) -> str:
    best = best_other(case)
    return f"{_cell(case, best)}\n{best}" if best else "-"


def _name(case: Mapping[str, Any]) -> str:
    """Break a name between its words, so that the table fits 80 columns."""
    return "\n".join(textwrap.wrap(case["name"], len("quantized_linear_average_pooling"), break_on_hyphens=False))


def _of_ours(case: Mapping[str, Any]) -> Iterable[str]:
    return ("" if found is None else f"{found:.2f}" for found in (ratio(case), ratio_prepacked(case)))

"""Show progress, and the results as tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from rich import box, progress
from rich.console import Console
from rich.table import Table

from benchmarks.peers import OURS
from benchmarks.report import fraction, geometric_mean, medians, missing, ratio, ratios

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


def show(cases: Sequence[Mapping[str, Any]], peers: Sequence[str]) -> None:
    """Show the table of the cases, and why a peer has no time."""
    present = [peer for peer in peers if any(not case["contenders"][peer]["absent"] for case in cases)]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("case; medians in us", overflow="fold")
    for header in (*present, "best other / ours", "quartiles of ours", "of the roofline", "ours compiles in s"):
        table.add_column(header, justify="right")
    for case in cases:
        table.add_row(case["name"], *(_cell(case, peer) for peer in present), *_of_ours(case))
    console.print(table)
    if found := ratios(cases):
        console.print(f"Best other / ours: geometric mean {geometric_mean(found):.2f}, worst {min(found):.2f}.")
    for (peer, reason), count in missing(cases).items():
        console.print(f"{peer} has no time for {count} of {len(cases)} cases: {reason}.", markup=False)


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


def microseconds(value: float) -> str:
    """Write a time with three significant digits, or from 100 on without a fraction."""
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"

"""Show progress and results, through rich where it is installed."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Literal, TypeVar

Job = TypeVar("Job")
Side = Literal["left", "right"]

_WIDE = 160
"""The width in characters at which every row of the table fits on one line."""


def lined_up(columns: Mapping[str, Side], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines that show rows under headers, in columns."""
    lines = [tuple(columns), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sides = ("<" if side == "left" else ">" for side in columns.values())
    form = "  ".join(f"{{:{side}{width}}}" for side, width in zip(sides, widths, strict=True))
    return [form.format(*line).rstrip() for line in lines]


class Display:
    """Show progress and results as plain lines."""

    def line(self, text: str) -> None:
        """Show one line of text."""
        print(text, flush=True)

    def follow(self, jobs: Sequence[Job], label: Callable[[Job], str]) -> Iterator[Job]:
        """Go through the jobs and show which one is running."""
        for number, job in enumerate(jobs, start=1):
            self.line(f"[{number}/{len(jobs)}] {label(job)}")
            yield job

    def table(self, columns: Mapping[str, Side], rows: Sequence[Sequence[str]]) -> None:
        """Show rows under headers, in columns."""
        for line in lined_up(columns, rows):
            self.line(line)


class RichDisplay(Display):
    """Show progress as a bar, and a table that fits the terminal. Nothing else uses rich, which is optional."""

    def __init__(self) -> None:
        from rich import box, progress, table
        from rich.console import Console

        # A file has no width to fit.
        self._console = Console(width=None if sys.stdout.isatty() else _WIDE, markup=False, highlight=False)
        parts = progress.BarColumn(), progress.MofNCompleteColumn(), progress.TextColumn("{task.description}")
        self._progress = progress.Progress(*parts, console=self._console, transient=True)
        self._new_table = partial(
            table.Table, box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0)
        )

    def line(self, text: str) -> None:
        """Show one line of text."""
        self._console.print(text, soft_wrap=True)

    def follow(self, jobs: Sequence[Job], label: Callable[[Job], str]) -> Iterator[Job]:
        """Go through the jobs and show how many are done."""
        with self._progress as bar:
            task = bar.add_task("", total=len(jobs))
            for job in jobs:
                bar.update(task, description=label(job))
                yield job
                bar.advance(task)

    def table(self, columns: Mapping[str, Side], rows: Sequence[Sequence[str]]) -> None:
        """Show rows under headers, in columns; a value that repeats in the first column is shown once."""
        table = self._new_table()
        for header, side in columns.items():
            table.add_column(header, justify=side, overflow="fold")
        width = sum(2 + max(map(len, column)) for column in zip(tuple(columns), *rows, strict=True)) - 2
        for above, (first, *others) in pairwise([("",), *rows]):
            name = first.replace("_", "\n_") if width > self._console.width else first
            table.add_row("" if above[0] == first else name, *others)
        self._console.print(table)


def display() -> Display:
    """Return a display that uses rich where that is installed."""
    try:
        return RichDisplay()
    except ImportError:
        return Display()

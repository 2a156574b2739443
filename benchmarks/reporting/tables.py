"""Write tables, into pages and on the console: a header, rows of words and figures, and how many columns are words."""

from collections.abc import Iterable, Sequence
from typing import Any


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """Return a table in Markdown, whose columns from ``words`` on stand on the right."""
    sides = ["---"] * words + ["--:"] * (len(header) - words)
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, sides, *rows))


def in_code(name: str) -> str:
    """Write a name as code up to the first comma: what follows says in words what is measured of it."""
    code, comma, words = name.partition(",")
    return f"`{code}`{comma}{words}"


def filled(header: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Leave out the columns in which nothing stands."""
    kept = [place for place in range(len(header)) if any(row[place] not in ("", "-") for row in rows)]
    return [header[place] for place in kept], [[row[place] for place in kept] for row in rows]


def on_console(header: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1, title: str | None = None) -> Any:
    """Return the same for a console, which folds words that are too long for it."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), title=title, title_justify="left")
    for place, name in enumerate(header):
        table.add_column(name, justify="left" if place < words else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def microseconds(value: float) -> str:
    """Write a time with three significant digits, or from 100 on without a fraction."""
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"

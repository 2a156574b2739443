"""Reports as JSON lines, each on disk as soon as it is known: ``{kind: content}``.

The first line has the kind ``environment``: the format, what ``benchmarks.environment.describe`` returns, and what else
a command says of itself. ``benchmarks/reporting/report.py`` says what follows of operators and their peers; the other
commands write a ``row`` for each thing that they find out. A row with a ``commit`` was kept from an earlier report, and
is of that commit.
"""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import environment

FORMAT = 2

RESULTS = Path(__file__).parents[1] / "results"
"""Reports that are kept, from which the pages are made."""


class UnreadableError(ValueError):
    """A file is no report."""


def default(command: str) -> Path:
    """Return where a command writes if it is not told."""
    return Path("jaxdml-report") / f"{command}.jsonl"


def head(**said: Any) -> dict[str, Any]:
    """Return what the first line says: where this runs, and what a command says of itself."""
    return environment.describe() | {"format": FORMAT} | said


def begin(file: Path, first: Mapping[str, Any], kept: Iterable[Mapping[str, Any]] = ()) -> None:
    """Begin a report in place of what the file holds, with rows of an earlier one that stay."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [_line("environment", first), *(_line("row", row) for row in kept)]
    # The earlier report is there until this one is.
    new = file.with_name(f".{file.name}.{os.getpid()}")
    new.write_bytes(b"".join(lines))
    new.replace(file)


def add(file: Path, kind: str, content: Any) -> None:
    """Write a line, after the last whole one: a process may have been killed while it wrote."""
    with file.open("ab+") as stream:
        stream.seek(0)
        stream.truncate(stream.read().rfind(b"\n") + 1)
        stream.write(_line(kind, content))
        stream.flush()
        os.fsync(stream.fileno())


def _line(kind: str, content: Any) -> bytes:
    return f"{json.dumps({kind: content}, separators=(',', ':'))}\n".encode()


def read(file: Path) -> list[tuple[str, Any]]:
    """Return the kind and the content of each line; one that was not finished is left out."""
    try:
        lines = file.read_text(encoding="utf-8").split("\n")[:-1]
        parts = [part for line in lines for part in json.loads(line).items()]
        known = next(content["format"] for kind, content in parts if kind == "environment") == FORMAT
    except (OSError, ValueError, AttributeError, LookupError, TypeError, StopIteration) as error:
        raise UnreadableError(f"{file} is no report of python -m benchmarks: {error or 'it is empty'}.") from None
    if not known:
        raise UnreadableError(f"{file} is a report of another version of python -m benchmarks.")
    return parts


def rows(file: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the first line of a report, and its rows."""
    (_, first), *rest = read(file)
    return first, [row for kind, row in rest if kind == "row"]


def earlier(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a report that goes on, none if there is no report yet; each says of which commit it is."""
    if not file.exists():
        return []
    first, found = rows(file)
    return [{"commit": first["commit"]} | row for row in found]


def made(first: Mapping[str, Any], packages: Iterable[str] = ("jax", "jaxlib", "libtpu")) -> str:
    """Say when a report was made, of which commit, and with which versions of these packages."""
    versions = ", ".join(f"{name} {first['versions'][name]}" for name in packages if name in first["versions"])
    return f"on {first['date']} at commit {first['commit']}; {versions}"

"""The reports of the other commands: JSON lines with the same head as ``python -m benchmarks``, and a line for a row.

``environment`` is what ``benchmarks.environment.describe`` returns, the format, and the command. Each ``row`` is on
disk as soon as it is known. A row with a ``commit`` was kept from an earlier report, and is of that commit.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import environment
from benchmarks.report import FORMAT, UnreadableError


class Rows:
    """Rows that grow on disk."""

    def __init__(self, file: Path, command: str, *, kept: Sequence[Mapping[str, Any]] = (), **said: Any) -> None:
        """Begin a report.

        Args:
          file: where; its folder is made, and what it holds is replaced.
          command: that makes it.
          kept: rows of an earlier report that stay.
          said: what else the head says.
        """
        self._file, self.rows = file, list(kept)
        file.parent.mkdir(parents=True, exist_ok=True)
        head = environment.describe() | {"format": FORMAT, "command": command} | said
        lines: list[Mapping[str, Any]] = [{"environment": head}, *({"row": row} for row in kept)]
        part = file.with_name(f".{file.name}.{os.getpid()}")
        part.write_text("".join(map(_line, lines)), encoding="utf-8")
        part.replace(file)

    def add(self, row: Mapping[str, Any]) -> None:
        """Write a row."""
        self.rows.append(row)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(_line({"row": row}))
            file.flush()
            os.fsync(file.fileno())


def _line(content: Mapping[str, Any]) -> str:
    return f"{json.dumps(content, separators=(',', ':'))}\n"


def read(file: Path) -> dict[str, Any]:
    """Return the ``environment`` and the ``rows`` of a report; a line that was not finished is left out."""
    try:
        parts = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n")[:-1]]
        return {"environment": parts[0]["environment"], "rows": [part["row"] for part in parts[1:]]}
    except (ValueError, LookupError, TypeError) as error:
        raise UnreadableError(f"{file} is no report of python -m benchmarks: {error}.") from None


def earlier(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a report that goes on, none if there is no report yet; each says of which commit it is."""
    if not file.exists():
        return []
    found = read(file)
    return [{"commit": found["environment"]["commit"]} | row for row in found["rows"]]


def default(command: str) -> Path:
    """Return where a command writes if it is not told."""
    return Path("jaxdml-report") / f"{command}.jsonl"

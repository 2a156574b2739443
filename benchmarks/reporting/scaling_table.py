"""Write the times of sharded operators, from ``results/scaling-h200-x2.jsonl``, as Markdown for a page."""

from pathlib import Path

from benchmarks.reporting import journal, tables

FILE = journal.RESULTS / "scaling-h200-x2.jsonl"

_HEADER = "call", "form", "devices", "collectives, µs", "other GPU kernels, µs", "by the clock, µs"


def markdown(file: Path = FILE) -> str:
    """Return a line that names the versions, and a table of the calls."""
    where, found = journal.rows(file)
    rows = [
        (
            *(row["name"], row["form"], str(row["devices"])),
            *(f"{row[part]:,.0f}" for part in ("collectives_us", "rest_us", "wall_us")),
        )
        for row in found
    ]
    return f"Measured {journal.made(where, ['jax'])}.\n\n{tables.markdown(_HEADER, rows, words=2)}"

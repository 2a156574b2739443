"""Write what sharded calls send, from ``results/traffic.jsonl``, as Markdown for a page of the documentation.

A page takes it from ``markdown()`` when it is built.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.reporting import journal, tables

FILE = journal.RESULTS / "traffic.jsonl"
SIDES = "jaxdml", "stock"


def markdown(file: Path = FILE, operators: Sequence[str] = ()) -> str:
    """Return a line that names the versions, and a table for each operator, or for the given ones."""
    where, rows = journal.rows(file)
    parts = [f"Read from HLO {journal.made(where)}. TPU: {where['topology']}."]
    for operator in operators or dict.fromkeys(row["operator"] for row in rows):
        parts += [f"**`{operator}`**", _table([row for row in rows if row["operator"] == operator])]
    return "\n\n".join(parts)


def sent(outcome: Mapping[str, Any]) -> str:
    """Say in words what a program sends, or what it raised."""
    if outcome["raises"]:
        return f"raises {outcome['raises'].partition(':')[0]}"
    if not outcome["count"]:
        return "nothing"
    kinds = ", ".join(f"{kind['count']} {name}" for name, kind in outcome["kinds"].items())
    return f"{kinds}: {outcome['elements']:,}{' a round' if outcome['loops_of_unknown_length'] else ''}"


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    header = ["sharded", "written with", "jaxdml sends", "stock JAX sends", "may send"]
    estimates = "tpu" in rows[0]["compiled"]
    if estimates:
        header.append("estimate for a TPU in µs, jaxdml / stock")
    lines = []
    for row in rows:
        bound = row["bound"]
        allowed = f"{bound['rule']}: {bound['elements']:,}" if bound["elements"] else "nothing"
        cells = [f"{row['sharding']}, `{row['arguments'][0]}`", row["way"], *(_sent(row, side) for side in SIDES)]
        cells.append(allowed)
        if estimates:
            cells.append(" / ".join(_estimate(row["compiled"]["tpu"][side]) for side in SIDES))
        lines.append(cells)
    return tables.markdown(header, lines, words=5)


def _sent(row: Mapping[str, Any], side: str) -> str:
    """Say once what is the same on every platform."""
    found = {platform.upper(): sent(sides[side]) for platform, sides in row["compiled"].items()}
    if len(set(found.values())) == 1:
        return next(iter(found.values()))
    return "; ".join(f"{platform}: {words}" for platform, words in found.items())


def _estimate(outcome: Mapping[str, Any]) -> str:
    value = outcome.get("estimate_us")
    return "-" if value is None else f"{value:,.1f}"

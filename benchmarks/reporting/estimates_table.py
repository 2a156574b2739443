"""Write what compilers say of programs for accelerators, from ``results/estimates.jsonl``, as Markdown for a page.

A page takes it from ``markdown()`` when it is built.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.reporting import journal, tables
from benchmarks.reporting.report import geometric_mean

FILE = journal.RESULTS / "estimates.jsonl"


def ratios(rows: Sequence[Mapping[str, Any]], target: str) -> list[float]:
    """Return the bytes of ours over those of stock JAX, for all rows that both compile."""
    sides = [row["compiled"][target] for row in rows]
    return [
        side["jaxdml"]["bytes"] / side["stock"]["bytes"]
        for side in sides
        if not (side["jaxdml"]["raises"] or side["stock"]["raises"])
    ]


def summary(rows: Sequence[Mapping[str, Any]], target: str) -> str:
    """Return a line on all rows that both compile: their mean, and how many are above what a call should take.

    Rows of earlier reports may lack ``cpu_s``. Then the line says nothing of it.
    """
    found, sides = ratios(rows, target), [row["compiled"][target] for row in rows]
    said = f"{len(found)} calls, geometric mean {geometric_mean(found):.2f} of stock's bytes; "
    said += f"{sum(ratio > 1.1 for ratio in found)} above 1.1."
    spent = [
        (side["jaxdml"].get("cpu_s"), side["stock"].get("cpu_s"))
        for side in sides
        if not (side["jaxdml"]["raises"] or side["stock"]["raises"])
    ]
    if any(None in each for each in spent):
        return said
    slow = sum(ours > max(10, 2 * stock) for ours, stock in spent)
    return f"{said} {slow} take more than 10 s of CPU and twice stock's to compile."


def markdown(file: Path = FILE) -> str:
    """Return a line that names the versions, a line of means for each target, and a table for each operator."""
    where, rows = journal.rows(file)
    targets = list(rows[0]["compiled"])
    parts = [f"Compiled {journal.made(where)}."]
    parts.append("\n".join(f"- {target}: {summary(rows, target)}" for target in targets))
    for operator in dict.fromkeys(row["operator"] for row in rows):
        of_operator = [row for row in rows if row["operator"] == operator]
        found = {target: ratios(of_operator, target) for target in targets}
        means = ", ".join(f"{geometric_mean(each):.2f} on {target}" for target, each in found.items() if each)
        parts += [f"**`{operator}`**, ours / stock: {means or 'none'}", _table(of_operator, targets)]
    return "\n\n".join(parts)


def _table(rows: Sequence[Mapping[str, Any]], targets: Sequence[str]) -> str:
    header = ["call", "bytes of inputs and outputs", *(f"{target}: ours / stock" for target in targets)]
    header += [f"{target}: s of CPU to compile" for target in targets]
    lines = []
    for row in rows:
        sides = [row["compiled"][target] for target in targets]
        lines.append([f"`{row['cell']}`", _bytes(row["least"]), *map(_both, sides), *map(_seconds, sides)])
    return tables.markdown(header, lines)


def _both(sides: Mapping[str, Mapping[str, Any]]) -> str:
    ours, stock = sides["jaxdml"], sides["stock"]
    if ours["raises"] or stock["raises"]:
        return "raises"
    loops = "; loops" if ours["loops"] or stock["loops"] else ""
    return f"{_bytes(ours['bytes'])} / {_bytes(stock['bytes'])} = {ours['bytes'] / stock['bytes']:.2f}{loops}"


def _seconds(sides: Mapping[str, Mapping[str, Any]]) -> str:
    return " / ".join(f"{side['cpu_s']:.3g}" if "cpu_s" in side else "-" for side in sides.values())


def _bytes(count: int) -> str:
    return f"{count / 1e6:.3g} MB"

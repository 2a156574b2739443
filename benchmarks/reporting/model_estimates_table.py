"""Write what the TPU's compiler says of whole models, from ``results/model-estimates.jsonl``, as Markdown for a page.

A page takes it from ``markdown()`` when it is built.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.reporting import journal, tables

FILE = journal.RESULTS / "model-estimates.jsonl"

KINDS = "float32", "bfloat16", "int8"
"""Of files."""


def markdown(file: Path = FILE) -> str:
    """Return a line that names the versions, and a table of bytes with a row for each model, batch and target."""
    where, rows = journal.rows(file)
    found: dict[tuple[str, int, str], dict[str, Any]] = {}
    for row in rows:
        found.setdefault((row["model"], row["batch"], row["target"]), {})[row["kind"]] = row
    lines = [(f"`{model}`", target, str(batch), *_cells(kinds)) for (model, batch, target), kinds in found.items()]
    header = "model", "target", "batch", *KINDS, "int8 / float32", "compiled in, s of CPU"
    return f"Compiled {journal.made(where)}.\n\n{tables.markdown(header, lines, words=2)}"


def _cells(kinds: Mapping[str, Mapping[str, Any]]) -> list[str]:
    rows = [kinds.get(kind, {"raises": "-"}) for kind in KINDS]
    floats, _, integers = (None if row["raises"] else row["bytes"] for row in rows)
    ratio = "-" if floats is None or integers is None else f"{integers / floats:.2f}"
    spent = ", ".join("-" if row["raises"] else f"{row['cpu_s']:.3g}" for row in rows)
    return [*(row["raises"] or f"{row['bytes'] / 1e6:,.0f} MB" for row in rows), ratio, spent]

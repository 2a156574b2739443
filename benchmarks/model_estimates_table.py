"""Write what the TPU's compiler says of whole models, from ``results/model-estimates.jsonl``, as Markdown for a page.

``python -m benchmarks.model_estimates_table`` prints it. A page takes it from ``markdown()`` when it is built.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.rows import read

FILE = Path(__file__).parent / "results" / "model-estimates.jsonl"

KINDS = "float32", "bfloat16", "int8"
"""Of files."""

_VERSIONS = "jax", "jaxlib", "libtpu"


def markdown(file: Path = FILE) -> str:
    """Return a line that names the versions, and a table of bytes with a row for each model, batch and target."""
    report = read(file)
    where = report["environment"]
    versions = ", ".join(f"{name} {where['versions'][name]}" for name in _VERSIONS if name in where["versions"])
    header = ["model", "batch", "target", *KINDS, "int8 / float32", "compiled in, s of CPU"]
    lines = [header, ["---", "---:", "---", *["---:"] * (len(header) - 3)]]
    found: dict[tuple[str, int, str], dict[str, Any]] = {}
    for row in report["rows"]:
        found.setdefault((row["model"], row["batch"], row["target"]), {})[row["kind"]] = row
    lines += [[f"`{model}`", str(batch), target, *_cells(kinds)] for (model, batch, target), kinds in found.items()]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"Compiled on {where['date']} at commit {where['commit']}; {versions}.\n\n{table}"


def _cells(kinds: Mapping[str, Mapping[str, Any]]) -> list[str]:
    rows = [kinds.get(kind, {"raises": "-"}) for kind in KINDS]
    floats, _, integers = (None if row["raises"] else row["bytes"] for row in rows)
    ratio = "-" if floats is None or integers is None else f"{integers / floats:.2f}"
    spent = ", ".join("-" if row["raises"] else f"{row['cpu_s']:.3g}" for row in rows)
    return [*(row["raises"] or f"{row['bytes'] / 1e6:,.0f} MB" for row in rows), ratio, spent]


if __name__ == "__main__":
    print(markdown())

"""Write the times of products with prepared weights, from ``results/weights-h200.jsonl``, as Markdown for a page."""

from pathlib import Path

from benchmarks.rows import read

FILE = Path(__file__).parent / "results" / "weights-h200.jsonl"

_COLUMNS = {
    "read": "reading the weights",
    "dot of [N, K]": "int32 sums",
    "jaxdml prepacked": "packed",
    "jaxdml": "not packed",
    "torch.compile of [N, K]": "torch",
}
"""The heading of each peer's column."""


def markdown(file: Path = FILE) -> str:
    """Return a line that names the device and the versions, and a table of the products."""
    report = read(file)
    where = report["environment"]
    versions = ", ".join(f"{name} {where['versions'][name]}" for name in ("jax", "torch"))
    lines = [
        f"Measured on one {where['device']} on {where['date']} with {versions}; microseconds on the device.\n",
        f"| `a` | K x N | M | {' | '.join(_COLUMNS.values())} |",
        f"| --- | --- | --: |{' --: |' * len(_COLUMNS)}",
    ]
    for row in report["rows"]:
        times = (f"{row['us'][column]:,.1f}" if column in row["us"] else "-" for column in _COLUMNS)
        lines.append(f"| {row['dtype']} | {row['k']:,} x {row['n']:,} | {row['m']:,} | {' | '.join(times)} |")
    return "\n".join(lines)

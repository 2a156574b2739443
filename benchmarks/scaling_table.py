"""Write the times of sharded operators, from ``results/scaling-h200-x2.jsonl``, as Markdown for a page."""

from pathlib import Path

from benchmarks.rows import read

FILE = Path(__file__).parent / "results" / "scaling-h200-x2.jsonl"


def markdown(file: Path = FILE) -> str:
    """Return a line that names the versions, and a table of the calls."""
    report = read(file)
    where = report["environment"]
    lines = [
        f"Measured on {where['date']} with jax {where['versions']['jax']}.\n",
        "| call | form | devices | collectives, µs | other kernels, µs | by the clock, µs |",
        "| --- | --- | --: | --: | --: | --: |",
    ]
    for row in report["rows"]:
        figures = " | ".join(f"{row[part]:,.0f}" for part in ("collectives_us", "rest_us", "wall_us"))
        lines.append(f"| {row['name']} | {row['form']} | {row['devices']} | {figures} |")
    return "\n".join(lines)

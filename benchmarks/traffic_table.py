"""Write what sharded calls send, from ``results/traffic.jsonl``, as Markdown for a page of the documentation.

``python -m benchmarks.traffic_table`` prints it. A page takes it from ``markdown()`` when it is built.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.rows import read

FILE = Path(__file__).parent / "results" / "traffic.jsonl"
SIDES = "jaxdml", "stock"

_VERSIONS = "jax", "jaxlib", "libtpu"


def markdown(file: Path = FILE, operators: Sequence[str] = ()) -> str:
    """Return a line that names the versions, and a table for each operator, or for the given ones."""
    report = read(file)
    where = report["environment"]
    versions = ", ".join(f"{name} {where['versions'][name]}" for name in _VERSIONS if name in where["versions"])
    parts = [f"Read from HLO on {where['date']} at commit {where['commit']}; {versions}. TPU: {where['topology']}."]
    for operator in operators or dict.fromkeys(row["operator"] for row in report["rows"]):
        rows = [row for row in report["rows"] if row["operator"] == operator]
        parts += [f"**`{operator}`**", _table(rows)]
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
    lines = [header, ["---"] * len(header)]
    for row in rows:
        bound = row["bound"]
        allowed = f"{bound['rule']}: {bound['elements']:,}" if bound["elements"] else "nothing"
        cells = [f"{row['sharding']}, `{row['arguments'][0]}`", row["way"], *(_sent(row, side) for side in SIDES)]
        cells.append(allowed)
        if estimates:
            cells.append(" / ".join(_estimate(row["compiled"]["tpu"][side]) for side in SIDES))
        lines.append(cells)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _sent(row: Mapping[str, Any], side: str) -> str:
    """Say once what is the same on every platform."""
    found = {platform.upper(): sent(sides[side]) for platform, sides in row["compiled"].items()}
    if len(set(found.values())) == 1:
        return next(iter(found.values()))
    return "; ".join(f"{platform}: {words}" for platform, words in found.items())


def _estimate(outcome: Mapping[str, Any]) -> str:
    value = outcome.get("estimate_us")
    return "-" if value is None else f"{value:,.1f}"


if __name__ == "__main__":
    print(markdown())

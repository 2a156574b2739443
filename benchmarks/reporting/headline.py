"""Say in one table how many times as fast as stock JAX jaxdml is: the table of README.md, from the kept reports."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.reporting import estimates_table, journal, tables
from benchmarks.reporting.report import geometric_mean, in_tables, known, over_stock, read, stock_is_wrong

DEVICES = {"CPU": "amd-epyc", "GPU": "nvidia-h200"}
"""The folders of the reports."""

BEGIN = "<!-- speed: written by python -m benchmarks page from benchmarks/results/ -->"
END = "<!-- end of speed -->"

_TPU = "v6e"


def table(results: Path) -> str:
    """Write the table."""
    reports = [read(results / folder) for folder in DEVICES.values()]
    by_device = {report["environment"]["device"]: by_operator(report["cases"]) for report in reports}
    by_device[f"TPU {_TPU}, bytes"] = _bytes(results)
    operators = dict.fromkeys(name for found in by_device.values() for name in found)
    rows = [(f"`{name}`", *(_cell(found.get(name, [])) for found in by_device.values())) for name in operators]
    rows.append(("**all**", *(_cell(list(chain(*found.values()))) for found in by_device.values())))
    written = tables.markdown(("", *by_device), rows)
    wrong = Counter(case["operator"] for report in reports for case in report["cases"] if stock_is_wrong(case))
    if wrong:
        said = ", ".join(f"`{operator}` in {count}" for operator, count in wrong.most_common())
        written += f"\n\nStock JAX gave a wrong answer, and so has no time, in some of the measured cases: {said}."
    return written


def by_operator(cases: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Return how many times as fast as stock JAX each call is, by operator."""
    shown = in_tables(cases)
    operators = dict.fromkeys(case["operator"] for case in shown)
    found = {name: known(over_stock, [case for case in shown if case["operator"] == name]) for name in operators}
    return {name: values for name, values in found.items() if values}


def _bytes(results: Path) -> dict[str, list[float]]:
    """Return how many times as many bytes stock JAX's programs for a TPU move, by operator."""
    _, rows = journal.rows(results / estimates_table.FILE.name)
    operators = dict.fromkeys(row["operator"] for row in rows)
    found = {name: estimates_table.ratios([row for row in rows if row["operator"] == name], _TPU) for name in operators}
    return {name: [1 / value for value in values] for name, values in found.items()}


def _cell(found: Sequence[float]) -> str:
    return f"{_two(geometric_mean(found))} ({_two(min(found))} to {_two(max(found))})" if found else "-"


def _two(value: float) -> str:
    """Write a ratio with two digits or more."""
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def put_into(readme: str, results: Path) -> str:
    """Replace the table between the two marks of ``readme``."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(results)}\n{END}{after}"

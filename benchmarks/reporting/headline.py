"""Say in one table how many times as fast as stock JAX jaxdml is: the table of README.md, from the kept reports."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.reporting import estimates_table, journal, tables
from benchmarks.reporting.report import geometric_mean, in_tables, known, over_stock, read, row, stock_is_wrong

FOLDERS = "amd-epyc", "nvidia-h200"
"""Of the reports: a CPU's and a GPU's."""

BEGIN = "<!-- speed: written by python -m benchmarks page from benchmarks/results/ -->"
END = "<!-- end of speed -->"

_TPU = "v6e"


def devices(results: Path) -> dict[str, dict[str, list[float]]]:
    """Return how many times as fast as stock JAX each call is, by device and operator."""
    reports = [read(results / folder) for folder in FOLDERS]
    return {report["environment"]["device"]: by_operator(report["cases"]) for report in reports}


def table(results: Path) -> str:
    """Write the table, and what it cannot show."""
    by_device = devices(results)
    operators = sorted({name for found in by_device.values() for name in found})
    rows = [(tables.in_code(name), *(_cell(found.get(name, [])) for found in by_device.values())) for name in operators]
    rows.append(("**all**", *(_cell(list(chain(*found.values()))) for found in by_device.values())))
    parts = [tables.markdown(("", *by_device), rows)]
    cases = [case for folder in FOLDERS for case in read(results / folder)["cases"]]
    wrong = Counter(case["operator"] for case in cases if stock_is_wrong(case))
    if wrong:
        said = ", ".join(f"`{operator}` in {count}" for operator, count in wrong.most_common())
        parts.append(f"Stock JAX gave a wrong answer, and so has no time, in some of the measured cases: {said}.")
    parts.append(
        f"No TPU was here. By the compiler of a TPU {_TPU}, stock JAX's programs move {_cell(_bytes(results))} times as"
        " many bytes, for [sizes of their own](docs/tpus.md#what-the-compiler-says)."
    )
    return "\n\n".join(parts)


def by_operator(cases: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Return how many times as fast as stock JAX each call is, by operator; calls with traced scales apart."""
    shown = in_tables(cases)
    names = dict.fromkeys(map(row, shown))
    found = {name: known(over_stock, [case for case in shown if row(case) == name]) for name in names}
    return {name: values for name, values in found.items() if values}


def _bytes(results: Path) -> list[float]:
    """Return how many times as many bytes each program of stock JAX for a TPU moves."""
    _, rows = journal.rows(results / estimates_table.FILE.name)
    return [1 / value for value in estimates_table.ratios(rows, _TPU)]


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

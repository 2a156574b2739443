"""Say in one table how fast jaxdml is: the table of README.md, from the kept reports."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers import OURS
from benchmarks.report import GRIDS, geometric_mean, medians, others, read

Case = Mapping[str, Any]

CPU, GPU = "amd-epyc-asynchronous", "nvidia-h200"
"""The folders of the reports. The one of the CPU has JAX dispatch as it does by default."""

BEGIN = "<!-- speed: written by python -m benchmarks.document from benchmarks/results/ -->"
END = "<!-- end of speed -->"

_PREPACKED = "onnxruntime prepacked", "torch prepacked"


class Row(NamedTuple):
    """One line of the table: which cases, and which peers do not count. The label may name the ``{dtypes}``."""

    label: str
    belongs: Callable[[Case], bool]
    without: tuple[str, ...] = ()


def _top_k(*, random: bool, dtypes: tuple[str, ...] | None = None) -> Callable[[Case], bool]:
    def belongs(case: Case) -> bool:
        right_dtype = case["dtype"] in dtypes if dtypes else case["dtype"] not in ("float32", "uint32")
        return case["operator"] == "top_k" and right_dtype and (case["data"] == "random") is random

    return belongs


def _operator(name: str, *duplicates: str) -> Callable[[Case], bool]:
    def belongs(case: Case) -> bool:
        return case["operator"] == name and (not duplicates or case["options"]["duplicates"] in duplicates)

    return belongs


_MULTIPLY = _operator("quantized_linear_matrix_multiply")

ROWS = {
    CPU: (
        Row("`top_k`, float32, random data", _top_k(random=True, dtypes=("float32",))),
        Row("`top_k`, float32, sorted or all equal", _top_k(random=False, dtypes=("float32",))),
        Row("`top_k`, {dtypes}, random data", _top_k(random=True)),
        Row("`top_k`, uint32: only JAX and NumPy have it", _top_k(random=True, dtypes=("uint32",))),
        Row("`scatter_nd`", _operator("scatter_nd")),
        Row("`scatter_elements`", _operator("scatter_elements")),
        Row("quantized multiply, nobody prepares `b`", _MULTIPLY, _PREPACKED),
        Row("quantized multiply, others prepare `b` beforehand", _MULTIPLY),
    ),
    GPU: (
        Row("`top_k`, float32, random data", _top_k(random=True, dtypes=("float32",))),
        Row("`top_k`, float32, sorted or all equal", _top_k(random=False, dtypes=("float32",))),
        Row("`top_k`, {dtypes}, random data", _top_k(random=True)),
        Row('`scatter_nd`, `duplicates="unspecified"` or `"unique"`', _operator("scatter_nd", "unspecified", "unique")),
        Row('`scatter_nd`, `duplicates="last"`: only PyTorch has it', _operator("scatter_nd", "last")),
        Row("quantized multiply, scales by row and column", _MULTIPLY),
    ),
}


def speed(case: Case, without: Sequence[str] = ()) -> float:
    """Return how many times as fast as the best other jaxdml is."""
    return min(us for peer, us in others(case).items() if peer not in without) / medians(case)[OURS]


def table(results: Path) -> str:
    """Write the table."""
    return "\n".join(_lines(results))


def _lines(results: Path) -> Iterator[str]:
    yield "| | Cases | Times as fast, mean | Least | jaxdml is fastest in |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for folder, rows in ROWS.items():
        report = read(results / folder)
        cases = [case for case in report["cases"] if case["group"] in GRIDS]
        where = report["environment"]
        yield f"| **{where['device']}, JAX {where['versions']['jax']}** | | | | |"
        for row in rows:
            mine = list(filter(row.belongs, cases))
            found = [speed(case, row.without) for case in mine]
            wins = sum(value > 1 for value in found)
            label = row.label.format(dtypes=", ".join(dict.fromkeys(case["dtype"] for case in mine)))
            yield (
                f"| {label} | {len(found)} | {geometric_mean(found):.2f} | {min(found):.2f} | {wins} of {len(found)} |"
            )


def put_into(readme: str, results: Path) -> str:
    """Replace the table between the two marks of ``readme``."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(results)}\n{END}{after}"

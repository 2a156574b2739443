"""Draw ratios as heat maps: every case of a grid, and the picture of README.md, which names who is fastest."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from benchmarks.drawing import WIDTH, save
from benchmarks.peers import OURS
from benchmarks.report import GRIDS, medians, others, ratio

_BETTER = "PuOr_r"
"""Purple to orange, white where both take the same; beyond four times the colour says no more."""

Cases = Sequence[Mapping[str, Any]]


def heat_map(cases: Cases, operator: str) -> Figure:
    """Draw the time of the best other by ours, sizes down and dtypes across."""

    def across(case: Mapping[str, Any]) -> str:
        return case["dtype"] if case["data"] == "random" else f"{case['dtype']}\n{case['data']}"

    def down(case: Mapping[str, Any]) -> str:
        return " ".join([case["size"], *(value for value in case["options"].values() if isinstance(value, str))])

    columns, rows = list(dict.fromkeys(map(across, cases))), list(dict.fromkeys(map(down, cases)))
    table = np.full((len(rows), len(columns)), np.nan)
    for case in cases:
        table[rows.index(down(case)), columns.index(across(case))] = ratio(case)
    figure = Figure(
        figsize=(min(WIDTH, 4.8 + 0.6 * len(columns)), max(3.2, 1.6 + 0.36 * len(rows))), layout="constrained"
    )
    panel = figure.subplots()
    image = panel.imshow(table, cmap=_BETTER, norm=LogNorm(0.25, 4), aspect="auto")
    panel.set_xticks(range(len(columns)), columns, fontsize=8, rotation=30, ha="right", rotation_mode="anchor")
    panel.set_yticks(range(len(rows)), rows, fontsize=8)
    for (row, column), value in np.ndenumerate(table):
        if np.isfinite(value):
            text = f"{value:.2f}" if value < 9.95 else f"{value:.0f}"
            panel.text(column, row, text, ha="center", va="center", fontsize=8, color=_on(value))
    bar = figure.colorbar(image, extend="both", ticks=[0.25, 0.5, 1, 2, 4], format="%g")
    bar.ax.minorticks_off()
    bar.set_label("time of the best other / of jaxdml", fontsize=8)
    figure.suptitle(operator)
    return figure


def draw_winners(report: Mapping[str, Any], path: Path) -> Path:
    """Draw who is fastest in every case of random data, and by how much: the picture of README.md."""
    figure = Figure(figsize=(WIDTH, 8.6), layout="constrained")
    panels = figure.subplot_mosaic([["top_k", "top_k"], ["multiply", "scatter"]], height_ratios=(6, 7.6))
    cases = [case for case in report["cases"] if case["group"] in GRIDS and case["data"] == "random"]
    largest = [case for case in cases if case["options"].get("direction") != "increasing"]
    for name, heading, sizes, across in (
        ("top_k", "top_k, the k largest", "sequences x length, k", _dtype),
        ("multiply", "quantized_linear_matrix_multiply", "M x K x N, or batch x M x K x N", _dtype),
        ("scatter", "the scatters, float32", "array <- rows written", _operator_and_memory),
    ):
        panel = panels[name]
        _winners(panel, [case for case in largest if name in case["operator"]], across)
        panel.set_title(heading, fontsize=10)
        panel.set_ylabel(sizes, fontsize=8)
    figure.suptitle(
        f"Who is fastest, and how many times as fast as the best other library jaxdml is\n"
        f"{report['environment']['device']}. Orange: jaxdml is fastest. "
        "ORT: onnxruntime. +: b was prepared beforehand.",
        fontsize=10,
    )
    return save(figure, path)


def _dtype(case: Mapping[str, Any]) -> str:
    return str(case["dtype"])


def _operator_and_memory(case: Mapping[str, Any]) -> str:
    return "\n".join([*case["operator"].split("_", 1), case["options"]["memory"]])


def _winners(panel: Axes, cases: Cases, across: Callable[[Mapping[str, Any]], str]) -> None:
    """Name the fastest in every cell, sizes down."""
    columns = list(dict.fromkeys(map(across, cases)))
    rows = list(dict.fromkeys(case["size"] for case in cases))
    table = np.full((len(rows), len(columns)), np.nan)
    for case in cases:
        taken, ours = others(case), medians(case)[OURS]
        best = min(taken, key=taken.__getitem__)
        name = best.replace("onnxruntime", "ORT").replace(" prepacked", "+")
        row, column = rows.index(case["size"]), columns.index(across(case))
        table[row, column] = value = taken[best] / ours
        text = f"jaxdml\n{_times(value)} {name}" if value > 1 else f"{name}\n{_times(value)}"
        panel.text(column, row, text, ha="center", va="center", fontsize=7.5, color=_on(value))
    panel.imshow(table, cmap=_BETTER, norm=LogNorm(0.25, 4), aspect="auto")
    panel.set_xticks(range(len(columns)), columns, fontsize=8)
    panel.set_yticks(range(len(rows)), rows, fontsize=8)


def _times(value: float) -> str:
    return f"{value:.2f}x" if value < 9.95 else f"{value:.0f}x"


def _on(value: float) -> str:
    """Return the colour of text on the colour of a ratio."""
    return "white" if max(value, 1 / value) > 2.8 else "black"

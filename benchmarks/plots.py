"""Draw a report: growth in n and in k, the roofline, and the ratios as heat maps."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.drawing import MIDDLE, WIDTH, save
from benchmarks.heat_maps import heat_map
from benchmarks.peers import OURS
from benchmarks.report import GRIDS, medians, ratio, title

_COLOURS = {
    "jaxdml": "#D55E00",
    "jaxdml prepacked": "#D55E00",
    "lax": "#0072B2",
    "lax unstable": "#56B4E9",
    "onnxruntime": "#009E73",
    "onnxruntime prepacked": "#009E73",
    "torch": "#CC79A7",
    "torch prepacked": "#CC79A7",
    "torch quantized": "#CC79A7",
    "torch.compile": "#AA4499",
    "cupy": "#B8AC00",
    "numpy": "#999999",
}
"""Okabe and Ito's palette, which people with any colour vision can tell apart; two changed to show on any page."""

_MARKERS = {
    "jaxdml": "o",
    "jaxdml prepacked": "X",
    "lax": "s",
    "lax unstable": "p",
    "onnxruntime": "^",
    "onnxruntime prepacked": "v",
    "torch": "D",
    "torch prepacked": "d",
    "torch quantized": "d",
    "torch.compile": "P",
    "cupy": "*",
    "numpy": "x",
}

Cases = Sequence[Mapping[str, Any]]


def draw(report: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw what the report has cases for."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for case in report["cases"]:
        groups.setdefault(case["group"], []).append(case)
    figures = {
        group.replace(" ", "-"): _growth(cases, group) for group, cases in groups.items() if group.startswith("growth")
    }
    tables = [case for name in GRIDS for case in groups.get(name, [])]
    plain = tables + groups.get("models", [])
    if any(OURS in medians(case) for case in plain):
        figures["roofline"] = _roofline(plain)
    for operator in dict.fromkeys(case["operator"] for case in tables):
        cases = [case for case in tables if case["operator"] == operator and ratio(case) is not None]
        if cases:
            figures[f"ratios-{operator}"] = heat_map(cases, operator)
    paths = []
    for name, figure in figures.items():
        figure.suptitle(f"{figure.get_suptitle()}\n{title(report['environment'])}", fontsize=11)
        paths.append(save(figure, folder / f"{name}.png"))
    return paths


def draw_changes(changes: Sequence[Any], path: Path) -> Path:
    """Draw how many times as long each call takes now, with the ends of its interval."""
    figure = Figure(figsize=(WIDTH, 0.16 * len(changes) + 1.2), layout="constrained")
    panel = figure.subplots()
    places = range(len(changes))
    for place, each in zip(places, changes, strict=True):
        panel.plot([each.low, each.high], [place, place], color=_COLOURS[OURS], linewidth=1.2)
    panel.scatter([each.ratio for each in changes], places, color=_COLOURS[OURS], s=9, zorder=3)
    panel.axvline(1, color=MIDDLE, linewidth=1, linestyle=":")
    panel.set_yticks(list(places), [each.name for each in changes], fontsize=6)
    panel.invert_yaxis()
    panel.set_xscale("log")
    panel.set_xlabel("now / then")
    return save(figure, path)


def _growth(cases: Cases, group: str) -> Figure:
    """Draw time against n or k, one panel a dtype."""
    cases = sorted(cases, key=lambda case: case["at"])
    dtypes = sorted({case["dtype"] for case in cases})
    columns = min(3, len(dtypes))
    rows = -(-len(dtypes) // columns)
    figure = Figure(figsize=(WIDTH, 2.9 * rows + 0.9), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for panel, dtype in zip(panels.flat, dtypes, strict=False):
        series: dict[str, list[tuple[int, float]]] = {"roofline": []}
        for case in cases:
            if case["dtype"] == dtype:
                series["roofline"].append((case["at"], case["floor_us"]))
                for peer, median in medians(case).items():
                    series.setdefault(peer, []).append((case["at"], median))
        for peer, points in series.items():
            style: dict[str, Any] = {"color": MIDDLE, "linestyle": ":", "linewidth": 1}
            if peer in _COLOURS:
                style = {"color": _COLOURS[peer], "marker": _MARKERS[peer], "markersize": 3.5, "linewidth": 1.4}
            panel.plot(*zip(*points, strict=True), label=peer, zorder=3 if peer == OURS else 2, **style)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_title(dtype, fontsize=10)
        panel.grid(alpha=0.3)
    for panel in panels.flat[len(dtypes) :]:
        panel.set_axis_off()
    for column in range(columns):
        lowest = panels.flat[max(i for i in range(len(dtypes)) if i % columns == column)]
        lowest.tick_params(labelbottom=True)
        lowest.set_xlabel(f"{group[-1]} (elements)")
    for row in panels:
        row[0].set_ylabel("time of a call (µs)")
    others = "k = 64" if group.endswith("n") else "n = 2²⁰"
    figure.suptitle(f"top_k of one row, {others}: {group}")
    _legend(figure, list(panels.flat))
    return figure


def _roofline(cases: Cases) -> Figure:
    """Draw how long every call takes against the least that it could."""
    operators = list(dict.fromkeys(case["operator"] for case in cases))
    columns = min(2, len(operators))
    rows = -(-len(operators) // columns)
    figure = Figure(figsize=(WIDTH, 3.3 * rows + 0.9), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False)
    for panel, operator in zip(panels.flat, operators, strict=False):
        series: dict[str, list[tuple[float, float]]] = {}
        floors = []
        for case in cases:
            if case["operator"] == operator:
                floors.append(case["floor_us"])
                for peer, median in medians(case).items():
                    series.setdefault(peer, []).append((case["floor_us"], median))
        ends = [min(floors) / 2, max(floors) * 2]
        panel.plot(ends, ends, color=MIDDLE, linewidth=1, linestyle=":", label="roofline")
        for peer, points in series.items():
            style = {"c": _COLOURS[peer], "marker": _MARKERS[peer], "alpha": 0.75, "linewidths": 0.8}
            panel.scatter(*zip(*points, strict=True), s=16, label=peer, zorder=3 if peer == OURS else 2, **style)
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_title(operator, fontsize=10)
        panel.grid(alpha=0.3)
        panel.set_xlabel("least time by the roofline (µs)")
    for panel in panels.flat[len(operators) :]:
        panel.set_axis_off()
    for row in panels:
        row[0].set_ylabel("time of a call (µs)")
    figure.suptitle("What calls take, and the least that they could")
    _legend(figure, list(panels.flat))
    return figure


def _legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """Name every peer once, below all panels."""
    handles = {
        label: handle for panel in panels for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    ordered = [peer for peer in (*_COLOURS, "roofline") if peer in handles]
    figure.legend(
        [handles[peer] for peer in ordered],
        ordered,
        loc="outside lower center",
        ncols=len(ordered) if len(ordered) < 7 else 5,
        frameon=False,
    )

"""Draw a report: who is fastest and by how much, the fraction of the roofline, and growth in n and in k."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from benchmarks.cases import whole_models
from benchmarks.cases.sharded import GROWTH
from benchmarks.peers import OURS
from benchmarks.reporting.drawing import MIDDLE, WIDTH, save
from benchmarks.reporting.report import (
    TABLES,
    Value,
    best_other,
    best_prepacked,
    fraction,
    geometric_mean,
    medians,
    ratio,
    ratio_prepacked,
    row,
    title,
)

_COLOURS = {
    "jaxdml": "#D55E00",
    "jaxdml prepacked": "#D55E00",
    "jaxdml auto axes": "#E69F00",
    "jaxdml one device": "#8C510A",
    "lax": "#0072B2",
    "lax unstable": "#56B4E9",
    "onnxruntime": "#009E73",
    "onnxruntime prepacked": "#009E73",
    "torch": "#CC79A7",
    "torch prepacked": "#CC79A7",
    "torch quantized": "#CC79A7",
    "onnxruntime float32": "#006644",
    "torch.compile": "#AA4499",
    "torch.compile bfloat16": "#661177",
    "cupy": "#B8AC00",
    "numpy": "#999999",
}
"""Okabe and Ito's palette, which people with any colour vision can tell apart; two changed to show on any page."""

_MARKERS = {
    "jaxdml": "o",
    "jaxdml prepacked": "X",
    "jaxdml auto axes": "X",
    "jaxdml one device": "h",
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
    plain = [case for name in TABLES for case in groups.get(name, [])]
    raced = [*plain, *groups.get(whole_models.GROUP, [])]
    if any(ratio(case) or ratio_prepacked(case) for case in raced):
        figures["who-is-fastest"] = _who_is_fastest(raced)
    if any(fraction(case) is not None for case in plain):
        figures["roofline"] = _roofline(plain)
    paths = []
    for name, figure in figures.items():
        figure.suptitle(f"{figure.get_suptitle()}\n{title(report['environment'])}", fontsize=10)
        paths.append(save(figure, folder / f"{name}.png"))
    return paths


def draw_headline(devices: Mapping[str, Mapping[str, Sequence[float]]], path: Path) -> Path:
    """Draw how many times as fast as stock JAX the calls of each operator are, for each device.

    Operators stand in the order of their geometric mean over all calls, greatest first.
    """
    calls: dict[str, list[float]] = {}
    for by_operator in devices.values():
        for name, values in by_operator.items():
            calls.setdefault(name, []).extend(values)
    places = {name: place for place, name in enumerate(sorted(calls, key=lambda name: -geometric_mean(calls[name])))}
    figure = Figure(figsize=(WIDTH, 0.2 * len(places) + 1.1), layout="constrained")
    panel = figure.subplots()
    for shift, (device, by_operator), peer in zip((-0.17, 0.17), devices.items(), (OURS, "lax"), strict=True):
        style: dict[str, Any] = {"color": _COLOURS[peer]}
        at = [places[name] + shift for name in by_operator]
        panel.hlines(at, *zip(*((min(each), max(each)) for each in by_operator.values()), strict=True), **style)
        means = list(map(geometric_mean, by_operator.values()))
        panel.plot(means, at, linestyle="", marker=_MARKERS[peer], markersize=4, label=device, **style)
    panel.set_yticks(range(len(places)), list(places), fontsize=7.5)
    panel.invert_yaxis()
    panel.grid(axis="x", alpha=0.3)
    panel.axvline(1, color=MIDDLE, linewidth=1, linestyle=":")
    _times_axis(panel, "times as fast as stock JAX:\nmean, least, greatest")
    for side, text in (("right", "stock JAX is faster ←  "), ("left", "  → jaxdml is faster")):
        panel.annotate(text, (1, 1), (0, 3), xycoords=("data", "axes fraction"), textcoords="offset points", ha=side)
    figure.legend(loc="outside upper right", ncols=2, frameon=False)
    return save(figure, path)


Points = Mapping[str, list[tuple[float, str]]]
"""By operator, the figures of cases and the peers that give them their colours."""


def _who_is_fastest(cases: Cases) -> Figure:
    points = _points(cases, (ratio, best_other), (ratio_prepacked, best_prepacked))
    figure, panel = _rows(points)
    _strips(panel, points)
    _times_axis(panel, "time of the fastest other library / time of jaxdml")
    names = {peer for found in points.values() for _, peer in found}
    dots = {peer: panel.scatter([], [], s=12, color=_COLOURS[peer]) for peer in _COLOURS if peer in names}
    figure.legend(
        list(dots.values()), list(dots), loc="outside lower center", ncols=3, frameon=False, title="fastest other"
    )
    figure.suptitle("To the right of 1 jaxdml is faster than all others")
    return figure


def _roofline(cases: Cases) -> Figure:
    """Draw what fraction of the roofline each call reaches."""
    points = _points(cases, (fraction, lambda case: OURS))
    figure, panel = _rows(points)
    _strips(panel, points)
    panel.set_xscale("log")
    panel.set_xticks([0.01, 0.03, 0.1, 0.3, 1], ["1 %", "3 %", "10 %", "30 %", "100 %"])
    panel.minorticks_off()
    panel.set_xlabel("least time by the roofline / time of jaxdml")
    figure.suptitle("The fraction of the roofline that jaxdml reaches")
    return figure


def _rows(points: Points) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH, 0.26 * len(points) + 1.7), layout="constrained")
    return figure, figure.subplots()


def _points(cases: Cases, *figures: tuple[Value, Callable[[Mapping[str, Any]], str | None]]) -> Points:
    """Return each figure of each case that has it, with the peer that a function names."""
    found: dict[str, list[tuple[float, str]]] = {}
    for case in cases:
        for value, peer in figures:
            if (known := value(case)) is not None:
                found.setdefault(row(case), []).append((known, peer(case) or OURS))
    return found


def _strips(panel: Axes, by_operator: Points) -> None:
    """Draw a row for each operator: a dot for each figure in the colour of its peer, the quartiles, and a line at 1."""
    for place, points in enumerate(by_operator.values()):
        values = [found for found, _ in points]
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
        panel.plot([low, high], [place, place], color=MIDDLE, linewidth=5, alpha=0.35, solid_capstyle="butt")
        panel.plot([middle], [place], color=MIDDLE, marker="|", markersize=9, markeredgewidth=2)
        panel.scatter(
            values, [place] * len(values), c=[_COLOURS[peer] for _, peer in points], s=12, alpha=0.75, zorder=3
        )
    panel.set_yticks(range(len(by_operator)), list(by_operator), fontsize=7.5)
    panel.invert_yaxis()
    panel.grid(axis="x", alpha=0.3)
    panel.axvline(1, color=MIDDLE, linewidth=1, linestyle=":")


def _times_axis(panel: Axes, label: str) -> None:
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=99))
    panel.xaxis.set_major_formatter("{x:g}")
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xlabel(label, fontsize=8)


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
    """Draw time against n, k or the number of devices: a panel for each dtype, or operator."""
    what = group.rpartition(" ")[2]
    cases = sorted(cases, key=lambda case: case["at"])
    names = sorted({_panel(case) for case in cases})
    columns = min(2, len(names))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(WIDTH, 2.1 * rows + 1.2), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for panel, name in zip(panels.flat, names, strict=False):
        series: dict[str, list[tuple[float, ...]]] = {}
        for case in cases:
            if _panel(case) == name:
                if case["floor_us"]:
                    series.setdefault("roofline", []).append((case["at"], *[case["floor_us"]] * 3))
                for peer, median in medians(case).items():
                    timing = case["contenders"][peer]["timing"]
                    quartiles = timing["lower_quartile_us"], timing["upper_quartile_us"]
                    series.setdefault(peer, []).append((case["at"], median, *quartiles))
        for peer, points in series.items():
            style: dict[str, Any] = {"color": MIDDLE, "linestyle": ":", "linewidth": 1}
            if peer in _COLOURS:
                style = {"color": _COLOURS[peer], "marker": _MARKERS[peer], "markersize": 3.5, "linewidth": 1.4}
            at, middle, low, high = zip(*points, strict=True)
            panel.plot(at, middle, label=peer, zorder=3 if peer == OURS else 2, **style)
            panel.fill_between(at, low, high, color=style["color"], alpha=0.2, linewidth=0)
        panel.set_xscale("log", base=2)
        if what == "devices":
            panel.xaxis.set_major_formatter("{x:g}")
        panel.set_yscale("log")
        panel.set_title(name, fontsize=8)
        panel.grid(alpha=0.3)
    for panel in panels.flat[len(names) :]:
        panel.set_axis_off()
    for column in range(columns):
        lowest = panels.flat[max(i for i in range(len(names)) if i % columns == column)]
        lowest.tick_params(labelbottom=True)
        lowest.set_xlabel(what if what == "devices" else f"{what} (elements)")
    for left in panels[:, 0]:
        left.set_ylabel("time of a call (µs)")
    figure.suptitle(_GROWTH[what])
    _legend(figure, list(panels.flat))
    return figure


_GROWTH = {
    "n": "top_k of one row, k = 64: growth in n",
    "k": "top_k of one row, n = 2²⁰: growth in k",
    "devices": "Work that grows with the devices",
}


def _panel(case: Mapping[str, Any]) -> str:
    return str(case["operator" if case["group"] == GROWTH else "dtype"])


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
        ncols=3,
        frameon=False,
    )

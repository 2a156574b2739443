"""What every plot looks like: readable on a white page and on a dark one."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

mpl.use("agg")

WIDTH, DPI = 5.4, 150
"""In inches: what is written with 8 points can still be read on a telephone."""

MIDDLE = "#787878"
"""A grey with a contrast of more than 4 to a white page and to a dark one. Plots have no background of their own."""

mpl.rcParams |= dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), MIDDLE)
mpl.rcParams |= {"font.size": 8, "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none"}


def save(figure: Figure, path: Path) -> Path:
    """Write a plot. The same figure gives the same file."""
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
    return path

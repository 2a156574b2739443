"""What every plot looks like: readable on a white page and on a dark one."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

mpl.use("agg")

WIDTH, DPI = 9.0, 110

MIDDLE = "#787878"
"""A grey with a contrast of more than 4 to a white page and to a dark one. Plots have no background of their own."""

mpl.rcParams |= dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), MIDDLE)
mpl.rcParams |= {"figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none"}


def save(figure: Figure, path: Path) -> Path:
    """Write a plot. The same figure gives the same file."""
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
    return path

"""The picture of a comparison: accuracy against time per observation, and who is not beaten."""

import pathlib
from typing import TYPE_CHECKING

import matplotlib
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from rmcvi.lab.compare.comparison import Comparison

# Okabe and Ito's colours, told apart by every kind of sight; shapes say the same once more.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
_SHAPES = "osD^vPX*<>"


def draw(comparison: "Comparison", path: pathlib.Path, metric: str, label: str) -> pathlib.Path:
    """Write the picture; failed methods are named in the corner."""
    figure = Figure(figsize=(7.0, 4.5), layout="constrained")
    axes = figure.add_subplot()
    best = comparison.frontier(metric)
    for k, row in enumerate(comparison.rows):
        value = getattr(row, metric)
        if row.failure is not None or row.seconds is None or value is None:
            continue
        ends = (row.seconds_low or row.seconds, row.seconds_high or row.seconds)
        axes.errorbar(
            1e6 * row.seconds,
            value,
            xerr=[[1e6 * max(row.seconds - ends[0], 0.0)], [1e6 * max(ends[1] - row.seconds, 0.0)]],
            fmt=_SHAPES[k % len(_SHAPES)],
            color=_COLOURS[k % len(_COLOURS)],
            markersize=8,
            markerfacecolor=None if row.name in best else "white",
            label=row.name,
        )
    steps = [comparison.row(name) for name in best]
    axes.step(
        [1e6 * (row.seconds or 0.0) for row in steps],
        [getattr(row, metric) for row in steps],
        where="post",
        color="0.6",
        linewidth=1.0,
        zorder=0,
    )
    axes.set_xscale("log")
    axes.set_xlabel(f"time per observation (microseconds, {comparison.threads_in_words})")
    axes.set_ylabel(label)
    axes.grid(True, which="major", color="0.92")
    failed = [row.name for row in comparison.rows if row.failure is not None]
    note = "filled: not beaten" + (f"; failed: {', '.join(failed)}" if failed else "")
    axes.set_title(note, fontsize=9, loc="left", color="0.3")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, frameon=False)
    with matplotlib.rc_context({"svg.hashsalt": "rmcvi"}):
        figure.savefig(path, dpi=150)
    return path

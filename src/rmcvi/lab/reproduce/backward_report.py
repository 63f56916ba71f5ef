"""Tables and figures of the experiment with backward expectations."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.ticker import NullFormatter

import rmcvi
from rmcvi.app import report
from rmcvi.lab.reproduce.experiment import Arrays, Conclusion, Drawing, Settings

METHODS: dict[str, Any] = {
    "all weights": {},
    "M = 1": {"backward": rmcvi.SampledIndices(1), "control": "none"},
    "M = 2": {"backward": rmcvi.SampledIndices(2)},
    "M = 5": {"backward": rmcvi.SampledIndices(5)},
    "accept-reject, M = 2": {"backward": rmcvi.AcceptReject(2)},
}
"""Options of `RMCVI` by the name of the method."""
COLOURS = ["#0072B2", "#A6761D", "#E69F00", "#CC79A7", "#009E73", "#56B4E9"]
MARKERS = ["o", "X", "s", "D", "^", "v"]


def conclude(settings: Settings, found: Mapping[str, Arrays]) -> Conclusion:
    """Three tables, two figures."""
    kept = {name: {k: np.asarray(v) for k, v in cell.items()} for name, cell in found.items()}
    rows, numbers = [], {}
    for dim, count in settings["sizes"]:
        cell = kept[f"size{dim}x{count}"]
        for m, name in enumerate(METHODS):
            rms, spread, bias = cell["errors"][m]
            cost = cell["microseconds"][m]
            rows.append(
                [dim, count, name, (rms, spread), bias, cost, cost / cell["microseconds"][0]]
            )
    keys = ("dim", "particles", "method", "error", "bias", "microseconds", "relative_time")
    numbers["sizes"] = [dict(zip(keys, row, strict=True)) for row in rows]
    first = report.Table(
        [
            "dimension",
            "N",
            "method",
            "relative error",
            "of it bias",
            "us/step",
            "time / all weights",
        ],
        rows,
        "Gradient of the ELBO of a short sequence, against the exact one; root mean square.",
    )
    windows = kept["windows"]
    names = ["forward", *(f"windowed, L = {w}" for w in settings["windows"])]
    lines = [
        [
            name,
            tuple(windows["errors"][k][:2]),
            windows["apart"][k],
            windows["microseconds"][k],
            int(windows["bytes"][k]),
        ]
        for k, name in enumerate(names)
    ]
    keys = ("gradient", "error", "truncation", "microseconds", "state_bytes")
    numbers["windows"] = [dict(zip(keys, row, strict=True)) for row in lines]
    second = report.Table(
        ["gradient", "relative error", "distance from forward", "us/step", "bytes of state"],
        lines,
        f"N = {settings['window_particles']}, dimension {settings['window_dim']}.",
    )
    third, numbers["entropy"] = _entropies(settings, kept)
    remarks = _remarks(numbers)
    return Conclusion(
        numbers,
        [first, second, third],
        [_sizes(settings, kept), _windows(settings, windows)],
        remarks,
    )


def _entropies(settings: Settings, kept: Mapping[str, Any]) -> tuple[report.Table, list[Any]]:
    rows, keys = [], ("family", "entropy", "particles", "error", "bias")
    for cell, where in (("entropy-off", "beside the posterior"), ("entropy-at", "the posterior")):
        errors = iter(kept[cell]["errors"])
        for kind in ("closed", "sampled"):
            for count in settings["entropy_particles"]:
                rms, spread, bias = next(errors)
                rows.append([where, kind, count, (rms, spread), bias])
    caption = "At the posterior phi's exact gradient is zero: what is left is theta's."
    head = ["family", "entropy", "N", "relative error", "of it bias"]
    return report.Table(head, rows, caption), [dict(zip(keys, r, strict=True)) for r in rows]


def _remarks(numbers: Mapping[str, Any]) -> list[str]:
    found = []
    largest = numbers["sizes"][-len(METHODS) :]
    whole = largest[0]
    for row in largest[1:]:
        found.append(
            f"d = {row['dim']}, N = {row['particles']}, {row['method']}: "
            f"{row['error'][0] / whole['error'][0]:.2f} times the error of all weights in "
            f"{row['relative_time']:.2f} times the time."
        )
    forward, *cut = numbers["windows"]
    last = cut[-1]
    found.append(
        f"The longest window differs from the forward gradient by {last['truncation']:.1e} "
        f"(relative), in {last['microseconds'] / forward['microseconds']:.2f} times its time and "
        f"{last['state_bytes'] / forward['state_bytes']:.2f} times its memory."
    )
    return found


def _sizes(settings: Settings, kept: Mapping[str, Any]) -> Drawing:
    dims = sorted({dim for dim, _ in settings["sizes"]})
    made, axes = report.figure(1, len(dims), width=9.0, height=3.8, sharey=True)
    for axis, dim in zip(axes[0], dims, strict=True):
        counts = [n for d, n in settings["sizes"] if d == dim]
        for m, name in enumerate(METHODS):
            cost = [kept[f"size{dim}x{n}"]["microseconds"][m] for n in counts]
            rms = np.array([kept[f"size{dim}x{n}"]["errors"][m] for n in counts])
            drawn = {"color": COLOURS[m], "marker": MARKERS[m], "label": name}
            axis.errorbar(cost, rms[:, 0], yerr=rms[:, 1], **drawn)
        axis.set(xscale="log", yscale="log", xlabel="time per step (us of one core)")
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_title(f"dimension {dim}, N = {', '.join(map(str, counts))}")
    axes[0, 0].set_ylabel("relative error of the gradient")
    axes[0, -1].legend()
    caption = "Error against cost as N grows along each line; bars are standard errors."
    return Drawing("backward", made, "Gradient error against time per step", caption)


def _windows(settings: Settings, cell: Mapping[str, np.ndarray]) -> Drawing:
    made, axes = report.figure(1, 3, width=9.5, height=3.4)
    windows = settings["windows"]
    ours, forward = report.look("rmcvi", label="windowed"), report.look("kalman", marker="")
    axes[0, 0].plot(windows, np.maximum(cell["apart"][1:], 1e-8), **ours)
    axes[0, 0].set(yscale="log", ylabel="relative truncation error")
    for axis, values, unit in (
        (axes[0, 1], cell["microseconds"], "time per step (us of one core)"),
        (axes[0, 2], cell["bytes"] / 1000, "state (kilobytes)"),
    ):
        axis.plot(windows, values[1:], **ours)
        axis.axhline(values[0], **(forward | {"label": "forward"}))
        axis.set(ylabel=unit, ylim=(0, None))
    for axis in axes[0]:
        axis.set(xlabel="window L (steps)")
    axes[0, 1].legend()
    caption = "The same particles for all, so that the first panel is truncation alone."
    return Drawing("windows", made, "Error, time and memory against the window", caption)

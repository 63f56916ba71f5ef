"""Tables and figures of the air-quality experiment."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rmcvi.app import report
from rmcvi.lab.reproduce.air_failures import KINDS, WAYS
from rmcvi.lab.reproduce.experiment import Arrays, Drawing

LOOKS = {
    "seasonal": ("seasonal", "SeasonalLearner"),
    "rmcvi": ("rmcvi", "RMCVI, particles"),
    "rls": ("rls", None),
    "lstm": ("lstm", None),
    "ovsmc": ("ovsmc", None),
    "persistence": ("persistence", None),
    "interpolation": ("interpolation", None),
    "last value": ("persistence", "last value"),
}


def look(name: str) -> dict[str, Any]:
    """How a method is drawn here, without markers."""
    method, label = LOOKS[name]
    drawn = report.look(method, marker="")
    return drawn | ({"label": label} if label else {})


def tables(by: Mapping[str, Mapping[str, float]], failed: Arrays) -> list[report.Table]:
    """Scores, reconstruction, detection."""
    scores = report.Table(
        ["method", "RMSE", "log score", "coverage of 90 % intervals", "us/row"],
        [
            [
                look(name)["label"],
                (by["rmse"][name], by["rmse_error"][name]),
                round(by["log_score"][name], 4),
                f"{by['coverage'][name]:.1%}",
                round(by["microseconds"][name]),
            ]
            for name in sorted(by["rmse"], key=lambda n: by["rmse"][n])
        ],
        "One hour ahead, predicted before it is learned from; standard errors by weeks.",
    )
    errors, delays = np.asarray(failed["errors"]), np.asarray(failed["delays"])
    lengths, cover = np.asarray(failed["lengths"]), np.asarray(failed["coverage"])
    rebuilt = [
        [
            f"{int(length)} hours",
            *[_mean(errors[g, :, w]) for w in range(len(WAYS))],
            f"{np.nanmean(cover[g]):.1%}",
        ]
        for g, length in enumerate(lengths)
    ]
    noticed = [
        [f"{int(length)} hours", *[_delay(delays[g, :, k]) for k in range(len(KINDS))]]
        for g, length in enumerate(lengths)
    ]
    names = ["SeasonalLearner", "online LSTM", "interpolation", "last value"]
    return [
        scores,
        report.Table(
            ["lost", *names, "coverage of SeasonalLearner's 90 % band"],
            rebuilt,
            "Reconstruction of lost hours: mean over placements of the RMSE in standard units.",
        ),
        report.Table(
            ["broken for", *KINDS],
            noticed,
            "Share of failures noticed; median delay in hours. Without a failure the columns are "
            f"suspected in {np.mean(np.asarray(failed['false_alarms'])):.2%} of the hours.",
        ),
    ]


def _mean(values: np.ndarray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / len(values) ** 0.5)


def _delay(values: np.ndarray) -> str:
    noticed = np.isfinite(values)
    if not noticed.any():
        return "0 %"
    return f"{noticed.mean():.0%}, {np.median(values[noticed]):.0f} h"


def drawings(found: Mapping[str, Arrays], methods: Sequence[str]) -> list[Drawing]:
    """Cumulative errors, and errors of reconstruction."""
    made, axes = report.figure(width=8.0, height=3.6)
    for name in methods:
        curve = np.asarray(found[name]["cumulative"])
        axes[0, 0].plot(np.arange(1, len(curve) + 1) / 24, curve, **look(name))
    first = np.asarray(found[methods[0]]["cumulative"])
    top = 1.6 * max(float(np.asarray(found["persistence"]["cumulative"])[-1]), first[-1])
    axes[0, 0].set(xlabel="days", ylabel="cumulative RMSE (standard units)", ylim=(0, top))
    axes[0, 0].legend(ncols=2)
    curves = Drawing("cumulative", made, "Six curves of cumulative error", "One hour ahead.")
    failed = found["failures"]
    errors, lengths = np.asarray(failed["errors"]), np.asarray(failed["lengths"])
    made, axes = report.figure(width=7.0, height=3.4)
    for w, way in enumerate(WAYS):
        means, spread = errors[:, :, w].mean(1), errors[:, :, w].std(1) / errors.shape[1] ** 0.5
        x = np.arange(len(lengths)) + 0.2 * (w - 1.5)
        axes[0, 0].bar(
            x,
            means,
            0.19,
            yerr=spread,
            color=look(way)["color"],
            label=look(way)["label"],
            hatch="//" if way == "last value" else None,
        )
    axes[0, 0].set_xticks(np.arange(len(lengths)), [f"{int(v)} h" for v in lengths])
    axes[0, 0].set(xlabel="length of the failure", ylabel="RMSE (standard units)")
    axes[0, 0].legend()
    caption = "Reconstruction of lost hours; bars are standard errors over placements."
    return [curves, Drawing("failures", made, "Bars of error by length and method", caption)]

"""The default learner on streams that it was not made for, with the settings it has everywhere.

Parts of the UCI year (its sensors, its weather, its second half), and simulated streams: seasons
with gaps and a shift of level, a linear-Gaussian model without seasons, and random walks.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

import rmcvi
from rmcvi.app import report
from rmcvi.app.sources import air_quality, calendar
from rmcvi.lab.compare.horizons import (
    HORIZONS,
    Ahead,
    Fared,
    alone,
    fared,
    forecasts,
    last_values,
    seasons_before,
    targets,
)
from rmcvi.lab.reproduce.air_quality import follow, learner, scores
from rmcvi.lab.reproduce.air_report import look
from rmcvi.lab.reproduce.experiment import (
    Arrays,
    Cell,
    Conclusion,
    Drawing,
    Experiment,
    Settings,
    Workspace,
)

METHODS = ("seasonal", "rls", "lstm", "persistence")
AHEAD = {
    "seasonal": "SeasonalLearner",
    "rls": "least squares, iterated",
    "season": "the day before",
    "persistence": "last value",
}
"""Who forecasts several rows ahead."""
DAY = 24


class Stream:
    """Hourly rows in their own and in full-sample standard units, with daily terms."""

    def __init__(self, y: np.ndarray, time: np.ndarray | None = None):
        self.y = y
        self.scale = np.nanstd(y, 0)
        self.z = (y - np.nanmean(y, 0)) / self.scale
        hours = 3600.0 * np.arange(len(y)) if time is None else time
        self.u = calendar(hours, ["hour"], harmonics=3)


def _columns(picked: slice) -> Callable[[int], Stream]:
    def make(rows: int) -> Stream:
        year = air_quality(sensors=True)
        return Stream(year.y[:rows, picked], year.time[:rows])

    return make


def second_half(rows: int) -> Stream:
    """The reference columns from the middle of the year on, but for one that is empty then."""
    year = air_quality()
    half, present = slice(len(year.y) // 2, None), [0, 2, 3, 4, 5, 6, 7]
    return Stream(year.y[half, present][:rows], year.time[half][:rows])


def seasons(rows: int) -> Stream:
    """Four columns with a day and a week, correlated noise, gaps, and a shift of level."""
    rng, hours = np.random.default_rng(1), np.arange(rows)
    day = np.exp(np.sin(2 * np.pi * (hours[:, None] + rng.uniform(0, 24, 4)) / 24))
    week = np.where((hours // 24 % 7 >= 5)[:, None], rng.uniform(0.4, 0.9, 4), 1.0)
    mixing, noise = rng.normal(size=(4, 4)) / 2, np.zeros((rows, 4))
    for t in range(1, rows):
        noise[t] = 0.9 * noise[t - 1] + 0.3 * mixing @ rng.normal(size=4)
    y = np.array([1.0, 50.0, 0.1, 8.0]) * (5.0 + day * week + noise)
    y[2 * rows // 3 :, 1] += 2.0 * y[:, 1].std()
    y[rng.uniform(size=y.shape) < 0.05] = np.nan
    y[rows // 2 : rows // 2 + 48] = np.nan
    return Stream(y)


def linear(rows: int) -> Stream:
    """A linear-Gaussian model of four states."""
    model = rmcvi.models.LinearGaussian.preset("campbell", 4, jax.random.key(0))
    return Stream(np.asarray(rmcvi.simulate(model, jax.random.key(1), rows)[1], float))


def walks(rows: int) -> Stream:
    """Three random walks: nothing beats the last value."""
    return Stream(np.cumsum(np.random.default_rng(2).normal(size=(rows, 3)), 0))


STREAMS: dict[str, tuple[str, Callable[[int], Stream]]] = {
    "sensors": ("UCI, five metal-oxide sensors", _columns(slice(8, 13))),
    "weather": ("UCI, temperature and humidity", _columns(slice(5, 8))),
    "pollutants": ("UCI, pollutants alone", _columns(slice(0, 5))),
    "second_half": ("UCI, second half of the year", second_half),
    "seasons": ("simulated seasons, gaps, level shift", seasons),
    "linear": ("simulated linear Gaussian", linear),
    "walks": ("simulated random walks", walks),
}


def cells(settings: Settings) -> dict[str, Cell]:
    """One for every method and stream."""

    def run(name: str, method: str) -> Cell:
        def work(workspace: Workspace) -> Arrays:
            stream = STREAMS[name][1](settings["rows"])
            predictions, rows, unit = follow(method, stream, settings["seed"])
            found = scores(predictions, rows, unit, list(range(rows.shape[1])))
            workspace.say(f"{name}, {method}: {found['rmse']:.4f}")
            return found

        return work

    passes = {f"{s} {m}": run(s, m) for s in settings["streams"] for m in METHODS}
    return passes | {f"{s} ahead": _ahead(s, settings) for s in settings["streams"]}


def _ahead(name: str, settings: Settings) -> Cell:
    """Forecasts of several lengths along the stream, ours and simple ones, on the same values."""

    def work(workspace: Workspace) -> Arrays:
        stream, every = STREAMS[name][1](settings["rows"]), settings["every"]
        ours, least = (learner(m, stream.y.shape[1])[0] for m in ("seasonal", "rls"))
        told = {
            "seasonal": scaled(forecasts(ours, stream.y, every=every), stream),
            "rls": forecasts(least, stream.z, stream.u, every=every),
            "season": alone(seasons_before(stream.z, DAY, every)),
            "persistence": alone(last_values(stream.z, every)),
        }
        target = targets(stream.z, every)
        counted = np.isfinite(target)
        for said in told.values():
            counted &= np.isfinite(said.mean)
        found = {m: fared(said, target, counted) for m, said in told.items()}
        workspace.say(f"{name}, rows ahead {HORIZONS}: {found['seasonal'].rmse.round(3)}")
        return {f"{m} {part}": getattr(found[m], part) for m in AHEAD for part in Fared._fields}

    return work


def scaled(said: Ahead, stream: Stream) -> Ahead:
    """In standard units."""
    centre = np.nanmean(stream.y, 0)
    return Ahead(*((part - centre) / stream.scale for part in said))


def conclude(settings: Settings, found: Mapping[str, Arrays]) -> Conclusion:
    """Errors, log scores and coverage, stream by stream."""
    keys = ("rmse", "rmse_error", "log_score", "coverage")
    numbers: dict[str, Any] = {
        s: {k: {m: float(found[f"{s} {m}"][k]) for m in METHODS} for k in keys}
        for s in settings["streams"]
    }
    for s, by in numbers.items():
        by["ahead"] = _by_horizon(found[f"{s} ahead"])
    names = [look(m)["label"] for m in METHODS]
    errors, rest, remarks = [], [], []
    for s, by in numbers.items():
        title = STREAMS[s][0]
        errors.append([title, *[(by["rmse"][m], by["rmse_error"][m]) for m in METHODS]])
        logs = [round(by["log_score"][m], 3) for m in METHODS]
        rest.append([title, *logs, f"{by['coverage']['seasonal']:.1%}"])
        best = min(METHODS[1:], key=lambda m, by=by: by["rmse"][m])
        over = by["rmse"]["seasonal"] / by["rmse"][best] - 1.0
        remarks.append(
            f"{title}: {abs(over):.1%} {'above' if over > 0 else 'below'} the best rival "
            f"({look(best)['label']})."
        )
    tables = [
        report.Table(["stream", *names], errors, "One-step RMSE; standard errors by weeks."),
        report.Table(
            ["stream", *names, "coverage"],
            rest,
            "Log score per value, and how much SeasonalLearner's 90 % intervals cover.",
        ),
    ]
    tables.append(_ahead_table(numbers))
    return Conclusion(numbers, tables, [_bars(numbers)], remarks)


def _by_horizon(found: Arrays) -> dict[str, Any]:
    """Numbers by the rows ahead, of every method."""
    whole = {m: {p: np.asarray(found[f"{m} {p}"]).tolist() for p in Fared._fields} for m in AHEAD}
    return {
        str(h): {
            "rmse": {m: whole[m]["rmse"][k] for m in AHEAD},
            "rmse_error": {m: whole[m]["error"][k] for m in AHEAD},
            "coverage": {m: whole[m]["coverage"][k] for m in ("seasonal", "rls")},
            "values": int(whole["seasonal"]["values"][k]),
        }
        for k, h in enumerate(HORIZONS)
    }


def _ahead_table(numbers: Mapping[str, Any]) -> report.Table:
    rows = []
    for s, by in numbers.items():
        for h, told in by["ahead"].items():
            errors = [(told["rmse"][m], told["rmse_error"][m]) for m in AHEAD]
            rows.append([STREAMS[s][0], h, *errors, f"{told['coverage']['seasonal']:.1%}"])
    return report.Table(
        ["stream", "rows ahead", *AHEAD.values(), "coverage"],
        rows,
        "RMSE of forecasts made along the stream, in standard units, and how much 90 % bands of "
        "SeasonalLearner cover; standard errors by tenths of the stream.",
    )


def _bars(numbers: Mapping[str, Any]) -> Drawing:
    made, axes = report.figure(width=8.0, height=4.2)
    places = np.arange(len(numbers))
    for k, method in enumerate(METHODS):
        ratio = [by["rmse"][method] / by["rmse"]["persistence"] for by in numbers.values()]
        spread = [by["rmse_error"][method] / by["rmse"]["persistence"] for by in numbers.values()]
        drawn = {"color": look(method)["color"], "label": look(method)["label"]}
        axes[0, 0].barh(places + 0.2 * (1.5 - k), ratio, 0.19, xerr=spread, **drawn)
    axes[0, 0].set_yticks(places, [STREAMS[s][0] for s in numbers])
    axes[0, 0].invert_yaxis()
    axes[0, 0].set(xlabel="one-step RMSE as a share of that of the last value")
    report.legend(made, axes[0, 0])
    caption = "Shorter is better; whiskers are standard errors by weeks."
    return Drawing("streams", made, "Bars of relative error by stream and method", caption)


EXPERIMENT = Experiment(
    "other-streams", "The default learner on streams it was not made for", cells, conclude
)

"""Figures 4 and 5: the UCI year from a cold start, and sensors that fail in it."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import optax

import rmcvi
from rmcvi import report
from rmcvi.baselines import (
    OVSMC,
    OnlineLSTM,
    Persistence,
    ProposalNetwork,
    RecursiveLeastSquares,
)
from rmcvi.conjugate import SeasonalLearner
from rmcvi.data import air_quality, calendar
from rmcvi.reproduce._air_failures import failures
from rmcvi.reproduce._air_words import drawings, tables
from rmcvi.reproduce._experiment import Arrays, Cell, Conclusion, Desk, Experiment, Settings

CHOSEN = [0, 2, 3, 4]
"""CO, C6H6, NOx and NO2 among the eight columns."""
METHODS = ("rmcvi", "rls", "lstm", "ovsmc", "rmcvi_particles", "persistence")


class Year:
    """The stream in its own and in full-sample standard units, with daily terms."""

    def __init__(self, rows: int):
        year = air_quality()
        self.y = year.y[:rows]
        self.scale = np.nanstd(year.y, 0)
        self.z = ((year.y - np.nanmean(year.y, 0)) / self.scale)[:rows]
        self.u = calendar(year.time, ["hour"], harmonics=3)[:rows]


def learner(name: str) -> tuple[Any, bool]:
    """A method, and whether it takes raw columns without inputs."""
    if name == "rmcvi":
        return SeasonalLearner(8), True
    if name == "persistence":
        return Persistence(8, 6), False
    if name == "rls":
        return RecursiveLeastSquares(8, 6, lags=(1, 2, 3, 23, 24, 25)), False
    if name == "lstm":
        return OnlineLSTM(8, 6), False
    particles = rmcvi.default_learner(8, 6)
    if name == "rmcvi_particles":
        return particles, False
    model: Any = particles.model
    proposal = ProposalNetwork(model, key=jax.random.key(1))
    rate = rmcvi.optim.robbins_monro(1e-2, power=0.6, delay=500.0, floor=1e-3)
    return (
        rmcvi.OnlineEstimator(model, proposal, OVSMC(100), optax.adam(rate), optax.adam(1e-3)),
        False,
    )


def collect(learner: Any, state: Any, info: Any) -> Any:
    """The prediction alone."""
    return info.prediction


def cells(settings: Settings) -> dict[str, Cell]:
    """One pass per method, then failures."""

    def follow(name: str) -> Cell:
        def run(desk: Desk) -> Arrays:
            year = Year(settings["rows"])
            method, raw = learner(name)
            rows, inputs = (year.y, None) if raw else (year.z, year.u)
            unit = year.scale if raw else np.ones(8)
            state = method.init(jax.random.key(settings["seed"]))
            _, told = rmcvi.scan(method, state, rows, inputs, collect=collect)
            found = scores(told, rows, unit)
            desk.say(f"{name}: {found['rmse']:.4f}, log score {found['log_score']:.3f}")
            return found

        return run

    def fail(desk: Desk) -> Arrays:
        return failures(Year(settings["rows"]), learner("rmcvi")[0], learner("lstm")[0], settings)

    return {name: follow(name) for name in METHODS} | {"failures": fail}


def scores(told: Any, rows: np.ndarray, unit: np.ndarray) -> dict[str, Any]:
    """Errors, log score per observed value and coverage, in full-sample standard units."""
    seen = ~np.isnan(rows)
    squares = (((np.asarray(told.mean) - rows) / unit) ** 2)[:, CHOSEN]
    score = np.asarray(told.log_score) + np.where(seen, np.log(unit)[None], 0.0).sum(1)
    inside = (rows >= np.asarray(told.low)) & (rows <= np.asarray(told.high))
    total, count = np.nancumsum(np.nansum(squares, 1)), np.cumsum(seen[:, CHOSEN].sum(1))
    days = squares[: len(squares) // 24 * 24].reshape(-1, 24 * squares.shape[1])
    return {
        "rmse": float(np.sqrt(np.nanmean(squares))),
        "rmse_error": _error_of_rmse(days),
        "log_score": float(np.nansum(score[1:]) / seen[1:].sum()),
        "coverage": float(inside[1:][seen[1:]].mean()),
        "cumulative": np.sqrt(total / np.maximum(count, 1)),
    }


def _error_of_rmse(days: np.ndarray) -> float:
    """Standard error by weeks, which are nearly independent."""
    weeks = days[: len(days) // 7 * 7].reshape(-1, 7 * days.shape[1])
    with np.errstate(invalid="ignore"):
        means = np.array([np.nanmean(w) for w in weeks if np.isfinite(w).any()])
    return float(means.std(ddof=1) / len(means) ** 0.5 / (2.0 * means.mean() ** 0.5))


def conclude(settings: Settings, found: Mapping[str, Arrays]) -> Conclusion:
    """Scores by method, failures by length."""
    by = {
        key: {name: float(found[name][key]) for name in METHODS}
        for key in ("rmse", "rmse_error", "log_score", "coverage")
    }
    failed = found["failures"]
    numbers: dict[str, Any] = by | {
        "failures": {name: np.asarray(value) for name, value in failed.items()},
    }
    best = min((n for n in METHODS if not n.startswith("rmcvi")), key=lambda n: by["rmse"][n])
    label = report.LOOKS[best].label
    remarks = [
        f"One-step RMSE over CO, C6H6, NOx and NO2: SeasonalLearner, the default of `rmcvi learn`, "
        f"{by['rmse']['rmcvi']:.4f}; best rival {label} {by['rmse'][best]:.4f}; persistence "
        f"{by['rmse']['persistence']:.4f}; the gradient learner with particles "
        f"{by['rmse']['rmcvi_particles']:.4f}.",
        "The row `rmcvi` is a state-space model learned in closed form and draws no particles; "
        "`rmcvi_particles` is RMCVI itself with a linear-Gaussian model of 8 states, and OVSMC has "
        "the same model, inputs and step sizes.",
    ]
    return Conclusion(numbers, tables(by, failed), drawings(found, METHODS), remarks)


EXPERIMENT = Experiment(
    "air-quality", "Air quality, one year of hours (Figures 4, 5)", cells, conclude
)

"""Figures 4 and 5: the UCI year from a cold start, and sensors that fail in it."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import optax

import rmcvi
from rmcvi.app import report
from rmcvi.app.sources import air_quality, calendar
from rmcvi.baselines import (
    OVSMC,
    OnlineLSTM,
    Persistence,
    ProposalNetwork,
    RecursiveLeastSquares,
)
from rmcvi.lab.reproduce.air_failures import failures, summary
from rmcvi.lab.reproduce.air_report import drawings, tables
from rmcvi.lab.reproduce.experiment import Arrays, Cell, Conclusion, Experiment, Settings, Workspace
from rmcvi.lab.reproduce.linear import take_turns
from rmcvi.learners.seasonal import SeasonalLearner

CHOSEN = [0, 2, 3, 4]
"""CO, C6H6, NOx and NO2 among the eight columns."""
METHODS = ("seasonal", "rls", "lstm", "ovsmc", "rmcvi", "persistence")
"""Keys of the results: `seasonal` is `SeasonalLearner`, `rmcvi` is RMCVI with its particles."""

OURS = ("seasonal", "rmcvi")


class Year:
    """The stream in its own and in full-sample standard units, with daily terms."""

    def __init__(self, rows: int):
        year = air_quality()
        self.y = year.y[:rows]
        self.scale = np.nanstd(year.y, 0)
        self.z = ((year.y - np.nanmean(year.y, 0)) / self.scale)[:rows]
        self.u = calendar(year.time, ["hour"], harmonics=3)[:rows]


def learner(name: str, dim: int = 8) -> tuple[Any, bool]:
    """A method for `dim` columns, and whether it takes them raw and without daily terms."""
    if name == "seasonal":
        return SeasonalLearner(dim), True
    if name == "persistence":
        return Persistence(dim, 6), False
    if name == "rls":
        return RecursiveLeastSquares(dim, 6, lags=(1, 2, 3, 23, 24, 25)), False
    if name == "lstm":
        return OnlineLSTM(dim, 6), False
    particles = rmcvi.default_learner(dim, 6)
    if name == "rmcvi":
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


def follow(name: str, year: Any, seed: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Predictions of one pass, the rows that were predicted, and their units."""
    method, raw = learner(name, year.y.shape[1])
    rows, inputs = (year.y, None) if raw else (year.z, year.u)
    state = method.init(jax.random.key(seed))
    _, predictions = rmcvi.scan(method, state, rows, inputs, collect=collect)
    return predictions, rows, year.scale if raw else np.ones_like(year.scale)


def cells(settings: Settings) -> dict[str, Cell]:
    """One pass per method, then failures, then what a row costs."""

    def score(name: str) -> Cell:
        def run(workspace: Workspace) -> Arrays:
            predictions, rows, unit = follow(name, Year(settings["rows"]), settings["seed"])
            found = scores(predictions, rows, unit, CHOSEN)
            workspace.say(f"{name}: {found['rmse']:.4f}, log score {found['log_score']:.3f}")
            return found

        return run

    def fail(workspace: Workspace) -> Arrays:
        return failures(
            Year(settings["rows"]), learner("seasonal")[0], learner("lstm")[0], settings
        )

    def cost(workspace: Workspace) -> Arrays:
        year, rows = Year(settings["rows"]), settings["timed_rows"]
        programs = {name: _pass(name, year, rows) for name in METHODS}
        for program in programs.values():
            jax.block_until_ready(program())
        taken = take_turns(programs, rows, 5)
        return {name: 1e6 * float(np.median(seconds)) for name, seconds in taken.items()}

    return {name: score(name) for name in METHODS} | {"failures": fail, "cost": cost}


def _pass(name: str, year: Year, count: int) -> Any:
    """A program: one pass over the first rows."""
    method, raw = learner(name)
    rows, inputs = (year.y[:count], None) if raw else (year.z[:count], year.u[:count])
    state = method.init(jax.random.key(0))
    return lambda: rmcvi.scan(method, state, rows, inputs, collect=collect)[1]


def scores(
    predictions: Any, rows: np.ndarray, unit: np.ndarray, chosen: list[int]
) -> dict[str, Any]:
    """Errors of the chosen columns, log score per observed value, coverage; in standard units.

    The first row is not counted: nobody has seen anything before it.
    """
    seen = ~np.isnan(rows)
    squares = (((np.asarray(predictions.mean) - rows) / unit) ** 2)[:, chosen]
    squares[0] = np.nan
    score = np.asarray(predictions.log_score) + np.where(seen, np.log(unit)[None], 0.0).sum(1)
    inside = (rows >= np.asarray(predictions.low)) & (rows <= np.asarray(predictions.high))
    total, count = np.nancumsum(np.nansum(squares, 1)), np.cumsum(~np.isnan(squares), 0).sum(1)
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
    failed, cost = found["failures"], {name: float(found["cost"][name]) for name in METHODS}
    by["microseconds"] = cost
    numbers: dict[str, Any] = by | {
        "cost_over_rls": cost["seasonal"] / cost["rls"],
        "cost_over_ovsmc": cost["seasonal"] / cost["ovsmc"],
        "failures": {name: np.asarray(value) for name, value in failed.items()},
        **summary(failed),
    }
    best = min((n for n in METHODS if n not in OURS), key=lambda n: by["rmse"][n])
    label = report.LOOKS[best].label
    remarks = [
        f"One-step RMSE over CO, C6H6, NOx and NO2: SeasonalLearner, the default of `rmcvi learn`, "
        f"{by['rmse']['seasonal']:.4f}; best rival {label} {by['rmse'][best]:.4f}; persistence "
        f"{by['rmse']['persistence']:.4f}; RMCVI with its particles "
        f"{by['rmse']['rmcvi']:.4f}.",
        "SeasonalLearner is a state-space model learned in closed form and draws no particles; "
        "RMCVI has a linear-Gaussian model of 8 states, and OVSMC the same model, inputs and step "
        "sizes.",
        f"A row costs SeasonalLearner {cost['seasonal'] / cost['rls']:.1f} times as much as least "
        f"squares (target: at most 20) and {cost['seasonal'] / cost['ovsmc']:.2f} times as much as "
        "OVSMC (target: less).",
    ]
    return Conclusion(numbers, tables(by, failed), drawings(found, METHODS), remarks)


EXPERIMENT = Experiment(
    "air-quality", "Air quality, one year of hours (Figures 4, 5)", cells, conclude
)

"""Models that statisticians bring: every recursion on every model, over the particle floor.

Filtering and smoothing with the true parameters, then learning from a start that is off in every
parameter, on streams of the model's own. What diverges keeps its row.
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import rmcvi
from rmcvi.app import report
from rmcvi.baselines import ExtendedKalmanRecursion, particle_filter, particle_smoother
from rmcvi.lab.reproduce.experiment import (
    Arrays,
    Cell,
    Conclusion,
    Experiment,
    Settings,
    Workspace,
)
from rmcvi.learners import trying
from rmcvi.models import StochasticVolatility, zoo

MODELS = {
    "tracking": zoo.Tracking,
    "bearings": lambda: zoo.Tracking(range_noise=None),
    "lorenz96": zoo.Lorenz96,
    "growth": zoo.Growth,
    "spikes": zoo.Spikes,
    "volatility": lambda: StochasticVolatility(level=-0.71, persistence=0.98, noise=0.15),
    "leverage": zoo.Leverage,
    "pendulum": zoo.Pendulum,
    "pendulum-angle": lambda: zoo.Pendulum(wrapped=True),
    "epidemic": zoo.Epidemic,
}
OFF = 0.3
"""How far each learned leaf starts from the truth, in the units in which it is learned."""
PATHS = 50
"""Trajectories behind a smoothed mean: they add one per cent to all errors, the floor's too."""
FLOOR, LEARNED = "floor", "learned"
KALMAN = "extended Kalman filter"


def stream_of(model: Any, rows: int, seed: int) -> tuple[jax.Array, jax.Array, rmcvi.Inputs]:
    """States, observations and inputs; the input of the growth model is time."""
    u = jnp.arange(float(rows))[:, None] if model.dim_input else None
    inputs = rmcvi.Inputs.sequence(rows, u, None, model.dim_input)
    states, ys = rmcvi.simulate(model, jax.random.key(1000 + seed), rows, inputs.u)
    return states, ys, inputs


def learned_of(model: Any) -> Any:
    """All but matrices, which no stream can tell from turned ones."""
    return jax.tree.map(lambda v: eqx.is_inexact_array(v) and v.ndim < 2, model)


def distance(model: Any, truth: Any, picked: Any) -> float:
    """Root mean square over the learned numbers, in units of the start's."""
    pairs = zip(*(jax.tree.leaves(eqx.filter(m, picked)) for m in (model, truth)), strict=True)
    gaps = np.concatenate([np.ravel(np.asarray(a - b)) for a, b in pairs])
    return float(np.sqrt(np.mean(gaps**2)) / OFF)


def floor_cell(name: str, settings: Settings) -> Cell:
    """Filtering and smoothing errors of many particles."""

    def cell(workspace: Workspace) -> Arrays:
        model, found = MODELS[name](), []
        for seed in range(settings["seeds"]):
            states, ys, inputs = stream_of(model, settings["rows"], seed)
            key, count = jax.random.key(seed), settings["floor_particles"]
            law = particle_filter(model, ys, inputs, key=key, num_particles=count)
            smoothed = smoothed_by_particles(model, ys, inputs, settings["smoother_particles"])
            errors = [trying.error(v, states) for v in (law.mean, smoothed)]
            found.append([*errors, trying.covered(law.mean, law.covariance, states)])
            workspace.say(f"{name}, floor, stream {seed}: {found[-1]}")
        rmse, smoothing, coverage = np.array(found).T
        return {"rmse": rmse, "smoothing": smoothing, "coverage": coverage}

    return cell


def smoothed_by_particles(model: Any, ys: jax.Array, inputs: rmcvi.Inputs, num: int) -> jax.Array:
    """Means given the whole stream, by backward sampling."""
    paths = particle_smoother(
        model, ys, inputs, key=jax.random.key(77), num_particles=num, num_trajectories=PATHS
    )
    return jnp.mean(paths, 0)


def filter_cell(name: str, index: int, settings: Settings) -> Cell:
    """One candidate with the true parameters, on all streams."""

    def cell(workspace: Workspace) -> Arrays:
        model, found = MODELS[name](), []
        candidate = trying.candidates(model, settings["particles"])[index]
        learner = trying.plain(model, candidate)
        for seed in range(settings["seeds"]):
            states, ys, inputs = stream = stream_of(model, settings["rows"], seed)
            key = jax.random.key(seed)
            tried = trying.attempt(candidate, learner, stream, key, timed=seed == 0)
            smoothed = jnp.full_like(states, jnp.nan)
            if index in settings["thorough"]:
                start = learner.init(key)
                smoothed = learner.smooth_sequence(start, ys, inputs.u, num=PATHS, key=key).mean
            found.append(
                {
                    "rmse": tried.rmse,
                    "smoothing": trying.error(smoothed, states),
                    "coverage": tried.coverage,
                    "log_score": tried.log_score,
                    "microseconds": tried.microseconds,
                }
            )
            workspace.say(f"{name}, {candidate.name}, stream {seed}: {found[-1]}")
        return {key: np.array([row[key] for row in found]) for key in found[0]}

    return cell


def learn_cell(name: str, index: int, settings: Settings) -> Cell:
    """The same from a start that is off: what is left of that, and how often something went back.

    A mixture, milliseconds a row, learns for `dear_rows` only, and not every model.
    """

    def cell(workspace: Workspace) -> Arrays:
        truth = MODELS[name]()
        candidate = trying.candidates(truth, settings["particles"])[index]
        picked = learned_of(truth)
        start = jax.tree.map(lambda v, p: v + OFF if p else v, truth, picked)
        learner = rmcvi.OnlineEstimator(
            start,
            candidate.family,
            candidate.recursion if candidate.learns else ExtendedKalmanRecursion(learn=True),
            trainable=rmcvi.Trainable(model=picked),
            drift=False,  # these two only watch, and are half of the program
            sensors=False,
        )
        rows, found = settings["learn_rows"], []
        if index not in settings["cheap"]:
            rows = settings["dear_rows"]
        for seed in range(settings["learn_seeds"]):
            _, ys, inputs = stream_of(truth, rows, seed)
            state = learner.init(jax.random.key(seed))
            state, score = rmcvi.scan(learner, state, ys, inputs.u, collect=_score)
            found.append(
                {
                    "parameter_error": distance(learner.model_at(state), truth, picked),
                    "learned_log_score": float(jnp.nanmean(score[rows // 2 :])),
                    "returns": 0.0 if state.trial is None else float(state.trial.returns),
                }
            )
            workspace.say(f"{name}, {candidate.name}, {rows} rows of {seed}: {found[-1]}")
        kept = {key: np.array([row[key] for row in found]) for key in found[0]}
        return kept | {"rows": np.full(len(found), rows)}

    return cell


def _score(learner: Any, state: Any, info: Any) -> jax.Array:
    return info.prediction.log_score


def cells(settings: Settings) -> dict[str, Cell]:
    """Floors first, then filters; what is `thorough` is smoothed and, in the end, learns."""
    names, thorough = settings["models"], settings["thorough"]
    made = {f"{name}_{FLOOR}": floor_cell(name, settings) for name in names}
    for index in (*thorough, *(i for i in settings["methods"] if i not in thorough)):
        for name in names:
            made[f"{name}_{index}"] = filter_cell(name, index, settings)
    for index in thorough:
        for name in names if index in settings["cheap"] else settings["dear_models"]:
            made[f"{name}_{index}_{LEARNED}"] = learn_cell(name, index, settings)
    return made


COLUMNS = {
    "over_floor": "error / floor",
    "over_kalman": "/ Kalman's",
    "smoothing_over_floor": "smoothing / floor",
    "coverage": "90 % bands",
    "log_score": "score",
    "parameter_error": "parameter error left",
    "rows": "rows learned",
    "learned_log_score": "score, learned",
    "returns": "returns",
    "time_ratio": "time / Kalman's",
}


def conclude(settings: Settings, found: Mapping[str, Arrays]) -> Conclusion:
    """A table per model, and which candidate the rule takes."""
    numbers: dict[str, Any] = {}
    tables, remarks = [], []
    for name in settings["models"]:
        offered = trying.candidates(MODELS[name](), settings["particles"])
        floor = found[f"{name}_{FLOOR}"]
        kalman = found[f"{name}_{[candidate.name for candidate in offered].index(KALMAN)}"]
        numbers[name] = {
            "floor": mean_and_error(floor["rmse"]),
            "floor_coverage": mean_and_error(floor["coverage"]),
        }
        tried, rows = [], []
        for index in settings["methods"]:
            candidate = offered[index]
            own, learned = found[f"{name}_{index}"], found.get(f"{name}_{index}_{LEARNED}", {})
            row = summary(own, learned, floor, kalman)
            numbers[name][candidate.name] = row
            rmse, coverage, score = (
                float(np.mean(own[k])) for k in ("rmse", "coverage", "log_score")
            )
            tried.append(trying.Outcome(candidate, rmse, coverage, score, row["microseconds"]))
            rows.append([candidate.name, *(in_words(row.get(k)) for k in COLUMNS)])
        goal = (float(np.mean(floor[key])) for key in ("rmse", "coverage"))
        chosen, why = trying.choose(tried, *goal)
        numbers[name]["chosen"] = chosen.name
        remarks.append(f"{name}: {chosen.name}; {why}")
        tables.append(report.Table(["method", *COLUMNS.values()], rows, name))
    return Conclusion(numbers, tables, [], remarks)


def summary(own: Arrays, learned: Arrays, floor: Arrays, kalman: Arrays) -> dict[str, Any]:
    """Means over streams with their standard errors; ratios are taken stream by stream."""
    rmse = np.asarray(own["rmse"])
    spent = [float(np.nanmedian(v["microseconds"])) for v in (own, kalman)]
    row = {
        "over_floor": mean_and_error(rmse / floor["rmse"]),
        "over_kalman": mean_and_error(rmse / kalman["rmse"]),
        **{key: mean_and_error(own[key]) for key in ("coverage", "log_score")},
        "microseconds": spent[0],
        "time_ratio": spent[0] / spent[1],
    }
    if np.any(np.isfinite(own["smoothing"])):
        ratio = own["smoothing"] / np.asarray(floor["smoothing"])
        row["smoothing_over_floor"] = mean_and_error(ratio)
    if not learned:
        return row
    return row | {
        **{key: mean_and_error(learned[key]) for key in ("parameter_error", "learned_log_score")},
        "rows": int(np.max(learned["rows"])),
        "returns": float(np.mean(learned["returns"])),
    }


def mean_and_error(values: Any) -> list[float | None]:
    """Over streams; one stream has no standard error."""
    values = np.asarray(values, float)
    error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else None
    return [float(values.mean()), error if error is None else float(error)]


def in_words(value: Any) -> str:
    """A number, or a mean with its standard error in brackets; nothing if it was not asked for."""
    if value is None:
        return ""
    mean, error = value if isinstance(value, list) else (value, None)
    return f"{mean:.3g}" if error is None else f"{mean:.3f} ({error:.3f})"


EXPERIMENT = Experiment("zoo", "Models that statisticians bring", cells, conclude)

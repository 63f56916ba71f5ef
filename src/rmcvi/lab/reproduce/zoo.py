"""Models that statisticians bring: every recursion on every model, over the particle floor.

Filtering with the true parameters, then learning from a start that is off in every parameter, on
streams of the model's own. What diverges keeps its row.
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import rmcvi
from rmcvi.app import report
from rmcvi.baselines import ExtendedKalmanRecursion, particle_filter
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
FLOOR = "floor"


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


def learning(
    model: Any, candidate: trying.Candidate, settings: Settings, seed: int
) -> dict[str, float]:
    """Share of the start's error that is left, times that something went back, share of alarms."""
    picked = learned_of(model)
    start = jax.tree.map(lambda v, p: v + OFF if p else v, model, picked)
    recursion = candidate.recursion
    if not candidate.learns:
        recursion = ExtendedKalmanRecursion(learn=True)
    learner = rmcvi.OnlineEstimator(
        start,
        candidate.family,
        recursion,
        trainable=rmcvi.Trainable(model=picked),
        drift=False,  # these two only watch, and are half of the program
        sensors=False,
    )
    _, ys, inputs = stream_of(model, settings["learn_rows"], seed)

    def told(learner, state, info):
        return info.prediction.log_score

    state, score = rmcvi.scan(
        learner, learner.init(jax.random.key(seed)), ys, inputs.u, collect=told
    )
    late = len(ys) // 2
    returns = 0 if state.trial is None else int(state.trial.returns)
    return {
        "parameter_error": distance(learner.model_at(state), model, picked),
        "learned_log_score": float(jnp.nanmean(score[late:])),
        "returns": float(returns),
    }


def cells(settings: Settings) -> dict[str, Cell]:
    """One per model and candidate, and one floor per model; all seeds together."""

    def run(name: str, index: int) -> Cell:
        def cell(workspace: Workspace) -> Arrays:
            found = []
            for seed in range(settings["seeds"]):
                model = MODELS[name]()
                candidate = trying.candidates(model, settings["particles"])[index]
                stream = stream_of(model, settings["rows"], seed)
                tried = trying.attempt(model, candidate, stream, jax.random.key(seed))
                learned = learning(model, candidate, settings, seed)
                found.append(_row(tried) | learned)
                workspace.say(f"{name}, {candidate.name}, stream {seed}: {found[-1]}")
            return {key: np.array([row[key] for row in found]) for key in found[0]}

        return cell

    def floor(name: str) -> Cell:
        def cell(workspace: Workspace) -> Arrays:
            found = []
            for seed in range(settings["seeds"]):
                model = MODELS[name]()
                states, ys, inputs = stream_of(model, settings["rows"], seed)
                key, count = jax.random.key(seed), settings["floor_particles"]
                law = particle_filter(model, ys, inputs, key=key, num_particles=count)
                found.append(trying.error(law.mean, states))
            return {"rmse": np.array(found)}

        return cell

    made: dict[str, Cell] = {f"{name}_{FLOOR}": floor(name) for name in settings["models"]}
    for name in settings["models"]:
        count = len(trying.candidates(MODELS[name](), settings["particles"]))
        made |= {f"{name}_{index}": run(name, index) for index in range(count)}
    return made


def _row(tried: trying.Outcome) -> dict[str, float]:
    return {
        "rmse": tried.rmse,
        "coverage": tried.coverage,
        "log_score": tried.log_score,
        "microseconds": tried.microseconds,
    }


def conclude(settings: Settings, found: Mapping[str, Arrays]) -> Conclusion:
    """A table per model, and which candidate the rule takes."""
    numbers: dict[str, Any] = {}
    tables, remarks = [], []
    for name in settings["models"]:
        floor = np.asarray(found[f"{name}_{FLOOR}"]["rmse"])
        offered = trying.candidates(MODELS[name](), settings["particles"])
        rows, tried, numbers[name] = [], [], {"floor": float(floor.mean())}
        for index, candidate in enumerate(offered):
            cell = {k: np.asarray(v) for k, v in found[f"{name}_{index}"].items()}
            mean = {k: float(v.mean()) for k, v in cell.items()}
            mean["over_floor"] = float(np.mean(cell["rmse"] / floor))
            numbers[name][candidate.name] = mean
            first = (mean[k] for k in ("rmse", "coverage", "log_score", "microseconds"))
            tried.append(trying.Outcome(candidate, *first))
            columns = (
                "over_floor",
                "coverage",
                "log_score",
                "parameter_error",
                "learned_log_score",
            )
            rows.append([candidate.name, *(mean[k] for k in columns), mean["returns"]])
        chosen, why = trying.choose(tried, float(floor.mean()))
        numbers[name]["chosen"] = chosen.name
        remarks.append(f"{name}: {chosen.name}; {why}")
        head = ["method", "error / floor", "90 % bands", "score", "parameter error left"]
        tables.append(report.Table([*head, "score, learned", "returns"], rows, name))
    return Conclusion(numbers, tables, [], remarks)


EXPERIMENT = Experiment("zoo", "Models that statisticians bring", cells, conclude)

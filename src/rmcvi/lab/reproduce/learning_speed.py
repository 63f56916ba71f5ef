"""How many observations until the parameters are known, and what maximum likelihood could know.

Streams of the chaotic network (a weight matrix each) and of stochastic volatility, learned from a
wrong start. The floor is the sampling error of maximum likelihood: the root of the inverse of the
observed information, that is of the mean square of the score's increments, over the observations.
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

import rmcvi
from rmcvi.app import report
from rmcvi.baselines import AllPairs, ParticleRecursion
from rmcvi.lab.reproduce.chaotic import mean_and_error, network
from rmcvi.lab.reproduce.experiment import (
    Arrays,
    Cell,
    Conclusion,
    Drawing,
    Experiment,
    Settings,
    Workspace,
)

PARAMETERS = {"chaotic": ("rho", "gamma"), "volatility": ("level", "persistence", "noise")}
TOLERANCES = (0.05, 0.02, 0.01)
MARKS = 200
"""Points of a curve that are kept."""
ADAM, STILL = optax.adam(1e-3), optax.sgd(0.0)
"""Made once: a compiled program belongs to its optimiser."""
NAMES = {
    "fisher": "NaturalRMCVI, Fisher steps",
    "adam": "NaturalRMCVI, Adam 1e-3",
    "em": "NaturalRMCVI, online EM",
    "particle": "particle maximum likelihood, Fisher steps",
}
LOOKS = {
    "fisher": {"color": "#0072B2", "linestyle": "-"},
    "adam": {"color": "#D55E00", "linestyle": "--"},
    "em": {"color": "#009E73", "linestyle": "-."},
    "particle": {"color": "#CC79A7", "linestyle": ":"},
}


def models_of(name: str, seed: int) -> tuple[Any, Any, Any]:
    """Truth, start, and the filter of what is learned."""
    if name == "chaotic":
        truth, start = network(seed), network(seed, rho=0.05, gamma=1.5)
        return truth, start, rmcvi.only(start, lambda m: (m.log_rho, m.log_gamma))
    truth = rmcvi.models.StochasticVolatility(level=-0.71, persistence=0.98, noise=0.15)
    start = rmcvi.models.StochasticVolatility(level=0.0, persistence=0.9, noise=0.3)
    return truth, start, rmcvi.only(start, lambda m: (m.level, m.raw_persistence, m.raw_noise))


def parameters_of(model: Any) -> jax.Array:
    """Those that are learned, in the units in which people state them."""
    told = model.parameters()
    names = PARAMETERS["chaotic" if "rho" in told else "volatility"]
    return jnp.stack([told[name].ravel()[0] for name in names])


def learner_of(entry: Mapping[str, Any], start: Any, picked: Any) -> rmcvi.OnlineEstimator:
    """Everything is averaged with the same weights."""
    recursion: Any = rmcvi.NaturalRMCVI(entry["particles"])
    family: Any = rmcvi.families.LinearGaussianFamily(diagonal=True)
    if entry["kind"] == "particle":
        count = entry["particles"]
        recursion = ParticleRecursion(count, gradient=True, proposal="guided", backward=AllPairs())
        family = None
    return rmcvi.OnlineEstimator(
        start,
        family,
        recursion,
        ADAM if entry["kind"] in ("adam", "em") else None,
        STILL,
        trainable=rmcvi.Trainable(model=picked, family=False),
        em=rmcvi.optim.OnlineEM() if entry["kind"] == "em" else None,
        average=1.0,
        draws=0,
        health=False,
    )


def _averaged(learner: Any, state: Any, info: Any) -> Any:
    return parameters_of(learner.model_at(state, averaged=True))


def cells(settings: Settings) -> dict[str, Cell]:
    """One run per model, method and stream."""

    def run(name: str, entry: Mapping[str, Any], seed: int) -> Cell:
        def cell(workspace: Workspace) -> Arrays:
            truth, start, picked = models_of(name, seed)
            length, block = entry["length"], settings["block"]
            _, ys = rmcvi.simulate(truth, jax.random.key(1000 + seed), length)
            learner = learner_of(entry, start, picked)
            state, curve = learner.init(jax.random.key(seed)), []
            for begin in range(0, length, block):
                state, told = rmcvi.scan(
                    learner, state, ys[begin : begin + block], collect=_averaged
                )
                curve.append(np.asarray(told))
            errors = np.concatenate(curve) / np.asarray(parameters_of(truth)) - 1.0
            at = np.unique(np.geomspace(10, length, MARKS).astype(int)) - 1
            said = ", ".join(f"{v:+.2%}" for v in errors[-1])
            workspace.say(f"{name} {seed}, {entry['kind']}, {length} observations: {said}")
            found = {"marks": at + 1, "curve": errors[at], "rows": _rows_until(errors)}
            if entry["kind"] != "fisher":
                return found
            return found | {"deviation": _deviation(learner, state, truth)}

        return cell

    return {
        f"{name}-{index}-{seed}": run(name, entry, seed)
        for name, methods in settings["methods"].items()
        for index, entry in enumerate(methods)
        for seed in range(entry.get("first", 0), entry.get("first", 0) + entry["seeds"])
    }


def _rows_until(errors: np.ndarray) -> np.ndarray:
    """Observations after which no parameter leaves each tolerance again (infinite: it has not)."""
    found = []
    for tolerance in TOLERANCES:
        outside = np.flatnonzero(np.any(np.abs(errors) > tolerance, 1))
        last = outside[-1] + 1 if outside.size else 0
        found.append(np.inf if last == len(errors) else last + 1.0)
    return np.array(found)


def _deviation(learner: Any, state: Any, truth: Any) -> np.ndarray:
    """Relative standard error of maximum likelihood from one observation, by the delta method."""
    information = np.asarray(state.theta_ascent.memory.blocks[0].information[0], float)
    theta, rest = state.theta, learner.model
    flat, unravel = ravel_pytree(theta)

    def told(v: Any) -> Any:
        return parameters_of(eqx.combine(unravel(v), rest))

    slopes = np.asarray(jax.jacobian(told)(flat), float)
    spread = slopes @ np.linalg.inv(information) @ slopes.T
    return np.sqrt(np.diagonal(spread)) / np.abs(np.asarray(parameters_of(truth)))


def conclude(settings: Settings, found: Mapping[str, Arrays]) -> Conclusion:
    """Observations needed, final errors in units of the floor, and the bias over all streams."""
    numbers: dict[str, Any] = {"tolerances": list(TOLERANCES)}
    rows, remarks = [], []
    for name, methods in settings["methods"].items():
        numbers[name] = {}
        for index, entry in enumerate(methods):
            prefix = f"{name}-{index}-"
            cells = [cell for key, cell in found.items() if key.startswith(prefix)]
            final = np.stack([np.asarray(cell["curve"])[-1] for cell in cells])
            floor = _floor(name, settings, found) / entry["length"] ** 0.5
            ratio = final / floor
            until = np.stack([np.asarray(cell["rows"]) for cell in cells])
            row = {
                "observations": entry["length"],
                "streams": len(cells),
                "particles": entry["particles"],
                "rows_until": [float(v) if np.isfinite(v) else None for v in np.median(until, 0)],
                "bias_percent": {
                    key: mean_and_error(100 * v)
                    for key, v in zip(PARAMETERS[name], final.T, strict=True)
                },
                "floor_percent": dict(zip(PARAMETERS[name], 100 * floor, strict=True)),
                "error_over_floor": float(np.sqrt(np.mean(ratio**2))),
                "largest_over_floor": float(np.abs(ratio).max()),
            }
            numbers[name][entry.get("name", entry["kind"])] = row
            counts = [f"{v:,.0f}" if v is not None else "-" for v in row["rows_until"]]
            told = [row[k] for k in ("error_over_floor", "largest_over_floor")]
            label = f"{name}: {NAMES[entry['kind']]}, N = {entry['particles']}"
            rows.append([label, entry["length"], len(cells), *counts, *told])
            bias = [f"{k} {m:+.2f} ({s:.2f}) %" for k, (m, s) in row["bias_percent"].items()]
            remarks.append(
                f"{label}, {len(cells)} streams of {entry['length']}: errors "
                f"{row['error_over_floor']:.2f} times the sampling error of maximum likelihood "
                f"(largest {row['largest_over_floor']:.2f}), bias {', '.join(bias)}."
            )
    head = ["model and method", "observations", "streams", "until 5 %", "2 %", "1 %"]
    table = report.Table(
        [*head, "error / floor", "largest"],
        rows,
        "Observations after which all parameters stay within a tolerance (median over streams); "
        "root mean square and largest final error in units of maximum likelihood's sampling error.",
    )
    return Conclusion(numbers, [table], [_curves(settings, found)], remarks)


def _floor(name: str, settings: Settings, found: Mapping[str, Arrays]) -> np.ndarray:
    """Median over streams of the deviation that one observation leaves."""
    kept = [
        np.asarray(cell["deviation"])
        for key, cell in found.items()
        if key.startswith(f"{name}-") and "deviation" in cell
    ]
    return np.median(kept, 0)


def _curves(settings: Settings, found: Mapping[str, Arrays]) -> Drawing:
    made, axes = report.figure(1, len(settings["methods"]), width=9.0, height=4.0)
    for axis, (name, methods) in zip(axes[0], settings["methods"].items(), strict=True):
        for index, entry in enumerate(methods):
            for key, cell in found.items():
                if not key.startswith(f"{name}-{index}-"):
                    continue
                size = 100 * np.sqrt(np.mean(np.asarray(cell["curve"]) ** 2, 1))
                first = key.endswith("-0")
                label = NAMES[entry["kind"]] if first else None
                axis.plot(cell["marks"], size, linewidth=0.8, label=label, **LOOKS[entry["kind"]])
        t = np.geomspace(100, max(entry["length"] for entry in methods), 50)
        floor = 100 * np.sqrt(np.mean(_floor(name, settings, found) ** 2) / t)
        axis.plot(t, floor, color="black", linewidth=1.5, label="maximum likelihood's own error")
        axis.set(xscale="log", yscale="log", title=name, xlabel="observations", ylabel="error (%)")
    report.legend(made, axes[0, 0], columns=3)
    caption = "Root mean square over the parameters of their relative errors; one line per stream."
    return Drawing("speed", made, "Errors of the parameters against observations", caption)


EXPERIMENT = Experiment(
    "learning-speed",
    "Learning as fast as maximum likelihood",
    cells,
    conclude,
)

"""Figure 3 and its table: one long stream of the chaotic network, states and parameters learned."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import rmcvi
from rmcvi.app import report
from rmcvi.lab.reproduce.chaotic import (
    error,
    filter_and_smooth,
    floors,
    learn_in_blocks,
    mean_and_error,
    network,
    sequence,
)
from rmcvi.lab.reproduce.experiment import (
    Arrays,
    Cell,
    Conclusion,
    Drawing,
    Experiment,
    Settings,
    Workspace,
)

LAG = 8
"""How far the particle smoother looks ahead; more changes nothing here."""
SEEN = 500
"""Length of the stretch of a held-out sequence that is drawn."""
NAMES = {"natural": "RMCVI, natural steps", "amortised": "RMCVI, learned family"}


def learner_of(entry: Mapping[str, Any], weights: int) -> rmcvi.OnlineEstimator:
    """A learner that starts from (rho, gamma) = (.05, 1.5)."""
    start = network(weights, rho=0.05, gamma=1.5)
    if entry["kind"] == "natural":
        family = rmcvi.families.LinearGaussianFamily(diagonal=True)
        recursion = rmcvi.NaturalRMCVI(entry["particles"])
    else:
        family = rmcvi.families.InnovationFamily(start, hidden=64, key=jax.random.key(1))
        recursion = rmcvi.RMCVI(entry["particles"], window=12, bptt=4)
    length = entry["length"]
    return rmcvi.OnlineEstimator(
        start,
        family,
        recursion,
        optax.adam(optax.polynomial_schedule(1e-3, 1e-4, 1, length)),
        optax.adam(optax.polynomial_schedule(1e-3, 5e-5, 1, length)),
        trainable=rmcvi.Trainable(model=rmcvi.only(start, lambda m: (m.log_rho, m.log_gamma))),
        average_from=length // 2,
        draws=0,
    )


def cells(settings: Settings) -> dict[str, Cell]:
    """The floors, and one long run per method."""
    truth = network(settings["weights"])

    def held(i: int) -> tuple[Any, Any]:
        return sequence(truth, 500 + i, settings["held_length"])

    def floor(workspace: Workspace) -> Arrays:
        count, rows = settings["floor_particles"], []
        for i in range(settings["held_out"]):
            xs, ys = held(i)
            rows.append([*floors(truth, xs, ys, count, LAG), error(ys, xs)])
        return {"errors": np.array(rows)}

    def run(entry: Mapping[str, Any]) -> Cell:
        return lambda workspace: _learn(entry, settings, truth, held, workspace)

    return {"floor": floor} | {m["kind"]: run(m) for m in settings["methods"]}


def _learn(
    entry: Mapping[str, Any], settings: Settings, truth: Any, held: Any, workspace: Workspace
) -> Arrays:
    blocks, length = settings["blocks"], entry["length"]
    learner = learner_of(entry, settings["weights"])
    size = length // blocks
    xs, ys = sequence(truth, 0, length)

    def observe(state: Any, collected: Any, block: int) -> dict[str, float]:
        mean, increment, ess = collected
        now = learner.model_at(state).parameters()
        rows = slice(block * size, (block + 1) * size)
        return {
            "rho": float(now["rho"]),
            "gamma": float(now["gamma"]),
            "elbo": float(jnp.mean(increment)),
            "ess": float(jnp.mean(ess)),
            "filter": error(mean, xs[rows]),
            "raw": error(ys[rows], xs[rows]),
        }

    def collect(learner: Any, state: Any, info: Any) -> Any:
        return learner.filter(state).mean, info.increment, info.ess

    state, history = learn_in_blocks(
        learner,
        lambda b: ys[b * size : (b + 1) * size],
        blocks,
        observe,
        collect,
        workspace.scratch,
        workspace.say,
    )
    last = slice((blocks - 1) * size, (blocks - 1) * size + min(size, settings["held_length"]))
    training = floors(truth, xs[last], ys[last], settings["floor_particles"], LAG)
    model = learner.model_at(state, averaged=True)
    family, averaged = learner.family_at(state, averaged=True), model.parameters()
    errors, shown = [], {}
    for i in range(settings["held_out"]):
        xe, ye = held(i)
        now, back = filter_and_smooth(model, family, learner.recursion, ye)
        errors.append([error(now, xe), error(back, xe)])
        if i == 0:
            shown = {"x": xe[:SEEN, 0], "y": ye[:SEEN, 0], "smoothed": back[:SEEN, 0]}
    learned = {"rho": averaged["rho"], "gamma": averaged["gamma"], "errors": np.array(errors)}
    blocked = {f"history_{name}": values for name, values in history.items()}
    found = learned | blocked | {"training_floor": np.array(training)} | shown
    return {name: np.asarray(value) for name, value in found.items()}


def conclude(settings: Settings, found: Mapping[str, Arrays]) -> Conclusion:
    """Errors above the floor, parameters, and three figures."""
    floor = np.asarray(found["floor"]["errors"])
    numbers: dict[str, Any] = {"methods": {}, "floor": floor.mean(0), "raw": floor[:, 2].mean()}
    remarks, rows = [], []
    for entry in settings["methods"]:
        cell, name = found[entry["kind"]], NAMES[entry["kind"]]
        errors = np.asarray(cell["errors"])
        over = errors / floor[:, :2] - 1.0
        off = max(abs(float(cell["rho"]) / 0.025 - 1.0), abs(float(cell["gamma"]) / 2.5 - 1.0))
        last, training = np.asarray(cell["history_filter"])[-1], np.asarray(cell["training_floor"])
        row = {
            "filter_over_floor": mean_and_error(over[:, 0])[0],
            "smooth_over_floor": mean_and_error(over[:, 1])[0],
            "parameter_error": off,
            "rho": float(cell["rho"]),
            "gamma": float(cell["gamma"]),
            "filter": mean_and_error(errors[:, 0]),
            "smooth": mean_and_error(errors[:, 1]),
            "training_filter": float(last),
            "training_floor": {"filter": training[0], "smooth": training[1]},
            "observations": entry["length"],
            "particles": entry["particles"],
        }
        numbers["methods"][entry["kind"]] = row
        rows.append(
            [
                f"{name}, N = {entry['particles']}, {entry['length']} observations",
                float(last),
                row["filter"],
                row["smooth"],
                f"{row['rho']:.5f}",
                f"{row['gamma']:.4f}",
            ]
        )
        remarks.append(
            f"{name}: filtering {row['filter_over_floor']:+.2%} and smoothing "
            f"{row['smooth_over_floor']:+.2%} against a particle smoother that knows the "
            f"parameters; parameters within {off:.2%}."
        )
    first = numbers["methods"][settings["methods"][0]["kind"]]
    numbers |= {k: first[k] for k in ("filter_over_floor", "smooth_over_floor", "parameter_error")}
    training = np.asarray(found[settings["methods"][0]["kind"]]["training_floor"])
    rows.append(
        [
            "particle floor",
            training[0],
            mean_and_error(floor[:, 0]),
            mean_and_error(floor[:, 1]),
            "0.02500 (true)",
            "2.5000 (true)",
        ]
    )
    raw = float(np.asarray(found[settings["methods"][0]["kind"]]["history_raw"])[-1])
    rows.append(["raw observations", raw, mean_and_error(floor[:, 2]), None, None, None])
    head = ["method", "training stream", "held out: filter", "held out: smoother", "rho", "gamma"]
    table = report.Table(head, rows, "Root mean square errors; training: the last block.")
    return Conclusion(numbers, [table], _drawings(settings, found, floor), remarks)


def _drawings(settings: Settings, found: Mapping[str, Arrays], floor: np.ndarray) -> list[Drawing]:
    made, axes = report.figure(2, 2, width=9.0, height=5.6)
    truths = {"rho": 0.025, "gamma": 2.5}
    for entry in settings["methods"]:
        cell, kind = found[entry["kind"]], entry["kind"]
        x = np.linspace(0, entry["length"], settings["blocks"] + 1)[1:]
        drawn = report.look("rmcvi", label=NAMES[kind])
        if kind == "amortised":
            drawn |= {"linestyle": "--", "marker": "^", "color": report.look("seasonal")["color"]}
        for axis, name in zip(axes.flat[:2], truths, strict=True):
            axis.plot(x, 100 * (np.asarray(cell[f"history_{name}"]) / truths[name] - 1.0), **drawn)
            axis.set(title=f"Error of {name}", ylabel="%")
            axis.axhline(0.0, **report.look("truth", linewidth=0.8, label=None))
        axes[1, 0].plot(x, cell["history_elbo"], **drawn)
        axes[1, 1].plot(x, cell["history_filter"], **drawn)
    axes[1, 0].set(title="ELBO per observation, by block", ylabel="nats", xlabel="observations")
    axes[1, 1].set(title="Filtering error, by block", ylabel="RMSE", xlabel="observations")
    axes[1, 1].axhline(floor[:, 0].mean(), **report.look("floor"))
    axes[1, 1].legend()
    learning = Drawing(
        "learning", made, "Four curves over the stream", "Learning on one stream, block by block."
    )
    cell = found[settings["methods"][0]["kind"]]
    states, axis = report.figure(width=9.0, height=3.0)
    axis[0, 0].plot(cell["y"], **report.look("raw", linewidth=0.6, alpha=0.7))
    axis[0, 0].plot(cell["x"], **report.look("truth", linewidth=1.0))
    axis[0, 0].plot(cell["smoothed"], **report.look("rmcvi", marker="", label="smoothed mean"))
    low, high = np.percentile(cell["x"], [0, 100])
    axis[0, 0].set(xlabel="time step", ylabel="first coordinate", ylim=(low - 0.6, high + 0.6))
    axis[0, 0].legend(ncols=3)
    held = Drawing(
        "held-out", states, "A held-out sequence and its reconstruction", "A held-out sequence."
    )
    return [learning, held]


EXPERIMENT = Experiment(
    "chaotic-streaming", "Chaotic network, one long stream (Figure 3)", cells, conclude
)

"""Figure 1: model and family of a linear-Gaussian stream learned together, against Kalman."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import rmcvi
from rmcvi.app import report
from rmcvi.baselines import KalmanRecursion, kalman_filter, kalman_smoother
from rmcvi.lab.reproduce.chaotic import error, mean_and_error
from rmcvi.lab.reproduce.experiment import (
    Arrays,
    Cell,
    Conclusion,
    Drawing,
    Experiment,
    Settings,
    Workspace,
)
from rmcvi.lab.reproduce.linear import absolute_errors, own_family, pair
from rmcvi.recursion import ideal_elbo

HELD_OUT = 500
"""Length of the sequence that is never learned from."""


MODES = {
    "both": "model and posterior learned",
    "posterior": "posterior learned, model known",
    "likelihood": "exact recursive maximum likelihood",
}
LINES = {"both": "--", "posterior": "-", "likelihood": ":"}


def rate(count: Any) -> Any:
    """Of Adam, for the posterior."""
    return 3e-2 * 10.0 / (10.0 + count**0.6)


FAMILY_OPTIMISER = optax.adam(rate)
"""Made once: a compiled program belongs to its optimiser."""


def learner(settings: Settings, model: Any, start: Any, mode: str) -> rmcvi.OnlineEstimator:
    """Fisher steps for the model; the sampled entropy, since the family contains the posterior."""
    family, trainable = own_family(start, diagonal=True)
    recursion: Any = rmcvi.RMCVI(
        settings["particles"],
        window=settings["window"],
        bptt=settings["bptt"],
        entropy="sampled",
        backward=rmcvi.CalibratedWeights(),
    )
    if mode == "posterior":
        trainable = rmcvi.Trainable(model=False, family=trainable.family)
    if mode == "likelihood":
        recursion, family = KalmanRecursion(), None
        trainable = rmcvi.Trainable(model=trainable.model, family=False)
    return rmcvi.OnlineEstimator(
        model,
        family,
        recursion,
        family_optimiser=FAMILY_OPTIMISER,
        trainable=trainable,
        draws=0,
        health=False,
    )


def _smoothed(learned: rmcvi.OnlineEstimator, state: Any, ys: Any) -> tuple[Any, Any]:
    """The learned posterior's means of a sequence, each coordinate with the sign that makes its
    entry of G positive (the stream does not tell signs), and its exact ELBO.
    """
    model: Any = learned.model_at(state)
    if learned.family is None:
        means, elbo = kalman_smoother(model, ys).mean, kalman_filter(model, ys).log_evidence
        return means * jnp.sign(model.emission)[None], elbo[-1]
    family: Any = learned.family_at(state)
    means = kalman_smoother(family.kalman, ys).mean * jnp.sign(family.kalman.emission)[None]
    return means, BOUND(model, family, ys)[-1]


BOUND = jax.jit(ideal_elbo)


def cells(settings: Settings) -> dict[str, Cell]:
    """One stream per seed and mode."""

    def stream(seed: int, mode: str) -> Cell:
        def run(workspace: Workspace) -> Arrays:
            truth, start = pair(settings["dim"], seed)
            _, ys = rmcvi.simulate(truth, jax.random.key(1000 + seed), settings["length"])
            xe, ye = rmcvi.simulate(truth, jax.random.key(2000 + seed), HELD_OUT)
            learned = learner(settings, truth if mode == "posterior" else start, start, mode)
            state = learned.init(jax.random.key(seed))
            exact, block = kalman_smoother(truth, ye), settings["block"]
            scale = jnp.sqrt(jnp.mean(jnp.diagonal(exact.covariance, axis1=1, axis2=2)))
            elbo, means, gaps, errors, elbos = [], [], [], [], []
            for begin in range(0, settings["length"] + 1, block):
                if begin in settings["checkpoints"]:
                    q, bound = _smoothed(learned, state, ye)
                    means.append(q[:, 0])
                    gap = jnp.sqrt(jnp.mean((q - exact.mean) ** 2)) / scale
                    gaps.append([gap, error(q, xe) / error(exact.mean, xe) - 1.0])
                    model: Any = learned.model_at(state)
                    errors.append(absolute_errors(model.transition, model.emission, truth))
                    elbos.append(bound / HELD_OUT)
                    workspace.say(
                        f"{mode}, seed {seed}, {begin} observations: gap {float(gap):.4f}"
                    )
                if begin < settings["length"]:
                    state, bounds = rmcvi.scan(
                        learned, state, ys[begin : begin + block], collect=_increment
                    )
                    elbo.append(bounds)
            return {
                "increment": np.concatenate(elbo),
                "evidence": np.asarray(kalman_filter(truth, ys).log_evidence),
                "means": np.stack(means),
                "exact": np.asarray(exact.mean[:, 0]),
                "states": np.asarray(xe[:, 0]),
                "gaps": np.array(gaps, float),
                "errors": np.stack(errors),
                "elbo": np.array(elbos, float),
                "held_out_evidence": float(kalman_filter(truth, ye).log_evidence[-1]) / HELD_OUT,
            }

        return run

    return {
        f"{mode}{seed}": stream(seed, mode)
        for mode in settings.get("modes", MODES)
        for seed in range(settings["seeds"])
    }


def _increment(learned: Any, state: Any, info: Any) -> Any:
    return info.step.increment


def conclude(settings: Settings, found: Mapping[str, Arrays]) -> Conclusion:
    """Distance of the learned posterior from Kalman's, and of ELBO/t from the evidence."""
    marks, last = settings["checkpoints"], settings["length"] // 5
    kept: dict[str, list[dict[str, np.ndarray]]] = {}
    for name, cell in found.items():
        arrays = {k: np.asarray(v, float) for k, v in cell.items()}
        kept.setdefault(name.rstrip("0123456789"), []).append(arrays)
    rows, remarks = [], []
    numbers: dict[str, Any] = {"checkpoints": list(marks)}
    for mode, some in kept.items():
        gaps, errors = (np.stack([c[k] for c in some]) for k in ("gaps", "errors"))
        lines = [
            [
                MODES[mode],
                t,
                mean_and_error(gaps[:, c, 0]),
                mean_and_error(100 * gaps[:, c, 1]),
                mean_and_error(errors[:, c, 0]),
                mean_and_error(errors[:, c, 1]),
                mean_and_error([v["held_out_evidence"] - v["elbo"][c] for v in some]),
            ]
            for c, t in enumerate(marks)
        ]
        late = mean_and_error([_shortfall(c, last) for c in some])
        numbers[mode] = {
            "gap_to_kalman": [r[2] for r in lines],
            "excess_rmse_percent": [r[3] for r in lines],
            "mae_transition": [r[4] for r in lines],
            "mae_emission": [r[5] for r in lines],
            "held_out_evidence_minus_exact_elbo": [r[6] for r in lines],
            "evidence_minus_estimated_elbo_rate": late,
        }
        rows += lines
        remarks.append(
            f"{MODES[mode].capitalize()}: means of a held-out sequence are {lines[0][2][0]:.3f} "
            f"posterior standard deviations from the Kalman smoother's before learning and "
            f"{lines[-1][2][0]:.3f} after {marks[-1]} observations (RMSE {lines[-1][3][0]:+.2f} % "
            f"above Kalman's); its exact ELBO is {lines[-1][6][0]:.3f} nats per observation below "
            f"the true model's log-evidence, the ELBO estimated while learning {late[0]:.3f} "
            "(over the last fifth of the stream)."
        )
    head = ["mode", "observations", "gap (posterior sd)", "excess RMSE (%)", "MAE of F", "MAE of G"]
    head.append("evidence - ELBO, held out")
    caption = "Held-out posterior means against the Kalman smoother of the true model."
    drawings = [_training(kept, marks), _states(kept, marks)]
    return Conclusion(numbers, [report.Table(head, rows, caption)], drawings, remarks)


def _shortfall(cell: Mapping[str, np.ndarray], last: int) -> float:
    """Evidence less ELBO, per observation, over the last rows."""
    evidence = cell["evidence"][-1] - cell["evidence"][-last - 1]
    return float(evidence - cell["increment"][-last:].sum()) / last


def _training(kept: Mapping[str, list[dict[str, np.ndarray]]], marks: list[int]) -> Drawing:
    made, axes = report.figure(1, 2, width=9.0, height=3.8)
    for mode, some in kept.items():
        for k, cell in enumerate(some):
            name = "maximum likelihood" if mode == "likelihood" else "rmcvi"
            drawn = report.look(name, marker="", linestyle=LINES[mode], label=MODES[mode])
            drawn["label"] = None if k else drawn["label"]
            t = np.unique(np.geomspace(10, len(cell["increment"]), 300).astype(int)) - 1
            axes[0, 0].plot(t + 1, np.cumsum(cell["increment"])[t] / (t + 1), **drawn)
            axes[0, 1].plot(marks, cell["gaps"][:, 0], **(drawn | {"marker": "o"}))
            if mode == next(iter(kept)):
                known = report.look("kalman", marker="", linestyle=":", label="log-evidence/t")
                known["label"] = None if k else known["label"]
                axes[0, 0].plot(t + 1, cell["evidence"][t] / (t + 1), **known)
    for mark in marks[1:]:
        axes[0, 0].axvline(mark, color="#9A9A9A", linestyle=":", linewidth=1.0)
    axes[0, 0].set(xscale="log", xlabel="observations", ylabel="ELBO/t (nats per observation)")
    axes[0, 0].set_title("While learning")
    axes[0, 1].set(xlabel="observations", ylabel="posterior standard deviations")
    axes[0, 1].set(xlim=(0, 2 * marks[-1]), ylim=(0, None))
    axes[0, 1].set_xscale("symlog", linthresh=marks[1])
    axes[0, 1].set_title("Distance of means from Kalman's")
    report.legend(made, axes[0, 0], columns=3)
    caption = "One line per stream; dotted vertical lines mark the checkpoints."
    return Drawing("training", made, "ELBO per observation and distance from Kalman", caption)


def _states(kept: Mapping[str, list[dict[str, np.ndarray]]], marks: list[int]) -> Drawing:
    shown = [0, (len(marks) - 1) // 2, len(marks) - 1]
    made, axes = report.figure(
        len(kept), len(shown), width=9.0, height=5.0, sharey=True, sharex=True
    )
    t = np.arange(50)
    for row, (mode, some) in zip(axes, kept.items(), strict=True):
        for axis, c in zip(row, shown, strict=True):
            cell = some[0]
            axis.plot(t, cell["states"][t], color="#9A9A9A", linewidth=1.0, label="true state")
            exact = report.look("kalman", marker="", label="Kalman smoother")
            axis.plot(t, cell["exact"][t], **exact)
            drawn = {"marker": "", "label": "learned", "linestyle": "--", "linewidth": 2.0}
            axis.plot(t, cell["means"][c][t], **report.look("rmcvi", **drawn))
            axis.set_title(f"after {marks[c]}")
        row[0].set_ylabel(f"state, first coordinate\n({MODES[mode]})", fontsize=8)
    for axis in axes[-1]:
        axis.set_xlabel("time step")
    report.legend(made, axes[0, 0], columns=3)
    caption = "Posterior means of a sequence that was never learned from, first coordinate."
    return Drawing("held-out", made, "Posterior means at checkpoints", caption)


EXPERIMENT = Experiment(
    "linear-gaussian-streaming",
    "Linear-Gaussian stream: model and posterior learned together (Figure 1)",
    cells,
    conclude,
)

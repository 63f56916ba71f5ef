"""Figure 2: errors of F and G against observations and against compute, with an exact reference."""

import time
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import optax

import rmcvi
from rmcvi.app import report
from rmcvi.baselines import FreeBackward, FunctionRegression, KalmanRecursion
from rmcvi.lab.reproduce.chaotic import mean_and_error
from rmcvi.lab.reproduce.experiment import (
    Arrays,
    Cell,
    Conclusion,
    Drawing,
    Experiment,
    Settings,
    Workspace,
)
from rmcvi.lab.reproduce.linear import absolute_errors, diagonals, pair

LOOKS = {
    "likelihood": "maximum likelihood",
    "calibrated": "rmcvi",
    "natural": "rmcvi",
    "weights": "rmcvi",
    "regression": "function regression",
}
OURS = ("calibrated", "natural", "weights")
MOST = 100
"""Particles that the method may use to be compared with exact maximum likelihood."""
CLOSE = 0.05
"""Errors that differ by no more than this share count as equal."""


def rate(count: Any) -> Any:
    """The rival's own step size for theta, the same for every method."""
    return 3e-2 * 10.0 / (10.0 + count**0.6)


OUTER, INNER, STILL = optax.adam(rate), optax.adam(1e-2), optax.sgd(0.0)
"""Made once: a compiled program belongs to its optimiser."""


def label(entry: Mapping[str, Any]) -> str:
    """The method's name."""
    names = {
        "likelihood": "exact recursive maximum likelihood",
        "calibrated": "RMCVI, calibrated weights, N = {particles}, window {window}",
        "natural": "RMCVI, natural steps, N = {particles}",
        "weights": "RMCVI, as printed, N = {particles}",
        "regression": "function regression, K = {steps}",
    }
    steps = ", Fisher steps" if entry.get("fisher") else ""
    return names[entry["kind"]].format(**entry) + steps


def learner(entry: Mapping[str, Any], start: Any) -> rmcvi.OnlineEstimator:
    """Every method moves the same parameters with the same optimiser, unless by Fisher steps."""
    family: Any = rmcvi.families.LinearGaussianFamily(diagonal=True)
    if entry["kind"] == "likelihood":
        recursion, family = KalmanRecursion(), None
    elif entry["kind"] == "natural":
        recursion = rmcvi.NaturalRMCVI(entry["particles"], num_steps=entry["steps"])
    elif entry["kind"] == "regression":
        recursion = FunctionRegression(entry["steps"], num_points=entry["points"], optimiser=INNER)
        family = FreeBackward(start, key=jax.random.key(5), hidden=entry["hidden"])
    else:
        recursion = rmcvi.RMCVI(
            entry["particles"],
            window=entry["window"],
            bptt=1,
            entropy="sampled",
            backward=rmcvi.CalibratedWeights() if entry["kind"] == "calibrated" else None,
        )
    return rmcvi.OnlineEstimator(
        start,
        family,
        recursion,
        None if entry.get("fisher") else OUTER,
        STILL,
        trainable=rmcvi.Trainable(model=diagonals(start).model, family=False),
        draws=0,
        health=False,
    )


def _parameters(learned: Any, state: Any, info: Any) -> Any:
    model = learned.model_at(state)
    return model.transition, model.emission


def cells(settings: Settings) -> dict[str, Cell]:
    """One cell per seed, in which the methods take turns, block by block."""

    def stream(seed: int) -> Cell:
        def run(workspace: Workspace) -> Arrays:
            truth, start = pair(settings["dim"], seed)
            _, ys = rmcvi.simulate(truth, jax.random.key(1000 + seed), settings["length"])
            learners = [learner(entry, start) for entry in settings["methods"]]
            states = [learned.init(jax.random.key(seed)) for learned in learners]
            found: list[list[Any]] = [[] for _ in learners]
            taken: list[list[float]] = [[] for _ in learners]
            block = settings["block"]
            for begin in range(0, settings["length"], block):
                for m, entry in enumerate(settings["methods"]):
                    if begin >= entry.get("length", settings["length"]):
                        continue
                    begun = time.process_time()
                    states[m], (f, g) = rmcvi.scan(
                        learners[m], states[m], ys[begin : begin + block], collect=_parameters
                    )
                    found[m].append(absolute_errors(f, g, truth))
                    taken[m].append((time.process_time() - begun) / block)
                workspace.say(f"seed {seed}, {begin + block} observations")
            arrays: dict[str, Any] = {f"errors{m}": np.concatenate(e) for m, e in enumerate(found)}
            return arrays | {f"seconds{m}": np.array(s[1:]) for m, s in enumerate(taken)}

        return run

    return {f"seed{seed}": stream(seed) for seed in range(settings["seeds"])}


def conclude(settings: Settings, found: Mapping[str, Arrays]) -> Conclusion:
    """Errors after the same numbers of observations, and what an observation costs."""
    curves = [
        np.stack([np.asarray(cell[f"errors{m}"]) for cell in found.values()])
        for m in range(len(settings["methods"]))
    ]
    common, marks, rows = min(c.shape[1] for c in curves), settings["marks"], []
    for m, entry in enumerate(settings["methods"]):
        errors = curves[m]
        cost = float(np.median(np.stack([cell[f"seconds{m}"] for cell in found.values()])))
        rows.append(
            {
                "method": label(entry),
                "kind": entry["kind"],
                "fisher": entry.get("fisher", False),
                "particles": entry.get("particles", 0),
                "observations": errors.shape[1],
                "transition": [_after(errors, mark, 0) for mark in marks],
                "emission": [_after(errors, mark, 1) for mark in marks],
                "mae_at_common": mean_and_error(_last(errors[:, :common]).mean(1)),
                "microseconds": 1e6 * cost,
                "curve": errors.mean(0),
                "spread": errors.std(0) / max(1, len(errors) - 1) ** 0.5,
            }
        )
    start = rows[0]["curve"][0]
    rival, ours = _equal(rows)
    ratio = None if ours is None else rival["microseconds"] / ours["microseconds"]
    exact, close, over = _against_exact(rows)
    keys = ("method", "observations", "transition", "emission", "mae_at_common", "microseconds")
    numbers = {
        "error_over_exact": over,
        "error_over_exact_by": None if close is None else close["method"],
        "compute_ratio_at_rivals_error": ratio,
        "common_observations": common,
        "marks": marks,
        "start": {"mae_transition": start[0], "mae_emission": start[1]},
        "rows": [{k: r[k] for k in keys} for r in rows],
    }
    remarks = [f"At the start: MAE of F {start[0]:.3f}, of G {start[1]:.3f}."]
    if close is not None:
        remarks.append(
            f"{close['method']}: at most {over['F']:.2f} times the error of {exact['method']} in "
            f"F and {over['G']:.2f} times in G, after {' and '.join(map(str, marks))} observations."
        )
    if ours is None or ratio is None:
        remarks.append(f"No setting of RMCVI is within {CLOSE:.0%} of {rival['method']}.")
    else:
        remarks.append(
            f"After {common} observations {ours['method']} is at least as good as "
            f"{rival['method']} (within {CLOSE:.0%}), at {1.0 / ratio:.2g} times its compute."
        )
    head = ["method", "observations"]
    head += [f"MAE of {name}, after {mark}" for name in ("F", "G") for mark in marks]
    table = report.Table(
        [*head, f"both, after {common}", "us/observation"],
        [
            [*(r[k] for k in keys[:2]), *r["transition"], *r["emission"], *(r[k] for k in keys[4:])]
            for r in rows
        ],
        "Means over the last tenth of the observations, with standard errors over seeds; processor "
        "time, median over blocks in which the methods take turns.",
    )
    return Conclusion(numbers, [table], [_curves(rows)], remarks)


def _last(errors: np.ndarray) -> np.ndarray:
    """Mean over the last tenth, for each seed."""
    return errors[:, -max(1, errors.shape[1] // 10) :].mean(1)


def _after(errors: np.ndarray, mark: int, k: int) -> tuple[float, float] | None:
    """The error of F or G after `mark` observations, if there were as many."""
    return mean_and_error(_last(errors[:, :mark])[:, k]) if errors.shape[1] >= mark else None


def _against_exact(
    rows: list[dict[str, Any]],
) -> tuple[dict[str, Any], dict[str, Any] | None, dict[str, float]]:
    """Exact maximum likelihood, our nearest to it with MOST particles, and its largest ratios."""
    exact = next(r for r in rows if r["kind"] == "likelihood" and not r["fisher"])

    def over(row: dict[str, Any]) -> dict[str, float]:
        return {
            name: max(a[0] / b[0] for a, b in zip(row[key], exact[key], strict=True))
            for name, key in (("F", "transition"), ("G", "emission"))
        }

    ours = [r for r in rows if r["kind"] in OURS and not r["fisher"] and r["particles"] <= MOST]
    ours = [r for r in ours if None not in r["transition"]]
    best = min(ours, key=lambda r: max(over(r).values()), default=None)
    return exact, best, {} if best is None else over(best)


def _equal(rows: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The rival's best row, and our cheapest that is not worse by more than CLOSE."""
    rival = min((r for r in rows if r["kind"] == "regression"), key=lambda r: r["mae_at_common"][0])
    level = (1.0 + CLOSE) * rival["mae_at_common"][0]
    good = [r for r in rows if r["kind"] in OURS and r["mae_at_common"][0] <= level]
    return rival, min(good, key=lambda r: r["microseconds"], default=None)


def _curves(rows: list[dict[str, Any]]) -> Drawing:
    made, axes = report.figure(2, 2, width=9.0, height=6.0, sharey="row")
    lines = {"likelihood": "-", "calibrated": "-", "natural": ":", "weights": "-."}
    for row in rows:
        kind = row["kind"]
        drawn = report.look(LOOKS[kind], marker="", label=row["method"])
        drawn["linestyle"] = "--" if row["fisher"] else lines.get(kind, "-")
        t = np.unique(np.geomspace(1, row["observations"], 200).astype(int))
        for k, name in enumerate(("F", "G")):
            value, spread = row["curve"][t - 1, k], row["spread"][t - 1, k]
            for axis, x in zip(axes[k], (t, t * row["microseconds"] * 1e-6), strict=True):
                axis.plot(x, value, **drawn)
                report.band(axis, x, value - spread, value + spread, LOOKS[kind])
            axes[k, 0].set_ylabel(f"mean absolute error of {name}")
    for axis in axes.ravel():
        axis.set(xscale="log", ylim=(0, None))
    axes[1, 0].set_xlabel("observations")
    axes[1, 1].set_xlabel("compute (s of one core)")
    report.legend(made, axes[0, 0], columns=2)
    caption = "Bands are standard errors over seeds; the same step sizes, but for Fisher steps."
    return Drawing("errors", made, "Errors of F and G against observations and compute", caption)


EXPERIMENT = Experiment(
    "linear-gaussian-parameters",
    "Linear-Gaussian parameters: error against observations and compute (Figure 2)",
    cells,
    conclude,
)

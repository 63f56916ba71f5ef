"""Table 1: the chaotic network without amortisation, at what cost."""

import time
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Key

import rmcvi
from rmcvi.app import report
from rmcvi.baselines import FreeBackward, FunctionRegression
from rmcvi.core.inputs import Inputs
from rmcvi.lab.reproduce.chaotic import error, floors, mean_and_error, network, sequence
from rmcvi.lab.reproduce.experiment import (
    Arrays,
    Cell,
    Conclusion,
    Drawing,
    Experiment,
    Settings,
    Workspace,
)

CLOSE = 0.01
"""Errors that differ by no more than this share of the floor count as equal."""
KINDS = {"natural": "rmcvi", "gradient": "rmcvi", "regression": "function regression"}


def method(entry: Mapping[str, Any], model: Any) -> tuple[Any, Any]:
    """Recursion and family of one row of the table."""
    key, steps = jax.random.key(1), entry["steps"]
    if entry["kind"] == "natural":
        family = rmcvi.families.LinearGaussianFamily(diagonal=True)
        return rmcvi.NaturalRMCVI(entry["particles"], num_steps=steps), family
    if entry["kind"] == "gradient":
        family = rmcvi.families.PerStepFamily(model, key=key)
        return rmcvi.PerStepRMCVI(entry["particles"], num_steps=steps), family
    options = {"num_samples": entry["samples"], "num_points": entry["points"]}
    return FunctionRegression(steps, **options), FreeBackward(model, key=key)


def label(entry: Mapping[str, Any]) -> str:
    """The row's name."""
    if entry["kind"] == "natural":
        return f"RMCVI, natural steps, N = {entry['particles']}, K = {entry['steps']}"
    if entry["kind"] == "gradient":
        return f"RMCVI, gradient steps, N = {entry['particles']}, K = {entry['steps']}"
    sizes = f"K = {entry['steps']}, {entry['samples']} samples, {entry['points']} points"
    return f"function regression, {sizes}"


@eqx.filter_jit
def follow(recursion: Any, family: Any, model: Any, ys: Array, key: Key[Array, ""]) -> Any:
    """Filtering and one-step smoothing means of a sequence, parameters known."""
    nothing = rmcvi.Trainable(model=False, family=False)
    inputs = Inputs.of(dim=0)

    def step(state, row):
        y, k = row
        new = recursion.step(state, model, family, y, inputs, k, nothing).state
        return new, (recursion.filtered(new, model, family).mean, new.smoothed)

    start = recursion.init(model, family, nothing)
    return jax.lax.scan(step, start, (ys, jax.random.split(key, len(ys))))[1]


def cells(settings: Settings) -> dict[str, Cell]:
    """Floors, one cell per method, and all times in one."""
    length = settings["length"]

    def data(i: int) -> tuple[Any, Array, Array]:
        model = network(i)
        return (model, *sequence(model, i, length))

    def floor(workspace: Workspace) -> Arrays:
        rows = []
        for i in range(settings["sequences"]):
            model, xs, ys = data(i)
            rows.append([*floors(model, xs, ys, settings["floor_particles"]), error(ys, xs)])
        return {"errors": np.array(rows)}

    def accuracy(entry: Mapping[str, Any]) -> Cell:
        def run(workspace: Workspace) -> Arrays:
            rows = []
            for i in range(min(entry.get("sequences", np.inf), settings["sequences"])):
                model, xs, ys = data(i)
                now, back = follow(*method(entry, model), model, ys, jax.random.key(50 + i))
                rows.append([error(now, xs), error(back[1:], xs[:-1])])
            workspace.say(f"{label(entry)}: {np.mean(rows, 0)}")
            return {"errors": np.array(rows)}

        return run

    def times(workspace: Workspace) -> Arrays:
        model, _, ys = data(0)
        ys = ys[: settings["timed"]]
        made = [method(entry, model) for entry in settings["methods"]]
        key, taken = jax.random.key(0), np.zeros((settings["rounds"], len(made)))
        for recursion, family in made:
            jax.block_until_ready(follow(recursion, family, model, ys, key))
        for r in range(settings["rounds"]):
            for m, (recursion, family) in enumerate(made):
                begun = time.perf_counter()
                jax.block_until_ready(follow(recursion, family, model, ys, key))
                taken[r, m] = (time.perf_counter() - begun) / len(ys)
        return {"seconds": taken}

    found: dict[str, Cell] = {"floor": floor}
    for m, entry in enumerate(settings["methods"]):
        found[f"method{m}"] = accuracy(entry)
    return found | {"times": times}


def conclude(settings: Settings, found: Mapping[str, Arrays]) -> Conclusion:
    """The table, the frontier, and the cost at equal accuracy."""
    floor, taken = np.asarray(found["floor"]["errors"]), np.asarray(found["times"]["seconds"])
    rows = []
    for m, entry in enumerate(settings["methods"]):
        errors = np.asarray(found[f"method{m}"]["errors"])
        over = errors / floor[: len(errors), :2] - 1.0
        seconds = float(np.median(taken[:, m]))
        rows.append(
            {
                "method": label(entry),
                "kind": entry["kind"],
                "sequences": len(errors),
                "filter": mean_and_error(errors[:, 0]),
                "one_step": mean_and_error(errors[:, 1]),
                "filter_std": float(errors[:, 0].std()),
                "one_step_std": float(errors[:, 1].std()),
                "filter_over_floor": mean_and_error(over[:, 0]),
                "one_step_over_floor": mean_and_error(over[:, 1]),
                "ms_per_observation": 1e3 * seconds,
                "ms_per_step": 1e3 * seconds / entry["steps"],
                "spread": float(np.ptp(taken[:, m]) / seconds),
            }
        )
    rival, ours = equal_accuracy(rows)
    numbers: dict[str, Any] = {
        "compute_ratio_at_equal_accuracy": None,
        "rows": rows,
        "floor": {"filter": floor[:, 0].mean(), "one_step": floor[:, 1].mean()},
        "raw": floor[:, 2].mean(),
    }
    remarks = [
        f"Particle floor {floor[:, 0].mean():.4f} (filtering), {floor[:, 1].mean():.4f} (one-step "
        f"smoothing); raw observations {floor[:, 2].mean():.4f}."
    ]
    if ours is not None:
        ratio = rival["ms_per_observation"] / ours["ms_per_observation"]
        numbers |= {"compute_ratio_at_equal_accuracy": ratio}
        numbers |= {"rival": rival["method"], "ours": ours["method"]}
        remarks.append(
            f"At the rival's accuracy ({rival['method']}: {rival['ms_per_observation']:.3g} ms per "
            f"observation) {ours['method']} needs {ours['ms_per_observation']:.3g} ms: "
            f"{ratio:.1f} times less."
        )
    else:
        remarks.append(f"No setting of ours reaches the accuracy of {rival['method']}.")
    return Conclusion(numbers, [_table(rows)], [_frontier(rows)], remarks)


def equal_accuracy(rows: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The rival's cheapest row and ours, of those as good as the rival's best in both errors.

    As good: not worse by more than CLOSE, which holds for both sides.
    """

    def errors(row: Mapping[str, Any]) -> np.ndarray:
        return np.array([row["filter_over_floor"][0], row["one_step_over_floor"][0]])

    def cheapest(some: list[dict[str, Any]]) -> dict[str, Any] | None:
        good = [r for r in some if np.all(errors(r) <= errors(best) + CLOSE)]
        return min(good, key=_cost, default=None)

    rivals = [r for r in rows if r["kind"] == "regression"]
    best = min(rivals, key=lambda r: errors(r).sum())
    return cheapest(rivals) or best, cheapest([r for r in rows if r["kind"] != "regression"])


def _table(rows: list[dict[str, Any]]) -> report.Table:
    head = ["method", "sequences", "filtering", "one-step", "over floor", "ms/step", "ms/obs."]
    return report.Table(
        head,
        [
            [
                r["method"],
                r["sequences"],
                r["filter"],
                r["one_step"],
                f"{r['filter_over_floor'][0]:+.1%} / {r['one_step_over_floor'][0]:+.1%}",
                round(r["ms_per_step"], 4),
                round(r["ms_per_observation"], 3),
            ]
            for r in rows
        ],
        "Root mean square errors, standard errors over sequences; medians of times taken in turn.",
    )


def _frontier(rows: list[dict[str, Any]]) -> Drawing:
    made, axes = report.figure(1, 2, width=9.0, height=3.8, sharex=True)
    names = {
        "natural": ("RMCVI, natural steps", report.look("rmcvi")),
        "gradient": ("RMCVI, gradient steps", report.look("rmcvi", marker="^", linestyle="--")),
        "regression": ("function regression", report.look("function regression")),
    }
    for axis, (key, title) in zip(
        axes[0], [("filter", "Filtering"), ("one_step", "One-step smoothing")], strict=True
    ):
        for kind, (name, drawn) in names.items():
            some = sorted((r for r in rows if r["kind"] == kind), key=_cost)
            if some:
                over = np.array([r[f"{key}_over_floor"] for r in some])
                axis.errorbar(
                    [_cost(r) for r in some],
                    100 * over[:, 0],
                    yerr=100 * np.nan_to_num(over[:, 1]),
                    **(drawn | {"label": name, "linestyle": "none"}),
                )
        axis.axhline(0.0, **report.look("floor"))
        axis.set(title=title, xscale="log", xlabel="time per observation (ms)")
    axes[0, 0].set_ylabel("error above the floor (%)")
    report.legend(made, axes[0, 1])
    caption = "Cost against accuracy, parameters known; bars are standard errors over sequences."
    return Drawing("frontier", made, "Scatter of error above the floor against time", caption)


def _cost(row: Mapping[str, Any]) -> float:
    return row["ms_per_observation"]


EXPERIMENT = Experiment(
    "chaotic-table1", "Chaotic network without amortisation (Table 1)", cells, conclude
)

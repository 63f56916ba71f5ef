"""Appendix: offline training of a learned family, score-based recursion against backward sampling.

The same sequence is visited again and again, theta known. One side is the recursive score gradient
of RMCVI; the other the pathwise gradient through trajectories that are sampled backwards.
"""

import time
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import rmcvi
from rmcvi.app import report
from rmcvi.baselines import pathwise_elbo
from rmcvi.core.inputs import Inputs
from rmcvi.lab.reproduce.chaotic import (
    error,
    filter_and_smooth,
    floors,
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

NAMES = {"score": "RMCVI, recursive score", "pathwise": "pathwise, backward sampling"}


def objectives(settings: Settings, model: Any) -> dict[str, Any]:
    """Gradients of the ELBO per observation in the family: (family, ys, key) -> pytree."""
    recursion = rmcvi.RMCVI(settings["particles"], window=settings["window"], bptt=settings["bptt"])
    trained = rmcvi.Trainable(model=False)
    inputs = Inputs.of(dim=0)

    def score(family: Any, ys: Any, key: Any) -> Any:
        def step(loop, row):
            state, total = loop
            new, grads, _ = recursion.step(state, model, family, row[0], inputs, row[1], trained)
            return (new, jax.tree.map(jnp.add, total, grads.family)), None

        nothing = jax.tree.map(jnp.zeros_like, eqx.filter(family, eqx.is_inexact_array))
        start = (recursion.init(model, family, trained), nothing)
        keys = jax.random.split(key, len(ys))
        (_, total), _ = jax.lax.scan(step, start, (ys, keys))
        return jax.tree.map(lambda v: v / len(ys), total)

    def pathwise(family: Any, ys: Any, key: Any) -> Any:
        def value(family):
            return pathwise_elbo(model, family, ys, key=key, num=settings["particles"]) / len(ys)

        return eqx.filter_grad(value)(family)

    return {"score": score, "pathwise": pathwise}


def cells(settings: Settings) -> dict[str, Cell]:
    """One cell per fit and method, then the times."""

    def fit(method: str, seed: int) -> Cell:
        def run(workspace: Workspace) -> Arrays:
            model = network(seed)
            xs, ys = sequence(model, seed, settings["length"])
            family = _start(model, seed)
            trained = _train(objectives(settings, model)[method], family, ys, settings, seed)
            recursion = rmcvi.RMCVI(2, window=2, bptt=1)
            now, back = filter_and_smooth(model, trained, recursion, ys)
            found = {"filter": error(now, xs), "smooth": error(back, xs)}
            floor = floors(model, xs, ys, settings["floor_particles"], 8)
            workspace.say(f"{NAMES[method]}, fit {seed}: {found}, floor {floor}")
            return found | {"floor": np.array(floor)}

        return run

    def times(workspace: Workspace) -> Arrays:
        model = network(0)
        _, ys = sequence(model, 0, settings["length"])
        family, key = _start(model, 0), jax.random.key(0)
        made = {m: eqx.filter_jit(f) for m, f in objectives(settings, model).items()}
        taken = np.zeros((settings["rounds"], len(made)))
        for gradient in made.values():
            jax.block_until_ready(jax.tree.leaves(gradient(family, ys, key)))
        for r in range(settings["rounds"]):
            for m, gradient in enumerate(made.values()):
                begun = time.perf_counter()
                jax.block_until_ready(jax.tree.leaves(gradient(family, ys, key)))
                taken[r, m] = time.perf_counter() - begun
        return {"seconds": taken}

    fits = {f"{m}{i}": fit(m, i) for m in NAMES for i in range(settings["fits"])}
    return fits | {"times": times}


def _start(model: Any, seed: int) -> Any:
    return rmcvi.families.InnovationFamily(model, hidden=32, key=jax.random.key(100 + seed))


def _train(gradient: Any, family: Any, ys: Any, settings: Settings, seed: int) -> Any:
    optimiser = optax.adam(settings["rate"])
    phi, rest = eqx.partition(family, eqx.is_inexact_array)

    @jax.jit
    def train(phi, keys):
        def epoch(loop, key):
            phi, memory = loop
            up = eqx.filter(gradient(eqx.combine(phi, rest), ys, key), eqx.is_inexact_array)
            down = jax.tree.map(jnp.negative, up)
            update, memory = optimiser.update(down, memory, phi)
            return (eqx.apply_updates(phi, update), memory), None

        return jax.lax.scan(epoch, (phi, optimiser.init(phi)), keys)[0][0]

    keys = jax.random.split(jax.random.key(200 + seed), settings["epochs"])
    return eqx.combine(train(phi, keys), rest)


def conclude(settings: Settings, found: Mapping[str, Arrays]) -> Conclusion:
    """Errors and time of one gradient over the whole sequence."""
    taken = np.asarray(found["times"]["seconds"])
    numbers: dict[str, Any] = {}
    rows = []
    for m, method in enumerate(NAMES):
        some = [found[f"{method}{i}"] for i in range(settings["fits"])]
        entry = {
            "filter": mean_and_error([float(v["filter"]) for v in some]),
            "smooth": mean_and_error([float(v["smooth"]) for v in some]),
            "ms_per_gradient": 1e3 * float(np.median(taken[:, m])),
        }
        numbers[method] = entry
        rows.append(
            [NAMES[method], entry["filter"], entry["smooth"], round(entry["ms_per_gradient"], 2)]
        )
    floor = np.array([found[f"score{i}"]["floor"] for i in range(settings["fits"])])
    numbers["floor"] = {"filter": floor[:, 0].mean(), "smooth": floor[:, 1].mean()}
    ours, theirs = (numbers[m]["ms_per_gradient"] for m in NAMES)
    numbers["time_ratio"] = ours / theirs
    rows.append(["particle floor", mean_and_error(floor[:, 0]), mean_and_error(floor[:, 1]), None])
    remarks = [
        f"One gradient over {settings['length']} observations: recursive score "
        f"{numbers['score']['ms_per_gradient']:.1f} ms, pathwise "
        f"{numbers['pathwise']['ms_per_gradient']:.1f} ms (ratio {numbers['time_ratio']:.1f}); "
        f"smoothing error {numbers['score']['smooth'][0]:.4f} and "
        f"{numbers['pathwise']['smooth'][0]:.4f}, floor {floor[:, 1].mean():.4f}."
    ]
    head = ["method", "filtering", "smoothing", "ms per gradient"]
    caption = "Root mean square errors on the training sequence, standard errors over fits."
    return Conclusion(numbers, [report.Table(head, rows, caption)], [_drawing(numbers)], remarks)


def _drawing(numbers: Mapping[str, Any]) -> Drawing:
    made, axes = report.figure(width=6.0, height=3.2)
    for method, name in (("score", "rmcvi"), ("pathwise", "pathwise")):
        entry = numbers[method]
        axes[0, 0].errorbar(
            entry["ms_per_gradient"],
            entry["smooth"][0],
            yerr=np.nan_to_num(entry["smooth"][1]),
            **report.look(name, label=NAMES[method]),
        )
    axes[0, 0].axhline(numbers["floor"]["smooth"], **report.look("floor"))
    axes[0, 0].set(xscale="log", xlabel="time of one gradient (ms)", ylabel="smoothing RMSE")
    axes[0, 0].legend()
    return Drawing("offline", made, "Two points: error against time", "Offline training.")


EXPERIMENT = Experiment(
    "chaotic-offline", "Chaotic network, offline training (appendix)", cells, conclude
)

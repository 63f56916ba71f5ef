"""The appendix's figure: offline training by closed-form, pathwise and recursive score gradients.

One epoch is one gradient of L_T at fixed phi. The closed form is `ideal_elbo`; the pathwise one
differentiates sampled trajectories; the score one adds up the increments of RMCVI.
"""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

import rmcvi
from rmcvi.app import report
from rmcvi.baselines import log_evidence, pathwise_elbo
from rmcvi.core.inputs import Inputs
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
from rmcvi.models import LinearGaussian
from rmcvi.recursion import ideal_elbo

COLOURS = {1: "#D55E00", 2: "#0072B2", 3: "#56B4E9", 4: "#009E73"}
LINES = {1: "--", 2: "-", 3: "-.", 4: ":"}
OPTIMISER = optax.adam(1e-2)


def models(settings: Settings) -> tuple[LinearGaussian, LinearGaussian, Array]:
    """True models, starts of the family, and sequences, along a leading axis."""

    def one(key):
        keys = jax.random.split(key, 4)
        scale = jnp.full(settings["dim"], 0.1)

        def draw(key, low, high):
            return jax.random.uniform(key, (settings["dim"],), minval=low, maxval=high)

        def build(f, g):
            return LinearGaussian(f, g, scale, scale, initial_noise=scale)

        truth = build(draw(keys[0], 0.5, 0.55), draw(keys[1], 0.5, 1.0))
        start = build(*(draw(k, 0.5, 1.0) for k in jax.random.split(keys[2])))
        return truth, start, rmcvi.simulate(truth, keys[3], settings["length"])[1]

    return eqx.filter_vmap(one)(jax.random.split(jax.random.key(0), settings["models"]))


def learned(family: Any) -> Any:
    """The parameters of the family's own Kalman model, but for those of x_0."""

    def where(f):
        own = f.kalman
        noises = (own.raw_transition_noise, own.raw_emission_noise)
        return own.transition, own.emission, *noises

    return rmcvi.only(family, where)


def gradient(settings: Settings, method: str) -> Callable[..., Any]:
    """(phi, rest, model, ys, key) -> gradient of L_T in phi."""
    count = settings["particles"]

    def elbo(phi, rest, model, ys, key):
        family = eqx.combine(phi, rest)
        if method == "closed":
            return ideal_elbo(model, family, ys)[-1]
        return pathwise_elbo(model, family, ys, key=key, num=count)

    if not method.startswith("score"):
        return jax.grad(elbo)
    recursion = rmcvi.RMCVI(
        count, gradient="forward", bptt=int(method.removeprefix("score")), entropy="sampled"
    )

    def score(phi, rest, model, ys, key):
        family = eqx.combine(phi, rest)
        trainable = rmcvi.Trainable(model=False, family=learned(family))

        def step(loop, row):
            state, total = loop
            y, k = row
            state, grads, _ = recursion.step(state, model, family, y, Inputs.of(), k, trainable)
            return (state, jax.tree.map(jnp.add, total, grads.family)), None

        start = recursion.init(model, family, trainable), jax.tree.map(jnp.zeros_like, phi)
        (_, total), _ = jax.lax.scan(step, start, (ys, jax.random.split(key, len(ys))))
        return total

    return score


def train(settings: Settings, method: str) -> np.ndarray:
    """Exact ELBO/T before each epoch, for all models at once."""
    truths, starts, sequences = models(settings)
    climb = gradient(settings, method)

    def one(truth, start, ys, key):
        family = rmcvi.families.LinearGaussianFamily(start, diagonal=True)
        phi, rest = eqx.partition(family, learned(family))

        def epoch(loop, key):
            phi, memory = loop
            value = ideal_elbo(truth, eqx.combine(phi, rest), ys)[-1]
            slope = climb(phi, rest, truth, ys, key)
            down = jax.tree.map(lambda g: -g / len(ys), slope)
            update, memory = OPTIMISER.update(down, memory, phi)
            return (eqx.apply_updates(phi, update), memory), value / len(ys)

        keys = jax.random.split(key, settings["epochs"])
        return jax.lax.scan(epoch, (phi, OPTIMISER.init(phi)), keys)[1]

    keys = jax.random.split(jax.random.key(1), settings["models"])
    return np.asarray(eqx.filter_jit(eqx.filter_vmap(one))(truths, starts, sequences, keys))


def methods(settings: Settings) -> list[str]:
    """Closed form, pathwise, and the score with each depth."""
    return ["closed", "pathwise", *(f"score{depth}" for depth in settings["depths"])]


def label(method: str) -> str:
    """The method's name."""
    names = {"closed": "closed form", "pathwise": "pathwise"}
    return names.get(method, f"recursive score, bptt {method.removeprefix('score')}")


def cells(settings: Settings) -> dict[str, Cell]:
    """One cell per gradient, and the evidence."""

    def run(method: str) -> Cell:
        def work(workspace: Workspace) -> Arrays:
            return {"elbo": train(settings, method)}

        return work

    def evidence(workspace: Workspace) -> Arrays:
        truths, _, sequences = models(settings)
        values = eqx.filter_vmap(lambda m, ys: log_evidence(m, ys))(truths, sequences)
        return {"evidence": np.asarray(values) / settings["length"]}

    return {method: run(method) for method in methods(settings)} | {"evidence": evidence}


def conclude(settings: Settings, found: Mapping[str, Arrays]) -> Conclusion:
    """How far each gradient stays below the evidence, model by model."""
    evidence = np.asarray(found["evidence"]["evidence"])
    gaps = {m: evidence[:, None] - np.asarray(found[m]["elbo"]) for m in methods(settings)}
    numbers: dict[str, Any] = {"evidence": mean_and_error(evidence)}
    rows, remarks = [], []
    for method, gap in gaps.items():
        final = mean_and_error(gap[:, -1])
        value = mean_and_error(np.asarray(found[method]["elbo"])[:, -1])
        numbers[method] = {"elbo": value, "below_evidence": final, "start": gap[:, 0].mean()}
        rows.append([label(method), value, final])
        remarks.append(
            f"{label(method).capitalize()}: {gap[:, 0].mean():.3f} nats per observation below the "
            f"evidence before training, {final[0]:.4f} after {gap.shape[1]} epochs."
        )
    caption = "Exact ELBO per observation under each gradient; standard errors over models."
    table = report.Table(["gradient", "final ELBO/T", "below the evidence"], rows, caption)
    return Conclusion(numbers, [table], [_curves(gaps)], remarks)


def _curves(gaps: Mapping[str, np.ndarray]) -> Drawing:
    made, axes = report.figure(1, 1, width=7.0, height=4.0)
    axis = axes[0, 0]
    for method, gap in gaps.items():
        if method.startswith("score"):
            depth = int(method.removeprefix("score"))
            drawn: dict[str, Any] = {"color": COLOURS[depth], "linestyle": LINES[depth]}
        else:
            drawn = report.look("kalman" if method == "closed" else "pathwise", marker="")
        middle, spread = gap.mean(0), gap.std(0)
        axis.plot(middle, **(drawn | {"label": label(method)}))
        epochs, low = np.arange(len(middle)), np.maximum(middle - spread, 1e-6)
        axis.fill_between(
            epochs, low, middle + spread, color=drawn["color"], alpha=0.15, linewidth=0
        )
    axis.set(yscale="log", xlabel="epoch", ylabel="evidence - ELBO (nats per observation)")
    axis.set_ylim(bottom=1e-4)
    axis.legend()
    caption = "Lower is better; lines are means over models, bands their standard deviations."
    return Drawing("training", made, "Gap to the evidence against epochs", caption)


EXPERIMENT = Experiment(
    "linear-gaussian-oracle",
    "Linear-Gaussian, offline: closed-form, pathwise and recursive score gradients",
    cells,
    conclude,
)

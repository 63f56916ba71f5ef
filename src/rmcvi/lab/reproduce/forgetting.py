"""What the theory promises, measured: statistics forget their start, and ELBO_t/t has a limit.

Two runs with the same particles and observations that differ only in h, u and v at one time differ
later by what the backward weights let through. At the particles the paper's bound is the product of
1 - min w / max w, and the product of Dobrushin's coefficients lies below it.
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

import rmcvi
from rmcvi.app import report
from rmcvi.baselines import kalman_filter, train_offline
from rmcvi.core import tree
from rmcvi.core.inputs import Inputs
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

KINDS: dict[str, tuple[bool, bool]] = {
    "free": (False, False),
    "projected": (True, False),
    "bounded": (False, True),
    "projected and bounded": (True, True),
}
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7"]
STYLES = ["-", "--", "-.", ":"]
OPTIMISER = optax.adam(1e-2)
DIM = 2


def stationary() -> LinearGaussian:
    """Two states that mix fast, so that averages over time settle."""
    return LinearGaussian(jnp.array([0.8, 0.6]), jnp.ones(DIM), 0.5, 0.5)


def trained(settings: Settings, kind: str, model: LinearGaussian) -> Any:
    """A recurrent family that starts with a long memory, fitted to a sequence."""
    project, bounded = KINDS[kind]
    family = rmcvi.families.RecurrentFamily(
        DIM,
        DIM,
        key=jax.random.key(1),
        memory=settings["memory"],
        depth=0,
        spectral_norm=settings["spectral_norm"] if project else None,
        bound=settings["bound"] if bounded else None,
    )
    weight = family.cell.layers[0].weight
    recurrent = weight[:, : settings["memory"]]
    longer = recurrent * settings["gain"] / jnp.linalg.norm(recurrent, 2)
    whole = jnp.concatenate([longer, weight[:, settings["memory"] :]], 1)
    family = eqx.tree_at(lambda f: f.cell.layers[0].weight, family, whole).project()
    _, ys = rmcvi.simulate(model, jax.random.key(2), settings["fitted"])
    return train_offline(
        model,
        family,
        ys[None],
        OPTIMISER,
        settings["epochs"],
        jax.random.key(3),
        trainable=rmcvi.Trainable(model=False),
        num=4,
    ).family


def recurrent_norm(family: Any) -> float:
    """Lipschitz constant of a -> A(a, y)."""
    return float(jnp.linalg.norm(family.cell.layers[0].weight[:, : family.start.size], 2))


def cells(settings: Settings) -> dict[str, Cell]:
    """One cell per kind of family."""

    def measure(kind: str) -> Cell:
        def run(workspace: Workspace) -> Arrays:
            model = stationary()
            family = trained(settings, kind, model)
            block = settings["block"]
            _, ys = rmcvi.simulate(model, jax.random.key(4), block * settings["blocks"])
            recursion = rmcvi.RMCVI(settings["particles"], gradient="forward", bptt=2)
            follow = _follower(recursion, model, family, jax.random.key(5))
            state, elbos = recursion.init(model, family), []
            found: dict[str, Any] = {}
            for b in range(settings["blocks"]):
                rows = ys[b * block : (b + 1) * block]
                if b == 1:
                    found = _contraction(follow, state, model, family, rows, settings)
                state, (_, elbo) = follow(state, rows)
                elbos.append(np.asarray(elbo))
            found["elbo"] = np.concatenate(elbos)
            found["evidence"] = kalman_filter(model, ys).log_evidence
            found["carry"] = _carries(model, family, ys[:block])
            found["norm"] = recurrent_norm(family)
            return found

        return run

    return {kind: measure(kind) for kind in settings["kinds"]}


def _follower(recursion: Any, model: Any, family: Any, key: Any) -> Any:
    """A program that moves a state over a block, telling clouds and tangents on the way."""

    def step(state, y):
        k = jax.random.fold_in(key, state.t)
        new, _, info = recursion.step(state, model, family, y, Inputs.of(), k)
        return new, ((new.cloud.x, new.cloud.h, new.memory), info.elbo)

    return jax.jit(lambda state, ys: jax.lax.scan(step, state, ys))


def _contraction(
    follow: Any, state: Any, model: Any, family: Any, ys: Array, settings: Settings
) -> dict[str, Any]:
    """Oscillation of the differences between two starts, relative to time 0, and the bounds."""
    keys = iter(jax.random.split(jax.random.key(6), 1000))

    def moved(value):
        noise = jax.random.normal(next(keys), value.shape, value.dtype)
        size = jnp.std(value, 0, keepdims=True) + 1e-3
        return value + size * noise

    other = eqx.tree_at(lambda s: (s.cloud.h, s.memory), state, (
        moved(state.cloud.h), jax.tree.map(moved, state.memory)))  # fmt: skip
    pair = [follow(start, ys)[1][0] for start in (state, other)]
    found = {}
    parts = {"h": lambda v: v[1], "u": lambda v: v[2].family, "v": lambda v: v[2].model}
    begun = [(s.cloud.x, s.cloud.h, s.memory) for s in (state, other)]
    for name, part in parts.items():
        first = _oscillation(*(jax.tree.map(lambda v: v[None], part(b)) for b in begun))
        later = _oscillation(*(part(p) for p in pair))
        found[name] = np.concatenate([np.ones(1), later / first[0]])
    x = jnp.concatenate([state.cloud.x[None], pair[0][0]])
    coefficients = jax.jit(jax.vmap(lambda a, b: _coefficients(model, family, a, b)))(x[:-1], x[1:])
    for name, one in zip(("dobrushin", "paper"), coefficients, strict=True):
        found[name] = np.concatenate([np.ones(1), np.cumprod(np.asarray(one, np.float64))])
    return found


def _oscillation(one: Any, two: Any) -> np.ndarray:
    """Largest over parameters of max - min over particles of the difference, for each time."""
    apart = [np.asarray(a - b, np.float64) for a, b in zip(*map(jax.tree.leaves, (one, two)),
                                                           strict=True)]  # fmt: skip
    spans = [np.ptp(d, 1).reshape(len(d), -1).max(1) for d in apart if d.size]
    return np.max(spans, 0)


def _coefficients(model: Any, family: Any, x_prev: Array, x: Array) -> tuple[Array, Array]:
    """Dobrushin's coefficient of the weights, and 1 - min / max of the potential."""
    q, carry = family.distribution, family.start
    statistics = jax.vmap(q.statistic)(x_prev)

    def row(x_i):
        eta = family.potential(model, carry, x_i, Inputs.of())
        return jax.vmap(lambda s: tree.vdot(eta, s))(statistics)

    logits = jax.vmap(row)(x)
    w = jax.nn.softmax(logits, 1)
    apart = 0.5 * jnp.sum(jnp.abs(w[:, None] - w[None]), 2)
    spans = jnp.max(logits, 1) - jnp.min(logits, 1)
    return jnp.max(apart), 1.0 - jnp.exp(-jnp.max(spans))


def _carries(model: Any, family: Any, ys: Array) -> np.ndarray:
    """Distance between the carries from two starts, relative to the first."""

    def step(pair, y):
        pair = jax.vmap(lambda a: family.advance(model, a, y, Inputs.of()))(pair)
        return pair, jnp.linalg.norm(pair[0] - pair[1])

    ones = jnp.ones_like(family.start)
    apart = jax.jit(lambda p: jax.lax.scan(step, p, ys)[1])(jnp.stack([ones, -ones]))
    begun = 2.0 * family.start.size**0.5
    return np.concatenate([np.ones(1), np.asarray(apart, np.float64) / begun])


def rate(values: Any) -> float:
    """Geometric mean of the factor per step while above rounding."""
    values = np.asarray(values, float)
    usable = int(np.argmax(values < 1e-5)) if np.any(values < 1e-5) else len(values) - 1
    usable = max(usable, 1)
    return float(max(values[usable], 1e-30) ** (1.0 / usable))


def conclude(settings: Settings, found: Mapping[str, Arrays]) -> Conclusion:
    """Rates beside their bounds, and the COLBO beside the evidence."""
    rows, numbers = [], {}
    for kind, cell in found.items():
        entry = {name: rate(cell[name]) for name in ("h", "u", "v", "dobrushin", "paper", "carry")}
        elbo, evidence = (np.asarray(cell[k], float) for k in ("elbo", "evidence"))
        count = len(elbo)
        half = count // 2
        halves = [elbo[half - 1] / half, (elbo[-1] - elbo[half - 1]) / (count - half)]
        entry |= {
            "carry_bound": float(cell["norm"]),
            "colbo": elbo[-1] / count,
            "colbo_first_half": halves[0],
            "colbo_second_half": halves[1],
            "evidence_rate": evidence[-1] / count,
        }
        numbers[kind] = entry
        names = ("h", "u", "v", "dobrushin", "paper", "carry", "carry_bound")
        rows.append([kind, *(round(entry[n], 4) for n in names)])
        rows[-1] += [round(entry["colbo"], 3), round(entry["evidence_rate"], 3)]
    head = ["family", "h", "u", "v", "Dobrushin", "paper's bound", "a", "bound of a"]
    table = report.Table(
        [*head, "ELBO/t", "evidence/t"],
        rows,
        "Factors per step (geometric means): smaller is faster forgetting.",
    )
    remarks = [
        f"{kind.capitalize()}: a difference in h shrinks by {n['h']:.2f} per step (Dobrushin "
        f"{n['dobrushin']:.2f}, paper's bound {n['paper']:.4f}), in a by {n['carry']:.2f} (norm "
        f"{n['carry_bound']:.2f}); ELBO/t {n['colbo']:.3f} (halves {n['colbo_first_half']:.3f}, "
        f"{n['colbo_second_half']:.3f}), evidence {n['evidence_rate']:.3f}."
        for kind, n in numbers.items()
    ]
    return Conclusion(numbers, [table], [_forgetting(found), _colbo(found)], remarks)


def _forgetting(found: Mapping[str, Arrays]) -> Drawing:
    made, axes = report.figure(1, 4, width=11.0, height=3.6, sharey=True)
    for k, (kind, cell) in enumerate(found.items()):
        for axis, name in zip(axes[0], ("h", "u", "v", "carry"), strict=True):
            values = np.asarray(cell[name])
            drawn = {"color": COLOURS[k], "linestyle": STYLES[k], "label": kind}
            axis.plot(np.arange(len(values)), np.maximum(values, 1e-9), **drawn)
    for axis, title in zip(axes[0], ("h", "u (family)", "v (model)", "carry a"), strict=True):
        axis.set(title=title, yscale="log", ylim=(1e-8, 20), xlabel="steps after the start")
    axes[0, 0].set_ylabel("difference, relative to the start")
    report.legend(made, axes[0, 0], columns=4)
    caption = "Differences between two starts, same particles and data; below 1e-7 it is rounding."
    return Drawing("forgetting", made, "Differences between two starts over time", caption)


def _colbo(found: Mapping[str, Arrays]) -> Drawing:
    made, axes = report.figure(1, 1, width=7.0, height=3.6)
    axis = axes[0, 0]
    for k, (kind, cell) in enumerate(found.items()):
        elbo, evidence = np.asarray(cell["elbo"]), np.asarray(cell["evidence"])
        t = np.arange(1, len(elbo) + 1)
        drawn = {"color": COLOURS[k], "linestyle": STYLES[k], "label": f"ELBO/t, {kind}"}
        axis.plot(t[5:], elbo[5:] / t[5:], **drawn)
        if k == 0:
            known = report.look("kalman", marker="", label="log-evidence/t (exact)")
            axis.plot(t[5:], evidence[5:] / t[5:], **known)
    axis.set(xscale="log", xlabel="observations", ylabel="nats per observation")
    axis.legend()
    caption = "ELBO/t settles at the COLBO, below the rate of the evidence; parameters fixed."
    return Drawing("colbo", made, "ELBO per observation and evidence per observation", caption)


EXPERIMENT = Experiment(
    "forgetting", "Forgetting: what the theory promises, measured", cells, conclude
)

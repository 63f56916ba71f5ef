"""What backward expectations cost and how noisy they are: all weights, drawn indices, windows.

Everything is measured against the exact gradient of a linear-Gaussian ELBO at fixed parameters.
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array
from matplotlib.ticker import NullFormatter

import rmcvi
from rmcvi.app import report
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
from rmcvi.lab.reproduce.linear import take_turns
from rmcvi.models import LinearGaussian
from rmcvi.recursion import ideal_elbo

METHODS: dict[str, Any] = {
    "all weights": {},
    "M = 1": {"backward": rmcvi.SampledIndices(1), "control": "none"},
    "M = 2": {"backward": rmcvi.SampledIndices(2)},
    "M = 5": {"backward": rmcvi.SampledIndices(5)},
    "accept-reject, M = 2": {"backward": rmcvi.AcceptReject(2)},
}
"""Options of `RMCVI` by the name of the method."""
COLOURS = ["#0072B2", "#A6761D", "#E69F00", "#CC79A7", "#009E73", "#56B4E9"]
MARKERS = ["o", "X", "s", "D", "^", "v"]


class Problem(eqx.Module):
    """A model, a family beside it, what is differentiated, and a short sequence."""

    model: LinearGaussian
    family: Any
    trainable: Any
    ys: Array

    @classmethod
    def of(cls, dim: int, length: int, off: float) -> "Problem":
        """`off`: how far the family's F and G are from the model's (0: it is the posterior)."""
        model = LinearGaussian.preset("campbell", dim, jax.random.key(dim))
        own = eqx.tree_at(
            lambda m: (m.transition, m.emission),
            model,
            (model.transition * (1.0 - off), model.emission * (1.0 + off)),
        )
        family = rmcvi.families.LinearGaussianFamily(own, diagonal=True)
        trainable = rmcvi.Trainable(
            rmcvi.only(model, lambda m: (m.transition, m.emission)),
            rmcvi.only(family, lambda f: (f.kalman.transition, f.kalman.emission)),
        )
        _, ys = rmcvi.simulate(model, jax.random.key(100 + dim), length)
        return cls(model, family, trainable, ys)

    def exact(self) -> np.ndarray:
        """The gradient that is estimated."""
        theta = eqx.partition(self.model, self.trainable.model)
        phi = eqx.partition(self.family, self.trainable.family)

        def elbo(learned):
            model, family = eqx.combine(learned[0], theta[1]), eqx.combine(learned[1], phi[1])
            return ideal_elbo(model, family, self.ys)[-1]

        return np.asarray(ravel_pytree(jax.jit(jax.grad(elbo))((theta[0], phi[0])))[0])


@eqx.filter_jit
def estimates(problem: Problem, recursion: Any, keys: Array) -> Array:
    """The gradient, estimated once for each key."""

    def once(key):
        def step(state, row):
            y, k = row
            state, grads, _ = recursion.step(
                state, problem.model, problem.family, y, Inputs.of(), k, problem.trainable
            )
            return state, ravel_pytree((grads.model, grads.family))[0]

        start = recursion.init(problem.model, problem.family, problem.trainable)
        rows = (problem.ys, jax.random.split(key, len(problem.ys)))
        return jnp.sum(jax.lax.scan(step, start, rows)[1], 0)

    return jax.lax.map(once, keys)


def judge(estimates: np.ndarray, exact: np.ndarray) -> list[float]:
    """Relative error in root mean square, its standard error, and the share that is bias."""
    size = np.linalg.norm(exact)
    squares = np.sum((estimates - exact) ** 2, 1) / size**2
    rms = np.sqrt(squares.mean())
    spread = squares.std(ddof=1) / len(squares) ** 0.5 / (2 * rms)
    noise = np.sqrt(np.sum(estimates.var(0, ddof=1))) / size
    bias = np.sqrt(max(rms**2 - noise**2, 0.0))
    return [float(rms), float(spread), float(bias)]


def cells(settings: Settings) -> dict[str, Cell]:
    """A cell for each size, one for the windows, one for the entropies."""
    length, repeats, rounds = settings["length"], settings["repeats"], settings["rounds"]

    def measure(problem: Problem, recursions: Mapping[str, Any]) -> dict[str, np.ndarray]:
        exact = problem.exact()
        keys = jax.random.split(jax.random.key(1), repeats)
        programs = {n: eqx.Partial(estimates, problem, r, keys) for n, r in recursions.items()}
        drawn = [np.asarray(run()) for run in programs.values()]
        taken = take_turns(programs, length * repeats, rounds)
        whole = drawn[0]
        apart = [np.linalg.norm(e - whole) / np.linalg.norm(whole) for e in drawn]
        return {
            "errors": np.array([judge(e, exact) for e in drawn]),
            "apart": np.array(apart),
            "microseconds": np.array([1e6 * np.median(taken[n]) for n in programs]),
        }

    def sizes(dim: int, particles: int) -> Cell:
        def run(workspace: Workspace) -> Arrays:
            recursions = {
                name: rmcvi.RMCVI(particles, window=settings["window"], bptt=3, **more)
                for name, more in METHODS.items()
            }
            return measure(Problem.of(dim, length, settings["off"]), recursions)

        return run

    def windows(workspace: Workspace) -> Arrays:
        problem = Problem.of(settings["window_dim"], length, settings["off"])
        options: dict[str, Any] = {"bptt": 3}
        count = settings["window_particles"]
        recursions = {"forward": rmcvi.RMCVI(count, gradient="forward", **options)}
        for window in settings["windows"]:
            recursions[str(window)] = rmcvi.RMCVI(count, window=window, negligible=0.0, **options)
        found = measure(problem, recursions)
        given = (problem.model, problem.family, problem.trainable)
        leaves = [jax.tree.leaves(r.init(*given)) for r in recursions.values()]
        found["bytes"] = np.array([sum(v.nbytes for v in some) for some in leaves])
        return found

    def entropies(off: float) -> Cell:
        def run(workspace: Workspace) -> Arrays:
            problem = Problem.of(settings["window_dim"], length, off)
            recursions = {
                f"{kind} {count}": rmcvi.RMCVI(
                    count, window=settings["window"], bptt=3, entropy=kind
                )
                for kind in ("closed", "sampled")
                for count in settings["entropy_particles"]
            }
            return measure(problem, recursions)

        return run

    found: dict[str, Cell] = {
        f"size{dim}x{count}": sizes(dim, count) for dim, count in settings["sizes"]
    }
    found |= {"windows": windows, "entropy-off": entropies(settings["off"])}
    return found | {"entropy-at": entropies(0.0)}


def conclude(settings: Settings, found: Mapping[str, Arrays]) -> Conclusion:
    """Three tables, two figures."""
    kept = {name: {k: np.asarray(v) for k, v in cell.items()} for name, cell in found.items()}
    rows, numbers = [], {}
    for dim, count in settings["sizes"]:
        cell = kept[f"size{dim}x{count}"]
        for m, name in enumerate(METHODS):
            rms, spread, bias = cell["errors"][m]
            cost = cell["microseconds"][m]
            rows.append(
                [dim, count, name, (rms, spread), bias, cost, cost / cell["microseconds"][0]]
            )
    keys = ("dim", "particles", "method", "error", "bias", "microseconds", "relative_time")
    numbers["sizes"] = [dict(zip(keys, row, strict=True)) for row in rows]
    head = ["dimension", "N", "method", "relative error", "of it bias", "us/step"]
    first = report.Table(
        [*head, "time / all weights"],
        rows,
        "Gradient of the ELBO of a short sequence, against the exact one; root mean square.",
    )
    windows = kept["windows"]
    names = ["forward", *(f"windowed, L = {w}" for w in settings["windows"])]
    lines = [
        [
            name,
            tuple(windows["errors"][k][:2]),
            windows["apart"][k],
            windows["microseconds"][k],
            int(windows["bytes"][k]),
        ]
        for k, name in enumerate(names)
    ]
    keys = ("gradient", "error", "truncation", "microseconds", "state_bytes")
    numbers["windows"] = [dict(zip(keys, row, strict=True)) for row in lines]
    second = report.Table(
        ["gradient", "relative error", "distance from forward", "us/step", "bytes of state"],
        lines,
        f"N = {settings['window_particles']}, dimension {settings['window_dim']}.",
    )
    third, numbers["entropy"] = _entropies(settings, kept)
    drawings = [_sizes(settings, kept), _windows(settings, windows)]
    return Conclusion(numbers, [first, second, third], drawings, _remarks(numbers))


def _entropies(settings: Settings, kept: Mapping[str, Any]) -> tuple[report.Table, list[Any]]:
    rows, keys = [], ("family", "entropy", "particles", "error", "bias")
    for cell, where in (("entropy-off", "beside the posterior"), ("entropy-at", "the posterior")):
        errors = iter(kept[cell]["errors"])
        for kind in ("closed", "sampled"):
            for count in settings["entropy_particles"]:
                rms, spread, bias = next(errors)
                rows.append([where, kind, count, (rms, spread), bias])
    caption = "At the posterior phi's exact gradient is zero: what is left is theta's."
    head = ["family", "entropy", "N", "relative error", "of it bias"]
    return report.Table(head, rows, caption), [dict(zip(keys, r, strict=True)) for r in rows]


def _remarks(numbers: Mapping[str, Any]) -> list[str]:
    found = []
    largest = numbers["sizes"][-len(METHODS) :]
    whole = largest[0]
    for row in largest[1:]:
        found.append(
            f"d = {row['dim']}, N = {row['particles']}, {row['method']}: "
            f"{row['error'][0] / whole['error'][0]:.2f} times the error of all weights in "
            f"{row['relative_time']:.2f} times the time."
        )
    forward, *cut = numbers["windows"]
    last = cut[-1]
    found.append(
        f"The longest window differs from the forward gradient by {last['truncation']:.1e} "
        f"(relative), in {last['microseconds'] / forward['microseconds']:.2f} times its time and "
        f"{last['state_bytes'] / forward['state_bytes']:.2f} times its memory."
    )
    return found


def _sizes(settings: Settings, kept: Mapping[str, Any]) -> Drawing:
    dims = sorted({dim for dim, _ in settings["sizes"]})
    made, axes = report.figure(1, len(dims), width=9.0, height=3.8, sharey=True)
    for axis, dim in zip(axes[0], dims, strict=True):
        counts = [n for d, n in settings["sizes"] if d == dim]
        for m, name in enumerate(METHODS):
            cost = [kept[f"size{dim}x{n}"]["microseconds"][m] for n in counts]
            rms = np.array([kept[f"size{dim}x{n}"]["errors"][m] for n in counts])
            drawn = {"color": COLOURS[m], "marker": MARKERS[m], "label": name}
            axis.errorbar(cost, rms[:, 0], yerr=rms[:, 1], **drawn)
        axis.set(xscale="log", yscale="log", xlabel="time per step (us of one core)")
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_title(f"dimension {dim}, N = {', '.join(map(str, counts))}")
    axes[0, 0].set_ylabel("relative error of the gradient")
    axes[0, -1].legend()
    caption = "Error against cost as N grows along each line; bars are standard errors."
    return Drawing("backward", made, "Gradient error against time per step", caption)


def _windows(settings: Settings, cell: Mapping[str, np.ndarray]) -> Drawing:
    made, axes = report.figure(1, 3, width=9.5, height=3.4)
    windows = settings["windows"]
    ours, forward = report.look("rmcvi", label="windowed"), report.look("kalman", marker="")
    axes[0, 0].plot(windows, np.maximum(cell["apart"][1:], 1e-8), **ours)
    axes[0, 0].set(yscale="log", ylabel="relative truncation error")
    for axis, values, unit in (
        (axes[0, 1], cell["microseconds"], "time per step (us of one core)"),
        (axes[0, 2], cell["bytes"] / 1000, "state (kilobytes)"),
    ):
        axis.plot(windows, values[1:], **ours)
        axis.axhline(values[0], **(forward | {"label": "forward"}))
        axis.set(ylabel=unit, ylim=(0, None))
    for axis in axes[0]:
        axis.set(xlabel="window L (steps)")
    axes[0, 1].legend()
    caption = "The same particles for all, so that the first panel is truncation alone."
    return Drawing("windows", made, "Error, time and memory against the window", caption)


EXPERIMENT = Experiment(
    "backward-sampling",
    "Backward expectations: weights, drawn indices, windows, entropies",
    cells,
    conclude,
)

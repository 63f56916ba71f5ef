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

import rmcvi
from rmcvi.core.inputs import Inputs
from rmcvi.lab.reproduce.backward_report import METHODS, conclude
from rmcvi.lab.reproduce.experiment import (
    Arrays,
    Cell,
    Experiment,
    Settings,
    Workspace,
)
from rmcvi.lab.reproduce.linear import take_turns
from rmcvi.models import LinearGaussian
from rmcvi.recursion import ideal_elbo


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


EXPERIMENT = Experiment(
    "backward-sampling",
    "Backward expectations: weights, drawn indices, windows, entropies",
    cells,
    conclude,
)

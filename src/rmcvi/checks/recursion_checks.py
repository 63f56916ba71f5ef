"""Conformance of a recursion: its state, gradients and filter along a short stream.

state, grads, info = recursion.step(state, model, family, y, inputs, key, trainable)
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from rmcvi.checks.report import HINT, Report, Sheet, call
from rmcvi.checks.tools import (
    ABSURD,
    changed_structure,
    close,
    different_leaf,
    keys,
    not_arrays,
    not_finite,
    paths,
    quick_jit,
    rounding,
    sample_excess,
    shown,
    simulated,
    with_gaps,
    worst,
)
from rmcvi.contract import AbstractRecursion, Result, Trainable
from rmcvi.core.inputs import Inputs

LENGTH = 8
NUM_DRAWS = 2000
STREAM = "steps over a stream"


def recursion(recursion: Any, model: Any, family: Any, *, seed: int = 0) -> Report:
    """Check a recursion with a model and a family that conform (or None for no family)."""
    sheet = Sheet(f"recursion {type(recursion).__name__}")
    sheet.check("class", lambda: _class(recursion))
    if not sheet.usable("class"):
        return sheet.report()
    start: Any = sheet.compute("init", lambda: _init(recursion, model, family, None))
    sheet.check("state of arrays", lambda: _arrays(start), ["init"])
    sheet.check(
        "state of constant type", lambda: _constant(recursion, model, family, start), ["init"]
    )
    for name, trainable in _choices(model).items():
        sheet.check(
            f"gradients: {name}", lambda t=trainable: _gradients(recursion, model, family, t)
        )
    run: Any = sheet.compute(
        STREAM,
        lambda: _Run(recursion, model, family, start, seed),
        ["init", "state of arrays", "state of constant type"],
    )
    for name, check in (
        ("finite over a stream with gaps", _finite),
        ("same key, same numbers", _same),
        ("elbo = sum of increments", _sum),
        ("filtered: a covariance", _covariance),
        ("draw has the moments of filtered", _draws),
        (f"y = {ABSURD:g} is survived", _survives),
    ):
        sheet.check(name, lambda c=check: c(run), [STREAM])
    return sheet.report()


def _class(recursion: Any) -> str | None:
    if isinstance(recursion, AbstractRecursion):
        return None
    return f"got {type(recursion).__name__}, expected a subclass of rmcvi.AbstractRecursion"


def _init(recursion: Any, model: Any, family: Any, trainable: Trainable | None) -> PyTree:
    return call("recursion.init", recursion.init, model, family, trainable)


def _step(
    recursion: Any, state: PyTree, model: Any, family: Any, y: Any, key: Any, trainable: Any
) -> tuple[PyTree, Any, Any]:
    inputs = Inputs(jnp.zeros(model.dim_input), jnp.ones(()))
    step = recursion.step
    out = call("recursion.step", step, state, model, family, y, inputs, key, trainable)
    return out[0], out[1], out[2]


def _arrays(state: PyTree) -> str | None:
    wrong = not_arrays(state)
    return wrong and f"the state of recursion.init {wrong}"


def _traced(recursion: Any, model: Any, family: Any, state: PyTree, trainable: Any) -> Any:
    y, key = jnp.zeros(model.dim_obs), keys(0)
    return eqx.filter_eval_shape(_step, recursion, state, model, family, y, key, trainable)


def _constant(recursion: Any, model: Any, family: Any, start: PyTree) -> str | None:
    how = changed_structure(start, _traced(recursion, model, family, start, None)[0])
    return how and f"recursion.step must return a state of the type it was given: {how}"


def _choices(model: Any) -> dict[str, Trainable]:
    """All leaves, the first leaf of the model alone, and none."""
    flags = jax.tree.map(lambda _: False, model)
    leaves = jax.tree.leaves(model)
    first = next((i for i, v in enumerate(leaves) if eqx.is_inexact_array(v) and v.size), None)
    picked = [i == first for i in range(len(leaves))]
    one = jax.tree.unflatten(jax.tree.structure(flags), picked)
    return {
        "everything is trained": Trainable(),
        "one parameter is trained": Trainable(model=one, family=False),
        "nothing is trained": Trainable(model=False, family=False),
    }


def _gradients(recursion: Any, model: Any, family: Any, trainable: Trainable) -> str | None:
    """Gradients where a leaf is trained, None elsewhere."""
    state = _init(recursion, model, family, trainable)
    _, grads, _ = _traced(recursion, model, family, state, trainable)
    missing = None
    for part, subject in (("model", model), ("family", family)):
        wanted = dict(paths(eqx.filter(subject, getattr(trainable, part))))
        given = dict(paths(getattr(grads, part)))
        for path, leaf in given.items():
            if path not in wanted:
                return f"grads.{part}{path} is given, expected None: this leaf is not trained"
            if leaf.shape != wanted[path].shape:
                expected = wanted[path].shape
                return f"grads.{part}{path} has shape {leaf.shape}, expected {expected}"
        absent = [path for path in wanted if path not in given]
        if absent and given:
            return f"grads.{part}{absent[0]} is missing: this leaf is trained"
        if absent:
            missing = part
    return (
        missing and f"{HINT}no gradients for the {missing}: the recursion fits it, or nobody does"
    )


@quick_jit
def _compiled(recursion: Any, state: Any, model: Any, family: Any, y: Any, key: Any) -> Any:
    return _step(recursion, state, model, family, y, key, None)


@quick_jit
def _looked(recursion: Any, state: Any, model: Any, family: Any, key: Any) -> Any:
    moments = call("recursion.filtered", recursion.filtered, state, model, family)
    draws = call("recursion.draw", recursion.draw, state, model, family, key, NUM_DRAWS)
    return moments.mean, moments.covariance, draws


class _Run:
    """States, gradients and infos of one pass, parameters held."""

    def __init__(self, recursion: Any, model: Any, family: Any, start: PyTree, seed: int):
        self.subject, self.seed = (recursion, model, family), seed
        self.ys = with_gaps(simulated(model, LENGTH, seed))
        self.states, self.steps = [start], []
        for t in range(LENGTH):
            self.states.append(self.step(self.states[-1], t, self.ys[t]))
        self.mean, self.covariance, self.draws = self.look(self.states[-1])

    def step(self, state: PyTree, t: int, y: Any) -> PyTree:
        recursion, model, family = self.subject
        key = keys(self.seed, LENGTH, at=(t,))
        state, *rest = _compiled(recursion, state, model, family, jnp.asarray(y, float), key)
        self.steps.append(rest)
        return state

    def look(self, state: PyTree) -> tuple[np.ndarray, ...]:
        recursion, model, family = self.subject
        found = _looked(recursion, state, model, family, keys(self.seed + 1))
        return tuple(np.asarray(v, float) for v in found)


def _finite(run: _Run) -> str | None:
    for t, (grads, info) in enumerate(run.steps[:LENGTH]):
        row = {2: " (which lacks y[0])", 3: " (all missing)"}.get(t, "")
        path = not_finite(grads)
        if path is not None:
            return f"the gradient {path} at step {t}{row} is not finite"
        for name in ("elbo", "increment"):
            if not np.isfinite(np.asarray(getattr(info, name))):
                return f"info.{name} at step {t}{row} is not finite"
        if int(info.result) >= int(Result.NON_FINITE):
            return f"info.result at step {t}{row}: {Result(int(info.result)).message}"
    return None


def _same(run: _Run) -> str | None:
    again = run.step(run.states[0], 0, run.ys[0])
    path = different_leaf(again, run.states[1])
    return path and f"recursion.step gave another state{path} for the same state, y and key"


def _sum(run: _Run) -> str | None:
    elbo, increment = (
        np.array([float(getattr(info, name)) for _, info in run.steps[:LENGTH]])
        for name in ("elbo", "increment")
    )
    if close(np.cumsum(increment), elbo):
        return None
    t = int(np.argmax(np.abs(np.cumsum(increment) - elbo)))
    return (
        f"info.elbo is {shown(elbo[t])} at step {t}, and info.increment sums to "
        f"{shown(np.cumsum(increment)[t])}"
    )


def _covariance(run: _Run) -> str | None:
    if not (np.all(np.isfinite(run.mean)) and np.all(np.isfinite(run.covariance))):
        return "recursion.filtered is not finite"
    if not close(run.covariance, run.covariance.T):
        return "recursion.filtered: the covariance is not symmetric"
    low = float(np.linalg.eigvalsh(run.covariance).min())
    if low < -rounding() * float(np.trace(run.covariance)):
        return f"recursion.filtered: the covariance has a negative eigenvalue, {low:.3g}"
    return None


def _draws(run: _Run) -> str | None:
    mean, error, off = sample_excess(run.draws, run.mean)
    if np.any(off > 1.0):
        (k,) = worst(off)
        return (
            f"recursion.draw has mean {mean[k]:.3g} in x[{k}] (standard error {error[k]:.2g}), and "
            f"recursion.filtered tells {shown(run.mean[k])}"
        )
    away = run.draws - run.mean
    square, error, off = sample_excess(away[:, :, None] * away[:, None], run.covariance)
    if np.any(off > 1.0):
        at = worst(off)
        return (
            f"recursion.draw has covariance {square[at]:.3g} at {list(at)} (standard error "
            f"{error[at]:.2g}), and recursion.filtered tells {shown(run.covariance[at])}"
        )
    return None


def _survives(run: _Run) -> str | None:
    """Whatever the step itself says, the ones after it must be sound."""
    ys = np.array(run.ys)
    ys[4, 0] = ABSURD
    state = run.states[4]
    for t in range(4, LENGTH):
        state = run.step(state, t, ys[t])
        grads, info = run.steps[-1]
        if not np.all(np.isfinite(np.asarray(info.elbo))) or not_finite(grads) is not None:
            when = "at that step" if t == 4 else f"{t - 4} steps later"
            return f"after y[0] = {ABSURD:g}, info.elbo or the gradients are not finite {when}"
    if not all(np.all(np.isfinite(v)) for v in run.look(state)):
        return f"after y[0] = {ABSURD:g}, recursion.filtered or recursion.draw is not finite"
    return None

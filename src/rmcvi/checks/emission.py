"""What a model says of its emission, held against draws of y and their scores in x.

    E y = emission_mean,   E s s' = R'R with s = d/dx log g(x, y) and R = emission_information,

for the whole of y, with one coordinate missing, and with nothing seen. Families that imitate a
Kalman step believe these numbers, and a Gaussian law of x_0, without looking at the density.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from rmcvi.checks.laws import Seen, log_density
from rmcvi.checks.report import HINT, call
from rmcvi.checks.tools import SIGMAS, close, quick_jit, rounding, sample_excess, shown, worst
from rmcvi.core.inputs import Inputs

LARGE = 1.1
"""Share of the information beyond which a surplus is called one: less changes no filter."""
SMALL = 1 / 3
"""Share below which too little is a fault; a bound that follows from the mean may be half."""
WIDE = 1.5
"""Most of half the draws: within 1.41 standard deviations by Chebyshev's inequality."""
DERIVED = "leave the method out to have it derived from emission_mean and emission_scale"


class Told(eqx.Module):
    """What the model says, and the scores of its draws, at each point (axis 0)."""

    mean: Any
    scale: Any
    rows: Any
    """Per mask (axis 1): all is seen, all but the first coordinate, nothing."""
    score: Any
    """Per mask (axis 1) and draw (axis 2)."""


def told(model: Any, seen: Seen) -> Told:
    """Everything at the points and draws of the emission."""
    found = _told(model, jnp.asarray(seen.given), jnp.asarray(seen.draws), seen.inputs)
    return jax.tree.map(np.asarray, found)


@quick_jit
def _told(model: Any, given: Array, draws: Array, inputs: Inputs) -> Told:
    whole = jnp.ones(draws.shape[-1], draws.dtype)
    masks = jnp.stack([whole, whole.at[0].set(0.0), 0.0 * whole])

    def at(x, ys, inputs):
        def masked(mask):
            rows = call("model.emission_information", model.emission_information, x, mask, inputs)
            left = jnp.where(mask[None] > 0.0, ys, jnp.nan)
            slope = jax.grad(lambda v, y: log_density(model, "emission", v, y, inputs))
            return rows, jax.vmap(lambda y: slope(x, y))(left)

        mean = call("model.emission_mean", model.emission_mean, x, inputs)
        scale = call("model.emission_scale", model.emission_scale, x, inputs)
        return Told(mean, scale, *jax.vmap(masked)(masks))

    return jax.vmap(at)(given, draws, inputs)


def place(found: Told, seen: Seen) -> str | None:
    """emission_mean and emission_scale are those of the draws."""
    for i, x in enumerate(seen.given):
        away = seen.residual(found.mean[i], i) / found.scale[i]
        mean, error, off = sample_excess(away)
        if np.any(off > 1.0):
            (k,) = worst(off)
            return (
                f"model.emission_mean is off by {mean[k]:.3g} scales in y[{k}] from the draws of "
                f"model.emission_sample at x = {shown(x)} (standard error {error[k]:.2g}): it must "
                "be the mean of y given x"
            )
        sentence = _scale(away, x)
        if sentence is not None:
            return sentence
    return None


def _scale(away: np.ndarray, x: Any) -> str | None:
    """Not wider than the draws, nor much narrower; heavy tails have no standard deviation."""
    square, error, _ = sample_excess(away**2)
    half = np.median(np.abs(away), 0)
    wrong = np.maximum((1.0 - square) / (SIGMAS * error + 0.05), half / WIDE)
    if not np.any(wrong > 1.0):
        return None
    (k,) = worst(wrong)
    return (
        f"model.emission_scale does not suit the draws of model.emission_sample at x = {shown(x)}: "
        f"in its units y[{k}] has standard deviation {np.sqrt(square[k]):.3g} and median distance "
        f"{half[k]:.3g} from emission_mean, expected 1 and about .7 (a variance for its root?)"
    )


def information(found: Told, seen: Seen) -> str | None:
    """R'R is the covariance of the score, when all is seen and when not."""
    hint = None
    for i, x in enumerate(seen.given):
        for rows, score, missing in zip(
            found.rows[i], found.score[i], ("", "y[0] = NaN", "all of y = NaN"), strict=True
        ):
            sentence = _compare(np.asarray(rows, float), np.asarray(score, float))
            if sentence is None:
                continue
            where = f"at x = {shown(x)}" + (f" with {missing}" if missing else "")
            advice = "multiply its row k by seen[k]" if missing else DERIVED
            if not sentence.startswith(HINT):
                return f"model.emission_information {where} {sentence} ({advice})"
            hint = f"{HINT}model.emission_information {where} {sentence.removeprefix(HINT)}"
    return hint


def _compare(rows: np.ndarray, score: np.ndarray) -> str | None:
    """Along directions chosen on half the draws and judged on the others."""
    chosen, judged = score[::2], score[1::2]
    size, axes = np.linalg.eigh(chosen.T @ chosen / len(chosen))
    kept = size > rounding() * max(size[-1], 1e-30)
    silent = rows @ axes[:, ~kept]
    if np.sum(silent**2) > 10.0 * rounding() * (1e-12 + size[-1] + np.sum(rows**2)):
        k = int(np.argmax(np.sum((silent @ axes[:, ~kept].T) ** 2, 0)))
        return f"tells something about x[{k}], of which y says nothing"
    white = axes[:, kept] / np.sqrt(size[kept])
    ratio, turn = np.linalg.eigh(white.T @ rows.T @ rows @ white)
    directions = white @ turn
    measured, error, _ = sample_excess((judged @ directions) ** 2)
    reach = SIGMAS * error
    much, little = ratio > LARGE * measured + reach, ratio < measured / LARGE - reach
    if not np.any(much | little):
        return None
    share = ratio / measured
    at = int(np.argmax(np.where(much | little, np.abs(np.log(share + 1e-12)), -1.0)))
    fine = little[at] and ratio[at] > SMALL * (measured[at] - reach[at])
    return (HINT if fine else "") + (
        f"says too {'much' if much[at] else 'little'} about "
        f"x[{int(np.argmax(np.abs(directions[:, at])))}]: {share[at]:.3g} times the mean square of "
        "the draws' scores, expected 1; rows are derivatives of the mean of y over its standard "
        "deviation, and there are more of them where the spread of y tells as well"
    )


@quick_jit
def _curvatures(model: Any, points: Array) -> Array:
    def log_prob(x):
        return call("model.initial_log_prob", model.initial_log_prob, x)

    return jax.vmap(jax.hessian(log_prob))(points)


def gaussian_start(model: Any, seen: Seen) -> str | None:
    """The law of x_0 has one curvature everywhere, the origin included."""
    draws = np.asarray(seen.draws[0, :3], float)
    points = jnp.asarray(np.concatenate([0.0 * draws[:1], draws]), float)
    curvature = np.asarray(_curvatures(model, points), float)
    if np.all(np.isfinite(curvature)) and close(
        curvature, np.broadcast_to(curvature[:1], curvature.shape), 10.0 * rounding()
    ):
        return None
    return (
        "model.initial_log_prob is not Gaussian, and families that imitate a Kalman step read mean "
        "and covariance of x_0 off its slope and curvature at the origin: return both from "
        "model.initial_moments and leave initial_log_prob and initial_sample out, or subclass "
        "AbstractModel and use RecurrentFamily"
    )

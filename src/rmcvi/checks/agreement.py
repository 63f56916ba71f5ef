"""Do the sampler and the density of one law describe the same law? Sentences from its draws.

With additive Gaussian transition noise, mean, scale, Jacobian and fast paths are held against the
density too.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from rmcvi.checks.laws import DENSITY, NUM_DRAWS, SAMPLER, VARIABLE, Seen
from rmcvi.checks.report import HINT, SKIPPED, call
from rmcvi.checks.tools import (
    close,
    excess,
    paths,
    quick_jit,
    rounding,
    sample_excess,
    shown,
    standard_error,
    worst,
)
from rmcvi.core.inputs import Inputs
from rmcvi.models import AbstractGaussianModel

SINGULAR = "model.transition_scale is singular, so that x_t given x_{t-1} has no density"


def finite(law: str, seen: Seen, singular: bool = False) -> str | None:
    """Draws, log-densities and their slopes are finite at the model's own draws."""
    bad = int(np.sum(~np.all(np.isfinite(seen.draws), -1)))
    if bad:
        return f"model.{SAMPLER[law]}: {bad} of {seen.log_prob.size} draws are not finite"
    if singular:
        return (
            f"{HINT}{SINGULAR}: NaturalRMCVI with LinearGaussianFamily(), particle and Kalman "
            "filters need none; other recursions, mixtures' `smooth` and particle smoothers do"
        )
    for name, values in (("", seen.log_prob[..., None]), ("the gradient of ", seen.slope)):
        wrong = ~np.all(np.isfinite(values), -1)
        if np.any(wrong):
            where = shown(seen.draws[worst(wrong.astype(float))])
            return (
                f"{name}model.{DENSITY[law]} is not finite at {int(wrong.sum())} of {wrong.size} "
                f"draws of model.{SAMPLER[law]}, such as {VARIABLE[law]} = {where}"
            )
    return None


def support(law: str, seen: Seen) -> str | None:
    """States live on all of R^dx: no atoms, no whole numbers, finite far out."""
    why = discrete(law, seen)
    if why is not None:
        return (
            f"{why}: a state needs a density on the real line (add a little noise, or write the "
            "model for a transformed state)"
        )
    if not np.all(np.isfinite(seen.far)):
        _, side, k = worst(~np.isfinite(seen.far))
        reach = "below" if side == 0 else "above"
        return (
            f"model.{DENSITY[law]} is not finite for x[{k}] far {reach} its draws: particles can "
            "get there, so write the model for a transformed state (a logarithm, a logit)"
        )
    return None


def discrete(law: str, seen: Seen) -> str | None:
    """Why the law is not continuous, judged by ties among its draws."""
    for k in range(seen.draws.shape[-1]):
        draws = seen.draws[..., k]
        if np.all(draws == np.round(draws)):
            return f"{VARIABLE[law]}[{k}] takes whole numbers only"
        if any(_ties(row) for row in draws):
            return f"model.{SAMPLER[law]} often draws the same value of {VARIABLE[law]}[{k}]"
    return None


def _ties(row: np.ndarray) -> bool:
    """Whether values come again more often than by rounding, of small noise on large numbers."""
    distinct, spread = len(np.unique(row)), float(np.std(row))
    rounded = row.size * np.spacing(np.max(np.abs(row))) / spread if spread > 0.0 else 0.0
    return bool(distinct < (0.95 - rounded) * row.size)


def bounded(law: str, seen: Seen) -> str | None:
    """Why the law seems to live on a part of the line, judged by its density far out."""
    high = np.max(seen.log_prob, 1)[:, None, None]
    beyond = (~np.isfinite(seen.far) | (seen.far > high)) & np.isinf(seen.period)
    if not np.any(beyond):
        return None
    return f"{VARIABLE[law]}[{worst(beyond)[2]}] seems to be bounded"


def stein(law: str, seen: Seen) -> str | None:
    """Stein's identities, point by point."""
    if law == "emission":
        why = discrete(law, seen) or bounded(law, seen)
        if why is not None:
            return f"{SKIPPED}{why}, and Stein's identities need a density on the whole line"
    for i in range(len(seen.draws)):
        sentence = _stein_at(law, seen.unwrapped[i], seen.slope[i], seen.centre[i], seen.spread[i])
        if sentence is not None:
            name = "x_prev" if law == "transition" else "x"
            place = "" if law == "initial" else f" at {name} = {shown(seen.given[i])}"
            both = f"model.{SAMPLER[law]} and model.{DENSITY[law]}"
            return f"{both} disagree{place} {sentence}"
    return None


def _stein_at(
    law: str, draws: np.ndarray, slope: np.ndarray, centre: np.ndarray, spread: np.ndarray
) -> str | None:
    v = VARIABLE[law]
    draws, slope = np.asarray(draws, float), np.asarray(slope, float)
    mean, error, off = sample_excess((draws - centre) * slope, -1.0)
    if np.any(off > 1.0):
        (k,) = worst(off)
        wide = f", about {np.sqrt(-mean[k]):.2g} times as wide" if mean[k] < 0.0 else ""
        return (
            f"about the spread of {v}[{k}]: the mean of ({v} - c) d/d{v} log p is "
            f"{_with_error(mean[k], error[k])}, expected -1 (the sampler draws from another scale "
            f"or shape than the density's{wide})"
        )
    mean, error, off = sample_excess(slope)
    if np.any(off > 1.0):
        (k,) = worst(off)
        return (
            f"about the place of {v}[{k}]: the mean of d/d{v} log p is "
            f"{_with_error(mean[k], error[k])}, expected 0 (another mean, or another sign)"
        )
    bent = np.tanh((draws - centre) / spread)
    mean, error, off = sample_excess(bent[:, :, None] * slope[:, None, :])
    off = np.where(np.eye(len(centre), dtype=bool), 0.0, off)
    if np.any(off > 1.0):
        j, k = worst(off)
        return (
            f"about how {v}[{j}] and {v}[{k}] depend on each other: the mean of "
            f"tanh({v}[{j}]) d/d{v}[{k}] log p is {_with_error(mean[j, k], error[j, k])}, "
            "expected 0 (a transposed factor, or a forgotten correlation?)"
        )
    return None


def score(law: str, seen: Seen) -> str | None:
    """E d/dtheta log p = 0 for every trained leaf, point by point."""
    leaves = zip(paths(seen.theta_mean), jax.tree.leaves(seen.theta_square), strict=True)
    for (path, mean), square in leaves:
        if mean.size == 0:
            continue
        if not np.all(np.isfinite(mean)):
            return f"the gradient of model.{DENSITY[law]} in {path} is not finite"
        off = excess(mean, square, NUM_DRAWS)
        if np.any(off > 1.0):
            index = worst(off)
            error = standard_error(mean, square, NUM_DRAWS)[index]
            entry = "".join(f"[{i}]" for i in index[1:])
            return (
                f"the mean of d/d{path}{entry} model.{DENSITY[law]} over its own draws is "
                f"{_with_error(mean[index], error)}, expected 0: the density is not normalised for "
                "every value of this parameter (a forgotten -log scale?), or sampler and density "
                "read it differently"
            )
    return None


def _with_error(mean: float, error: float) -> str:
    return f"{mean:.3g} (standard error {error:.2g})"


class Account(eqx.Module):
    """What the extra methods say, next to what they must be."""

    fast: Array
    """Log-densities of all pairs, at once and one by one, and their weighted sum."""
    plain: Array
    total: Array
    moment: Array | None = None
    mean: Array | None = None
    scale: Array | None = None
    jacobian: Array | None = None
    derivative: Array | None = None


@quick_jit
def account(model: Any, x_prev: Array, x: Array, inputs: Inputs, weight: Array) -> Account:
    """At every point (axis 0); pairs are two states now and all those before."""
    before, now, step = x_prev, x[:2], jax.tree.map(lambda v: v[0], inputs)

    def plain(x_prev, x):
        return call("model.transition_log_prob", model.transition_log_prob, x_prev, x, step)

    table = jax.vmap(lambda x: jax.vmap(lambda v: plain(v, x))(before))(now)
    fast = call("model.pairwise_log_prob", model.pairwise_log_prob, before, now, step)
    total = jnp.sum(weight * table)
    if model.gaussian is None:
        return Account(fast, table, total)

    def at(x, inputs):
        return (
            call("model.transition_mean", model.transition_mean, x, inputs),
            call("model.transition_scale", model.transition_scale, inputs),
            call("model.transition_jacobian", model.transition_jacobian, x, inputs),
            jax.jacfwd(model.transition_mean)(x, inputs),
        )

    moment = call("model.moment_log_prob", _moment, model, before, now, weight, step)
    return Account(fast, table, total, moment, *jax.vmap(at)(x_prev, inputs))


def _moment(
    model: AbstractGaussianModel, before: Array, now: Array, weight: Array, inputs: Inputs
) -> Array:
    cross = weight.T @ (now - jnp.mean(now, 0, keepdims=True))
    sums = jnp.sum(weight, 1), jnp.sum(weight, 0)
    return model.moment_log_prob(before, now, *sums, cross, inputs)


def moments(said: Account, seen: Seen) -> str | None:
    """transition_mean and transition_scale are those of the draws."""
    for mean, scale, draws in zip(
        *map(np.asarray, (said.mean, said.scale, seen.draws)), strict=True
    ):
        factor = np.asarray(scale, float)
        factor = np.diag(factor) if factor.ndim == 1 else factor
        if np.any(np.triu(factor, 1) != 0.0) or np.any(np.diagonal(factor) < 0.0):
            return (
                "model.transition_scale: expected standard deviations or a lower Cholesky factor, "
                f"got {shown(scale)}"
            )
        away, expected = np.asarray(draws, float) - np.asarray(mean, float), np.eye(len(factor))
        if np.all(np.diagonal(factor) > 0.0):
            white = np.linalg.solve(factor, away.T).T
        else:  # nothing to divide by: in units of each coordinate, or of its size without noise
            size, place = np.linalg.norm(factor, axis=1), 1.0 + np.abs(np.asarray(mean, float))
            away = np.where((size > 0.0) | (np.abs(away) > rounding() * place), away, 0.0)
            unit = np.where(size > 0.0, size, place)
            white, factor = away / unit, factor / unit[:, None]
            expected = factor @ factor.T
        average, error, off = sample_excess(white)
        if np.any(off > 1.0):
            (k,) = worst(off)
            return (
                f"model.transition_mean is off by {average[k]:.3g} scales in x[{k}] from the draws "
                f"of model.transition_sample (standard error {error[k]:.2g})"
            )
        square, error, off = sample_excess(white[:, :, None] * white[:, None], expected)
        if np.any(off > 1.0):
            j, k = worst(off)
            return (
                f"model.transition_scale is not that of the draws of model.transition_sample: "
                f"whitened by it, they have covariance {square[j, k]:.3g} at [{j}, {k}] (standard "
                f"error {error[j, k]:.2g}), expected {expected[j, k]:.3g}"
            )
    return None


def jacobian(said: Account) -> str | None:
    """transition_jacobian = d transition_mean / dx."""
    got, expected = np.asarray(said.jacobian), np.asarray(said.derivative)
    if close(got, expected):
        return None
    i, j, k = worst(np.abs(got - expected))
    return (
        f"model.transition_jacobian is {shown(got[i, j, k])} at [{j}, {k}], and "
        f"jax.jacfwd(model.transition_mean) is {shown(expected[i, j, k])}"
    )


def fast_paths(found: Account) -> str | None:
    """pairwise_log_prob and moment_log_prob = the plain density."""
    if not close(found.fast, found.plain):
        i, j = worst(np.abs(np.asarray(found.fast) - np.asarray(found.plain)))
        return (
            f"model.pairwise_log_prob is {shown(found.fast[i, j])} at row {i} (now), column {j} "
            f"(before), and model.transition_log_prob is {shown(found.plain[i, j])}"
        )
    if found.moment is not None and not close(found.moment, found.total):
        return (
            f"model.moment_log_prob is {shown(found.moment)}, and the weighted sum of "
            f"model.transition_log_prob is {shown(found.total)}"
        )
    return None

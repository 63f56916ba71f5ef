"""Additive Gaussian transition noise: mean, scale, Jacobian and fast paths against the density."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from rmcvi.checks.compile import quick_jit
from rmcvi.checks.laws import Seen
from rmcvi.checks.numbers import close, sample_excess, shown, worst
from rmcvi.checks.report import call
from rmcvi.core.inputs import Inputs
from rmcvi.models import AbstractGaussianModel


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
    if not isinstance(model, AbstractGaussianModel):
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
        if np.any(np.triu(factor, 1) != 0.0) or np.any(np.diagonal(factor) <= 0.0):
            return (
                "model.transition_scale: expected positive standard deviations or a lower "
                f"Cholesky factor, got {shown(scale)}"
            )
        white = np.linalg.solve(factor, (np.asarray(draws, float) - np.asarray(mean, float)).T).T
        average, error, off = sample_excess(white)
        if np.any(off > 1.0):
            (k,) = worst(off)
            return (
                f"model.transition_mean is off by {average[k]:.3g} scales in x[{k}] from the draws "
                f"of model.transition_sample (standard error {error[k]:.2g})"
            )
        square, error, off = sample_excess(white[:, :, None] * white[:, None], np.eye(len(factor)))
        if np.any(off > 1.0):
            j, k = worst(off)
            return (
                f"model.transition_scale is not that of the draws of model.transition_sample: "
                f"whitened by it, they have covariance {square[j, k]:.3g} at [{j}, {k}] (standard "
                f"error {error[j, k]:.2g}), expected {float(j == k):g}"
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

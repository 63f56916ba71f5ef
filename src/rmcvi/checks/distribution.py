"""Identities of an exponential family, checked on its own draws:

grad A(eta) = E T(x),    entropy = -E log q(x),    mean and covariance those of the draws.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from rmcvi.checks.report import Sheet
from rmcvi.checks.tools import (
    close,
    default_dtype,
    keys,
    paths,
    quick_jit,
    sample_excess,
    shown,
    worst,
)

NUM_DRAWS = 4000
"""Standard errors of 1.6 % of a deviation: errors of a tenth are found."""


class Identities(eqx.Module):
    """Draws of one member and what the distribution says about it."""

    draws: Array
    statistic: PyTree
    log_prob: Array
    slope: PyTree
    entropy: Array
    mean: Array
    covariance: Array


@quick_jit
def _identities(q: Any, eta: PyTree, key: Array) -> Identities:
    draws = q.sample(key, eta, NUM_DRAWS)
    return Identities(
        draws,
        jax.vmap(q.statistic)(draws),
        jax.vmap(lambda x: q.log_prob(eta, x))(draws),
        jax.grad(q.log_normaliser)(eta),
        q.entropy(eta),
        q.mean(eta),
        q.covariance(eta),
    )


def check_distribution(sheet: Sheet, family: Any, calm: Any, seed: int) -> None:
    """At the last marginal of a walk."""
    numbers = "distribution: values"

    def run():
        eta = jax.tree.map(lambda v: jnp.asarray(np.asarray(v)[-1], default_dtype()), calm.eta)
        return _identities(family.distribution, eta, keys(seed))

    found: Any = sheet.compute(numbers, run, ["jit"])
    for name, check in (
        ("grad log_normaliser = E statistic", _statistic),
        ("entropy = -E log_prob", _entropy),
        ("mean and covariance", _moments),
    ):
        sheet.check(f"distribution: {name}", lambda c=check: c(found), [numbers])


def _statistic(found: Identities) -> str | None:
    for (path, values), slope in zip(
        paths(found.statistic), jax.tree.leaves(found.slope), strict=True
    ):
        mean, error, off = sample_excess(values, np.asarray(slope, float))
        if np.any(off > 1.0):
            at = worst(off)
            return (
                f"E statistic{path} is {mean[at]:.3g} over the distribution's draws (standard "
                f"error {error[at]:.2g}), and the gradient of log_normaliser is "
                f"{shown(np.asarray(slope)[at])}: sampler and log_normaliser disagree"
            )
    return None


def _entropy(found: Identities) -> str | None:
    mean, error, off = sample_excess(-np.asarray(found.log_prob), float(found.entropy))
    if off <= 1.0:
        return None
    return (
        f"entropy is {shown(found.entropy)}, and the mean of -log_prob over the distribution's "
        f"draws is {mean:.3g} (standard error {error:.2g})"
    )


def _moments(found: Identities) -> str | None:
    """Tolerance doubled: the default moments are themselves from 1000 draws."""
    draws, centre = np.asarray(found.draws, float), np.asarray(found.mean, float)
    mean, error, off = sample_excess(draws, centre)
    if np.any(off > 2.5):
        (k,) = worst(off)
        return (
            f"mean[{k}] is {shown(centre[k])}, and the distribution's draws have mean "
            f"{mean[k]:.3g} (standard error {error[k]:.2g})"
        )
    away = draws - draws.mean(0)
    square, error, off = sample_excess(
        away[:, :, None] * away[:, None], np.asarray(found.covariance, float)
    )
    if np.any(off > 2.5) or not close(found.covariance, np.swapaxes(found.covariance, 0, 1)):
        at = worst(off)
        return (
            f"covariance{list(at)} is {shown(np.asarray(found.covariance)[at])}, and that of the "
            f"distribution's draws is {square[at]:.3g} (standard error {error[at]:.2g})"
        )
    return None

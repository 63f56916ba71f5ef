"""Particle recursive maximum likelihood: the score as an additive functional (Fisher's identity).

    a_i = sum_j Lambda_i(j) {a_j + grad log m(x_j, x_i)} + grad log g(x_i, y_t)
    S_t = sum_i W_i a_i,    increment = S_t - S_{t-1}

(Poyiadjis, Doucet and Singh, O(N^2); with M backward draws the tangent filter of PaRIS). Only
differences between particles matter for what follows, so a is kept centred, and the mean that is
taken out is the increment.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from rmcvi.baselines.cloud import Cloud
from rmcvi.baselines.paris import Links
from rmcvi.core import tree
from rmcvi.core.observation import Observation
from rmcvi.models import AbstractModel


def move_score(
    model: tuple[PyTree, PyTree],
    tangents: PyTree,
    links: Links,
    before: Cloud,
    now: Cloud,
    observed: Observation,
) -> tuple[PyTree, PyTree]:
    """Per-particle gradients after y_t, centred, and the increment of the score.

    Args:
        model: its (trained, rest) partition.
        tangents: the gradients of t - 1.
        links: what each particle now averages over.
        before: particles of t - 1.
        now: particles of t.
        observed: y_t and its inputs.
    """
    (theta, rest), inputs, first = model, observed.inputs, observed.first

    def particle(theta, x_prev, w, x):
        current: AbstractModel = eqx.combine(theta, rest)
        log_m = w @ current.pairwise_log_prob(x_prev, x[None], inputs)[0]
        prior = jnp.where(first, current.initial_log_prob(x), log_m)
        return prior + current.observed_log_prob(x, observed.y, inputs)

    fresh = links.rows(
        lambda x_prev, w, x: jax.grad(particle)(theta, x_prev, w, x), before.x, now.x
    )
    old = links.average(tangents)
    return centred(tree.add(tree.where(first, tree.zeros(old), old), fresh), now)


def move_functional(
    function: Callable,
    forget: float,
    tau: PyTree,
    links: Links,
    before: Cloud,
    now: Cloud,
    first: Bool[Array, ""],
) -> tuple[PyTree, PyTree]:
    """The same for h(x_{t-1}, x_t), which starts at t = 1."""

    def row(x_prev, w, x):
        return jax.tree.map(
            lambda v: jnp.tensordot(w, v, 1), jax.vmap(lambda before: function(before, x))(x_prev)
        )

    old = jax.tree.map(lambda v: forget * v, links.average(tau))
    new = tree.add(old, links.rows(row, before.x, now.x))
    return centred(tree.where(first, tree.zeros(new), new), now)


def centred(values: PyTree, now: Cloud) -> tuple[PyTree, PyTree]:
    """Deviations from the weighted mean, and that mean."""
    w = jnp.exp(now.log_weight)
    mean = jax.tree.map(lambda v: jnp.tensordot(w, v, 1), values)
    return jax.tree.map(lambda v, m: v - m[None], values, mean), mean

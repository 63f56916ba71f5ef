"""Angles: the residual is taken the short way round, and the density counts every turn."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from rmcvi.core.gaussian import normal_log_prob

TURNS = (-2, -1, 0, 1, 2)
"""Whole turns that count: exact to rounding for scales up to 1.5 radians."""


def wrap(angle: Array) -> Array:
    """The same angle in [-pi, pi)."""
    return jnp.mod(angle + jnp.pi, 2.0 * jnp.pi) - jnp.pi


def wrapped_normal_log_prob(angle: Array, mean: Array, scale: Array) -> Array:
    """Elementwise log of `sum_k N(angle + 2 pi k; mean, scale^2)`."""
    away = wrap(angle - mean)
    zero = jnp.zeros_like(away)
    turns = [normal_log_prob(away + 2.0 * jnp.pi * k, zero, scale) for k in TURNS]
    return jax.nn.logsumexp(jnp.stack(turns), 0)

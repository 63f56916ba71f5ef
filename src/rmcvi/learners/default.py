"""The learner for standardised columns of which nothing is known."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import optax

from rmcvi.core.checks import check_int
from rmcvi.core.positive import unconstrained
from rmcvi.families import LinearGaussianFamily
from rmcvi.learners.estimator import OnlineEstimator
from rmcvi.models import LinearGaussian
from rmcvi.monitors.health import Health
from rmcvi.optim import robbins_monro
from rmcvi.recursion import RMCVI

LEAST_NOISE = 0.1
"""Of states and observations, in standard units. With less, the weights of a few particles collapse
as soon as one column moves smoothly, and a column that was still is not followed when it moves."""


def default_learner(dim_obs: int, dim_input: int = 0, *, particles: int = 30) -> OnlineEstimator:
    """A linear-Gaussian model, one state per column, with its exact posterior as the family.

    It starts near persistence, the guess that is hard to beat at first: every column follows its
    last value, and the inputs have no effect.
    """
    dim, inputs = check_int("dim_obs", dim_obs), check_int("dim_input", dim_input, 0)
    model = LinearGaussian(
        0.95 * jnp.eye(dim),
        jnp.eye(dim),
        0.4 * jnp.ones(dim),
        0.2 * jnp.ones(dim),
        state_input=jnp.zeros((dim, inputs)),
        obs_input=jnp.zeros((dim, inputs)),
    )
    rate = robbins_monro(1e-2, power=0.6, delay=500.0, floor=1e-3)
    return OnlineEstimator(
        model,
        LinearGaussianFamily(),
        RMCVI(check_int("particles", particles, 2), window=8, bptt=2),
        optax.chain(optax.adam(rate), _least_noise()),
        optax.sgd(0.0),
        # Shorter steps would keep it where a change of the world has left it.
        health=Health(damp=False),
    )


def _least_noise() -> optax.GradientTransformation:
    """Steps that end where a noise would be less are shorter."""
    low = unconstrained(LEAST_NOISE)

    def noises(model: Any) -> tuple[Any, Any]:
        return model.raw_transition_noise, model.raw_emission_noise

    def init(params: Any) -> Any:
        del params
        return optax.EmptyState()

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        pairs = zip(noises(updates), noises(params), strict=True)
        bounded = tuple(jnp.maximum(step, low.astype(at.dtype) - at) for step, at in pairs)
        return eqx.tree_at(noises, updates, bounded), state

    return optax.GradientTransformation(init, update)

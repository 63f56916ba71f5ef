"""The learner for standardised columns of which nothing is known."""

import jax.numpy as jnp
import optax

from rmcvi._core.checks import check_int
from rmcvi.estimator._estimator import OnlineEstimator
from rmcvi.families import LinearGaussianFamily
from rmcvi.models import LinearGaussian
from rmcvi.optim import robbins_monro
from rmcvi.recursion import RMCVI


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
        optax.adam(rate),
        optax.sgd(0.0),
    )

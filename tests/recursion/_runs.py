"""Small runs that the recursion's tests share."""

from collections.abc import Callable
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import rmcvi
from rmcvi import families, models


@cache
def linear_model() -> models.LinearGaussian:
    """Two states, three observed coordinates."""
    return models.LinearGaussian(
        jnp.array([[0.8, 0.1], [-0.1, 0.7]]),
        jnp.array([[1.0, 0.2], [0.3, 1.0], [0.5, 0.5]]),
        jnp.array([0.5, 0.4]),
        jnp.array([0.3, 0.5, 0.2]),
    )


def stream(model: Any, length: int, seed: int = 0) -> jax.Array:
    """Observations with a missing coordinate and a missing row."""
    ys = np.array(rmcvi.simulate(model, jax.random.key(seed), length)[1])
    ys[1, 0], ys[length // 2] = np.nan, np.nan
    return jnp.asarray(ys)


def _small() -> dict[str, Any]:
    return dict(key=jax.random.key(1), hidden=6, memory=3)


FAMILIES: dict[str, Callable[[models.LinearGaussian], Any]] = {
    "kalman": lambda m: families.LinearGaussianFamily(m),
    "tied": lambda m: families.LinearGaussianFamily(),
    "recurrent-full": lambda m: families.RecurrentFamily(
        m.dim_state, m.dim_obs, key=jax.random.key(1), memory=4, width=6, diagonal=False, bound=3.0
    ),
    "innovation": lambda m: families.InnovationFamily(m, **_small()),
    "extended-full": lambda m: families.ExtendedKalmanFamily(m, **_small(), diagonal=False),
}
"""Every amortised family, small; diagonal and full Gaussians are both among them."""


@cache
def linear_family(name: str) -> Any:
    """The family of that name for `linear_model`."""
    return FAMILIES[name](linear_model())


def follow(recursion: Any, model: Any, family: Any, ys: jax.Array) -> Any:
    """(final state, flat gradient increments, infos) of one pass, parameters frozen."""
    key = jax.random.key(0)

    def step(state, pair):
        t, y = pair
        state, grads, info = recursion.step(
            state, model, family, y, rmcvi.Inputs.of(), jax.random.fold_in(key, t)
        )
        return state, (ravel_pytree(eqx.filter(grads, eqx.is_array))[0], info)

    start = recursion.init(model, family)
    state, (grads, infos) = jax.lax.scan(step, start, (jnp.arange(len(ys)), ys))
    return state, grads, infos


run = eqx.filter_jit(follow)
"""Compiled; tests of equal settings and shapes share the program."""

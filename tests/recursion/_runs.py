"""Small runs that the recursion's tests share."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

import rmcvi
from rmcvi import families, models


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
    ys = rmcvi.simulate(model, jax.random.key(seed), length)[1]
    return ys.at[1, 0].set(jnp.nan).at[length // 2].set(jnp.nan)


def family_zoo(model: models.LinearGaussian) -> dict[str, Any]:
    """Every amortised family, small; diagonal and full Gaussians are both among them."""
    key, dims = jax.random.key(1), (model.dim_state, model.dim_obs)
    small: dict[str, Any] = dict(key=key, hidden=6, memory=3)
    return {
        "kalman": families.LinearGaussianFamily(model),
        "tied": families.LinearGaussianFamily(),
        "recurrent-full": families.RecurrentFamily(
            *dims, key=key, memory=4, width=6, diagonal=False, bound=3.0
        ),
        "innovation": families.InnovationFamily(model, **small),
        "extended-full": families.ExtendedKalmanFamily(model, **small, diagonal=False),
    }


def run(recursion: Any, model: Any, family: Any, ys: jax.Array, seed: int = 0) -> Any:
    """(final state, flat gradient increments, infos) of one compiled pass, parameters frozen."""
    key = jax.random.key(seed)

    def step(state, pair):
        t, y = pair
        state, grads, info = recursion.step(
            state, model, family, y, rmcvi.Inputs.of(), jax.random.fold_in(key, t)
        )
        return state, (ravel_pytree(eqx.filter(grads, eqx.is_array))[0], info)

    def scan(state):
        return jax.lax.scan(step, state, (jnp.arange(len(ys)), ys))

    state, (grads, infos) = jax.jit(scan)(recursion.init(model, family))
    return state, grads, infos

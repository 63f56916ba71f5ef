"""Smoothing: draw trajectories backwards, through q_{s-1|s}(x_s, .) or through filtered draws."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from rmcvi.contract import Smoothed
from rmcvi.core.inputs import Inputs
from rmcvi.families import AbstractFamily
from rmcvi.models import AbstractModel


def backward_trajectories(
    model: AbstractModel,
    family: AbstractFamily,
    carries: PyTree,
    last: Float[Array, "num dx"],
    inputs: Inputs,
    key: Key[Array, ""],
) -> Smoothed:
    """Draws of (x_{t-T}, ..., x_t) that end in `last`, draws of x_t.

    Row s of `carries` and `inputs` holds a_{s-1} and inputs_s.
    """

    def back(x, row):
        carry, inputs, k = row
        x_prev = family.sample_back(model, carry, x, inputs, k)
        return x_prev, x_prev

    rows = (carries, inputs, jax.random.split(key, inputs.dt.shape[0]))
    _, earlier = jax.lax.scan(back, last, rows, reverse=True)
    return Smoothed(jnp.moveaxis(jnp.concatenate([earlier, last[None]]), 0, 1))


def backward_simulation(
    model: AbstractModel,
    draws: Float[Array, "T n dx"],
    last: Float[Array, "num dx"],
    inputs: Inputs,
    key: Key[Array, ""],
) -> Smoothed:
    """Trajectories through draws of each filtering law (Godsill, Doucet and West, 2004).

    Row s of `draws` and `inputs` holds draws of x_{s-1} given y_{0:s-1}, and inputs_s: going back
    from x_s, one of them is chosen with probability proportional to p(x_s | x_{s-1}).
    """

    def back(x, row):
        before, inputs, k = row

        def one(k, x_i):
            log_p = jax.vmap(lambda v: model.transition_log_prob(v, x_i, inputs))(before)
            return before[jax.random.categorical(k, log_p)]

        x_prev = jax.vmap(one)(jax.random.split(k, len(x)), x)
        return x_prev, x_prev

    rows = (draws, inputs, jax.random.split(key, len(draws)))
    _, earlier = jax.lax.scan(back, last, rows, reverse=True)
    return Smoothed(jnp.moveaxis(jnp.concatenate([earlier, last[None]]), 0, 1))

"""Predict, then score: what the model expects of y_t before it has seen it.

Particles of q_{t-1} are pushed through the model. Interval ends are order statistics at p (n + 1),
so that a calibrated model covers its level exactly whatever the number of draws.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from rmcvi._core.inputs import Inputs
from rmcvi.families import AbstractExponentialFamily
from rmcvi.models import AbstractGaussianModel, AbstractModel


class Prediction(eqx.Module):
    """One-step prediction of y_t, and how it fared."""

    mean: Float[Array, "*batch dy"]
    low: Float[Array, "*batch dy"]
    high: Float[Array, "*batch dy"]
    log_score: Float[Array, "*batch"]
    """log p(y_t | y_{0:t-1}) over what was observed; NaN if nothing was."""
    p_value: Float[Array, "*batch dy"]
    """Two-sided predictive p-value of each coordinate; NaN where not observed."""


def predict(
    model: AbstractModel,
    q: AbstractExponentialFamily,
    eta: PyTree,
    t: Int[Array, ""],
    y: Float[Array, "dy"],
    inputs: Inputs,
    key: Key[Array, ""],
    num: int,
    level: float,
) -> Prediction:
    """Predict y_t from q_{t-1} with `num` draws and score it."""
    k1, k2 = jax.random.split(key)
    x = next_states(model, q, eta, t, inputs, k1, num)
    draws = jax.vmap(lambda k, v: model.emission_sample(k, v, inputs))(jax.random.split(k2, num), x)
    low, high = central_interval(draws, level)
    log_g = jax.vmap(lambda v: model.observed_log_prob(v, y, inputs))(x)
    log_score = jax.nn.logsumexp(log_g) - jnp.log(num)
    seen = ~jnp.isnan(y)
    below = (jnp.sum(draws < y[None], 0) + 0.5) / (num + 1.0)
    return Prediction(
        mean=expected_observation(model, x, draws, inputs),
        low=low,
        high=high,
        log_score=jnp.where(jnp.any(seen), log_score, jnp.nan),
        p_value=jnp.where(seen, 2.0 * jnp.minimum(below, 1.0 - below), jnp.nan),
    )


def next_states(
    model: AbstractModel,
    q: AbstractExponentialFamily,
    eta: PyTree,
    t: Int[Array, ""],
    inputs: Inputs,
    key: Key[Array, ""],
    num: int,
) -> Float[Array, "{num} dx"]:
    """Draws of x_t given y_{0:t-1}; of x_0 if nothing has been seen."""
    k1, k2 = jax.random.split(key)
    keys, before = jax.random.split(k2, num), q.sample(k1, eta, num)
    moved = jax.vmap(lambda k, v: model.transition_sample(k, v, inputs))(keys, before)
    return jnp.where(t > 0, moved, jax.vmap(model.initial_sample)(keys))


def expected_observation(
    model: AbstractModel,
    x: Float[Array, "n dx"],
    draws: Float[Array, "n dy"],
    inputs: Inputs,
) -> Float[Array, "dy"]:
    """E y: from the emission's location where the model has one (heavy tails), else from draws."""
    if isinstance(model, AbstractGaussianModel):
        return jnp.mean(jax.vmap(lambda v: model.emission_mean(v, inputs))(x), 0)
    return jnp.mean(draws, 0)


def central_interval(
    draws: Float[Array, "n dy"], level: float
) -> tuple[Float[Array, "dy"], Float[Array, "dy"]]:
    """Interval that the next exchangeable draw hits with probability `level`."""
    num, tail = draws.shape[0], 0.5 * (1.0 - level)
    ordered = jnp.sort(draws, 0)

    def at(probability):
        position = jnp.clip(probability * (num + 1) - 1.0, 0.0, num - 1.0)
        lower = jnp.floor(position).astype(int)
        weight = position - lower
        upper = jnp.minimum(lower + 1, num - 1)
        return (1.0 - weight) * ordered[lower] + weight * ordered[upper]

    return at(tail), at(1.0 - tail)


def screen(
    y: Float[Array, "dy"], prediction: Prediction, width: float, active: Array
) -> Float[Array, "dy"]:
    """Pull an observation that lies absurdly far out to `width` interval half-widths.

    Infinities are not observations. A true jump still gets through, a few steps later.
    """
    y = jnp.where(jnp.isfinite(y), y, jnp.nan)
    half = 0.5 * (prediction.high - prediction.low)
    centre = 0.5 * (prediction.high + prediction.low)
    pulled = jnp.clip(y, centre - width * half, centre + width * half)
    return jnp.where(active & jnp.isfinite(half), pulled, y)

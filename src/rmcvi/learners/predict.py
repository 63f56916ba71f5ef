"""Predict, then score: what the model expects of y_t before it has seen it.

Draws of x_{t-1} are pushed through the model.
"""

from statistics import NormalDist
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from rmcvi.core.inputs import Inputs
from rmcvi.core.prediction import Prediction, central_interval
from rmcvi.models import AbstractModel
from rmcvi.monitors import tail_p_value

SCREEN_FROM = 50
"""Rows before absurd values are pulled in: a cold start is absurd itself."""


def predict(
    model: AbstractModel,
    before: Float[Array, "n dx"],
    t: Int[Array, ""],
    y: Float[Array, "dy"],
    inputs: Inputs,
    key: Key[Array, ""],
    level: float,
) -> Prediction:
    """Predict y_t from draws of x_{t-1} and score it."""
    k1, k2 = jax.random.split(key)
    num = before.shape[0]
    x = next_states(model, before, t, inputs, k1)
    draws = model.emission_draws(k2, x, inputs)
    ordered = jnp.sort(draws, 0)
    low, high = central_interval(ordered, level)
    log_g = jax.vmap(lambda v: model.observed_log_prob(v, y, inputs))(x)
    log_score = jax.nn.logsumexp(log_g) - jnp.log(num)
    seen = ~jnp.isnan(y)
    return Prediction(
        mean=model.expected_observation(x, draws, inputs),
        low=low,
        high=high,
        log_score=jnp.where(jnp.any(seen), log_score, jnp.nan),
        p_value=tail_p_value(y, ordered),
    )


def foresee(
    learner: Any, state: Any, y: Float[Array, "dy"], inputs: Inputs, key: Key[Array, ""]
) -> tuple[Prediction | None, Float[Array, "dy"], Float[Array, "draws dx"]]:
    """A learner's prediction, y pulled towards it, and the draws of x_{t-1} behind both."""
    if learner.draws == 0:
        return None, y, jnp.zeros((0, learner.dim_state))
    k1, k2 = jax.random.split(key)
    before, model = learner.draw(state, k1, learner.draws), learner.model_at(state)
    prediction = predict(model, before, state.t, y, inputs, k2, learner.level)
    if learner.screen_width is not None:
        y = screen(y, prediction, learner.screen_width, state.t >= SCREEN_FROM)
    return prediction, y, before


def next_states(
    model: AbstractModel,
    before: Float[Array, "n dx"],
    t: Int[Array, ""],
    inputs: Inputs,
    key: Key[Array, ""],
) -> Float[Array, "n dx"]:
    """Draws of x_t given y_{0:t-1}; of x_0 if nothing has been seen."""
    keys = jax.random.split(key, before.shape[0])
    moved = jax.vmap(lambda k, v: model.transition_sample(k, v, inputs))(keys, before)
    return jnp.where(t > 0, moved, jax.vmap(model.initial_sample)(keys))


def deviation(prediction: Prediction, level: float) -> Float[Array, "dy"]:
    """Standard deviations of normal predictions with these intervals."""
    return 0.5 * (prediction.high - prediction.low) / NormalDist().inv_cdf(0.5 * (1.0 + level))


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

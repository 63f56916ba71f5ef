"""Questions to a learner: the past (smooth, impute) and the future (forecast).

`OnlineEstimator` offers them as methods; `learner` and `state` are duck-typed here.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key

from rmcvi.core.checks import check_array, check_int, check_key, check_real
from rmcvi.core.inputs import Inputs
from rmcvi.core.prediction import Prediction, central_interval
from rmcvi.learners.predict import expected_observation, predict
from rmcvi.learners.smooth import Smoothed, backward_trajectories, filter_sequence


class Forecast(eqx.Module):
    """The next observations: mean, central interval, and the draws behind them."""

    mean: Float[Array, "T dy"]
    low: Float[Array, "T dy"]
    high: Float[Array, "T dy"]
    states: Float[Array, "num T dx"]
    observations: Float[Array, "num T dy"]


class Imputed(eqx.Module):
    """Recent observations: what was seen as it is, what was not by its posterior."""

    mean: Float[Array, "T dy"]
    low: Float[Array, "T dy"]
    high: Float[Array, "T dy"]


def key_or_default(key: Key[Array, ""] | None) -> Key[Array, ""]:
    """The key given, or one that is the same at every call."""
    if key is not None:
        check_key("key", key)
    return jax.random.key(0) if key is None else key


@eqx.filter_jit
def predict_next(
    learner: Any, state: Any, y: Array, inputs: Inputs, num: int, key: Key[Array, ""]
) -> Prediction:
    """The learner's one-step prediction, scored by `y`."""
    k1, k2 = jax.random.split(key)
    before = learner.draw(state, k1, num)
    return predict(learner.model_at(state), before, state.t, y, inputs, k2, learner.level)


def smooth(learner: Any, state: Any, lag: int, num: int, key: Key[Array, ""] | None) -> Smoothed:
    """Fixed-lag smoothing from the history that the recursion keeps."""
    check_int("num", num)
    _check_lag(state, lag, 0)
    return _smooth(learner, state, lag, num, key_or_default(key))


def _check_lag(state: Any, lag: int, used: int) -> None:
    """Raise unless the history reaches `lag` rows back, and `used` more."""
    if not hasattr(state.recursion, "history"):
        raise ValueError("lag: got a recursion without a history, expected RMCVI or NaturalRMCVI")
    rows = state.recursion.history.y.shape[0]
    most = min(rows - used, int(state.t) - 1)
    if not 0 <= check_int("lag", lag, 0) <= most:
        raise ValueError(
            f"lag: got {lag}, expected at most {most} (the learner keeps {rows} steps and has seen "
            f"{int(state.t)} observations)"
        )


@eqx.filter_jit
def _smooth(learner: Any, state: Any, lag: int, num: int, key: Key[Array, ""]) -> Smoothed:
    history, rows = state.recursion.history, state.recursion.history.y.shape[0]
    carries, inputs = jax.tree.map(lambda v: v[rows - lag :], (history.carry, history.inputs))
    return backward_trajectories(
        learner.model_at(state),
        learner.family_at(state),
        carries,
        state.recursion.cloud.proposal,
        inputs,
        key,
        num,
    )


def smooth_sequence(
    learner: Any,
    state: Any,
    ys: ArrayLike,
    u: ArrayLike | None,
    dt: ArrayLike | None,
    num: int,
    key: Key[Array, ""] | None,
) -> Smoothed:
    """Filter a whole sequence, then draw trajectories backwards."""
    ys = jnp.asarray(ys, float)
    check_array("ys", ys, (None, learner.model.dim_obs))
    check_int("num", num)
    inputs = Inputs.sequence(len(ys), u, dt, learner.model.dim_input)
    model, family = learner.model_at(state), learner.family_at(state)
    carries = getattr(learner.recursion, "carries", None)
    return _smooth_sequence(model, family, ys, inputs, key_or_default(key), num, carries)


@eqx.filter_jit
def _smooth_sequence(
    model: Any, family: Any, ys: Array, inputs: Inputs, key: Key[Array, ""], num: int, carries: Any
) -> Smoothed:
    """Filter forwards (by `carries` if the recursion fits each q_t itself), then draw backwards."""
    k_forward, k_back = jax.random.split(key)
    if carries is None:
        before, now = filter_sequence(model, family, ys, inputs)
    else:
        before, now = carries(model, family, ys, inputs, k_forward)
    last = family.marginal(jax.tree.map(lambda v: v[-1], now))
    rows, later = jax.tree.map(lambda v: v[1:], (before, inputs))
    return backward_trajectories(model, family, rows, last, later, k_back, num)


def forecast(
    learner: Any,
    state: Any,
    horizon: int,
    u: ArrayLike | None,
    dt: ArrayLike | None,
    level: float,
    num: int,
    key: Key[Array, ""] | None,
) -> Forecast:
    """The next `horizon` observations, by simulating the model from q_t."""
    check_int("horizon", horizon)
    check_int("num", num)
    check_real("level", level, 0.0, 1.0)
    inputs = Inputs.sequence(horizon, u, dt, learner.model.dim_input)
    return _forecast(learner, state, inputs, level, num, key_or_default(key))


@eqx.filter_jit
def _forecast(
    learner: Any, state: Any, inputs: Inputs, level: float, num: int, key: Key[Array, ""]
) -> Forecast:
    model = learner.model_at(state)
    k_start, k_move = jax.random.split(key)
    start = learner.draw(state, k_start, num)

    def step(x, row):
        inputs, k = row
        k1, k2 = jax.random.split(k)
        moved = jax.vmap(lambda k, v: model.transition_sample(k, v, inputs))(
            jax.random.split(k1, num), x
        )
        draws = model.emission_draws(k2, moved, inputs)
        mean = expected_observation(model, moved, draws, inputs)
        return moved, (mean, *central_interval(jnp.sort(draws, 0), level), moved, draws)

    keys = jax.random.split(k_move, inputs.dt.shape[0])
    _, (mean, low, high, states, draws) = jax.lax.scan(step, start, (inputs, keys))
    return Forecast(mean, low, high, jnp.moveaxis(states, 0, 1), jnp.moveaxis(draws, 0, 1))


def impute(
    learner: Any,
    state: Any,
    lag: int,
    level: float,
    num: int,
    key: Key[Array, ""] | None,
) -> Imputed:
    """y_{t-lag}, ..., y_t with the missing coordinates replaced by their posterior."""
    check_real("level", level, 0.0, 1.0)
    _check_lag(state, lag, 1)
    k1, k2 = jax.random.split(key_or_default(key))
    smoothed = smooth(learner, state, lag, num, k1)
    return _impute(learner, state, smoothed, level, k2)


@eqx.filter_jit
def _impute(
    learner: Any, state: Any, smoothed: Smoothed, level: float, key: Key[Array, ""]
) -> Imputed:
    model, history = learner.model_at(state), state.recursion.history
    length = smoothed.samples.shape[1]
    ys, inputs = jax.tree.map(lambda v: v[-length:], (history.y, history.inputs))

    def row(x, y, inputs, k):
        draws = model.emission_draws(k, x, inputs)
        low, high = central_interval(jnp.sort(draws, 0), level)
        seen = ~jnp.isnan(y)
        mean = expected_observation(model, x, draws, inputs)
        return tuple(jnp.where(seen, y, v) for v in (mean, low, high))

    keys = jax.random.split(key, length)
    return Imputed(*jax.vmap(row)(jnp.moveaxis(smoothed.samples, 1, 0), ys, inputs, keys))

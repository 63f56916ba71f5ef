"""Questions to a learner: the past (smooth, recent), the present and the future (forecast).

`OnlineEstimator` offers them as methods; `learner` and `state` are duck-typed here.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key

from rmcvi.contract import AbstractRecursion, Band, Smoothed
from rmcvi.core.array_checks import check_array, check_key
from rmcvi.core.checks import check_int, check_real
from rmcvi.core.inputs import Inputs
from rmcvi.core.prediction import Prediction, central_interval
from rmcvi.learners.predict import predict
from rmcvi.learners.smooth import backward_simulation, backward_trajectories
from rmcvi.models import AbstractModel


class Trajectories(eqx.Module):
    """Draws of the future: hidden states and observations, one row per step."""

    states: Float[Array, "num T dx"]
    observations: Float[Array, "num T dy"]


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


def history(learner: Any, state: Any) -> Any:
    """The last rows: those that the recursion keeps, or else those that the learner keeps."""
    kept = learner.recursion.history(state.recursion)
    return state.past if kept is None else kept


def smooth(learner: Any, state: Any, lag: int, num: int, key: Key[Array, ""] | None) -> Smoothed:
    """Fixed-lag smoothing from the rows that are kept."""
    check_int("num", num)
    # The oldest row of a recursion's history begins with the carry of the row before it.
    learner.check_lag(lag, state.t, learner.reach + (state.past is None))
    return _smooth(learner, state, lag, num, key_or_default(key))


@eqx.filter_jit
def _smooth(learner: Any, state: Any, lag: int, num: int, key: Key[Array, ""]) -> Smoothed:
    kept = history(learner, state)
    rows, model = kept.y.shape[0], learner.model_at(state)
    carries, inputs = jax.tree.map(lambda v: v[rows - lag :], (kept.carry, kept.inputs))
    k_last, k_back = jax.random.split(key)
    last = learner.draw(state, k_last, num)
    if state.past is not None:
        return backward_simulation(model, carries, last, inputs, k_back)
    return backward_trajectories(model, learner.family_at(state), carries, last, inputs, k_back)


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
    model = learner.model_at(state)
    family = learner.recursion.variational(learner.family_at(state))
    if family is None:
        got = type(learner.recursion).__name__
        raise ValueError(f"smooth_sequence: got {got}, expected a recursion with a family")
    return _smooth_sequence(learner.recursion, model, family, ys, inputs, key_or_default(key), num)


@eqx.filter_jit
def _smooth_sequence(
    recursion: AbstractRecursion,
    model: Any,
    family: Any,
    ys: Array,
    inputs: Inputs,
    key: Key[Array, ""],
    num: int,
) -> Smoothed:
    """Filter forwards, then draw backwards."""
    k_forward, k_last, k_back = jax.random.split(key, 3)
    before, now = recursion.carries(model, family, ys, inputs, k_forward)
    last = family.sample(jax.tree.map(lambda v: v[-1], now), k_last, num)
    rows, later = jax.tree.map(lambda v: v[1:], (before, inputs))
    return backward_trajectories(model, family, rows, last, later, k_back)


def simulate(
    learner: Any, state: Any, inputs: Inputs, level: float, num: int, key: Key[Array, ""] | None
) -> tuple[Band, Trajectories]:
    """The next observations, by simulating the model from q_t."""
    check_int("num", num)
    check_real("level", level, 0.0, 1.0)
    return _simulate(learner, state, inputs, level, num, key_or_default(key))


@eqx.filter_jit
def _simulate(
    learner: Any, state: Any, inputs: Inputs, level: float, num: int, key: Key[Array, ""]
) -> tuple[Band, Trajectories]:
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
        mean = model.expected_observation(moved, draws, inputs)
        return moved, (mean, *central_interval(jnp.sort(draws, 0), level), moved, draws)

    keys = jax.random.split(k_move, inputs.dt.shape[0])
    _, (mean, low, high, states, draws) = jax.lax.scan(step, start, (inputs, keys))
    futures = Trajectories(jnp.moveaxis(states, 0, 1), jnp.moveaxis(draws, 0, 1))
    return Band(mean, low, high), futures


@eqx.filter_jit
def present(learner: Any, state: Any, level: float, num: int, key: Key[Array, ""]) -> Band:
    """y_t with the missing coordinates replaced by their posterior."""
    k1, k2 = jax.random.split(key)
    kept = history(learner, state)
    y, inputs = jax.tree.map(lambda v: v[-1], (kept.y, kept.inputs))
    return _filled(learner.model_at(state), learner.draw(state, k1, num), y, inputs, k2, level)


def recent(
    learner: Any, state: Any, lag: int, level: float, num: int, key: Key[Array, ""] | None
) -> Band:
    """y_{t-lag}, ..., y_t with the missing coordinates replaced by their posterior."""
    learner.check_lag(lag, state.t)
    k1, k2 = jax.random.split(key_or_default(key))
    return _recent(learner, state, smooth(learner, state, lag, num, k1), level, k2)


@eqx.filter_jit
def _recent(
    learner: Any, state: Any, smoothed: Smoothed, level: float, key: Key[Array, ""]
) -> Band:
    model, kept = learner.model_at(state), history(learner, state)
    length = smoothed.samples.shape[1]
    ys, inputs = jax.tree.map(lambda v: v[-length:], (kept.y, kept.inputs))
    keys = jax.random.split(key, length)
    return jax.vmap(lambda x, y, inputs, k: _filled(model, x, y, inputs, k, level))(
        jnp.moveaxis(smoothed.samples, 1, 0), ys, inputs, keys
    )


def _filled(
    model: AbstractModel,
    x: Float[Array, "num dx"],
    y: Float[Array, "dy"],
    inputs: Inputs,
    key: Key[Array, ""],
    level: float,
) -> Band:
    """What was seen of y as it is, the rest from draws of its state."""
    draws = model.emission_draws(key, x, inputs)
    mean = model.expected_observation(x, draws, inputs)
    band = Band(mean, *central_interval(jnp.sort(draws, 0), level))
    return jax.tree.map(lambda v: jnp.where(jnp.isnan(y), v, y), band)

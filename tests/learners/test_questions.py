"""Every learner answers every question, and nobody asks for its class."""

import re
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import rmcvi
from rmcvi.baselines import KalmanRecursion, OnlineLSTM, Persistence, RecursiveLeastSquares
from rmcvi.baselines.rival import half_widths
from tests.baselines._linear import full_case
from tests.reference.kalman import kalman_filter, rts_smoother

SOURCES = Path(rmcvi.__file__).parent
DRAWS = 1000
"""Of a smoother whose every step back looks at all pairs of them."""
ROWS = np.array([[1.0, 4.0], [2.0, np.nan], [1.5, 6.0], [3.0, np.nan]])


def test_the_forecast_of_persistence_is_the_last_value() -> None:
    """Of each column, with a variance that grows with the time since; at any level."""
    learner = Persistence(2)
    state, _ = rmcvi.scan(learner, learner.init(jax.random.key(0)), ROWS)
    dt = np.array([1.0, 2.0, 0.5])
    band = learner.forecast(state, 3, dt=dt, level=0.5)
    np.testing.assert_array_equal(band.mean, np.tile([3.0, 6.0], (3, 1)))
    # The second column has not been seen for one row.
    age = np.cumsum(dt)[:, None] + np.array([0.0, 1.0])
    best = np.argmax(np.asarray(state.tails.scores), 0)
    half = np.array(half_widths(0.5))[best] * np.sqrt(age * np.asarray(state.rate.value))
    np.testing.assert_allclose(band.high - band.mean, half, rtol=1e-12)
    np.testing.assert_allclose(band.mean - band.low, half, rtol=1e-12)


def test_the_forecast_of_least_squares_is_iterated() -> None:
    """y = W (1, u, y_{t-1}, y_{t-2}), each prediction taken for the value, in NumPy."""
    learner = RecursiveLeastSquares(2, 1, lags=(1, 2))
    rng = np.random.default_rng(2)
    ys, us = rng.normal(size=(20, 2)).cumsum(0), rng.normal(size=(23, 1))
    state, _ = rmcvi.scan(learner, learner.init(jax.random.key(0)), ys, us[:20])
    band = learner.forecast(state, 3, us[20:])
    weights, past = np.asarray(state.regression.weights), [ys[-1], ys[-2]]
    for k in range(3):
        mean = weights @ np.concatenate([[1.0], us[20 + k], *past[:2]])
        np.testing.assert_allclose(band.mean[k], mean, rtol=1e-12)
        past.insert(0, mean)


def test_a_network_forecasts_its_next_prediction_first() -> None:
    """Looking ahead changes no weights, and the first row ahead is the next prediction."""
    learner = OnlineLSTM(2, hidden=2, bptt=2)
    state = learner.init(jax.random.key(0))
    for y in ROWS:
        state, _ = learner.update(state, y)
    ahead = learner.forecast(state, 2)
    later, info = learner.update(state, np.full(2, np.nan))
    np.testing.assert_allclose(ahead.mean[0], info.prediction.mean, rtol=1e-12)
    np.testing.assert_allclose(ahead.high[0], info.prediction.high, rtol=1e-12)
    for a, b in zip(jax.tree.leaves(state.network), jax.tree.leaves(later.network), strict=True):
        np.testing.assert_array_equal(a, b)


def test_rivals_look_back() -> None:
    """Values as they came; one that did not come as it was predicted, before the first nothing."""
    learner = Persistence(2)
    state, infos = rmcvi.scan(learner, learner.init(jax.random.key(0)), ROWS)
    now, past = learner.present(state), learner.recent(state, 3)
    np.testing.assert_array_equal(now.mean, [3.0, 6.0])
    np.testing.assert_array_equal(now.low[0], 3.0)
    assert now.low[1] < 6.0 < now.high[1]
    np.testing.assert_array_equal(past.mean[:, 1], [4.0, 4.0, 6.0, 6.0])
    np.testing.assert_allclose(past.high[3, 1], infos.prediction.high[3, 1], rtol=1e-12)
    assert np.isnan(learner.recent(state, 4).mean[0]).all()
    with pytest.raises(ValueError, match="lag: got 25, expected at most 24"):
        learner.recent(state, 25)


class Steady(rmcvi.AbstractLearner):
    """As little as a learner may be: 0, give or take 1."""

    dim_obs: int = eqx.field(static=True, default=2)
    dim_input: int = eqx.field(static=True, default=0)
    level: float = eqx.field(static=True, default=0.9)

    def init(self, key: jax.Array) -> jax.Array:
        del key
        return jnp.zeros(2)

    def step(self, state: jax.Array, y: jax.Array, inputs: rmcvi.Inputs) -> Any:
        del inputs
        return state, Said(rmcvi.Prediction.gaussian(state, jnp.ones(2), y, self.level))


class Said(eqx.Module):
    prediction: rmcvi.Prediction


def test_init_and_step_are_enough() -> None:
    """All other questions have an answer, and the checks know them."""
    learner = Steady()
    state, _ = learner.update(learner.init(jax.random.key(0)), np.array([1.0, 2.0]))
    band = learner.forecast(state, 2, level=0.6826894921370859)
    np.testing.assert_allclose(band.high, np.ones((2, 2)), rtol=1e-9)
    assert np.isnan(learner.present(state).mean).all() and learner.reach == 0
    assert learner.recent(state, 0).mean.shape == (1, 2)
    assert learner.filter(state).mean.shape == (0,) == learner.smooth(state, 0).mean.shape[1:]
    assert learner.parameters(state) == {} and learner.units == "standard"
    with pytest.raises(ValueError, match="which has no window"):
        learner.lengthen(state)
    live = rmcvi.Live(2, learner=learner, standardiser=False)
    assert live.learn_one([1.0, np.nan]).filled[1] != live.forecast(1).mean[0][1] == 0.0


def test_a_filter_without_a_history_smooths_by_simulation() -> None:
    """Backward simulation through the draws that are kept, against Rauch-Tung-Striebel."""
    case = full_case(8)
    nothing = rmcvi.Trainable(model=False, family=False)
    learner = rmcvi.OnlineEstimator(
        case.model,
        None,
        KalmanRecursion(),
        optax.sgd(0.0),
        optax.sgd(0.0),
        trainable=nothing,
        draws=DRAWS,
        screen_width=None,
        health=False,
        drift=False,
        sensors=False,
    )
    start = learner.init(jax.random.key(3))
    state, _ = rmcvi.scan(learner, start, case.ys, case.inputs.u, case.inputs.dt, collect=_nothing)
    past = learner.smooth(state, 3, num=DRAWS)
    exact = rts_smoother(case.system, kalman_filter(case.system, case.ys))
    deviation = np.sqrt(np.stack([np.diag(c) for c in exact.cov[-4:]]))
    # Errors of the draws at each step back, and of those that are chosen from: at most 2 x 4.
    error = deviation * np.sqrt(8.0 / DRAWS)
    np.testing.assert_array_less(np.abs(np.asarray(past.mean) - exact.mean[-4:]), 5.0 * error)
    np.testing.assert_allclose(past.std, deviation, rtol=5.0 * np.sqrt(8.0 / (2 * DRAWS)))
    filled = learner.recent(state, 3)
    seen = ~np.isnan(case.ys[-4:])
    np.testing.assert_array_equal(np.asarray(filled.mean)[seen], case.ys[-4:][seen])
    assert np.isfinite(filled.mean).all() and learner.reach == 8


def _nothing(learner: object, state: object, info: object) -> None:
    del learner, state, info


def test_nobody_asks_a_learner_for_its_class() -> None:
    """Nor for a method that it may lack: only whether it is a learner at all."""
    asks = re.compile(
        r"(isinstance|getattr|hasattr)\(\s*(\w+\.)*(learner|_learner|info|state)\b(?!, AbstractL)"
    )
    allowed = {
        "checks/learner_checks.py",  # it checks that what is declared is there
        "checks/recursion_checks.py",  # the same, of recursions
        "learners/estimator.py",  # its own fields, by name
        "learners/learning.py",  # its second half: a family may be a rival's proposal
    }
    found = {
        str(path.relative_to(SOURCES))
        for room in ("learners", "scale", "checks", "app", "lab")
        for path in (SOURCES / room).rglob("*.py")
        if asks.search(path.read_text())
    }
    assert found <= allowed

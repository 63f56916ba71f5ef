"""Persistence against a loop over plain numbers; its tails against scipy."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import rmcvi
from rmcvi.baselines import Persistence
from rmcvi.baselines.rival import Tails, half_widths
from tests.baselines._streams import TailsOracle, broken

DT = np.where(np.arange(60) % 9 == 0, 2.5, 1.0)


def ran() -> tuple[Any, rmcvi.Prediction]:
    """Final state and predictions of the broken stream, with long steps now and then."""
    learner = Persistence(2, 1, memory=5.0)
    ys, u = broken()
    start = learner.init(jax.random.key(0))
    return rmcvi.scan(learner, start, ys, u, DT, lambda _, __, info: info.prediction)


def test_agrees_with_a_plain_loop() -> None:
    """Mean, scale and log score, through gaps and unequal steps."""
    ys, _ = broken()
    last, age, rate = [0.0, 0.0], [0.0, 0.0], [1.0, 1.0]
    begun, count, tails = [False, False], [1, 1], TailsOracle(2)
    means, scales, scores = np.zeros((60, 2)), np.ones((60, 2)), np.zeros(60)
    for t in range(60):
        for j in range(2):
            age[j] += DT[t]
            means[t, j] = last[j]
            scales[t, j] = np.sqrt(rate[j] * age[j]) if begun[j] else 1.0
        scores[t] = tails.score((ys[t] - means[t]) / scales[t], scales[t])
        for j in np.flatnonzero(~np.isnan(ys[t])):
            if begun[j]:
                count[j] = min(count[j] + 1, 5)
                rate[j] += ((ys[t, j] - last[j]) ** 2 / age[j] - rate[j]) / count[j]
            last[j], age[j], begun[j] = ys[t, j], 0.0, True
    state, prediction = ran()
    np.testing.assert_allclose(prediction.mean, means, atol=1e-12)
    np.testing.assert_allclose(prediction.log_score, scores, rtol=1e-10)
    np.testing.assert_allclose(state.rate.value, rate, rtol=1e-10)
    np.testing.assert_allclose(state.tails.scores, tails.scores, atol=1e-10)
    half = np.asarray(prediction.high - prediction.mean)
    assert np.all((half / scales > 1.5) & (half / scales < 1.65))
    assert np.all(np.isnan(prediction.p_value) == np.isnan(ys))


def test_a_random_walk_is_covered() -> None:
    """Its variance is found, and the interval covers its level, also after gaps."""
    rng = np.random.default_rng(0)
    ys = np.cumsum(0.2 * rng.normal(size=(4000, 2)), 0)
    ys[rng.random(ys.shape) < 0.3] = np.nan
    learner = Persistence(2, memory=1000.0, level=0.8)
    start = learner.init(jax.random.key(0))
    state, infos = rmcvi.scan(learner, start, ys)
    seen = ~np.isnan(ys)
    inside = ((infos.prediction.low < ys) & (ys < infos.prediction.high))[seen]
    assert abs(inside.mean() - 0.8) < 4 * np.sqrt(0.16 / inside.size) + 0.005
    # A variance of about 1000 Gaussian squares has a relative standard error of sqrt(2 / 1000).
    np.testing.assert_allclose(state.rate.value, 0.04, rtol=5 * np.sqrt(2 / 1000))


@jax.jit
def predicted(tails: Tails, y: jax.Array) -> rmcvi.Prediction:
    return tails.predict(jnp.ones(3), jnp.full(3, 2.0), y, 0.7)[1]


@pytest.mark.parametrize("choice", range(4))
def test_tails_against_scipy(choice: int) -> None:
    """Interval, log score and p-value of each candidate."""
    nu = TailsOracle.degrees[choice]
    shrink = 1.0 if nu == np.inf else np.sqrt((nu - 2) / nu)
    law: Any = scipy.stats.t(nu, loc=1.0, scale=2.0 * shrink)
    assert half_widths(0.7)[choice] * 2.0 == pytest.approx(law.ppf(0.85) - 1.0, rel=1e-9)
    tails = Tails(jnp.zeros((4, 3)).at[choice].set(1.0))
    y = jnp.array([1.5, jnp.nan, 40.0])
    told = predicted(tails, y)
    np.testing.assert_allclose(told.high, law.ppf(0.85), rtol=1e-9)
    np.testing.assert_allclose(told.log_score, law.logpdf([1.5, 40.0]).sum(), rtol=1e-9)
    np.testing.assert_allclose(told.p_value, 2 * law.sf([1.5, np.nan, 40.0]), rtol=1e-7)


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r"memory: got 0\.5"):
        Persistence(2, memory=0.5)
    with pytest.raises(ValueError, match="dim_obs: got 0"):
        Persistence(0)

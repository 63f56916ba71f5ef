"""Recursive least squares against ridge regressions solved anew at every step."""

from typing import Any

import jax
import numpy as np
import pytest

import rmcvi
from rmcvi.baselines import RecursiveLeastSquares
from tests.baselines._streams import TailsOracle, broken


def ridge_regression(
    xs: np.ndarray, ys: np.ndarray, forget: float, ridge: float
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and inverse information; row i of n weighs forget^(n - 1 - i)."""
    weights = forget ** np.arange(len(xs))[::-1]
    information = ridge * forget ** len(xs) * np.eye(xs.shape[1]) + (xs * weights[:, None]).T @ xs
    inverse = np.linalg.inv(information)
    return inverse @ (xs * weights[:, None]).T @ ys, inverse


def oracle() -> dict[str, np.ndarray]:
    """Means and log scores of the broken stream, a batch regression per step."""
    ys, u = broken(length=120)
    filled, rows = np.zeros_like(ys), np.zeros((len(ys), 6))
    mean, spread, scores = np.zeros_like(ys), np.ones_like(ys), np.zeros(len(ys))
    noise, count, tails = np.ones(2), np.ones(2), TailsOracle(2)
    for t in range(len(ys)):
        past = [filled[t - lag] if t >= lag else np.zeros(2) for lag in (1, 3)]
        rows[t] = np.concatenate([[1.0], u[t], *past])
        seen = ~np.isnan(ys[t])
        for j in range(2):
            known = ~np.isnan(ys[:t, j])
            w, inverse = ridge_regression(rows[:t][known], ys[:t, j][known], 1.0, 2.0)
            mean[t, j], spread[t, j] = w @ rows[t], 1.0 + rows[t] @ inverse @ rows[t]
        scale = np.sqrt(noise * spread[t])
        scores[t] = tails.score((ys[t] - mean[t]) / scale, scale)
        count = np.where(seen, np.minimum(count + 1, 20), count)
        square = (ys[t] - mean[t]) ** 2 / spread[t]
        noise = np.where(seen, noise + (square - noise) / count, noise)
        filled[t] = np.where(seen, ys[t], mean[t])
    return {"mean": mean, "scores": scores}


def test_equals_a_ridge_regression_at_every_step() -> None:
    """Each coordinate learns from the rows in which it was seen, and from no other."""
    ys, u = broken(length=120)
    learner = RecursiveLeastSquares(2, 1, lags=(1, 3), ridge=2.0, memory=20.0)
    start, exact = learner.init(jax.random.key(0)), oracle()
    state, prediction = rmcvi.scan(
        learner, start, ys, u, collect=lambda _, __, info: info.prediction
    )
    np.testing.assert_allclose(prediction.mean, exact["mean"], atol=1e-9)
    np.testing.assert_allclose(prediction.log_score, exact["scores"], rtol=1e-8)
    assert state.regression.root.shape == (2, 6, 6)


def test_forgetting_is_exact_once_the_start_is_forgotten() -> None:
    """Given the same regressors, the weighted regression over the seen rows."""
    learner = RecursiveLeastSquares(1, 2, lags=(), forget=0.9, ridge=1.0)
    rng = np.random.default_rng(1)
    u, noise = rng.normal(size=(400, 2)), rng.normal(size=400)
    ys = (u @ np.array([0.5, -1.0]) + 0.3 * noise)[:, None]
    ys[rng.random(ys.shape) < 0.2] = np.nan
    state, _ = rmcvi.scan(learner, learner.init(jax.random.key(0)), ys, u)
    known = ~np.isnan(ys[:, 0])
    rows = np.concatenate([np.ones((400, 1)), u], 1)[known]
    w, inverse = ridge_regression(rows, ys[known, 0], 0.9, 1.0)
    np.testing.assert_allclose(state.regression.weights[0], w, rtol=1e-9)
    # What is known before the next row, to which this one will be a row of the past.
    np.testing.assert_allclose(
        state.regression.root[0] @ state.regression.root[0].T, inverse / 0.9, rtol=1e-8
    )


def single_precision(length: int, forget: float) -> tuple[Any, np.ndarray, Any]:
    """(final state, one-step errors, ridge regression) where one input never moves."""
    rng = np.random.default_rng(2)
    u = rng.normal(size=(length, 3)).astype(np.float32)
    u[:, 2] = 0.0
    noise = rng.normal(size=length).astype(np.float32)
    ys = (0.2 + u @ np.array([0.7, -0.4, 0.0], np.float32) + 0.5 * noise)[:, None]
    with jax.enable_x64(False):
        learner = RecursiveLeastSquares(1, 3, lags=(1,), forget=forget)
        start = learner.init(jax.random.key(0))
        state, means = rmcvi.scan(
            learner, start, ys, u, collect=lambda _, __, info: info.prediction.mean
        )
    past = np.concatenate([np.zeros((1, 1)), ys[:-1]])
    rows = np.concatenate([np.ones((length, 1)), u, past], 1).astype(float)
    return state, np.asarray(means) - ys, ridge_regression(rows, ys[:, 0].astype(float), 1.0, 1.0)


@pytest.mark.parametrize("length", [200_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_many_steps_in_single_precision(length: int) -> None:
    """Weights to four digits, covariance to five per cent."""
    state, errors, (w, inverse) = single_precision(length, 1.0)
    assert state.regression.weights.dtype == np.float32
    assert np.sqrt(np.mean(errors[-10_000:] ** 2)) < 0.52
    np.testing.assert_allclose(state.regression.weights[0], w, atol=2e-4)
    got = np.asarray(state.regression.root[0] @ state.regression.root[0].T)
    np.testing.assert_allclose(np.diag(got), np.diag(inverse), rtol=0.05)


def test_an_input_that_never_moves_does_not_wind_up() -> None:
    """Unchecked, forgetting would have blown up its variance by .999^-200000 = 10^87."""
    state, errors, _ = single_precision(200_000, 0.999)
    assert np.all(np.isfinite(errors))
    assert np.sqrt(np.mean(errors[-10_000:] ** 2)) < 0.52
    assert np.all(np.linalg.norm(state.regression.root[0], axis=1) <= 1.0001)


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r"forget: got 1\.5"):
        RecursiveLeastSquares(2, forget=1.5)
    with pytest.raises(ValueError, match="lags: got 0"):
        RecursiveLeastSquares(2, lags=(0, 1))

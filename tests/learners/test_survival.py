"""Few particles, absurd values and stuck sensors must not destroy a learner."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import rmcvi
from rmcvi import Alarm, families, models
from tests.learners._resumed import QUIET
from tests.recursion._runs import linear_model

LEARN, TAIL, MEMORY = 1200, 300, 30
"""Observations learned from, those compared, and those that the models need to forget."""


ZOO: dict[str, Callable[[], tuple[Any, Any]]] = {
    "linear": lambda: (
        linear_model(),
        models.LinearGaussian(
            0.5 * jnp.eye(2), jnp.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]), 0.7, 0.5
        ),
    ),
    "chaotic": lambda: (models.ChaoticRNN(dim=2), models.ChaoticRNN(dim=2, rho=0.05, gamma=1.5)),
    "volatility": lambda: (
        models.StochasticVolatility(2),
        models.StochasticVolatility(2, persistence=0.7, noise=0.5),
    ),
    "neural": lambda: (
        models.NeuralGaussian(2, 2, width=8, key=jax.random.key(0)),
        models.NeuralGaussian(2, 2, width=8, key=jax.random.key(1)),
    ),
}
"""Every kind of model, small, at wrong parameters: (truth, start)."""


def learner_of(start: Any, particles: int, **options: Any) -> rmcvi.OnlineEstimator:
    """Quick steps, so that an instability has time to show."""
    return rmcvi.OnlineEstimator(
        start,
        families.InnovationFamily(start, hidden=8, memory=2, key=jax.random.key(3)),
        rmcvi.RMCVI(particles, window=4, bptt=2),
        optax.adam(1e-3),
        optax.adam(3e-3),
        draws=50,
        **options,
    )


def told(learner: Any, state: Any, info: Any) -> Any:
    """Prediction, its score and what the monitors say."""
    return (
        info.prediction.mean,
        info.prediction.log_score,
        info.alarms,
        info.masked,
        learner.filter(state).mean,
    )


LONG = [pytest.param(name, marks=pytest.mark.long) for name in ("linear", "volatility", "neural")]


@pytest.mark.parametrize("name", ["chaotic", *LONG])
def test_five_particles_do_not_diverge(name: str) -> None:
    """The last scores are no worse than a Gaussian with the observations' mean and variance."""
    truth, start = ZOO[name]()
    _, ys = rmcvi.simulate(truth, jax.random.key(1), LEARN)
    holes = jax.random.uniform(jax.random.key(2), ys.shape) < 0.1
    ys = jnp.where(holes, jnp.nan, ys).at[:5].set(jnp.nan).at[600:620].set(jnp.nan)
    learner = learner_of(start, 5, **QUIET)
    state, (_, score, *_, mean) = rmcvi.scan(
        learner, learner.init(jax.random.key(4)), ys, collect=told
    )
    assert np.all(np.isfinite(mean))
    assert int(state.skipped) == 0
    seen = np.asarray(ys)
    last, level = seen[-TAIL:], np.nanmedian(seen, 0)
    scale = 1.4826 * np.nanmedian(np.abs(seen - level), 0)
    naive = -0.5 * ((last - level) / scale) ** 2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
    gap = np.asarray(score[-TAIL:]) - np.nansum(naive, 1)
    assert np.nanmean(gap) > -3 * np.nanstd(gap) / np.sqrt(TAIL)


@cache
def trained() -> tuple[Any, Any, np.ndarray, np.ndarray]:
    """A learner that masks failed sensors, its state, and the next observations and states."""
    truth, start = ZOO["linear"]()
    learner = learner_of(start, 20, mask_failed=True, drift=False)
    xs, ys = rmcvi.simulate(truth, jax.random.key(5), 2 * LEARN)
    state, _ = rmcvi.scan(learner, learner.init(jax.random.key(6)), ys[:LEARN], collect=told)
    return learner, state, np.asarray(xs[LEARN:]), np.asarray(ys[LEARN:])


@cache
def clean() -> Any:
    """What the trained learner does with the rest of the stream as it is."""
    learner, state, _, ys = trained()
    return rmcvi.scan(learner, state, ys, collect=told)[1]


@pytest.mark.parametrize("kind", ["outliers", "infinities", "stuck"])
def test_a_trained_learner_recovers(kind: str) -> None:
    """Errors are back within 10 % of an undisturbed run once the model has forgotten."""
    learner, state, xs, ys = trained()
    bad = ys.copy()
    if kind == "outliers":
        bad[100:200:10, 0] = 1e6
    elif kind == "infinities":
        bad[100:200:10] = np.inf
        bad[105:200:10] = -np.inf
    else:
        bad[100:200, 0] = bad[100, 0]
    _, (_, _, alarms, masked, mean) = rmcvi.scan(learner, state, bad, collect=told)
    after = slice(200 + MEMORY, 200 + MEMORY + TAIL)
    errors = [np.sqrt(np.mean((np.asarray(m)[after] - xs[after]) ** 2)) for m in (mean, clean()[4])]
    assert errors[0] < 1.1 * errors[1]
    if kind == "stuck":
        flagged = np.asarray(alarms) & int(Alarm.SENSOR) > 0
        assert flagged[100:130].any()
        assert np.asarray(masked)[130:200, 0].mean() > 0.9
        assert np.asarray(masked)[:, 1:].mean() < 0.01
    assert not np.asarray(clean()[3]).any()

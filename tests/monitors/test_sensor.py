"""Failures of known kind and time in a random walk seen with noise of known spread.

On ten million healthy observations the defaults raised 5e-7 alarms per observation; 1e-5 on values
rounded to the spread; 2e-6 where the prediction is a fifth too narrow; and 1e-3 where noise is
Student 5 and the prediction Gaussian: there, use p-values from samples.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from scipy import stats

from rmcvi.monitors import SensorMonitor, SensorState, gaussian_p_value

LENGTH, SHORT, DIM, START = 4000, 1600, 250, 1000
"""Two lengths, two programs."""


def _stream(length: int = SHORT) -> tuple[np.ndarray, np.ndarray]:
    """Observations with unit noise, and their predictive means."""
    walk, noise = np.random.default_rng(0).normal(size=(2, length, DIM))
    mean = np.cumsum(0.3 * walk, 0)
    return mean + noise, mean


@jax.jit
def _told(y: Array, mean: Array, spread: Array | None = None) -> tuple[Array, Array]:
    monitor = SensorMonitor()
    p_values = gaussian_p_value(y, mean, jnp.ones_like(y))

    def observe(state: SensorState, seen: tuple[Array, Array]) -> tuple[SensorState, tuple]:
        state, score, failed = monitor.step(state, *seen, deviation=spread)
        return state, (score, failed)

    return jax.lax.scan(observe, monitor.init(y.shape[1]), (y, p_values))[1]


def _monitor(y: Any, mean: Any, spread: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Scores and verdicts."""
    score, failed = _told(y, mean, spread)
    return np.asarray(score), np.asarray(failed)


def _delays(failed: np.ndarray) -> np.ndarray:
    after = failed[START:]
    return np.where(after.any(0), after.argmax(0), len(after))


def _upper_rate(failed: np.ndarray) -> float:
    """A 99 % upper bound of alarms per observation."""
    starts = int(np.sum(failed[1:] & ~failed[:-1]))
    return float(stats.chi2.ppf(0.99, 2 * (starts + 1)) / 2 / failed.size)


def test_healthy_sensors_are_left_alone() -> None:
    y, mean = _stream(LENGTH)
    score, failed = _monitor(y, mean)
    assert _upper_rate(failed) < 2e-5
    assert np.all((score >= 0.0) & (score <= 1.0))
    np.testing.assert_array_equal(failed, score > 0.5)


def test_rounded_values_repeat_without_being_stuck() -> None:
    y, mean = _stream(LENGTH)
    rounded = np.round(y)
    assert float(np.mean(rounded[1:] == rounded[:-1])) > 0.2
    assert _upper_rate(_monitor(rounded, mean)[1]) < 1e-4


@pytest.mark.parametrize(("digits", "slowest"), [(8, 5), (0, 15)])
def test_a_frozen_sensor_fails_and_recovers(digits: int, slowest: int) -> None:
    y, mean = _stream()
    frozen = np.round(y, digits)
    frozen[START : START + 100] = frozen[START - 1]
    failed = _monitor(frozen, mean)[1]
    assert _delays(failed).max() <= slowest
    assert np.all(failed[START + slowest : START + 100])
    assert float(np.mean(failed[START + 120 :])) < 1e-3


@pytest.mark.parametrize(("rate", "median", "slow"), [(0.05, 55, 80), (0.2, 18, 25)])
def test_a_drifting_sensor_fails_beyond_two_spreads(rate: float, median: int, slow: int) -> None:
    y, mean = _stream()
    drift = rate * np.maximum(np.arange(float(SHORT)) - START, 0.0)
    delays = _delays(_monitor(y + drift[:, None], mean)[1])
    assert np.median(delays) < median and delays.max() < slow


@pytest.mark.parametrize(("size", "caught"), [(7.0, 0.7), (1e6, 1.0), (jnp.inf, 1.0)])
def test_a_spike_fails_at_once_and_is_soon_forgotten(size: float, caught: float) -> None:
    y, mean = _stream()
    y[START] += size
    failed = _monitor(y, mean)[1]
    assert float(np.mean(failed[START])) >= caught
    assert not np.any(failed[START + 15 : START + 300])


def test_three_spreads_now_and_then_are_no_failure() -> None:
    y, mean = _stream(LENGTH)
    y[START::50] = mean[START::50] + 3.0
    assert _upper_rate(_monitor(y, mean)[1]) < 1e-4


def test_missing_values_keep_state_and_verdict() -> None:
    y, mean = _stream()
    half = SHORT // 2
    y[half - 20 :] = y[half - 21]
    gaps = np.stack([y[:half], np.full((half, DIM), np.nan)], 1).reshape(-1, DIM)
    failed = _monitor(y, mean)[1][:half]
    with_gaps = _monitor(gaps, np.repeat(mean[:half], 2, 0))[1]
    np.testing.assert_array_equal(with_gaps[::2], failed)
    np.testing.assert_array_equal(with_gaps[1::2], failed)
    assert failed[-1].all()
    monitor = SensorMonitor()
    unknown = jax.jit(lambda y, p: monitor.step(monitor.init(2), y, p)[0])(
        np.ones(2), np.full(2, np.nan)
    )
    np.testing.assert_array_equal(unknown.surprise, 1.0)


def test_a_repeat_that_was_foreseen_is_no_evidence() -> None:
    still, level = _stream()
    still[START:] = level[START:] = level[START - 1]
    moving = np.ones(DIM)
    assert not np.any(_monitor(still, level, 1e-3 * moving)[1][START + 5 : START + 50])
    assert np.all(_monitor(still, level, moving)[1][START + 6 : START + 50])


def test_wrong_settings_are_named() -> None:
    with pytest.raises(ValueError, match=r"memory: got 0\.5"):
        SensorMonitor(memory=0.5)

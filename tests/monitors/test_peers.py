"""A sensor that drifts away from its peers is found; honest ones are left alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rmcvi.monitors import PeerMonitor

LENGTH, START = 3000, 2000


def together(seed: int = 0) -> np.ndarray:
    """Four sensors of one slow signal, each with its own unit and noise."""
    rng = np.random.default_rng(seed)
    signal, noise = np.zeros(LENGTH), rng.normal(size=LENGTH)
    for t in range(1, LENGTH):
        signal[t] = 0.97 * signal[t - 1] + 0.25 * noise[t]
    units, origins = np.array([1.0, 20.0, 0.01, 3.0]), np.array([0.0, 300.0, 5.0, -1.0])
    return origins + units * (signal[:, None] + 0.3 * rng.normal(size=(LENGTH, 4)))


def follow(ys: np.ndarray, **options) -> np.ndarray:
    monitor = PeerMonitor(**options)

    def step(state, y):
        state, score, _ = monitor.step(state, y)
        return state, score

    rows = jnp.asarray(ys, float)
    return np.asarray(jax.lax.scan(step, monitor.init(ys.shape[1]), rows)[1])


def test_honest_sensors_are_left_alone():
    """Three streams of 3 000 rows, with gaps: fewer than one false verdict in 10 000."""
    wrong = 0
    for seed in range(3):
        ys = together(seed)
        ys[np.random.default_rng(9).uniform(size=ys.shape) < 0.1] = np.nan
        wrong += int((follow(ys) > 0.5).sum())
    assert wrong <= 3 * LENGTH * 4 / 10_000


@pytest.mark.parametrize("column", [0, 2])
def test_a_drifting_sensor_is_found_and_named(column):
    """Three standard deviations in 60 rows, which no one-step prediction would notice."""
    ys = together()
    drift = 3.0 * ys[:START, column].std() * np.arange(1, 61) / 60
    ys[START : START + 60, column] += drift
    failed = follow(ys) > 0.5
    found = np.flatnonzero(failed[START : START + 60, column])
    assert found.size
    assert found[0] < 50
    assert not np.delete(failed[: START + found[0] + 1], column, 1).any()


def test_one_outlier_is_not_a_drift():
    ys = together()
    ys[START, 0] = 1e6
    assert not (follow(ys) > 0.5).any()


def test_sensors_that_have_nothing_in_common_are_not_judged():
    """Independent random walks wander for ever, and no peer can tell."""
    rng = np.random.default_rng(3)
    assert not (follow(np.cumsum(rng.normal(size=(LENGTH, 3)), 0)) > 0.5).any()


def test_settings_are_checked():
    with pytest.raises(ValueError, match="explained"):
        PeerMonitor(explained=2.0)

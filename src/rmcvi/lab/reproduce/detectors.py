"""Simple rivals of our alarms: a score for each row, causal, larger = more unusual. One column."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import erfc

from rmcvi.core.past import last_value

MEMORY = 1000.0
"""Rows that running moments remember, as long as ours do."""
WINDOW = 100
"""Rows of the short window of the Gaussian tail probability."""


def _standardised(x: np.ndarray, memory: float = MEMORY) -> np.ndarray:
    """(x - m) / s with the running mean and deviation of what came before; 0 where unknown."""
    out, mean, variance, count = np.zeros(len(x)), 0.0, 0.0, 0
    for t, value in enumerate(x.tolist()):
        if not np.isfinite(value):
            continue
        error = value - mean
        if count > 10 and variance > 0.0:
            out[t] = error / variance**0.5
        count += 1
        weight = 1.0 / min(count, memory)
        mean += weight * error
        variance = (1.0 - weight) * (variance + weight * error**2)
    return out


def last_value_error(y: np.ndarray) -> np.ndarray:
    """|z| of the change since the last value."""
    before = last_value(y[:, None], np.full(1, np.nan))[:, 0]
    return np.abs(_standardised(y - before))


def value_alone(y: np.ndarray) -> np.ndarray:
    """|z| of the value itself."""
    return np.abs(_standardised(y))


def windowed_gaussian(y: np.ndarray) -> np.ndarray:
    """-log of the two-sided normal tail of the mean of ten values, by the values before them."""
    z = _standardised(y)
    kernel = np.ones(10) / 10.0
    mean = np.convolve(z, kernel)[: len(z)]
    return -np.log(np.maximum(erfc(np.abs(mean) * (10.0 / 2.0) ** 0.5), 1e-300))


def half_space_trees(y: np.ndarray) -> np.ndarray:
    """River's streaming isolation forest on the value and the two before it, scaled online."""
    from river import anomaly, preprocessing

    forest = anomaly.HalfSpaceTrees(seed=0, window_size=250)
    scaler, out, past = preprocessing.MinMaxScaler(), np.zeros(len(y)), [0.0, 0.0]
    for t, value in enumerate(y.tolist()):
        if not np.isfinite(value):
            continue
        row: dict[Any, float] = {"now": value, "one": past[-1], "two": past[-2]}
        scaler.learn_one(row)
        scaled = scaler.transform_one(row)
        out[t] = forest.score_one(scaled)
        forest.learn_one(scaled)
        past = [past[-1], value]
    return out


def chance(y: np.ndarray) -> np.ndarray:
    """Drawn uniformly."""
    return np.random.default_rng(0).uniform(size=len(y))


RIVALS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "last value, z": last_value_error,
    "value, z": value_alone,
    "windowed Gaussian": windowed_gaussian,
    "half-space trees (river)": half_space_trees,
    "chance": chance,
}

"""Streams with seasons, gaps and surprises."""

import numpy as np


def seasonal(length: int, columns: int = 2, seed: int = 0, period: int = 6) -> np.ndarray:
    """Positive, skewed, autoregressive around a season; nothing is missing."""
    rng = np.random.default_rng(seed)
    x, ys = np.zeros(columns), []
    for t in range(length):
        x = 0.7 * x + 0.2 * x[::-1] + 0.3 * rng.standard_normal(columns)
        ys.append(
            20.0 * np.exp(0.3 * np.sin(2 * np.pi * t / period + np.arange(columns)) + 0.3 * x)
        )
    return np.array(ys)


def broken(length: int, seed: int = 0) -> np.ndarray:
    """The same with holes, empty rows, a late column that starts constant, outliers, a level that
    moves and comes back, and a column that is stuck for a while.
    """
    rng, ys = np.random.default_rng(seed + 1), seasonal(length, 3, seed)
    ys[rng.random(ys.shape) < 0.1] = np.nan
    ys[length // 2 : length // 2 + 12] = np.nan
    ys[: length // 4, 2] = np.nan
    ys[length // 4 : length // 4 + 15, 2] = 7.0
    ys[length // 3, 0], ys[length // 3 + 1, 0] = 1e6, 1e6
    ys[17 * length // 30 : 24 * length // 30, 1] += 1e5
    ys[19 * length // 30 : 23 * length // 30, 0] = 21.0
    return ys

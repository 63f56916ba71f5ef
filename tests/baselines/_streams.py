"""Small streams with gaps, and a Student density to check against, in plain NumPy."""

import math
from functools import cache

import numpy as np


@cache
def broken(length: int = 60, dim: int = 2, width: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """(ys, u): wandering values with NaN here and there, a long gap, and a row of nothing."""
    rng = np.random.default_rng(7)
    u = rng.normal(size=(length, width))
    ys = 0.3 * np.cumsum(rng.normal(size=(length, dim)), 0) + 0.5 * u[:, :1]
    ys[rng.random(ys.shape) < 0.15] = np.nan
    ys[:2, 0], ys[20:27, 1], ys[33] = np.nan, np.nan, np.nan
    return ys, u


def student_log_density(z: float, nu: float) -> float:
    """Of Student's t scaled to variance 1; nu = inf is the Gaussian."""
    if nu == math.inf:
        return -0.5 * (z**2 + math.log(2.0 * math.pi))
    constant = math.lgamma(0.5 * (nu + 1)) - math.lgamma(0.5 * nu)
    return (
        constant - 0.5 * math.log((nu - 2) * math.pi) - 0.5 * (nu + 1) * math.log1p(z**2 / (nu - 2))
    )


class TailsOracle:
    """The choice of tails, one coordinate at a time."""

    degrees = (math.inf, 12.0, 6.0, 4.0)

    def __init__(self, dim: int):
        self.scores = np.zeros((4, dim))

    def score(self, z: np.ndarray, scale: np.ndarray) -> float:
        """Log score of standardised residuals (NaN = missing), which are then taken in."""
        total, some = 0.0, False
        for j in np.flatnonzero(~np.isnan(z)):
            logs = np.array([student_log_density(float(z[j]), nu) for nu in self.degrees])
            total += logs[np.argmax(self.scores[:, j])] - math.log(scale[j])
            gained = np.clip(logs - logs[0], -10.0, 10.0)
            self.scores[:, j] = 0.999 * self.scores[:, j] + gained
            some = True
        return total if some else math.nan

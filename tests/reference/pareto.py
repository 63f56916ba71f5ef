"""The shape of a generalised Pareto distribution by maximum likelihood, over a fine grid."""

import numpy as np


def profile_likelihood_shape(exceedances: np.ndarray) -> float:
    """The k that maximises the likelihood: for b = -k / s, k(b) is the mean of log(1 - b x)."""
    top = 1.0 / exceedances.max()
    best, found = -np.inf, np.nan
    for distance in np.geomspace(1e-4, 1e8, 6000):
        b = top - distance * top
        if abs(b) < 1e-12:
            continue
        k = np.mean(np.log1p(-b * exceedances))
        value = len(exceedances) * (np.log(-b / k) - k - 1.0)
        if value > best:
            best, found = value, float(k)
    return found


def pareto_draws(rng: np.random.Generator, k: float, num: int | tuple[int, ...]) -> np.ndarray:
    """Weights whose tail has index k: the inverse of 1 - F(w) = w^(-1/k) at uniform numbers."""
    return rng.uniform(size=num) ** -k

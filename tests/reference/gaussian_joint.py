"""Brute force: (x_0, ..., x_{T-1}, y_0, ..., y_{T-1}) is one Gaussian vector; condition it."""

from dataclasses import dataclass

import numpy as np

from tests.reference.kalman import LinearSystem, log_normal


@dataclass(frozen=True)
class Posterior:
    """Law of the stacked path (x_0, ..., x_{T-1}) given y, and log p(y)."""

    mean: np.ndarray
    cov: np.ndarray
    log_evidence: float


def joint_moments(system: LinearSystem, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of (x_0:T, y_0:T), by writing all of it as A noise + mean.

    The noise vector is (x_0 - m0, state noise 1, ..., observation noise 0, ...).
    """
    dx, dy = len(system.m0), len(system.G)
    size = length * (dx + dy)
    A, mean = np.zeros((size, size)), np.zeros(size)
    noise = np.zeros((size, size))
    for t in range(length):
        x, y = _block(t, dx), _block(t, dy, length * dx)
        if t == 0:
            mean[x], noise[x, x] = system.m0, system.P0
        else:
            before = _block(t - 1, dx)
            A[x] = system.F[t] @ A[before]
            mean[x] = system.F[t] @ mean[before] + system.b[t]
            noise[x, x] = system.Q[t]
        A[x, x] = np.eye(dx)
        A[y] = system.G @ A[x]
        A[y, y] = np.eye(dy)
        mean[y] = system.G @ mean[x] + system.d[t]
        noise[y, y] = system.R
    return mean, A @ noise @ A.T


def posterior(system: LinearSystem, ys: np.ndarray) -> Posterior:
    """Condition the joint law on the coordinates of y that are not NaN."""
    length = len(ys)
    mean, cov = joint_moments(system, length)
    states = np.arange(length * len(system.m0))
    seen = len(states) + np.flatnonzero(~np.isnan(ys.ravel()))
    residual = ys.ravel()[~np.isnan(ys.ravel())] - mean[seen]
    cross, observed = cov[np.ix_(states, seen)], cov[np.ix_(seen, seen)]
    gain = np.linalg.solve(observed, cross.T).T
    return Posterior(
        mean[states] + gain @ residual,
        cov[np.ix_(states, states)] - gain @ cross.T,
        log_normal(residual, observed),
    )


def elbo(model: LinearSystem, variational: LinearSystem, ys: np.ndarray) -> float:
    """log p(y) - KL(q | p(. | y)), where q is the posterior under `variational`."""
    p, q = posterior(model, ys), posterior(variational, ys)
    shift = p.mean - q.mean
    ratio = np.linalg.solve(p.cov, q.cov)
    _, log_det = np.linalg.slogdet(ratio)
    square = shift @ np.linalg.solve(p.cov, shift)
    return p.log_evidence - 0.5 * float(np.trace(ratio) - len(shift) - log_det + square)


def _block(t: int, dim: int, start: int = 0) -> slice:
    return slice(start + t * dim, start + (t + 1) * dim)

"""Kalman filter and Rauch-Tung-Striebel smoother, as in any textbook, in NumPy float64.

    x_0 ~ N(m0, P0),  x_t = F_t x_{t-1} + b_t + N(0, Q_t),  y_t = G x_t + d_t + N(0, R)

NaN coordinates of y_t are not observed: their rows are dropped from G, d and R.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class LinearSystem:
    """The matrices of every step, t = 0, ..., T - 1; those of transition 0 are not used."""

    m0: np.ndarray
    P0: np.ndarray
    F: np.ndarray
    b: np.ndarray
    Q: np.ndarray
    G: np.ndarray
    d: np.ndarray
    R: np.ndarray

    @classmethod
    def build(cls, F, Q, G, R, m0, P0, length, B=None, D=None, u=None, dt=None):
        """From constant matrices; F is I + dt (F - I), b is dt B u and Q is dt Q over a step dt."""
        dx, dy = len(F), len(G)
        dt = np.ones(length) if dt is None else dt
        b = np.zeros((length, dx)) if B is None else dt[:, None] * (u @ B.T)
        d = np.zeros((length, dy)) if D is None else u @ D.T
        step = dt[:, None, None]
        return cls(m0, P0, np.eye(dx) + step * (F - np.eye(dx)), b, step * Q, G, d, R)


@dataclass(frozen=True)
class Filtered:
    """Law of x_t given y_{0:t}, and log p(y_{0:t})."""

    mean: np.ndarray
    cov: np.ndarray
    log_evidence: np.ndarray


@dataclass(frozen=True)
class Smoothed:
    """Law of x_t given all of y; `lag_one[t]` = Cov(x_{t-1}, x_t), zero at t = 0."""

    mean: np.ndarray
    cov: np.ndarray
    lag_one: np.ndarray


def kalman_filter(system: LinearSystem, ys: np.ndarray) -> Filtered:
    """Predict, then condition on the observed rows of y_t."""
    means, covs, evidence = [], [], []
    m, P, total = system.m0, system.P0, 0.0
    for t, y in enumerate(ys):
        if t > 0:
            F = system.F[t]
            m, P = F @ m + system.b[t], F @ P @ F.T + system.Q[t]
        seen = ~np.isnan(y)
        if seen.any():
            G, R = system.G[seen], system.R[np.ix_(seen, seen)]
            residual = y[seen] - G @ m - system.d[t, seen]
            S = G @ P @ G.T + R
            gain = np.linalg.solve(S, G @ P).T
            total += log_normal(residual, S)
            m, P = m + gain @ residual, P - gain @ S @ gain.T
        means.append(m)
        covs.append(P)
        evidence.append(total)
    return Filtered(np.array(means), np.array(covs), np.array(evidence))


def rts_smoother(system: LinearSystem, filtered: Filtered) -> Smoothed:
    """From the last filtering law backwards, x_{t-1} = N(m + C (x_t - F m - b), ...)."""
    mean, cov = filtered.mean.copy(), filtered.cov.copy()
    lag_one = np.zeros_like(cov)
    for t in range(len(mean) - 1, 0, -1):
        m, P, F = filtered.mean[t - 1], filtered.cov[t - 1], system.F[t]
        predicted = F @ P @ F.T + system.Q[t]
        C = np.linalg.solve(predicted, F @ P).T
        mean[t - 1] = m + C @ (mean[t] - F @ m - system.b[t])
        cov[t - 1] = P + C @ (cov[t] - predicted) @ C.T
        lag_one[t] = C @ cov[t]
    return Smoothed(mean, cov, lag_one)


def log_normal(residual: np.ndarray, cov: np.ndarray) -> float:
    """log N(residual; 0, cov)."""
    _, log_det = np.linalg.slogdet(2.0 * np.pi * cov)
    return -0.5 * float(log_det + residual @ np.linalg.solve(cov, residual))

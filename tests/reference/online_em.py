"""Online EM of one hidden state, x = f x' + N(0, q), y = g x + N(0, r), in plain NumPy.

Smoothed sums are carried forward: E[sum s | x_t, y] is a quadratic a x^2 + b x + c of x_t, moved on
by the backward kernel of the current parameters (Cappe 2011). Nothing is truncated.
"""

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Parameters:
    """Slopes and variances; the law of x_0 stays N(m0, p0)."""

    f: float
    q: float
    g: float
    r: float
    m0: float
    p0: float


@dataclass
class OnlineEM:
    """S <- S + gamma (dS - S), then both regressions, with `prior` rows of the start."""

    start: Parameters
    power: float
    prior: float
    warm_up: int
    now: Parameters = field(init=False)
    seen: dict[str, int] = field(default_factory=lambda: {"x": 0, "y": 0})
    average: dict[str, np.ndarray] = field(default_factory=dict)
    """(n, zz, zt, tt) of the transition, "x", and of the emission, "y"."""

    def __post_init__(self) -> None:
        self.now = Parameters(**vars(self.start))
        self.average = {"x": np.zeros(4), "y": np.zeros(4)}
        self.mean, self.variance = self.start.m0, self.start.p0
        self.quadratics = {"x": np.zeros((4, 3)), "y": np.zeros((4, 3))}
        self.totals = {"x": np.zeros(4), "y": np.zeros(4)}
        self.t = 0

    def step(self, y: float) -> Parameters:
        """Take in one observation, NaN = missing."""
        now, fresh = self.now, {"x": np.zeros((4, 3)), "y": np.zeros((4, 3))}
        m, p = self.mean, self.variance
        if self.t > 0:
            m_pred, p_pred = now.f * m, now.f**2 * p + now.q
            gain = p * now.f / p_pred
            shift, rest = m - gain * m_pred, p - gain * now.f * p
            moved = {k: _backward(v, gain, shift, rest) for k, v in self.quadratics.items()}
            fresh["x"][0] = [0, 0, 1]
            fresh["x"][1] = [gain**2, 2 * gain * shift, shift**2 + rest]
            fresh["x"][2] = [gain, shift, 0]
            fresh["x"][3] = [1, 0, 0]
            m, p = m_pred, p_pred
        else:
            moved = self.quadratics
        if not np.isnan(y):
            k = p * now.g / (now.g**2 * p + now.r)
            m, p = m + k * (y - now.g * m), (1 - k * now.g) * p
            fresh["y"][:] = [[0, 0, 1], [1, 0, 0], [0, y, 0], [0, 0, y**2]]
        for name in ("x", "y"):
            self.quadratics[name] = moved[name] + fresh[name]
            total = self.quadratics[name] @ np.array([m**2 + p, m, 1])
            self._average(name, total - self.totals[name])
            self.totals[name] = total
        self.mean, self.variance, self.t = m, p, self.t + 1
        f, q = self._regress("x", self.start.f, self.start.q, now.f, now.q)
        g, r = self._regress("y", self.start.g, self.start.r, now.g, now.r)
        self.now = Parameters(f, q, g, r, now.m0, now.p0)
        return self.now

    def _average(self, name: str, increment: np.ndarray) -> None:
        counted = increment[0] > 0.5
        self.seen[name] += counted
        gamma = max(self.seen[name], 1) ** -self.power
        self.average[name] = self.average[name] * (1 - gamma * counted) + gamma * increment

    def _regress(self, name: str, a0: float, v0: float, a: float, v: float) -> tuple[float, float]:
        if self.seen[name] < self.warm_up:
            return a, v
        n, zz, zt, tt = self.average[name]
        w = self.prior / self.seen[name]
        new = (zt + w * zz * a0) / (zz * (1 + w))
        residual = tt - 2 * new * zt + new**2 * zz + w * (n * v0 + zz * (new - a0) ** 2)
        return new, max(residual / (n * (1 + w)), 0.1 * v)


def _backward(values: np.ndarray, gain: float, shift: float, rest: float) -> np.ndarray:
    """E of a x'^2 + b x' + c given x, where x' = gain x + shift + N(0, rest)."""
    a, b, c = values.T
    return np.stack(
        [a * gain**2, 2 * a * gain * shift + b * gain, a * (shift**2 + rest) + b * shift + c], 1
    )

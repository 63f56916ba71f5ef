"""The nonlinear path of the seasonal learner in plain numbers; covariance form."""

import numpy as np

NU, GATE, PRIOR = 6, 15.0, 0.01


class Nonlinear:
    """Tanh units for what a component leaves over; one covariance for all columns."""

    def __init__(self, count: int, d: int, harmonics: int):
        size, rng = 3 * d + 2 * harmonics, np.random.default_rng(0)
        inner = 0.3 * np.sqrt(min(1, 32 / size)) * rng.normal(size=(count, size))
        self.A = np.hstack([inner, 0.5 * rng.normal(size=(count, 1))])
        self.V, self.P = np.zeros((d, count)), PRIOR * np.eye(count)
        self.m, self.v = np.zeros_like(self.A), np.full_like(self.A, 1e-8)

    def say(self, x: np.ndarray, noise: np.ndarray, S: np.ndarray) -> np.ndarray:
        """What it adds to the mean; `noise` and `S` are the component's variances."""
        self.x, self.noise, self.S = np.append(np.clip(x, -4, 4), 1.0), noise.copy(), S.copy()
        self.h = np.tanh(self.A @ self.x)
        most = 3 * np.sqrt(S)
        self.offset = np.clip(np.sqrt(noise) * (self.V @ self.h), -most, most)
        return self.offset

    def learn(self, e: np.ndarray, teaches: list[int]) -> None:
        """After errors of the component."""
        e = e - self.offset
        taught = [i for i in teaches if e[i] ** 2 / self.S[i] <= GATE**2]
        if not taught:
            return
        w = (NU + 1) / (NU + e**2 / self.S)
        free = self.S / self.noise / w
        g, lever = self.P @ self.h, self.h @ self.P @ self.h
        slope = np.zeros(len(self.h))
        for i in taught:
            slope += e[i] * w[i] * np.sqrt(self.noise[i]) / self.S[i] * self.V[i]
        for i in taught:
            self.V[i] += g * e[i] / np.sqrt(self.noise[i]) / (0.9995 * free[i] + lever)
        P = (self.P - np.outer(g, g) / (0.9995 * free[taught].mean() + lever)) / 0.9995
        c = np.sqrt(np.minimum(1, PRIOR / np.diag(P)))
        self.P = P * np.outer(c, c)
        gradient = np.outer(slope * (1 - self.h**2), self.x)
        self.m = 0.9 * self.m + 0.1 * gradient
        self.v = 0.999 * self.v + 0.001 * gradient**2
        self.A = self.A + 1e-3 * self.m / (np.sqrt(self.v) + 1e-6)

"""The models of `rmcvi.models.zoo` next to their laws, at one point each."""

import numpy as np
from scipy import stats

from rmcvi.models import zoo
from tests.models.cases import X_PREV, Case, Laws, X, make_case
from tests.models.laws import Independent, Law, OnTheCircle


def _integrated(noise: float, step: float) -> np.ndarray:
    """Factor of the covariance of an integral of white noise and of the integral of that."""
    covariance = np.array([[step**3 / 3, step**2 / 2], [step**2 / 2, step]])
    return noise * np.linalg.cholesky(covariance)


def tracking() -> Case:
    """Not far from the cut of the bearing."""
    model = zoo.Tracking(acceleration=0.5, home=(-2.0, 0.3), spring=0.1, friction=0.2)
    x, dt = X_PREV[:4], 0.5
    pull = 0.1 * (x[:2] - [-2.0, 0.3]) + 0.2 * x[2:]
    bearing = OnTheCircle(float(np.arctan2(X[1], X[0])), 0.1)
    away = stats.norm(np.sqrt(X[0] ** 2 + X[1] ** 2 + 1e-6), 0.3)
    laws = Laws(
        Law(np.array([-2.0, 0.3, 0.0, 0.0]), np.diag([1.0, 1.0, 0.2, 0.2])),
        Law(
            np.concatenate([x[:2] + dt * x[2:], x[2:] - dt * pull]),
            np.kron(_integrated(0.5, dt), np.eye(2)),
        ),
        Independent((away, bearing)),
    )
    return make_case(model, dt, laws)


def lorenz(dim: int = 5, dt: float = 1.5) -> Case:
    """Three of five coordinates."""
    model = zoo.Lorenz96(dim, forcing=6.0, noise=0.4, obs_noise=0.7)

    def rate(x):
        k = np.arange(dim)
        return (x[(k + 1) % dim] - x[k - 2]) * x[k - 1] - x + 6.0

    x, h = X_PREV[:dim], 0.05 * dt
    k1 = rate(x)
    k2 = rate(x + h / 2 * k1)
    k3 = rate(x + h / 2 * k2)
    k4 = rate(x + h * k3)
    laws = Laws(
        Law(np.full(dim, 2.3), 3.6 * np.eye(dim)),
        Law(x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), 0.4 * dt**0.5 * np.eye(dim)),
        Law(X[:dim:2], 0.7 * np.eye(3)),
    )
    return make_case(model, dt, laws)


def growth() -> Case:
    """At time 2.3, which an input tells."""
    model = zoo.Growth(noise=1.5, obs_noise=0.8)
    x, dt = X_PREV[:1], 0.7
    drift = 0.5 * x + 25.0 * x / (1.0 + x**2) + 8.0 * np.cos(1.2 * 2.3) - x
    laws = Laws(
        Law(np.zeros(1), 5.0 * np.eye(1)),
        Law(x + dt * drift, 1.5 * dt**0.5 * np.eye(1)),
        Law(X[:1] ** 2 / 20.0, 0.8 * np.eye(1)),
    )
    return make_case(model, dt, laws, np.array([2.3]))


def spikes() -> Case:
    """Four neurons."""
    model = zoo.Spikes(2, 4, persistence=0.9, noise=0.3, rate=2.0)
    x, dt = X_PREV[:2], 0.5
    rates = 2.0 * np.exp(np.asarray(model.loadings) @ X[:2])
    laws = Laws(
        Law(np.zeros(2), 0.3 / np.sqrt(1.0 - 0.9**2) * np.eye(2)),
        Law(x - 0.1 * dt * x, 0.3 * dt**0.5 * np.eye(2)),
        Independent(tuple(stats.poisson(rate) for rate in rates)),
    )
    return make_case(model, dt, laws)


def leverage() -> Case:
    """Two shocks with correlation -.5."""
    model = zoo.Leverage(level=-0.4, persistence=0.9, noise=0.4, leverage=-0.5)
    (h, z), dt, c = X_PREV[:2], 0.8, 0.5**0.5
    drift = dt * -0.1 * (h + 0.4) + dt**0.5 * 0.4 * c * z
    deviation = np.exp(0.5 * X[0])
    laws = Laws(
        Law(np.array([-0.4, 0.0]), np.diag([0.4 / np.sqrt(1.0 - 0.9**2), 1.0])),
        Law(np.array([h + drift, 0.0]), np.diag([0.4 * dt**0.5 * c, 1.0])),
        Law(np.array([-c * X[1] * deviation]), np.array([[c * deviation]])),
    )
    return make_case(model, dt, laws)


def pendulum(wrapped: bool = False) -> Case:
    """Its sine, or its angle."""
    model = zoo.Pendulum(wrapped=wrapped)
    (a, v), dt = X_PREV[:2], 0.5
    step = 0.05 * dt
    after = v - step * (9.8 * np.sin(a) + 0.5 * v)
    seen = OnTheCircle(X[0], 0.2) if wrapped else stats.norm(np.sin(X[0]), 0.2)
    laws = Laws(
        Law(np.zeros(2), np.eye(2)),
        Law(np.array([a + 0.5 * step * (v + after), after]), _integrated(1.0, step)),
        Independent((seen,)),
    )
    return make_case(model, dt, laws)


def pendulum_angle() -> Case:
    """The angle."""
    return pendulum(wrapped=True)


def epidemic() -> Case:
    """Far from usual: more people than there are."""
    model = zoo.Epidemic(reported=20.0)
    x, dt = X_PREV[:2], 0.5
    s, i = np.exp(x)
    rates = np.array([0.02 * (1.0 - s - i) / s - 0.4 * i, 0.4 * s - 0.2 + 1e-5 / i])
    mean = 20.0 * 0.4 * np.exp(X[0] + X[1])
    laws = Laws(
        Law(np.log([0.5, 0.02]), 0.5 * np.eye(2)),
        Law(x + np.tanh(dt * rates), 0.1 * dt**0.5 * np.eye(2)),
        Independent((stats.nbinom(10.0, 10.0 / (10.0 + mean)),)),
    )
    return make_case(model, dt, laws)


CLASSICS = (tracking, lorenz, growth, spikes, leverage, pendulum, pendulum_angle, epidemic)

"""One instance of every model next to its laws, written again with NumPy and SciPy."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from rmcvi import Inputs
from rmcvi.models import (
    AbstractGaussianModel,
    ChaoticRNN,
    LinearGaussian,
    NeuralGaussian,
    StochasticVolatility,
)
from tests.models.laws import Law


class Laws(NamedTuple):
    """p(x_0), p(x_t | x_prev) and p(y_t | x) at the points of a case."""

    initial: Law
    transition: Law
    emission: Any


class Case(NamedTuple):
    """A model, where to look at it, and what it must be there."""

    model: AbstractGaussianModel
    inputs: Inputs
    x_prev: jax.Array
    x: jax.Array
    laws: Laws


F = np.array([[0.8, 0.2], [-0.1, 0.7]])
G = np.array([[1.0, 0.3], [0.0, 1.0], [0.5, -0.4]])
B = np.array([[0.3, 0.1], [-0.2, 0.4]])
D = np.array([[0.1, -0.5], [0.2, 0.3], [-0.3, 0.6]])
S = np.array([[0.5, 0.0], [0.2, 0.4]])
C = np.array([[0.4, 0.0, 0.0], [0.1, 0.5, 0.0], [-0.2, 0.1, 0.3]])
U = np.array([0.7, -1.1])
KEY = jax.random.key(4)
X_PREV, X = np.array([0.4, -0.9, 1.3, -0.5, 0.2]), np.array([0.1, -0.6, 0.8, -0.3, 0.5])


def make_case(model, dt: float, laws: Laws, u: np.ndarray = U[:0]) -> Case:
    inputs = Inputs(jnp.asarray(u), jnp.asarray(dt))
    d = model.dim_state
    return Case(model, inputs, jnp.asarray(X_PREV[:d]), jnp.asarray(X[:d]), laws)


def diagonal(dim: int = 2) -> Case:
    """Vectors for matrices, scalars for noise."""
    f, g = np.array([0.9, 0.6])[:dim], np.array([1.2, -0.7])[:dim]
    model = LinearGaussian(f, g, 0.3, 0.5, initial_mean=0.2, initial_noise=0.8)
    eye = np.eye(dim)
    laws = Laws(
        Law(np.full(dim, 0.2), 0.8 * eye),
        Law(f * X_PREV[:dim], 0.3 * eye),
        Law(g * X[:dim], 0.5 * eye),
    )
    return make_case(model, 1.0, laws)


def full() -> Case:
    """Full matrices, independent noise, one input, a short step."""
    q, r = np.array([0.3, 0.6]), np.array([0.2, 0.5, 0.9])
    model = LinearGaussian(F, G, q, r, state_input=B[:, :1], obs_input=D[:, :1])
    drift = F @ X_PREV[:2] + B[:, :1] @ U[:1] - X_PREV[:2]
    laws = Laws(
        Law(np.zeros(2), np.eye(2)),
        Law(X_PREV[:2] + 0.4 * drift, np.diag(q) * 0.4**0.5),
        Law(G @ X[:2] + D[:, :1] @ U[:1], np.diag(r)),
    )
    return make_case(model, 0.4, laws, U[:1])


def correlated() -> Case:
    """Full matrices, correlated noise everywhere, two inputs, a long step."""
    start = np.array([0.5, -0.2]), np.array([0.9, 0.7])
    model = LinearGaussian(F, G, S, C, *start, state_input=B, obs_input=D)
    laws = Laws(
        Law(start[0], np.diag(start[1])),
        Law(X_PREV[:2] + 1.5 * (F @ X_PREV[:2] + B @ U - X_PREV[:2]), S * 1.5**0.5),
        Law(G @ X[:2] + D @ U, C),
    )
    return make_case(model, 1.5, laws, U)


def chaotic(dim: int = 3, dt: float = 2.0) -> Case:
    """The chaotic network over a double step."""
    model = ChaoticRNN(dim, key=jax.random.key(3))
    x, w = X_PREV[:dim], np.asarray(model.weights)
    drift = (2.5 * w @ np.tanh(x) - x) / 0.025
    laws = Laws(
        Law(np.zeros(dim), 0.1 * np.eye(dim)),
        Law(x + dt * 0.001 * drift, 0.1 * dt**0.5 * np.eye(dim)),
        Law(X[:dim], 0.1 * np.eye(dim), stats.t(2)),
    )
    return make_case(model, dt, laws)


def _mlp(net, v: np.ndarray) -> np.ndarray:
    for layer in net.layers[:-1]:
        v = np.tanh(np.asarray(layer.weight) @ v + np.asarray(layer.bias))
    return np.asarray(net.layers[-1].weight) @ v + np.asarray(net.layers[-1].bias)


def neural(dim_state: int = 2, dim_obs: int = 3, dt: float = 0.6) -> Case:
    """Networks with one input."""
    model = NeuralGaussian(dim_state, dim_obs, dim_input=1, width=4, depth=1, key=KEY)
    x, now = np.append(X_PREV[:dim_state], U[:1]), np.append(X[:dim_state], U[:1])
    laws = Laws(
        Law(np.zeros(dim_state), np.eye(dim_state)),
        Law(x[:-1] + dt * _mlp(model.drift, x), 0.3 * dt**0.5 * np.eye(dim_state)),
        Law(_mlp(model.readout, now), 0.5 * np.eye(dim_obs)),
    )
    return make_case(model, dt, laws, U[:1])


def volatility(dim: int = 2, dt: float = 0.8) -> Case:
    """Log-variances around a level."""
    model = StochasticVolatility(dim, level=0.3, persistence=0.9, noise=0.4)
    x = X_PREV[:dim]
    laws = Laws(
        Law(np.full(dim, 0.3), 0.4 / np.sqrt(1.0 - 0.9**2) * np.eye(dim)),
        Law(x + dt * (0.9 - 1.0) * (x - 0.3), 0.4 * dt**0.5 * np.eye(dim)),
        Law(np.zeros(dim), np.diag(np.exp(0.5 * X[:dim]))),
    )
    return make_case(model, dt, laws)

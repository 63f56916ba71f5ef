"""Stochastic volatility: x_t = m + a (x_{t-1} - m) + s e_t,  y_t = exp(x_t / 2) v_t."""

import math

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from rmcvi.core.checks import check_int, check_real
from rmcvi.core.gaussian import normal_log_prob
from rmcvi.core.positive import positive, unconstrained
from rmcvi.models.gaussian import AbstractGaussianModel, draw_normal
from rmcvi.models.linear_part import Held, LinearPart, held_noise

MOST = 0.9999
"""Largest persistence that a regression may give: the level is still told from a random walk's."""


class StochasticVolatility(AbstractGaussianModel):
    """Independent log-variances that revert to a level; y tells only through its size."""

    level: Float[Array, "dx"]
    raw_persistence: Float[Array, "dx"]
    raw_noise: Float[Array, "dx"]
    dim_state: int = eqx.field(static=True)
    dim_obs: int = eqx.field(static=True)

    def __init__(
        self, dim: int = 1, *, level: float = 0.0, persistence: float = 0.95, noise: float = 0.3
    ):
        """`persistence` in (-1, 1); `noise` is the standard deviation of a log-variance's steps."""
        self.dim_state = self.dim_obs = check_int("dim", dim)
        self.level = jnp.full(dim, check_real("level", level), float)
        raw = math.atanh(check_real("persistence", persistence, -1.0, 1.0))
        self.raw_persistence = jnp.full(dim, raw, float)
        self.raw_noise = unconstrained(jnp.full(dim, check_real("noise", noise, 0.0)))

    def parameters(self):
        """Level, persistence and noise."""
        return {
            "level": self.level,
            "persistence": jnp.tanh(self.raw_persistence),
            "noise": positive(self.raw_noise),
        }

    def _initial_scale(self) -> Float[Array, "dx"]:
        """The stationary standard deviation."""
        return positive(self.raw_noise) * jnp.cosh(self.raw_persistence)

    def initial_log_prob(self, x):
        """The stationary law."""
        return jnp.sum(normal_log_prob(x, self.level, self._initial_scale()))

    def initial_sample(self, key):
        """Draw x_0."""
        return draw_normal(key, self.level, self._initial_scale())

    def transition_mean(self, x_prev, inputs):
        """`x + dt (a - 1)(x - m)`."""
        pull = jnp.tanh(self.raw_persistence) - 1.0
        return x_prev + inputs.dt * pull * (x_prev - self.level)

    def transition_scale(self, inputs):
        """Standard deviations of the log-variance's steps."""
        return positive(self.raw_noise) * jnp.sqrt(inputs.dt)

    def linear_transition(self):
        """(1 - a) m and a - 1 of each coordinate, and its noise."""
        pull = 1.0 - jnp.tanh(self.raw_persistence)

        def features(x, inputs):
            return inputs.dt * jnp.stack([jnp.ones_like(x), x], 1)

        def leaves(value):
            persistence = jnp.clip(1.0 + value[:, 1, 0], -MOST, MOST)
            return value[:, 0, 0] / (1.0 - persistence), jnp.arctanh(persistence)

        value = jnp.stack([pull * self.level, -pull], 1)[..., None]
        return LinearPart(
            features=features,
            offset=lambda x, inputs: x,
            coefficients=Held(value, lambda m: (m.level, m.raw_persistence), leaves),
            covariance=held_noise(self.raw_noise, False, lambda m: (m.raw_noise,)),
        )

    def emission_mean(self, x, inputs):
        """Zero."""
        del inputs
        return jnp.zeros_like(x)

    def emission_scale(self, x, inputs):
        """`exp(x / 2)`."""
        del inputs
        return _scale(x)

    def emission_log_prob(self, x, y, inputs):
        """`log N(y; 0, exp(x))`."""
        del inputs
        return normal_log_prob(y, jnp.zeros_like(y), _scale(x))

    def emission_sample(self, key, x, inputs):
        """Draw y given x."""
        del inputs
        return draw_normal(key, jnp.zeros_like(x), _scale(x))

    def emission_information(self, x, seen, inputs):
        """One half per coordinate, whatever x is."""
        del x, inputs
        return jnp.diag(seen * 0.5**0.5)


def _scale(x: Float[Array, "dx"]) -> Float[Array, "dx"]:
    """exp(x / 2), held where float32 and its gradient still live."""
    return jnp.exp(0.5 * jnp.clip(x, -40.0, 40.0))

"""Stochastic volatility with leverage: a fall of y today raises the volatility of tomorrow.

    h_{t+1} = m + a (h_t - m) + s n_{t+1},   y_t = exp(h_t / 2) e_t,   corr(e_t, n_{t+1}) = -c^2.

The shocks share a factor z_t ~ N(0, 1): e_t = -c z_t + ..., n_{t+1} = c z_t + .... With the state
(h_t, z_t) the transition is Gaussian and y_t depends on the present only.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from rmcvi.core.checks import check_real
from rmcvi.core.positive import positive, unconstrained
from rmcvi.models.gaussian import AbstractGaussianModel


class Leverage(AbstractGaussianModel):
    """theta = (level m, a, s, c)."""

    level: Float[Array, ""]
    raw_persistence: Float[Array, ""]
    raw_noise: Float[Array, ""]
    raw_loading: Float[Array, ""]
    dim_state: int = eqx.field(static=True, default=2)
    dim_obs: int = eqx.field(static=True, default=1)

    def __init__(
        self,
        *,
        level: float = 0.0,
        persistence: float = 0.95,
        noise: float = 0.3,
        leverage: float = -0.5,
    ):
        """`leverage` in (-1, 0) is the correlation of the two shocks."""
        self.level = jnp.asarray(check_real("level", level), float)
        check_real("persistence", persistence, -1.0, 1.0)
        self.raw_persistence = jnp.arctanh(jnp.asarray(persistence, float))
        self.raw_noise = unconstrained(check_real("noise", noise, 0.0))
        check_real("leverage", leverage, -1.0, 0.0)
        self.raw_loading = jnp.arctanh(jnp.sqrt(-jnp.asarray(leverage, float)))
        self.dim_state, self.dim_obs = 2, 1

    def parameters(self):
        """Level, persistence, noise and leverage."""
        return {
            "level": self.level,
            "persistence": jnp.tanh(self.raw_persistence),
            "noise": positive(self.raw_noise),
            "leverage": -jnp.square(jnp.tanh(self.raw_loading)),
        }

    def initial_moments(self):
        """The stationary law, and a shock that is still to come."""
        spread = positive(self.raw_noise) * jnp.cosh(self.raw_persistence)
        mean = jnp.stack([self.level, jnp.zeros_like(self.level)])
        return mean, jnp.stack([spread, jnp.ones_like(spread)])

    def transition_mean(self, x_prev, inputs):
        """What is left of yesterday's departure, and the shared shock."""
        h, z = x_prev
        pull = (jnp.tanh(self.raw_persistence) - 1.0) * (h - self.level)
        shock = positive(self.raw_noise) * jnp.tanh(self.raw_loading) * z
        return jnp.stack([h + inputs.dt * pull + jnp.sqrt(inputs.dt) * shock, jnp.zeros_like(z)])

    def transition_scale(self, inputs):
        """What is not shared, and the next shared shock."""
        own = positive(self.raw_noise) / jnp.cosh(self.raw_loading)
        return jnp.stack([own * jnp.sqrt(inputs.dt), jnp.ones_like(own)])

    def emission_mean(self, x, inputs):
        """`-c z exp(h / 2)`."""
        del inputs
        return -jnp.tanh(self.raw_loading) * x[1:] * _deviation(x)

    def emission_scale(self, x, inputs):
        """What of the deviation is not shared."""
        del inputs
        return _deviation(x) / jnp.cosh(self.raw_loading)


def _deviation(x: Float[Array, "2"]) -> Float[Array, "1"]:
    """exp(h / 2), held where float32 and its gradient still live."""
    return jnp.exp(0.5 * jnp.clip(x[:1], -40.0, 40.0))

"""Spike counts of neurons that share a few slow states: y_k ~ Poisson(exp(b_k + <c_k, x>))."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from rmcvi.core.checks import check_int, check_real
from rmcvi.core.positive import positive, unconstrained
from rmcvi.models.gaussian import AbstractGaussianModel
from rmcvi.models.zoo.counts import bounded_mean, poisson_log_prob, poisson_sample


class Spikes(AbstractGaussianModel):
    """x' = a x + s e, coordinate by coordinate; the loadings c are drawn from `key`."""

    raw_persistence: Float[Array, "dx"]
    raw_noise: Float[Array, "dx"]
    loadings: Float[Array, "dy dx"]
    bias: Float[Array, "dy"]
    dim_state: int = eqx.field(static=True)
    dim_obs: int = eqx.field(static=True)

    def __init__(
        self,
        dim: int = 2,
        neurons: int = 10,
        *,
        persistence: float = 0.95,
        noise: float = 0.2,
        rate: float = 1.0,
        key: Key[Array, ""] | None = None,
    ):
        """`rate` is the number of spikes in a row at x = 0."""
        self.dim_state, self.dim_obs = check_int("dim", dim), check_int("neurons", neurons)
        check_real("persistence", persistence, -1.0, 1.0)
        self.raw_persistence = jnp.full(dim, jnp.arctanh(persistence), float)
        self.raw_noise = unconstrained(jnp.full(dim, check_real("noise", noise, 0.0)))
        key = jax.random.key(0) if key is None else key
        self.loadings = jax.random.normal(key, (neurons, dim)) / dim**0.5
        self.bias = jnp.full(neurons, jnp.log(check_real("rate", rate, 0.0)), float)

    def parameters(self):
        """Of the states, then of the neurons."""
        return {
            "persistence": jnp.tanh(self.raw_persistence),
            "noise": positive(self.raw_noise),
            "loadings": self.loadings,
            "rate": jnp.exp(self.bias),
        }

    def initial_moments(self):
        """The stationary law."""
        scale = positive(self.raw_noise) * jnp.cosh(self.raw_persistence)
        return jnp.zeros_like(scale), scale

    def transition_mean(self, x_prev, inputs):
        """`x + dt (a - 1) x`."""
        return x_prev + inputs.dt * (jnp.tanh(self.raw_persistence) - 1.0) * x_prev

    def transition_scale(self, inputs):
        """Standard deviations."""
        return positive(self.raw_noise) * jnp.sqrt(inputs.dt)

    def emission_mean(self, x, inputs):
        """The rates."""
        del inputs
        return bounded_mean(self.bias + self.loadings @ x)

    def emission_scale(self, x, inputs):
        """Their roots."""
        return jnp.sqrt(self.emission_mean(x, inputs))

    def emission_log_prob(self, x, y, inputs):
        """Poisson."""
        return poisson_log_prob(y, self.emission_mean(x, inputs))

    def emission_sample(self, key, x, inputs):
        """Draw counts."""
        return poisson_sample(key, self.emission_mean(x, inputs))

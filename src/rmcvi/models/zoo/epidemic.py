"""An epidemic that does not die out, in shares s (susceptible) and i (infectious) of the people:

    ds/dt = w (1 - s - i) - b s i,   di/dt = b s i - g i + e,   y ~ NegBin(r b s i),

with noise on the log scale, on which the states (log s, log i) live. w: loss of immunity, e: cases
that come from elsewhere, r: number of people that would be counted if all fell ill at once.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from rmcvi.core.checks import check_real
from rmcvi.core.positive import positive, unconstrained
from rmcvi.models.gaussian import AbstractGaussianModel
from rmcvi.models.zoo.counts import (
    bounded_mean,
    negative_binomial_log_prob,
    negative_binomial_sample,
)

IMPORTED = 1e-5
"""e, a share of the people: one in a hundred thousand each row."""
FARTHEST = 10.0
"""Logs of shares are held within this, so that a particle far off gives finite numbers."""


class Epidemic(AbstractGaussianModel):
    """theta = (infection b, recovery g, waning w, noise, overdispersion)."""

    raw_infection: Float[Array, ""]
    raw_recovery: Float[Array, ""]
    raw_waning: Float[Array, ""]
    raw_noise: Float[Array, ""]
    raw_dispersion: Float[Array, ""]
    reported: float = eqx.field(static=True)
    dim_state: int = eqx.field(static=True, default=2)
    dim_obs: int = eqx.field(static=True, default=1)

    def __init__(
        self,
        *,
        infection: float = 0.4,
        recovery: float = 0.2,
        waning: float = 0.02,
        noise: float = 0.1,
        dispersion: float = 0.1,
        reported: float = 5000.0,
    ):
        """Rates per row; counts have variance `mean + dispersion mean^2`."""
        self.raw_infection = unconstrained(check_real("infection", infection, 0.0))
        self.raw_recovery = unconstrained(check_real("recovery", recovery, 0.0))
        self.raw_waning = unconstrained(check_real("waning", waning, 0.0))
        self.raw_noise = unconstrained(check_real("noise", noise, 0.0))
        self.raw_dispersion = unconstrained(check_real("dispersion", dispersion, 0.0))
        self.reported = check_real("reported", reported, 0.0)
        self.dim_state, self.dim_obs = 2, 1

    def parameters(self):
        """Three rates, the noise and the overdispersion."""
        return {
            "infection": positive(self.raw_infection),
            "recovery": positive(self.raw_recovery),
            "waning": positive(self.raw_waning),
            "noise": positive(self.raw_noise),
            "dispersion": positive(self.raw_dispersion),
        }

    def initial_moments(self):
        """Half are susceptible, one in fifty infectious, neither known better than by half."""
        return jnp.log(jnp.array([0.5, 0.02])), jnp.full(2, 0.5)

    def transition_mean(self, x_prev, inputs):
        """One Euler step of the logs."""
        s, i = jnp.exp(jnp.clip(x_prev, -FARTHEST, FARTHEST))
        infection = positive(self.raw_infection)
        susceptible = positive(self.raw_waning) * (1.0 - s - i) / s - infection * i
        infectious = infection * s - positive(self.raw_recovery) + IMPORTED / i
        # No log moves by more than 1 in a row: the Euler step is poor there, and could explode.
        rates = jnp.tanh(inputs.dt * jnp.stack([susceptible, infectious]))
        return x_prev + rates

    def transition_scale(self, inputs):
        """Of both logs."""
        return jnp.full(2, positive(self.raw_noise) * jnp.sqrt(inputs.dt))

    def emission_mean(self, x, inputs):
        """Expected number of reported new cases."""
        del inputs
        log_mean = jnp.log(self.reported * positive(self.raw_infection)) + jnp.sum(x)
        return bounded_mean(log_mean)[None]

    def emission_scale(self, x, inputs):
        """Poisson's variance and more."""
        mean = self.emission_mean(x, inputs)
        return jnp.sqrt(mean + positive(self.raw_dispersion) * mean**2)

    def emission_log_prob(self, x, y, inputs):
        """Negative binomial."""
        size = 1.0 / positive(self.raw_dispersion)
        return negative_binomial_log_prob(y, self.emission_mean(x, inputs), size)

    def emission_sample(self, key, x, inputs):
        """Draw counts."""
        size = 1.0 / positive(self.raw_dispersion)
        return negative_binomial_sample(key, self.emission_mean(x, inputs), size)

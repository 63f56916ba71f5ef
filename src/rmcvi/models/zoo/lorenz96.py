"""Lorenz's weather on a circle of latitude, dx_k/dt = (x_{k+1} - x_{k-2}) x_{k-1} - x_k + F."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from rmcvi.core.checks import check_int, check_real
from rmcvi.core.positive import positive, unconstrained
from rmcvi.models.gaussian import AbstractGaussianModel


class Lorenz96(AbstractGaussianModel):
    """One Runge-Kutta step of fourth order per row; every `every`-th coordinate is observed."""

    forcing: Float[Array, ""]
    raw_noise: Float[Array, ""]
    raw_obs_noise: Float[Array, ""]
    dim_state: int = eqx.field(static=True)
    dim_obs: int = eqx.field(static=True)
    every: int = eqx.field(static=True)
    time_step: float = eqx.field(static=True)

    def __init__(
        self,
        dim: int = 10,
        *,
        every: int = 2,
        forcing: float = 8.0,
        noise: float = 0.2,
        obs_noise: float = 0.5,
        time_step: float = 0.05,
    ):
        """`dim` at least 4; a `time_step` of .05 is called six hours."""
        self.dim_state, self.every = check_int("dim", dim, 4), check_int("every", every)
        self.dim_obs = len(range(0, dim, every))
        self.forcing = jnp.asarray(check_real("forcing", forcing), float)
        self.raw_noise = unconstrained(check_real("noise", noise, 0.0))
        self.raw_obs_noise = unconstrained(check_real("obs_noise", obs_noise, 0.0))
        self.time_step = check_real("time_step", time_step, 0.0)

    def parameters(self):
        """Forcing and both standard deviations."""
        return {
            "forcing": self.forcing,
            "noise": positive(self.raw_noise),
            "obs_noise": positive(self.raw_obs_noise),
        }

    def initial_moments(self):
        """Those of the climate at a forcing of 8."""
        return jnp.full(self.dim_state, 2.3), jnp.full(self.dim_state, 3.6)

    def transition_mean(self, x_prev, inputs):
        """Runge and Kutta's step."""

        def rate(x):
            return (jnp.roll(x, -1) - jnp.roll(x, 2)) * jnp.roll(x, 1) - x + self.forcing

        step = self.time_step * inputs.dt
        k1 = rate(x_prev)
        k2 = rate(x_prev + 0.5 * step * k1)
        k3 = rate(x_prev + 0.5 * step * k2)
        k4 = rate(x_prev + step * k3)
        return x_prev + step / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)

    def transition_scale(self, inputs):
        """The same for all coordinates."""
        return jnp.full(self.dim_state, positive(self.raw_noise) * jnp.sqrt(inputs.dt))

    def emission_mean(self, x, inputs):
        """Every `every`-th coordinate."""
        del inputs
        return x[:: self.every]

    def emission_scale(self, x, inputs):
        """The same for all."""
        del x, inputs
        return jnp.full(self.dim_obs, positive(self.raw_obs_noise))

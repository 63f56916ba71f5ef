"""The growth model: x' = a x + b x / (1 + x^2) + c cos(1.2 t) + noise, y = x^2 / 20 + noise.

Time is the input, u = [t]. y does not tell the sign of x, so that the posterior often has two
modes: a hard case for every Gaussian family.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from rmcvi.core.checks import check_real
from rmcvi.core.positive import positive, unconstrained
from rmcvi.models.gaussian import AbstractGaussianModel


class Growth(AbstractGaussianModel):
    """theta = (a, b, c, both standard deviations)."""

    decay: Float[Array, ""]
    gain: Float[Array, ""]
    season: Float[Array, ""]
    raw_noise: Float[Array, ""]
    raw_obs_noise: Float[Array, ""]
    dim_state: int = eqx.field(static=True, default=1)
    dim_obs: int = eqx.field(static=True, default=1)

    def __init__(
        self,
        *,
        decay: float = 0.5,
        gain: float = 25.0,
        season: float = 8.0,
        noise: float = 10.0**0.5,
        obs_noise: float = 1.0,
    ):
        """`decay`, `gain` and `season` are a, b and c."""
        self.decay = jnp.asarray(check_real("decay", decay), float)
        self.gain = jnp.asarray(check_real("gain", gain), float)
        self.season = jnp.asarray(check_real("season", season), float)
        self.raw_noise = unconstrained(check_real("noise", noise, 0.0))
        self.raw_obs_noise = unconstrained(check_real("obs_noise", obs_noise, 0.0))
        self.dim_state = self.dim_obs = 1

    @property
    def dim_input(self) -> int:
        """Time."""
        return 1

    def parameters(self):
        """a, b, c and both standard deviations."""
        return {
            "decay": self.decay,
            "gain": self.gain,
            "season": self.season,
            "noise": positive(self.raw_noise),
            "obs_noise": positive(self.raw_obs_noise),
        }

    def initial_moments(self):
        """Wide enough for both modes."""
        return jnp.zeros(1), jnp.full(1, 5.0)

    def transition_mean(self, x_prev, inputs):
        """`x + dt (f(x, t) - x)`."""
        grown = self.gain * x_prev / (1.0 + x_prev**2) + self.season * jnp.cos(1.2 * inputs.u)
        return x_prev + inputs.dt * (self.decay * x_prev + grown - x_prev)

    def transition_scale(self, inputs):
        """Standard deviation."""
        return jnp.full(1, positive(self.raw_noise) * jnp.sqrt(inputs.dt))

    def emission_mean(self, x, inputs):
        """`x^2 / 20`."""
        del inputs
        return x**2 / 20.0

    def emission_scale(self, x, inputs):
        """Standard deviation."""
        del x, inputs
        return jnp.full(1, positive(self.raw_obs_noise))

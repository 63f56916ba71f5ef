"""A pendulum in a gusty wind: a'' = -g sin a - c a' + noise, seen by its sine or by its angle."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from rmcvi.core.checks import check_real
from rmcvi.core.gaussian import normal_log_prob
from rmcvi.core.positive import positive, unconstrained
from rmcvi.models.gaussian import AbstractGaussianModel, draw_normal
from rmcvi.models.zoo.angle import wrap, wrapped_normal_log_prob
from rmcvi.models.zoo.kinematics import integrated_scale


class Pendulum(AbstractGaussianModel):
    """State: angle, angular velocity; the angle is not wrapped, so that whole turns are counted."""

    raw_gravity: Float[Array, ""]
    raw_friction: Float[Array, ""]
    raw_noise: Float[Array, ""]
    raw_obs_noise: Float[Array, ""]
    wrapped: bool = eqx.field(static=True)
    time_step: float = eqx.field(static=True)
    dim_state: int = eqx.field(static=True, default=2)
    dim_obs: int = eqx.field(static=True, default=1)

    def __init__(
        self,
        *,
        gravity: float = 9.8,
        friction: float = 0.5,
        noise: float = 1.0,
        obs_noise: float = 0.2,
        wrapped: bool = False,
        time_step: float = 0.05,
    ):
        """Gravity, friction and noise are per unit of time, of which a row lasts `time_step`.

        Args:
            gravity: over the length.
            friction: share of the velocity that is lost.
            noise: standard deviation of the velocity's noise.
            obs_noise: standard deviation of the observation's.
            wrapped: observe the angle modulo 2 pi instead of its sine.
            time_step: as said.
        """
        self.raw_gravity = unconstrained(check_real("gravity", gravity, 0.0))
        self.raw_friction = unconstrained(check_real("friction", friction, 0.0))
        self.raw_noise = unconstrained(check_real("noise", noise, 0.0))
        self.raw_obs_noise = unconstrained(check_real("obs_noise", obs_noise, 0.0))
        self.wrapped, self.time_step = wrapped, check_real("time_step", time_step, 0.0)
        self.dim_state, self.dim_obs = 2, 1

    def parameters(self):
        """Gravity, friction and both standard deviations."""
        return {
            "gravity": positive(self.raw_gravity),
            "friction": positive(self.raw_friction),
            "noise": positive(self.raw_noise),
            "obs_noise": positive(self.raw_obs_noise),
        }

    def transition_mean(self, x_prev, inputs):
        """The velocity first, then the angle with the mean of both velocities."""
        angle, velocity = x_prev
        step = self.time_step * inputs.dt
        pull = positive(self.raw_gravity) * jnp.sin(angle) + positive(self.raw_friction) * velocity
        after = velocity - step * pull
        return jnp.stack([angle + 0.5 * step * (velocity + after), after])

    def transition_scale(self, inputs):
        """Correlated: the noise of the velocity moves the angle as well."""
        return integrated_scale(positive(self.raw_noise), self.time_step * inputs.dt, 1)

    def emission_mean(self, x, inputs):
        """The angle, or its sine."""
        del inputs
        return x[:1] if self.wrapped else jnp.sin(x[:1])

    def emission_scale(self, x, inputs):
        """Standard deviation."""
        del x, inputs
        return positive(self.raw_obs_noise)[None]

    def emission_log_prob(self, x, y, inputs):
        """Normal, on the circle if the angle is observed."""
        log_prob = wrapped_normal_log_prob if self.wrapped else normal_log_prob
        return log_prob(y, self.emission_mean(x, inputs), self.emission_scale(x, inputs))

    def emission_sample(self, key, x, inputs):
        """Draw y."""
        y = draw_normal(key, self.emission_mean(x, inputs), self.emission_scale(x, inputs))
        return wrap(y) if self.wrapped else y

"""Tracking: a target on the plane, heard by a sensor at the origin.

p' = p + d v,   v' = v - d (k (p - home) + c v),   noise integrated over the step d,
y = (|p|, angle of p) + noise, the angle modulo 2 pi; or the angle alone (bearings only).
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from rmcvi.core.checks import check_real
from rmcvi.core.gaussian import normal_log_prob
from rmcvi.core.positive import positive, unconstrained
from rmcvi.models.gaussian import AbstractGaussianModel, draw_normal
from rmcvi.models.zoo.angle import wrap, wrapped_normal_log_prob
from rmcvi.models.zoo.kinematics import integrated_scale

NEAR = 1e-3
"""Distance from the sensor within which the range is smoothed: it has a kink there."""


class Tracking(AbstractGaussianModel):
    """State: position (2), velocity (2); a weak spring and friction keep the target around."""

    raw_acceleration: Float[Array, ""]
    raw_range_noise: Float[Array, ""] | None
    raw_bearing_noise: Float[Array, ""]
    home: tuple[float, float] = eqx.field(static=True)
    spring: float = eqx.field(static=True)
    friction: float = eqx.field(static=True)
    dim_state: int = eqx.field(static=True, default=4)
    dim_obs: int = eqx.field(static=True, default=2)

    def __init__(
        self,
        *,
        acceleration: float = 0.1,
        range_noise: float | None = 0.3,
        bearing_noise: float = 0.1,
        home: tuple[float, float] = (-6.0, 0.0),
        spring: float = 0.02,
        friction: float = 0.1,
    ):
        """Choose the noise, and where the target lives: by default near the cut of angles at pi.

        Args:
            acceleration: standard deviation of the velocity's noise.
            range_noise: of the range; None if there are bearings only.
            bearing_noise: of the bearing, in radians.
            home: where the spring rests.
            spring: its strength.
            friction: of the velocity.
        """
        self.raw_acceleration = unconstrained(check_real("acceleration", acceleration, 0.0))
        ranges = range_noise is not None
        self.raw_range_noise = (
            unconstrained(check_real("range_noise", range_noise, 0.0)) if ranges else None
        )
        self.raw_bearing_noise = unconstrained(check_real("bearing_noise", bearing_noise, 0.0))
        self.home, self.spring, self.friction = home, spring, friction
        self.dim_state, self.dim_obs = 4, 1 + ranges

    def parameters(self):
        """The scales."""
        told = {
            "acceleration": positive(self.raw_acceleration),
            "bearing_noise": positive(self.raw_bearing_noise),
        }
        if self.raw_range_noise is not None:
            told["range_noise"] = positive(self.raw_range_noise)
        return told

    def initial_moments(self):
        """At home, at rest."""
        mean = jnp.array([*self.home, 0.0, 0.0])
        return mean, jnp.array([1.0, 1.0, 0.2, 0.2])

    def transition_mean(self, x_prev, inputs):
        """A damped spring."""
        p, v = x_prev[:2], x_prev[2:]
        pull = self.spring * (p - jnp.array(self.home)) + self.friction * v
        return jnp.concatenate([p + inputs.dt * v, v - inputs.dt * pull])

    def transition_scale(self, inputs):
        """Correlated: the noise of the velocity moves the position as well."""
        return integrated_scale(positive(self.raw_acceleration), inputs.dt, 2)

    def emission_mean(self, x, inputs):
        """Range, if it is told, and bearing."""
        del inputs
        bearing = jnp.arctan2(x[1], x[0])[None]
        away = jnp.sqrt(jnp.sum(x[:2] ** 2) + NEAR**2)[None]
        return bearing if self.raw_range_noise is None else jnp.concatenate([away, bearing])

    def emission_scale(self, x, inputs):
        """Standard deviations."""
        del x, inputs
        raw = (self.raw_range_noise, self.raw_bearing_noise)
        return jnp.stack([positive(v) for v in raw if v is not None])

    def emission_log_prob(self, x, y, inputs):
        """Normal range, wrapped normal bearing."""
        mean, scale = self.emission_mean(x, inputs), self.emission_scale(x, inputs)
        ranges = normal_log_prob(y[:-1], mean[:-1], scale[:-1])
        bearing = wrapped_normal_log_prob(y[-1:], mean[-1:], scale[-1:])
        return jnp.concatenate([ranges, bearing])

    def emission_sample(self, key, x, inputs):
        """Draw y; the bearing in [-pi, pi)."""
        y = draw_normal(key, self.emission_mean(x, inputs), self.emission_scale(x, inputs))
        return y.at[-1].set(wrap(y[-1]))

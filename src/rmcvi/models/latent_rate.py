"""A count or a share whose rate is hidden: a law around what is known of it, and what is not.

    y_t ~ law(eta_t),    eta_t = u_t + r_t + a_t + b_t v_t,    x_t = (r_t, a_t, b_t),

where u is a predictor known beforehand and v its distance from where it usually is. r is what moves
beside it, a and b are what is wrong with its level and its swing. Each is a stationary AR(1)
process around zero, those of a and b slow ones; persistence and spread of r are learned.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from rmcvi.core.checks import check_real
from rmcvi.core.positive import positive, unconstrained
from rmcvi.models.gaussian import AbstractGaussianModel
from rmcvi.models.laws import AbstractLaw

SLOW = 20_000.0
"""Rows in which the level and the swing of the predictor may become other ones."""
LEVEL, SWING = 0.3, 0.2
"""Standard deviations of a and b: a predictor is off by a third, or by a fifth of its swing."""


class LatentRate(AbstractGaussianModel):
    """One value a row; its inputs are u, v, and half a cell of the value."""

    raw_persistence: Float[Array, ""]
    raw_spread: Float[Array, ""]
    law: AbstractLaw
    dim_state: int = eqx.field(static=True)
    dim_obs: int = eqx.field(static=True)

    def __init__(self, law: AbstractLaw, *, persistence: float = 0.9, spread: float = 0.2):
        """Set the model up.

        Args:
            law: of the value, given eta.
            persistence: of r, in (0, 1).
            spread: stationary standard deviation of r.
        """
        share = jnp.asarray(check_real("persistence", persistence, 0.0, 1.0), float)
        self.raw_persistence = jnp.log(share) - jnp.log1p(-share)
        self.raw_spread = unconstrained(jnp.asarray(check_real("spread", spread, 0.0), float))
        self.law, self.dim_state, self.dim_obs = law, 3, 1

    @property
    def dim_input(self) -> int:
        """u, v, half a cell."""
        return 3

    def parameters(self):
        """Of r, then of the law."""
        rate = {"persistence": self._persistence, "spread": positive(self.raw_spread)}
        return rate | self.law.parameters()

    @property
    def _persistence(self) -> Float[Array, ""]:
        return 1.0 / (1.0 + jnp.exp(-self.raw_persistence))

    def _kept(self, inputs) -> Float[Array, "3"]:
        """What is left of the state after a step."""
        log_kept = -jnp.log1p(jnp.exp(-self.raw_persistence))
        return jnp.exp(inputs.dt * jnp.stack([log_kept, *[jnp.full_like(log_kept, -1 / SLOW)] * 2]))

    def initial_moments(self):
        """The stationary law."""
        spread = positive(self.raw_spread)
        return jnp.zeros(3), jnp.stack(
            [spread, *(jnp.full_like(spread, v) for v in (LEVEL, SWING))]
        )

    def transition_mean(self, x_prev, inputs):
        """Towards zero."""
        return self._kept(inputs) * x_prev

    def transition_scale(self, inputs):
        """What keeps the spread as it is."""
        return self.initial_moments()[1] * jnp.sqrt(1.0 - self._kept(inputs) ** 2)

    def predictor(self, x: Float[Array, "dx"], inputs) -> Float[Array, ""]:
        """`eta`."""
        u, v, _ = inputs.u
        return u + x[0] + x[1] + v * x[2]

    def emission_mean(self, x, inputs):
        """That of the law."""
        return self.law.mean(self.predictor(x, inputs))[None]

    def emission_scale(self, x, inputs):
        """That of the law."""
        return self.law.deviation(self.predictor(x, inputs))[None]

    def emission_log_prob(self, x, y, inputs):
        """Log-probability of the value's cell."""
        return self.law.log_prob(y, self.predictor(x, inputs)[None], inputs.u[2])

    def emission_sample(self, key, x, inputs):
        """Draw a value."""
        return self.law.sample(key, self.predictor(x, inputs))[None]

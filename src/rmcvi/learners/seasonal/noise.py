"""Noise whose variance moves with the season, the level and recent errors.

    Cov(noise_t) = D K D,    D^2 = v exp(gamma' f_t),    f_t = (harmonics, mean, volatility)

v and gamma follow the gradient of the log-likelihood, K (a correlation) online EM.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi.learners.seasonal.settings import Settings

VOLATILE = 0.9
"""What volatility keeps from one value to the next."""
SHRINK = 0.99
"""Correlations are held back: K stays positive definite."""
CUT = 9.0
"""Squared noise beyond this many variances does not count more."""
LEAST, LARGEST = 1e-8, 100.0
"""Bounds of the variance, in standard units: below rounding, and of ten deviations."""
STEEPEST = 3.0
"""Bound of the slopes, which already make the variance move by a factor of twenty."""
QUIET, FASTER = -0.9, 20.0
"""Volatility at which errors have long been next to nothing, and how much faster variances then
follow: a scale that was far too large is left within tens of rows."""


class Noise(eqx.Module):
    """Variances and correlations, in standard units."""

    variance: Float[Array, "dy"]
    slopes: Float[Array, "dy f"]
    volatility: Float[Array, "dy"]
    correlation: Float[Array, "dy dy"]

    @classmethod
    def prior(cls, size: int, features: int) -> "Noise":
        """Half a standard deviation, barely correlated."""
        zeros = jnp.zeros(size)
        mixed = 0.9 * jnp.eye(size) + 0.1
        return cls(jnp.full(size, 0.25, float), jnp.zeros((size, features)), zeros, mixed)

    def restart(self, which: Bool[Array, "dy"]) -> "Noise":
        """Some columns at a new scale: as at first, but for what they share with the others."""
        first = Noise.prior(*self.slopes.shape)
        return Noise(
            jnp.where(which, first.variance, self.variance),
            jnp.where(which[:, None], first.slopes, self.slopes),
            jnp.where(which, first.volatility, self.volatility),
            self.correlation,
        )

    def features(self, waves: Float[Array, "h"], mu: Float[Array, "dy"]) -> Float[Array, "dy f"]:
        """f_t, a row for each column."""
        shared = jnp.broadcast_to(waves, (mu.shape[0], waves.shape[0]))
        own = [jnp.clip(mu, -3.0, 3.0)[:, None], self.volatility[:, None]]
        return jnp.concatenate([shared, *own], 1)

    def now(self, features: Float[Array, "dy f"]) -> Float[Array, "dy"]:
        """D^2."""
        return self.variance * jnp.exp(jnp.clip(jnp.sum(self.slopes * features, 1), -3.0, 3.0))

    def learn(
        self,
        surprise: Float[Array, "dy"],
        features: Float[Array, "dy f"],
        seen: Bool[Array, "dy"],
        count: Float[Array, "dy"],
        settings: Settings,
    ) -> "Noise":
        """Variances after a `surprise` E[noise^2] / D^2 - 1; `count` values so far."""
        slow = settings.slow * jnp.where(self.volatility < QUIET, FASTER, 1.0)
        rate = jnp.where(seen, jnp.maximum(1.0 / count, slow), 0.0)
        tamed = jnp.where(seen, jnp.clip(surprise, -1.0, 3.0), 0.0)
        turn = jnp.maximum(1.0 / (count + 20.0), settings.slow_slopes) * tamed
        volatility = VOLATILE * self.volatility + (1.0 - VOLATILE) * tamed
        variance = self.variance * (1.0 + rate * jnp.where(seen, surprise, 0.0))
        return Noise(
            jnp.clip(variance, LEAST, LARGEST),
            jnp.clip(self.slopes + turn[:, None] * features, -STEEPEST, STEEPEST),
            jnp.where(seen, volatility, self.volatility),
            self.correlation,
        )

    def correlate(self, second: Float[Array, "dy dy"], rate: Float[Array, ""]) -> "Noise":
        """K after E[noise noise'] in units of D."""
        cut = jnp.sqrt(jnp.minimum(1.0, CUT / jnp.maximum(jnp.diagonal(second), 1e-9)))
        moved = (1.0 - rate) * self.correlation + rate * second * cut[:, None] * cut[None]
        unit = 1.0 / jnp.sqrt(jnp.diagonal(moved))
        eye = jnp.eye(cut.shape[0])
        mixed = jnp.where(eye > 0.0, 1.0, SHRINK * moved * unit[:, None] * unit[None])
        mixed = jnp.where(rate > 0.0, mixed, self.correlation)
        return Noise(self.variance, self.slopes, self.volatility, mixed)

"""Every row of the transition is a Bayesian linear regression that slowly forgets.

    y = W phi + noise of variance v,    g = P phi / (keep v + phi' P phi),
    W <- W + g (y - W phi),    P <- (P - g (P phi)') / keep,    no variance above its prior.

With keep = 1 this is the exact posterior N(W, P).
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


class Rows(eqx.Module):
    """Posterior of the coefficients, one row per column of the data."""

    weights: Float[Array, "dy k"]
    covariance: Float[Array, "dy k k"]

    @classmethod
    def prior(cls, mean: Float[Array, "dy k"], variance: Float[Array, "dy k"]) -> "Rows":
        """Independent coefficients."""
        return cls(mean, variance[:, :, None] * jnp.eye(mean.shape[1])[None])

    def spread(self, phi: Float[Array, "dy k"]) -> tuple[Float[Array, "dy k"], Float[Array, "dy"]]:
        """P phi, and the variance phi' P phi of the mean."""
        moved = jnp.einsum("dij,dj->di", self.covariance, phi)
        return moved, jnp.maximum(jnp.sum(moved * phi, 1), 0.0)

    def learn(
        self,
        phi: Float[Array, "dy k"],
        error: Float[Array, "dy"],
        noise: Float[Array, "dy"],
        seen: Bool[Array, "dy"],
        keep: float,
        prior: Float[Array, "dy k"],
    ) -> "Rows":
        """The posterior after one value each, where one was seen."""
        moved, lever = self.spread(phi)
        total = keep * noise + lever
        gain = jnp.where(seen, 1.0 / total, 0.0)[:, None] * moved
        weights = self.weights + gain * jnp.where(seen, error, 0.0)[:, None]
        weaker = self.covariance - gain[:, :, None] * moved[:, None, :]
        weaker = weaker / jnp.where(seen, keep, 1.0)[:, None, None]
        diagonal = jnp.diagonal(weaker, axis1=1, axis2=2)
        shrink = jnp.sqrt(jnp.minimum(1.0, prior / jnp.maximum(diagonal, 1e-12)))
        return Rows(weights, weaker * shrink[:, :, None] * shrink[:, None, :])

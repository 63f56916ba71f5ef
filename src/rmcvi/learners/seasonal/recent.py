"""The last rows as they came, and running units of the exogenous inputs."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from rmcvi.core.moments import RunningMoments


class Recent(eqx.Module):
    """A window of raw rows, latest last; NaN before the first."""

    y: Float[Array, "window dy"]
    u: Float[Array, "window du"]
    phase: Float[Array, "window"]

    @classmethod
    def empty(cls, window: int, size: int, width: int) -> "Recent":
        """No rows."""
        return cls(
            jnp.full((window, size), jnp.nan, float), jnp.zeros((window, width)), jnp.zeros(window)
        )

    def push(
        self, y: Float[Array, "dy"], u: Float[Array, "du"], phase: Float[Array, ""]
    ) -> "Recent":
        """One row more, the oldest dropped."""
        return Recent(
            jnp.concatenate([self.y[1:], y[None]]),
            jnp.concatenate([self.u[1:], u[None]]),
            jnp.concatenate([self.phase[1:], phase[None]]),
        )


class Exogenous(eqx.Module):
    """Running units of u; inputs are known beforehand, so the latest row counts."""

    values: RunningMoments

    @classmethod
    def unknown(cls, width: int) -> "Exogenous":
        """No rows."""
        return cls(RunningMoments.prior(width))

    def add(self, u: Float[Array, "du"], memory: float) -> "Exogenous":
        """One row more; NaN changes nothing."""
        return Exogenous(self.values.add(u, ~jnp.isnan(u), memory))

    def standard(self, u: Float[Array, "du"]) -> Float[Array, "du"]:
        """Inputs in standard units; 0 for NaN, and as long as an input has not varied."""
        mean, variance = self.values.mean, self.values.variance
        usable = ~jnp.isnan(u) & (variance > 1e-12 * (1e-12 + mean**2))
        root = jnp.sqrt(jnp.where(usable, variance, 1.0))
        return jnp.where(usable, (u - mean) / root, 0.0)

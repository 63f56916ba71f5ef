"""The last rows as they came, and running units of the exogenous inputs."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class Recent(eqx.Module):
    """A window of raw rows, latest last; NaN before the first."""

    y: Float[Array, "window dy"]
    u: Float[Array, "window du"]
    phase: Float[Array, "window"]

    @classmethod
    def empty(cls, window: int, size: int, width: int) -> "Recent":
        """No rows."""
        return cls(jnp.full((window, size), jnp.nan), jnp.zeros((window, width)), jnp.zeros(window))

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
    """Mean and variance of u; inputs are known beforehand, so the latest row counts."""

    mean: Float[Array, "du"]
    variance: Float[Array, "du"]
    count: Float[Array, ""]

    @classmethod
    def unknown(cls, width: int) -> "Exogenous":
        """No rows."""
        return cls(jnp.zeros(width), jnp.zeros(width), jnp.zeros(()))

    def add(self, u: Float[Array, "du"], memory: float) -> "Exogenous":
        """One row more."""
        count = jnp.minimum(self.count + 1.0, memory)
        error = u - self.mean
        variance = (1.0 - 1.0 / count) * (self.variance + error**2 / count)
        return Exogenous(self.mean + error / count, variance, count)

    def standard(self, u: Float[Array, "du"]) -> Float[Array, "du"]:
        """Inputs in standard units; 0 as long as it has not varied."""
        varies = self.variance > 1e-12 * (1e-12 + self.mean**2)
        root = jnp.sqrt(jnp.where(varies, self.variance, 1.0))
        return jnp.where(varies, (u - self.mean) / root, 0.0)

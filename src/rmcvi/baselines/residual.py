"""How far off predictions are: a running mean of squares per coordinate.

    v <- v + (r^2 - v) / min(n + 1, memory),    n values so far, the prior counting as the first.

A coordinate that was not observed keeps its v and its n.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi.core.positive import FLOOR
from rmcvi.core.prediction import Prediction


class RivalInfo(eqx.Module):
    """What a rival without a latent state has to tell."""

    prediction: Prediction


class RunningVariance(eqx.Module):
    """Running mean square of residuals, and the number of values behind it."""

    value: Float[Array, "dy"]
    count: Float[Array, "dy"]

    @classmethod
    def prior(cls, dim: int, scale: float) -> "RunningVariance":
        """What is believed before the first residual, worth one value."""
        return cls(jnp.full(dim, scale**2, float), jnp.ones(dim))

    def add(
        self, square: Float[Array, "dy"], seen: Bool[Array, "dy"], memory: float
    ) -> "RunningVariance":
        """Take in squared residuals where `seen`."""
        count = jnp.minimum(self.count + 1.0, memory)
        value = self.value + (square - self.value) / count
        return RunningVariance(
            jnp.where(seen, jnp.maximum(value, FLOOR**2), self.value),
            jnp.where(seen, count, self.count),
        )

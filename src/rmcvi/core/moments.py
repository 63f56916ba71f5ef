"""Running moments: averages of all values at first, of the last `memory` or so later on.

    m <- m + w e,    v <- (1 - w) (v + w e^2),    e = y - m,    w = 1 / min(n, memory)

These are mean and variance of n values exactly (Welford), and v cannot fall below 0 by rounding.
"""

import math

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi.core.positive import FLOOR

SURE, OUTLIER = 10.0, 5.0
"""Values after which a scale is known well enough to tell that one is too many deviations away."""
MEDIAN_TO_DEVIATION = 1.4826
"""Standard deviation of normal values in units of their median absolute deviation."""


def move(
    mean: Float[Array, "*d"],
    variance: Float[Array, "*d"],
    error: Float[Array, "*d"],
    weight: Float[Array, "*d"],
) -> tuple[Float[Array, "*d"], Float[Array, "*d"]]:
    """Mean and variance after values that are `error` above the mean."""
    return mean + weight * error, (1.0 - weight) * (variance + weight * error**2)


class RunningMoments(eqx.Module):
    """Mean, variance and number of values, per coordinate."""

    mean: Float[Array, "d"]
    variance: Float[Array, "d"]
    count: Float[Array, "d"]

    @classmethod
    def prior(cls, dim: int, variance: float = 0.0) -> "RunningMoments":
        """Nothing seen; the first value leaves this variance as it is."""
        return cls(jnp.zeros(dim), jnp.full(dim, variance, float), jnp.zeros(dim))

    def add(
        self,
        y: Float[Array, "d"],
        seen: Bool[Array, "d"],
        memory: float = math.inf,
        bound: Float[Array, "d"] | float = math.inf,
    ) -> "RunningMoments":
        """Take in values where `seen`.

        Args:
            y: the values.
            seen: which of them count.
            memory: number of values to average over.
            bound: largest distance from the mean that counts.
        """
        count = self.count + seen
        weight = jnp.where(seen, 1.0 / jnp.clip(count, 1.0, memory), 0.0)
        error = jnp.clip(jnp.where(seen, y - self.mean, 0.0), -bound, bound)
        mean, variance = move(self.mean, self.variance, error, weight)
        return RunningMoments(mean, jnp.where(count > 1.0, variance, self.variance), count)


class RunningVariance(eqx.Module):
    """Running mean square of residuals, whose mean is known to be 0, and its number of values."""

    value: Float[Array, "d"]
    count: Float[Array, "d"]

    @classmethod
    def prior(cls, dim: int, scale: float) -> "RunningVariance":
        """What is believed before the first residual, worth one value."""
        return cls(jnp.full(dim, scale**2, float), jnp.ones(dim))

    def add(
        self, square: Float[Array, "d"], seen: Bool[Array, "d"], memory: float
    ) -> "RunningVariance":
        """Take in squared residuals where `seen`, averaging over `memory` values."""
        count = jnp.minimum(self.count + 1.0, memory)
        value = self.value + (square - self.value) / count
        return RunningVariance(
            jnp.where(seen, jnp.maximum(value, FLOOR**2), self.value),
            jnp.where(seen, count, self.count),
        )


def clipped_square(bound: float) -> float:
    """E min(Z^2, bound^2) for a standard normal Z."""
    tail = math.erfc(bound / math.sqrt(2.0))
    density = math.exp(-0.5 * bound**2) / math.sqrt(2.0 * math.pi)
    return 1.0 - tail - 2.0 * bound * density + bound**2 * tail

"""What was expected of y_t before it came, and how the expectation fared.

Intervals from draws end at order statistics p (n + 1), so that a calibrated model covers its level
exactly whatever the number of draws.
"""

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.special import ndtri
from jax.scipy.stats import norm
from jaxtyping import Array, Float

from rmcvi.core.inputs import split_missing


class Prediction(eqx.Module):
    """One-step prediction of y_t, and how it fared."""

    mean: Float[Array, "*batch dy"]
    low: Float[Array, "*batch dy"]
    high: Float[Array, "*batch dy"]
    log_score: Float[Array, "*batch"]
    """log p(y_t | y_{0:t-1}) over what was observed; NaN if nothing was."""
    p_value: Float[Array, "*batch dy"]
    """Two-sided predictive p-value of each coordinate; NaN where not observed."""

    @classmethod
    def gaussian(
        cls,
        mean: Float[Array, "dy"],
        scale: Float[Array, "dy"],
        y: Float[Array, "dy"],
        level: float,
    ) -> "Prediction":
        """Independent Gaussian coordinates.

        Args:
            mean: of each.
            scale: standard deviations.
            y: what came, NaN = not observed.
            level: probability of the interval.
        """
        filled, seen = split_missing(y)
        z = jnp.where(seen > 0.0, (filled - mean) / scale, 0.0)
        half = ndtri(0.5 * (1.0 + level)) * scale
        log_score = jnp.dot(seen, norm.logpdf(z) - jnp.log(scale))
        return cls(
            mean=mean,
            low=mean - half,
            high=mean + half,
            log_score=jnp.where(jnp.any(seen > 0.0), log_score, jnp.nan),
            p_value=jnp.where(seen > 0.0, 2.0 * norm.sf(jnp.abs(z)), jnp.nan),
        )


def central_interval(
    ordered: Float[Array, "n dy"], level: float
) -> tuple[Float[Array, "dy"], Float[Array, "dy"]]:
    """Interval that the next exchangeable draw hits with probability `level`; draws in order."""
    num, tail = ordered.shape[0], 0.5 * (1.0 - level)

    def at(probability):
        position = jnp.clip(probability * (num + 1) - 1.0, 0.0, num - 1.0)
        lower = jnp.floor(position).astype(int)
        weight = position - lower
        upper = jnp.minimum(lower + 1, num - 1)
        return (1.0 - weight) * ordered[lower] + weight * ordered[upper]

    return at(tail), at(1.0 - tail)

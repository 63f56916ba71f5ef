"""Proper scores of predictions. Log scores: larger is better; CRPS: smaller is better.

    CRPS(F, y) = E|X - y| - E|X - X'| / 2,    X, X' independent draws from F.

A score is NaN where y is; averages over time are `jnp.nanmean`.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rmcvi.core.gaussian import LOG_2PI, log_density, observed_cholesky


def gaussian_log_score(
    y: Float[Array, "dy"], mean: Float[Array, "dy"], covariance: Float[Array, "dy dy"]
) -> Float[Array, ""]:
    """Log density of the observed coordinates of y under N(mean, covariance).

    Missing coordinates are integrated out; NaN if all of them are missing.
    """
    seen = ~jnp.isnan(y)
    residual = jnp.where(seen, y - mean, 0.0)
    missing = y.size - jnp.sum(seen)
    root = observed_cholesky(covariance, seen)
    score = log_density(root, residual[None])[0] + 0.5 * LOG_2PI * missing
    return jnp.where(jnp.any(seen), score, jnp.nan)


def sample_log_score(
    log_densities: Float[Array, "n *batch"], log_weights: Float[Array, "n"] | None = None
) -> Float[Array, "*batch"]:
    """Log of the mean predictive density, log sum_i w_i p(y | x_i), over the leading axis.

    `log_weights` need not be normalised (None = equal). A NaN density is passed on, not hidden.
    """
    if log_weights is None:
        log_weights = jnp.zeros(log_densities.shape[0], log_densities.dtype)
    log_weights = jax.nn.log_softmax(log_weights)
    column = log_weights.reshape(-1, *(1,) * (log_densities.ndim - 1))
    return jax.nn.logsumexp(log_densities + column, axis=0)


def crps_gaussian(
    y: Float[Array, "*shape"], mean: Float[Array, "*shape"], std: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """CRPS of N(mean, std^2): std (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)), z standardised.

    A deviation of 0 is a point forecast, whose CRPS is the absolute error.
    """
    safe = jnp.where(std > 0.0, std, 1.0)
    z = (y - mean) / safe
    normal = jax.scipy.stats.norm
    width = 2.0 * normal.pdf(z) - 1.0 / math.sqrt(math.pi)
    smooth = safe * (z * jax.lax.erf(z / math.sqrt(2.0)) + width)
    return jnp.where(std == 0.0, jnp.abs(y - mean), smooth)


def crps_samples(
    y: Float[Array, "*shape"], samples: Float[Array, "n *shape"]
) -> Float[Array, "*shape"]:
    """Fair CRPS of a sample, mean |x_i - y| - sum_{i<j} |x_i - x_j| / (n (n - 1)), n >= 2.

    Unbiased for the CRPS of the distribution that was sampled, hence comparable across n (and
    negative at times). The pairs cost one sort: sum_{i<j} |x_i - x_j| = sum_i (2 i - n + 1) x_(i).
    """
    n = samples.shape[0]
    if n < 2:
        raise ValueError(f"samples: got {n} along the leading axis, expected at least 2")
    # Differences from y first: the rank weights sum to zero, so large levels would only round.
    gaps = jnp.sort(samples - y[None], axis=0)
    ranks = 2.0 * jnp.arange(n, dtype=samples.dtype) - (n - 1.0)
    pairs = jnp.tensordot(ranks, gaps, 1) / (n * (n - 1.0))
    return jnp.mean(jnp.abs(gaps), 0) - pairs

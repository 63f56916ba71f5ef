"""Laws of counts by their mean: Poisson, and negative binomial with its further variance."""

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Key

MOST = 15.0
"""Largest log-mean: three million a row, which float32 still counts one by one."""


def bounded_mean(log_mean: Array) -> Array:
    """Its exponential, finite wherever a particle may go."""
    return jnp.exp(jnp.clip(log_mean, -MOST, MOST))


def poisson_log_prob(count: Array, mean: Array) -> Array:
    """Elementwise `log Poisson(count; mean)`."""
    return count * jnp.log(mean) - mean - gammaln(count + 1.0)


def poisson_sample(key: Key[Array, ""], mean: Array) -> Array:
    """Elementwise draws."""
    return jax.random.poisson(key, mean).astype(mean.dtype)


def negative_binomial_log_prob(count: Array, mean: Array, size: Array) -> Array:
    """Elementwise log-probability with variance `mean + mean^2 / size`."""
    total = size + mean
    ways = gammaln(count + size) - gammaln(size) - gammaln(count + 1.0)
    return ways + size * jnp.log(size / total) + count * jnp.log(mean / total)


def negative_binomial_sample(key: Key[Array, ""], mean: Array, size: Array) -> Array:
    """Poisson draws whose mean is drawn from a Gamma law."""
    k1, k2 = jax.random.split(key)
    size = jnp.broadcast_to(size, mean.shape)
    return poisson_sample(k2, mean * jax.random.gamma(k1, size, dtype=mean.dtype) / size)

"""How heavy is the tail of importance weights? The shape k of a generalised Pareto distribution.

Weights w above a threshold c are fitted by a density proportional to (1 + k (w - c) / s)^(-1/k-1):
their variance is finite below k = 1/2, their mean below 1, and averages with them can be trusted
below about .7 (Vehtari, Simpson, Gelman, Yao and Gabry, 2024). The fit is the posterior mean of
Zhang and Stephens (2009), for b = -k / s on a grid,

    k(b) = mean log(1 - b x),    log-likelihood(b) = M {log(-b / k(b)) - k(b) - 1},    x = w - c.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

TRUSTED = 0.7
"""Largest k with which averages by importance weights converge in practice."""
FEWEST = 5
"""Weights in a tail that tell anything about its shape."""
HEAVY = 2.0
"""Times the mean: where no weight exceeds it there is no tail, whatever its shape."""


def tail_size(num: int) -> int:
    """How many of `num` weights are the tail."""
    return math.ceil(min(0.2 * num, 3.0 * num**0.5))


def pareto_shape(exceedances: Float[Array, "m"]) -> Float[Array, ""]:
    """K of positive numbers in ascending order."""
    num = exceedances.size
    grid = 30 + int(num**0.5)
    tiny = jnp.finfo(exceedances.dtype).tiny
    largest = jnp.maximum(exceedances[-1], tiny)
    quartile = jnp.maximum(exceedances[int(num / 4 + 0.5) - 1], 1e-6 * largest)
    place = jnp.arange(1.0, grid + 1.0, dtype=exceedances.dtype) - 0.5
    b = 1.0 / largest + (1.0 - jnp.sqrt(grid / place)) / (3.0 * quartile)
    k = jnp.mean(jnp.log1p(-b[:, None] * exceedances[None]), 1)
    weight = jax.nn.softmax(num * (jnp.log(-b / k) - k - 1.0))
    return jnp.mean(jnp.log1p(-(weight @ b) * exceedances))


def pareto_k(log_weights: Float[Array, "n"]) -> Float[Array, ""]:
    """K of the largest weights; 0 where there is no tail, NaN where they are too few to tell."""
    size = tail_size(log_weights.size)
    if size < FEWEST:
        return jnp.full((), jnp.nan, log_weights.dtype)
    weights = jnp.sort(jax.nn.softmax(log_weights))
    k = pareto_shape(weights[-size:] - weights[-size - 1])
    return jnp.where(weights[-1] > HEAVY / weights.size, k, 0.0)

"""Calibration: is an observation where its prediction said it would be?

With n samples x_i exchangeable with y, and v uniform (or 1/2: mid-ranks),

    u = (#{x_i < y} + v (#{x_i = y} + 1)) / (n + 1)    is uniform on (0, 1).
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def interval_coverage(
    y: Float[Array, "*shape"],
    low: Float[Array, "*shape"],
    high: Float[Array, "*shape"],
    axis: int | tuple[int, ...] | None = None,
) -> Float[Array, "..."]:
    """Share of the observed y in [low, high]; NaN where nothing was observed.

    An interval that is NaN where y was observed is a failed prediction and counts as a miss.
    """
    inside = ((low <= y) & (y <= high)).astype(y.dtype)
    return jnp.nanmean(jnp.where(jnp.isnan(y), jnp.nan, inside), axis)


def tail_p_value(y: Float[Array, "dy"], ordered: Float[Array, "n dy"]) -> Float[Array, "dy"]:
    """Two-sided p-value 2 min(u, 1 - u), carried on beyond the outermost sample.

    u is the rank of y with v = 1/2, and `ordered` are the samples in order.
    The tail is that of a Pareto law with infinite variance, fitted to the outer tenth: cautious,
    so that a single outlier of a heavy-tailed sensor is not called a failure. Where the outer
    samples all coincide (counts, point masses) there is no tail to fit.
    """
    num = ordered.shape[0]
    tail = max(num // 10, 1)

    def above(ordered, y):
        share = (jnp.sum(ordered > y[None], 0) + 0.5) / (num + 1.0)
        foot = ordered[max(num - 1 - tail, 0)]
        excess = jnp.mean(ordered[num - tail :], 0) - foot
        fitted = excess > 0.0
        reach = (y - foot) / jnp.where(fitted, excess, 1.0)
        further = (tail + 0.5) / (num + 1.0) / (1.0 + reach) ** 2
        return jnp.where(fitted & (y > ordered[-1]), jnp.minimum(further, share), share)

    both = jnp.minimum(above(ordered, y), above(-ordered[::-1], -y))
    return jnp.where(jnp.isnan(y), jnp.nan, jnp.minimum(2.0 * both, 1.0))


def gaussian_p_value(
    y: Float[Array, "*shape"], mean: Float[Array, "*shape"], std: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """Two-sided p-value P(|X - mean| >= |y - mean|) for X ~ N(mean, std^2), per coordinate."""
    return jax.lax.erfc(jnp.abs(y - mean) / (std * math.sqrt(2.0)))

"""Calibration: is an observation where its prediction said it would be?

With n samples x_i exchangeable with y, and v uniform (or 1/2: mid-ranks),

    u = (#{x_i < y} + v (#{x_i = y} + 1)) / (n + 1)    is uniform on (0, 1).
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key


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


def pit(
    y: Float[Array, "*shape"], samples: Float[Array, "n *shape"], key: Key[Array, ""] | None = None
) -> Float[Array, "*shape"]:
    """Probability integral transform of y among samples: the rank of y, scaled into (0, 1).

    Args:
        y: observations, NaN = not observed (NaN is returned).
        samples: draws from the prediction of y.
        key: randomises the rank, exactly uniform for a calibrated prediction; None takes mid-ranks,
            uniform on a grid of n + 1 points.
    """
    v = jnp.full_like(y, 0.5) if key is None else jax.random.uniform(key, y.shape, y.dtype)
    below = jnp.sum(samples < y[None], axis=0)
    equal = jnp.sum(samples == y[None], axis=0)
    rank = (below + v * (equal + 1.0)) / (samples.shape[0] + 1.0)
    return jnp.where(jnp.isnan(y), jnp.nan, rank)


def sample_p_value(
    y: Float[Array, "*shape"], samples: Float[Array, "n *shape"], key: Key[Array, ""] | None = None
) -> Float[Array, "*shape"]:
    """Two-sided p-value 2 min(u, 1 - u) per coordinate, u = `pit(y, samples, key)`.

    With mid-ranks it is at least 1 / (n + 1): few samples cannot tell outlying from absurd.
    """
    u = pit(y, samples, key)
    return 2.0 * jnp.minimum(u, 1.0 - u)


def tail_p_value(y: Float[Array, "dy"], ordered: Float[Array, "n dy"]) -> Float[Array, "dy"]:
    """`sample_p_value`, carried on beyond the outermost sample; `ordered` are samples in order.

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

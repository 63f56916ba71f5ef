"""Weighted particles: sum_i W_i delta(x_i), with log W normalised, and systematic resampling."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from rmcvi.contract import Filtered


class Cloud(eqx.Module):
    """Particles and the logarithms of their weights, which sum to one."""

    x: Float[Array, "n dx"]
    log_weight: Float[Array, "n"]

    @classmethod
    def empty(cls, num: int, dim: int) -> "Cloud":
        """Equal weights at the origin, to be overwritten at t = 0."""
        return cls(jnp.zeros((num, dim)), jnp.full(num, -jnp.log(float(num))))

    def moments(self) -> Filtered:
        """Weighted mean and covariance."""
        return moments(self.x, self.log_weight)

    def draw(self, key: Key[Array, ""], num: int) -> Float[Array, "{num} dx"]:
        """Draws with replacement, systematic."""
        return self.x[systematic(key, self.log_weight, num)]


def moments(x: Float[Array, "n dx"], log_weight: Float[Array, "n"]) -> Filtered:
    """Mean and covariance of weighted points."""
    w = jnp.exp(log_weight)
    mean = w @ x
    centred = x - mean[None]
    return Filtered(mean, (w[:, None] * centred).T @ centred)


def effective_size(log_weight: Float[Array, "n"]) -> Float[Array, ""]:
    """1 / sum W^2."""
    return 1.0 / jnp.sum(jnp.exp(2.0 * log_weight))


def normalised(log_weight: Float[Array, "n"]) -> tuple[Float[Array, "n"], Float[Array, ""]]:
    """Weights that sum to one, and the log of what they summed to."""
    total = jax.nn.logsumexp(log_weight)
    return log_weight - total, total


def systematic(key: Key[Array, ""], log_weight: Float[Array, "n"], num: int) -> Int[Array, "{num}"]:
    """Ascending indices, i about num W_i times: points (k + u) / num on the cumulative weights.

    Index k is the number of i with C_i below point k, counted by a histogram: O(n + num).
    """
    cumulative = jnp.cumsum(jnp.exp(log_weight))
    target = num * (cumulative / cumulative[-1]) - jax.random.uniform(key, (), log_weight.dtype)
    first_above = jnp.clip(jnp.ceil(target), 0, num).astype(jnp.int32)
    count = jnp.zeros(num + 1, jnp.int32).at[first_above].add(1, indices_are_sorted=True)
    return jnp.minimum(jnp.cumsum(count)[:num], log_weight.size - 1)


def resample(
    key: Key[Array, ""], log_weight: Float[Array, "n"], threshold: float
) -> tuple[Int[Array, "n"], Float[Array, "n"], Bool[Array, ""]]:
    """Ancestors, their weights, and whether the effective size was below `threshold` n."""
    num = log_weight.size
    poor = effective_size(log_weight) < threshold * num
    index, log_weight = jax.lax.cond(
        poor,
        lambda: (systematic(key, log_weight, num), jnp.full_like(log_weight, -jnp.log(num))),
        lambda: (jnp.arange(num, dtype=jnp.int32), log_weight),
    )
    return index, log_weight, poor

"""Errors of point estimates: e_t = estimate - truth, NaN where there is no truth."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def rmse(
    error: Float[Array, "..."], axis: int | tuple[int, ...] | None = None
) -> Float[Array, "..."]:
    """Root of the mean square over `axis` (None = all), NaN where nothing was observed."""
    return jnp.sqrt(jnp.nanmean(error**2, axis))


def stepwise_rmse(error: Float[Array, "T d"]) -> Float[Array, ""]:
    """The paper's error: the mean over t of the root mean square over coordinates.

    By Jensen's inequality it never exceeds `rmse(error)` when every coordinate is observed. Steps
    at which nothing was observed do not count.
    """
    return jnp.nanmean(rmse(error, axis=-1))

"""Errors of point estimates: e_t = estimate - truth, NaN where there is no truth."""

from collections.abc import Callable

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


def gap_to_oracle(
    error: Float[Array, "*shape"],
    oracle_error: Float[Array, "*shape"],
    score: Callable[[Array], Array] = rmse,
) -> Float[Array, ""]:
    """Relative excess `score(error) / score(oracle_error) - 1`; .04 = 4 % worse than the oracle.

    Only entries that both errors hold are compared. `score` is `rmse`, `stepwise_rmse` or any
    other summary; two errors that are summaries already may be given as scalars.
    """
    both = ~(jnp.isnan(error) | jnp.isnan(oracle_error))
    paired, oracle = (jnp.where(both, e, jnp.nan) for e in (error, oracle_error))
    return score(paired) / score(oracle) - 1.0

"""What the rivals' steps have to tell: they have no window and no contraction."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from rmcvi._contract import Info, Result


def plain_info(
    elbo: Float[Array, ""],
    increment: Float[Array, ""],
    sound: Bool[Array, ""],
    ess: Float[Array, ""] | None = None,
    functional: PyTree = None,
) -> Info:
    """Evidence and its increment; `ess` below 2 is a collapse."""
    ess = jnp.full_like(elbo, jnp.nan) if ess is None else ess
    result = jnp.where(ess < 2.0, int(Result.WEIGHTS_COLLAPSED), int(Result.SUCCESS))
    return Info(
        elbo=elbo,
        increment=increment,
        ess=ess,
        contraction=jnp.full_like(elbo, jnp.nan),
        mass=jnp.zeros(0, elbo.dtype),
        mass_beyond=jnp.zeros_like(elbo),
        functional=functional,
        result=jnp.where(sound, result, int(Result.NON_FINITE)),
    )

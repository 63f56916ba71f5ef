"""What is known about a time step besides its observation."""

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from rmcvi.core.array_checks import as_real, check_array


class Inputs(eqx.Module):
    """Exogenous inputs `u` of one step and its length `dt`, in units of the usual step."""

    u: Float[Array, "*batch du"]
    dt: Float[Array, "*batch"]

    @classmethod
    def of(
        cls,
        u: ArrayLike | None = None,
        dt: ArrayLike | None = None,
        dim: int = 0,
        streams: tuple[int, ...] = (),
    ) -> "Inputs":
        """Inputs of one step; nothing given means no inputs and a usual step."""
        u = jnp.zeros((*streams, dim)) if u is None else as_real("u", u)
        check_array("u", u, (*streams, dim))
        dt = jnp.ones(streams) if dt is None else as_real("dt", dt)
        check_array("dt", dt, streams)
        return cls(u, dt)

    @classmethod
    def sequence(
        cls,
        length: int,
        u: ArrayLike | None = None,
        dt: ArrayLike | None = None,
        dim: int = 0,
        streams: tuple[int, ...] = (),
    ) -> "Inputs":
        """Inputs of `length` steps; nothing given means none and usual steps."""
        u = jnp.zeros((length, *streams, dim)) if u is None else jnp.asarray(u, float)
        check_array("u", u, (length, *streams, dim))
        dt = jnp.ones((length, *streams)) if dt is None else jnp.asarray(dt, float)
        check_array("dt", dt, (length, *streams))
        return cls(u, dt)

    @classmethod
    def checked(cls, inputs: "Inputs | None", lead: tuple[int, ...], dim: int) -> "Inputs":
        """Those given if they have the leading axes `lead`; None means none and usual steps."""
        if inputs is None:
            return cls(jnp.zeros((*lead, dim)), jnp.ones(lead))
        check_array("inputs.u", inputs.u, (*lead, dim))
        check_array("inputs.dt", inputs.dt, lead)
        return inputs


def split_missing(
    y: Float[Array, "*batch dy"],
) -> tuple[Float[Array, "*batch dy"], Float[Array, "*batch dy"]]:
    """The observation with zeros for NaN, and its mask (1 where observed)."""
    seen = ~jnp.isnan(y)
    return jnp.where(seen, y, 0.0), seen.astype(y.dtype)

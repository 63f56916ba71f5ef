"""Sums over 1e6 steps in float32: Neumaier's compensated addition."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class CompensatedSum(eqx.Module):
    """A running sum kept as a rounded total and what rounding has lost."""

    total: Float[Array, "*shape"]
    lost: Float[Array, "*shape"]

    @classmethod
    def zeros(cls, *shape: int) -> "CompensatedSum":
        """The empty sum."""
        return cls(jnp.zeros(shape), jnp.zeros(shape))

    def add(self, value: Float[Array, "*shape"], forget: float = 1.0) -> "CompensatedSum":
        """The sum with one more term, the past first scaled by `forget`."""
        past, lost = forget * self.total, forget * self.lost
        total = past + value
        rounding = jnp.where(
            jnp.abs(past) >= jnp.abs(value), (past - total) + value, (value - total) + past
        )
        return CompensatedSum(total, lost + rounding)

    @property
    def value(self) -> Float[Array, "*shape"]:
        """The sum, rounded once."""
        return self.total + self.lost

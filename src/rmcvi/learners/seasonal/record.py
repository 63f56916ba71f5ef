"""How forecasts have fared so far, by horizon and column: sums over the values that came.

They are those of gaps and of the forecasts under way, beside two simple ones of the same values:
the last value, and the season alone (where it is not known yet, the last value, too).
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


class Record(eqx.Module):
    """Numbers of values, sums of squared errors, and values inside the interval."""

    count: Float[Array, "*bins dy"]
    square: Float[Array, "*bins dy"]
    last: Float[Array, "*bins dy"]
    season: Float[Array, "*bins dy"]
    inside: Float[Array, "*bins dy"]

    @classmethod
    def empty(cls, *shape: int) -> "Record":
        """Nothing seen."""
        nothing = jnp.zeros(shape)
        return cls(nothing, nothing, nothing, nothing, nothing)

    def add(
        self,
        y: Float[Array, "dy"],
        mean: Float[Array, "dy"],
        inside: Bool[Array, "dy"],
        simple: tuple[Float[Array, "dy"], Float[Array, "dy"]],
    ) -> "Record":
        """After a value each, with our forecast and those of the season and of the last value."""
        season, last = simple
        terms = 1.0, (y - mean) ** 2, (y - last) ** 2, (y - season) ** 2, inside
        sums = self.count, self.square, self.last, self.season, self.inside
        return Record(*(s + v for s, v in zip(sums, terms, strict=True)))

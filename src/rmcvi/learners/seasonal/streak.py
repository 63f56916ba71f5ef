"""Values in a row that are far from what a component expected: is this a new level?

Their mean less what was expected when they began is the shift; their scatter is the new scale.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

ENOUGH = 6
"""Far values in a row after which their level is taken for the new one."""
WIDER = 4.0
"""A new level whose values scatter by so many deviations is a new scale, too."""


class Streak(eqx.Module):
    """The far values so far, in standard units."""

    length: Float[Array, "dy"]
    base: Float[Array, "dy"]
    """What was expected of the first of them."""
    mean: Float[Array, "dy"]
    square: Float[Array, "dy"]
    """Sum of squares around the mean."""

    @classmethod
    def none(cls, size: int) -> "Streak":
        """Nothing is far."""
        return cls(*(jnp.zeros(size) for _ in range(4)))

    def add(
        self,
        z: Float[Array, "dy"],
        mu: Float[Array, "dy"],
        far: Bool[Array, "dy"],
        seen: Bool[Array, "dy"],
    ) -> "Streak":
        """After a row; a value that is not far ends the streak, a missing one does nothing."""
        length = self.length + 1.0
        mean = self.mean + (z - self.mean) / length
        longer = (
            length,
            jnp.where(self.length > 0.0, self.base, mu),
            mean,
            self.square + (z - self.mean) * (z - mean),
        )
        old = (self.length, self.base, self.mean, self.square)
        return Streak(
            *(jnp.where(seen, jnp.where(far, a, 0.0), b) for a, b in zip(longer, old, strict=True))
        )

    @property
    def enough(self) -> Bool[Array, "dy"]:
        """Whether it is long enough."""
        return self.length >= ENOUGH

    @property
    def shift(self) -> Float[Array, "dy"]:
        """How far the new level is."""
        return self.mean - self.base

    def scale(self, usual: Float[Array, "dy"]) -> Float[Array, "dy"]:
        """The new scale in units of the old: 1 unless the values scatter far more than usual."""
        spread = jnp.sqrt(self.square / ENOUGH)
        return jnp.where(spread > WIDER * jnp.maximum(usual, 1.0), spread, 1.0)

    def ended(self, which: Bool[Array, "dy"]) -> "Streak":
        """Without some columns'."""
        parts = (self.length, self.base, self.mean, self.square)
        return Streak(*(jnp.where(which, 0.0, part) for part in parts))

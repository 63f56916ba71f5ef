"""Values in a row that are far from what a component expected: has the level shifted?

Their mean less what was expected when they began is the shift; their scatter is the new scale.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi.core import tree
from rmcvi.core.moments import RunningMoments

ENOUGH = 6
"""Far values in a row after which their level is taken for the new one: spikes are shorter."""
WIDER, FINER = 4.0, 0.01
"""A new level whose values scatter by so many deviations, or by so small a share of what is usual,
is a new scale, too."""


class LevelShift(eqx.Module):
    """The far values so far, in standard units."""

    base: Float[Array, "dy"]
    """What was expected of the first of them."""
    values: RunningMoments

    @classmethod
    def none(cls, size: int) -> "LevelShift":
        """Nothing is far."""
        return cls(jnp.zeros(size), RunningMoments.prior(size))

    def add(
        self,
        z: Float[Array, "dy"],
        mu: Float[Array, "dy"],
        far: Bool[Array, "dy"],
        seen: Bool[Array, "dy"],
    ) -> "LevelShift":
        """After a row; a value that is not far starts anew, a missing one does nothing.

        Args:
            z: the values.
            mu: what was expected of them.
            far: which of them are far from it.
            seen: which of them there are.
        """
        base = jnp.where(self.values.count > 0.0, self.base, mu)
        longer = LevelShift(jnp.where(seen, base, self.base), self.values.add(z, seen))
        return longer.ended(seen & ~far)

    @property
    def certain(self) -> Bool[Array, "dy"]:
        """Whether there are enough of them."""
        return self.values.count >= ENOUGH

    @property
    def distance(self) -> Float[Array, "dy"]:
        """How far the new level is."""
        return self.values.mean - self.base

    def scale(self, usual: Float[Array, "dy"]) -> Float[Array, "dy"]:
        """The new scale in units of the old: 1 unless values scatter far more, or less, than usual.

        Values that are all the same say nothing of it.
        """
        scatter = jnp.sqrt(self.values.variance)
        other = (scatter > WIDER * jnp.maximum(usual, 1.0)) | (scatter < FINER * usual)
        return jnp.where(other & (scatter > 0.0), scatter, 1.0)

    def ended(self, which: Bool[Array, "dy"]) -> "LevelShift":
        """Without some columns'."""
        return tree.where(which, tree.zeros(self), self)

"""A forecast under way: started, left alone, compared with what comes, and started again.

Its lengths are 8, 16, 8, 32, 8, 16, 8, 64, .. (the ruler sequence), so that every scale up to the
longest is tried equally often. Row by row it costs one prediction.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from rmcvi.learners.seasonal.component import Component
from rmcvi.learners.seasonal.walk import RandomWalk

SHORTEST, DOUBLINGS = 8, 6
"""Rows of the shortest forecast; the longest has 2^6 times as many."""


class Trial(eqx.Module):
    """How far the forecast has come; its path is in the components."""

    age: Float[Array, ""]
    """Rows since it started."""
    number: Int[Array, ""]
    """Which forecast this is, from 1."""
    last: Float[Array, "dy"]
    gap: Float[Array, "dy"]
    """Last values when it started, and how old they were."""

    @classmethod
    def none(cls, size: int) -> "Trial":
        """Not started."""
        zeros = jnp.zeros(size)
        return cls(jnp.zeros(()), jnp.zeros((), int), zeros, zeros)

    @property
    def running(self) -> Bool[Array, ""]:
        """Whether there is one."""
        return self.number > 0

    @property
    def horizon(self) -> Float[Array, "dy"]:
        """Rows from the last values to the one that comes next."""
        return self.age + 1.0 + self.gap

    def onward(
        self,
        components: Component,
        walk: RandomWalk,
        started: Bool[Array, ""],
        moved: Bool[Array, ""],
    ) -> tuple["Trial", Component]:
        """After one row; a new one starts from the filter when this one is at its end.

        Also when a column has `moved` to a new level, of which the forecast knew nothing.
        """
        lowest = self.number & -self.number
        length = SHORTEST * jnp.minimum(lowest, 2**DOUBLINGS)
        again = started & ((self.age + 1.0 >= length) | ~self.running | moved)

        def choose(new: Array, old: Array) -> Array:
            return jnp.where(again, new, old)

        trial = Trial(
            age=choose(jnp.zeros(()), self.age + 1.0),
            number=self.number + again,
            last=choose(walk.last, self.last),
            gap=choose(walk.gap, self.gap),
        )
        path = jax.tree.map(choose, components.path, components.trial)
        return trial, eqx.tree_at(lambda c: c.trial, components, path)

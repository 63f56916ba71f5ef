"""A forecast under way: started, left alone, compared with what comes, and started again.

It rests on what was known when it was made, as any forecast does: a profile that has seen the days
in between, or units that have followed the level, would make it look better than it is.
Its lengths are 8, 16, 8, 32, 8, 16, 8, 64, .. (the ruler sequence), so that every scale up to the
longest is tried equally often. Row by row it costs one prediction.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from rmcvi.learners.seasonal.columns import Columns
from rmcvi.learners.seasonal.component import Been, Component, Frozen
from rmcvi.learners.seasonal.design import Design
from rmcvi.learners.seasonal.walk import RandomWalk

SHORTEST, DOUBLINGS = 8, 6
"""Rows of the shortest forecast; the longest has 2^6 times as many."""


class Trial(eqx.Module):
    """How far the forecast has come; its path is in the components."""

    age: Float[Array, ""]
    """Rows since it started."""
    number: Int[Array, ""]
    """Which forecast this is, from 1."""
    walk: RandomWalk
    """The last values when it started."""
    known: Bool[Array, "dy"]
    """Columns that were known then."""
    marks: list[Int[Array, "_ dy"]]
    """Of each phase, the last forecast that was there; negative if there was no value."""

    @classmethod
    def none(cls, design: Design) -> "Trial":
        """Not started."""
        marks = [jnp.zeros((period, design.size), int) for period in design.periods]
        walk, known = RandomWalk.unknown(design.size), jnp.zeros(design.size, bool)
        return cls(jnp.zeros(()), jnp.zeros((), int), walk, known, marks)

    @property
    def running(self) -> Bool[Array, ""]:
        """Whether there is one."""
        return self.number > 0

    @property
    def horizon(self) -> Float[Array, "dy"]:
        """Rows from the last values to the one that comes next."""
        return self.age + 1.0 + self.walk.gap

    def been(self, columns: Columns, phase: Float[Array, ""], design: Design) -> Been:
        """Whether it has been at a phase, and at the one before, and found a value there."""
        found = []
        for marks, visits, period in zip(self.marks, columns.visits, design.periods, strict=True):
            places = jnp.stack(design.places(phase, period))
            here = jnp.abs(marks[places]) == self.number
            known = jnp.where(here, marks[places] > 0, visits[places] > 0.0)
            found.append((here, known))
        return found

    def at(self, been: Been, phase: Float[Array, ""], design: Design) -> "Trial":
        """It has been at this phase."""
        marks = [
            marks.at[design.places(phase, period)[0]].set(
                jnp.where(known[0], self.number, -self.number)
            )
            for marks, period, (_, known) in zip(self.marks, design.periods, been, strict=True)
        ]
        return eqx.tree_at(lambda t: t.marks, self, marks)

    def onward(
        self,
        components: Component,
        columns: Columns,
        walk: RandomWalk,
        started: Bool[Array, ""],
        moved: Bool[Array, ""],
    ) -> tuple["Trial", Component]:
        """After one row; a new one starts from the filter when this one is at its end.

        Args:
            components: what was learned, the row included.
            columns: what they share.
            walk: the last values.
            started: whether there were rows enough.
            moved: whether a column is at a new level, of which the forecast knew nothing.
        """
        lowest = self.number & -self.number
        length = SHORTEST * jnp.minimum(lowest, 2**DOUBLINGS)
        again = started & ((self.age + 1.0 >= length) | ~self.running | moved)

        def choose(new: Array, old: Array) -> Array:
            return jnp.where(again, new, old)

        trial = Trial(
            age=choose(jnp.zeros(()), self.age + 1.0),
            number=self.number + again,
            walk=jax.tree.map(choose, walk, self.walk),
            known=choose(columns.known, self.known),
            marks=self.marks,
        )
        now, old = components, components.trial
        frozen = Frozen(
            path=jax.tree.map(choose, now.path, old.path),
            weights=choose(now.rows.weights, old.weights),
            noise=jax.tree.map(choose, now.noise, old.noise),
            units=jax.tree.map(choose, now.units, old.units),
            profiles=old.profiles,
        )
        return trial, eqx.tree_at(lambda c: c.trial, components, frozen)

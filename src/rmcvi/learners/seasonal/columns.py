"""What all components share about the columns: which are known, and how often each was seen.

A column is known once it has `need` values that vary; until then it is missing to the model and
predicted by its last value.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from rmcvi.learners.seasonal.design import Design

NEED = 8
"""Values without which a column is not known."""
VARIES = 1e-6
"""Least deviation, relative to the size of the values."""
ABSURD, SPARED = 100.0, 2
"""First values further than so many mean deviations from the median (the mean without the largest
`SPARED` of them) are codes or faults, and units do not rest on them."""
ANEW = 30.0
"""Values that the units rest on at a new level: the rest is learned anew."""
STUCK = 24.0
"""Repeats of a value after which a column teaches nothing until it moves again."""


class Columns(eqx.Module):
    """Counts; they are the same whatever the units."""

    known: Bool[Array, "dy"]
    scale: Float[Array, "dy"]
    """s: mean absolute value when the column became known."""
    values: Float[Array, "dy"]
    """Values that the units rest on."""
    noisy: Float[Array, "dy"]
    """Values that the variances rest on, and six more for the prior."""
    rows: Float[Array, ""]
    """Rows in which anything was seen."""
    visits: list[Float[Array, "_ dy"]]
    """Values behind each entry of the profiles."""

    @classmethod
    def unknown(cls, design: Design) -> "Columns":
        """Nothing seen."""
        ones = jnp.ones(design.size)
        return cls(
            known=jnp.zeros(design.size, bool),
            scale=ones,
            values=ones,
            noisy=6.0 * ones,
            rows=jnp.zeros(()),
            visits=[jnp.zeros((period, design.size)) for period in design.periods],
        )

    def count(
        self, teaches: Bool[Array, "dy"], phase: Float[Array, ""], design: Design
    ) -> "Columns":
        """One row more."""
        new = teaches.astype(self.values.dtype)
        places = [design.places(phase, period)[0] for period in design.periods]
        return Columns(
            known=self.known,
            scale=self.scale,
            values=self.values + new,
            noisy=self.noisy + new,
            rows=self.rows + jnp.max(new),
            visits=[v.at[j].add(new) for v, j in zip(self.visits, places, strict=True)],
        )

    def restart(self, which: Bool[Array, "dy"]) -> "Columns":
        """Some columns at a new level, whose units rest on few values."""
        values = jnp.where(which, jnp.minimum(self.values, ANEW), self.values)
        return eqx.tree_at(lambda c: c.values, self, values)

    def find_known(
        self, recent: Float[Array, "n dy"]
    ) -> tuple["Columns", Bool[Array, "n dy"], Bool[Array, "dy"]]:
        """The columns, those now known among them, values to rest on, and which became known."""
        valid = _plausible(recent)
        found = Moments.of(recent, valid)
        size = Moments.of(jnp.abs(recent), valid).mean
        varies = jnp.sqrt(found.variance) > VARIES * (size + jnp.finfo(size.dtype).tiny)
        new = ~self.known & (found.count >= NEED) & varies
        columns = eqx.tree_at(
            lambda c: (c.known, c.scale, c.values),
            self,
            (
                self.known | new,
                jnp.where(new, size, self.scale),
                jnp.where(new, found.count, self.values),
            ),
        )
        return columns, valid, new


class Moments(eqx.Module):
    """Mean and variance of some values."""

    mean: Float[Array, "dy"]
    variance: Float[Array, "dy"]
    count: Float[Array, "dy"]

    @classmethod
    def of(cls, values: Float[Array, "n dy"], valid: Bool[Array, "n dy"]) -> "Moments":
        """Of the valid ones."""
        count = jnp.sum(valid, 0).astype(values.dtype)
        num = jnp.maximum(count, 1.0)
        mean = jnp.sum(jnp.where(valid, values, 0.0), 0) / num
        square = jnp.where(valid, (values - mean[None]) ** 2, 0.0)
        return cls(mean, jnp.sum(square, 0) / num, count)


def _plausible(values: Float[Array, "n dy"]) -> Bool[Array, "n dy"]:
    """Which of the first values are no codes or faults."""

    def one(column: Float[Array, "n"]) -> Bool[Array, "n"]:
        seen = ~jnp.isnan(column)
        count, rank = jnp.sum(seen), _ranks(jnp.where(seen, column, jnp.inf))
        middle = (rank == (count - 1) // 2) * 0.5 + (rank == count // 2) * 0.5
        median = jnp.sum(jnp.where(middle > 0.0, middle * column, 0.0))
        away = jnp.where(seen, jnp.abs(column - median), 0.0)
        most = jnp.where(_ranks(away) < len(away) - SPARED, away, 0.0)
        usual = jnp.sum(most) / jnp.maximum(count - SPARED, 1)
        return seen & (away <= ABSURD * usual)

    return jax.vmap(one, 1, 1)(values)


def _ranks(values: Float[Array, "n"]) -> Int[Array, "n"]:
    """Places in ascending order, by comparing all pairs: a loop with a sort cannot be compiled as
    one piece (`compiling`), which costs every row more than this does the few first ones.
    """
    earlier = jnp.arange(len(values))[:, None] > jnp.arange(len(values))[None]
    before = (values[None] < values[:, None]) | ((values[None] == values[:, None]) & earlier)
    return jnp.sum(before, 1)

"""What all components share about the columns: which are known, and how often each was seen.

A column is known once it has `need` values that vary; until then it is missing to the model and
predicted by its last value, with the scale of its changes so far.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi.conjugate._design import Design

NEED = 8
"""Values without which a column is not known."""
VARIES = 1e-6
"""Least deviation, relative to the size of the values."""


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
    streak: Float[Array, "dy"]
    """Values in a row that were far out."""
    visits: list[Float[Array, "_ dy"]]
    """Values behind each entry of the profiles."""

    @classmethod
    def unknown(cls, design: Design) -> "Columns":
        """Nothing seen."""
        ones, zeros = jnp.ones(design.size), jnp.zeros(design.size)
        return cls(
            known=jnp.zeros(design.size, bool),
            scale=ones,
            values=ones,
            noisy=6.0 * ones,
            rows=jnp.zeros(()),
            streak=zeros,
            visits=[jnp.zeros((period, design.size)) for period in design.periods],
        )

    def count(self, y: Float[Array, "dy"], phase: Float[Array, ""], design: Design) -> "Columns":
        """One row more."""
        seen = (self.known & ~jnp.isnan(y)).astype(y.dtype)
        places = [design.places(phase, period)[0] for period in design.periods]
        return Columns(
            known=self.known,
            scale=self.scale,
            values=self.values + seen,
            noisy=self.noisy + seen,
            rows=self.rows + jnp.max(seen),
            streak=self.streak,
            visits=[v.at[j].add(seen) for v, j in zip(self.visits, places, strict=True)],
        )

    def judge(self, ratio: Float[Array, "m dy"], y: Float[Array, "dy"], gate: float) -> "Columns":
        """Lengthen or end the streaks; `ratio` is e^2 / S of each component."""
        far = jnp.min(ratio, 0) > gate**2
        streak = jnp.where(far, self.streak + 1.0, 0.0)
        seen = self.known & ~jnp.isnan(y)
        return eqx.tree_at(lambda c: c.streak, self, jnp.where(seen, streak, self.streak))


class Waiting(eqx.Module):
    """Columns before they are known: latest values, and a random walk's scale."""

    early: Float[Array, "warm dy"]
    """Latest values, last one last; those before the first are of no meaning."""
    count: Float[Array, "dy"]
    last: Float[Array, "dy"]
    changes: Float[Array, "dy"]
    """Sum of squared changes."""
    low: Float[Array, "dy"]
    high: Float[Array, "dy"]
    """Range of the values that were not far out."""

    @classmethod
    def empty(cls, warm: int, size: int) -> "Waiting":
        """Nothing seen."""
        zeros, endless = jnp.zeros(size), jnp.full(size, jnp.inf, float)
        return cls(jnp.zeros((warm, size)), zeros, zeros, zeros, endless, -endless)

    @property
    def deviation(self) -> Float[Array, "dy"]:
        """Scale of the next change; 1 before the first value."""
        mean = (self.changes + 0.02 * self.last**2) / (self.count + 1.0)
        return jnp.where(self.count > 0.0, jnp.sqrt(mean + 1e-12), 1.0)

    @property
    def valid(self) -> Bool[Array, "warm dy"]:
        """Which entries of `early` are values."""
        warm = self.early.shape[0]
        return jnp.arange(warm)[::-1][:, None] < self.count[None]

    def add(self, y: Float[Array, "dy"], simple: Bool[Array, "dy"], columns: Columns) -> "Waiting":
        """After one row; `simple` columns were predicted by their last value."""
        seen = ~jnp.isnan(y)
        y = jnp.where(seen, y, self.last)
        change = jnp.where(seen & simple & (self.count > 0.0), (y - self.last) ** 2, 0.0)
        pushed = jnp.concatenate([self.early[1:], y[None]])
        inside = seen & ~(columns.known & (columns.streak > 0.0))
        return Waiting(
            early=jnp.where((seen & ~columns.known)[None], pushed, self.early),
            count=self.count + seen.astype(y.dtype),
            last=y,
            changes=self.changes + change,
            low=jnp.where(inside, jnp.minimum(self.low, y), self.low),
            high=jnp.where(inside, jnp.maximum(self.high, y), self.high),
        )

    def ready(self, columns: Columns) -> tuple[Columns, Bool[Array, "dy"]]:
        """The columns, those now known among them, and which became so."""
        valid, num = self.valid, jnp.maximum(jnp.sum(self.valid, 0), 1)
        size = jnp.sum(jnp.where(valid, jnp.abs(self.early), 0.0), 0) / num
        _, variance = moments(self.early, valid)
        varies = jnp.sqrt(variance) > VARIES * (size + jnp.finfo(size.dtype).tiny)
        new = ~columns.known & (num >= NEED) & varies
        known = columns.known | new
        return (
            eqx.tree_at(
                lambda c: (c.known, c.scale, c.values),
                columns,
                (
                    known,
                    jnp.where(new, size, columns.scale),
                    jnp.where(new, num.astype(size.dtype), columns.values),
                ),
            ),
            new,
        )


def moments(
    values: Float[Array, "n dy"], valid: Bool[Array, "n dy"]
) -> tuple[Float[Array, "dy"], Float[Array, "dy"]]:
    """Mean and variance of the valid values."""
    num = jnp.maximum(jnp.sum(valid, 0), 1)
    mean = jnp.sum(jnp.where(valid, values, 0.0), 0) / num
    return mean, jnp.sum(jnp.where(valid, (values - mean[None]) ** 2, 0.0), 0) / num

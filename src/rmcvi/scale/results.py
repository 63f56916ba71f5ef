"""What is told of a row of a stream, and how a stream has fared so far."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from rmcvi.learners.chunk import BLOCKS
from rmcvi.learners.episodes import DEAD, LONGER
from rmcvi.monitors.health import Alarm

COUNTED = 4
"""Entries of `Counts` for each column."""


class Tally(eqx.Module):
    """How a stream has fared so far; sums over its rows, one entry per column where it says dy."""

    rows: Int[Array, ""]
    last: Float[Array, "dy"]
    """The last value; NaN before the first."""
    scored: Float[Array, "dy"]
    """Values that were predicted and are not the first of their column."""
    error: Float[Array, "dy"]
    """Their squared errors."""
    repeat: Float[Array, "dy"]
    """Those of the last value."""
    inside: Float[Array, "dy"]
    """How many of them lie in their interval."""
    log_score: Float[Array, ""]
    alarms: Int[Array, ""]
    """Rows with an alarm."""
    failing: Float[Array, "dy"]
    """Evidence at the last row that a sensor has failed."""
    drifts: Int[Array, ""]
    recoveries: Int[Array, ""]
    since: Float[Array, "dy"]
    """The row of the last change, from 1."""
    missing: Float[Array, "dy"]
    """Rows without a value up to the last one."""
    longest: Float[Array, "dy"]
    """The longest gap that ended."""
    repeats: Int[Array, ""]
    """Rows in which all columns that live were seen and none had changed."""

    @classmethod
    def fresh(cls, dim: int) -> "Tally":
        """No rows."""
        zero, none = jnp.zeros(dim), jnp.zeros((), int)
        nothing = jnp.full(dim, jnp.nan, float)
        total = jnp.zeros(())
        counts = zero, none, none, zero, zero, zero, none
        return cls(none, nothing, zero, zero, zero, zero, total, none, *counts)

    def count(self, y: Float[Array, "dy"]) -> "Counts":
        """What is counted up to a row, as `Episodes` counts."""
        seen = ~jnp.isnan(y)
        changed = seen & (y != self.last)
        missing = jnp.where(seen, 0.0, self.missing + 1.0)
        longest = jnp.where(seen, jnp.maximum(self.longest, self.missing), self.longest)
        since = jnp.where(changed, (self.rows + 1).astype(float), self.since)
        whole = jnp.all(seen | (missing >= DEAD))
        repeats = jnp.where(jnp.any(changed), 0, self.repeats + whole)
        dead = (missing >= jnp.maximum(DEAD, LONGER * longest)) & ~jnp.isnan(self.last)
        return Counts(since, missing, longest, dead.astype(float), repeats)

    def add(self, y: Float[Array, "dy"], results: "Results", limit: float) -> "Tally":
        """One row more; an anomaly above the limit is an alarm."""
        scored = ~jnp.isnan(y) & ~jnp.isnan(results.mean) & ~jnp.isnan(self.last)
        inside = (y >= results.low) & (y <= results.high)
        drifted = (results.alarms & int(Alarm.DRIFT)) != 0
        unusual = (results.anomaly > limit) | (results.counts.dead > 0.0)

        def total(old: Array, new: Array) -> Array:
            return old + jnp.where(scored, new, 0.0)

        return Tally(
            rows=self.rows + 1,
            last=jnp.where(jnp.isnan(y), self.last, y),
            scored=self.scored + scored,
            error=total(self.error, (y - results.mean) ** 2),
            repeat=total(self.repeat, (y - self.last) ** 2),
            inside=self.inside + (scored & inside),
            log_score=self.log_score + jnp.nan_to_num(results.log_score),
            alarms=self.alarms + ((results.alarms != 0) | jnp.any(unusual)),
            failing=results.failure,
            drifts=self.drifts + drifted,
            recoveries=results.recoveries,
            since=results.counts.since,
            missing=results.counts.missing,
            longest=results.counts.longest,
            repeats=results.counts.repeats,
        )


class Counts(eqx.Module):
    """What is counted up to each row, (..., dy), and `repeats` (...,)."""

    since: Any
    missing: Any
    longest: Any
    dead: Any
    """1 where a column has had no value for so long that it seems dead."""
    repeats: Any


class Results(eqx.Module):
    """What is told of rows, (..., dy) or (...,); NaN where there is nothing."""

    mean: Any
    low: Any
    high: Any
    filled: Any
    failure: Any
    anomaly: Any
    kind: Any
    """What the anomaly rests on, as in `monitors`."""
    age: Any
    log_score: Any
    alarms: Any
    """Flags of `Alarm`."""
    recoveries: Any
    counts: Counts

    @classmethod
    def width(cls, dim: int) -> int:
        """Numbers of a row."""
        return (BLOCKS + COUNTED) * dim + 4

    @classmethod
    def of(cls, numbers: Any, dim: int) -> "Results":
        """From numbers side by side: those of the columns, then those of the row."""
        columns = [numbers[..., dim * i : dim * (i + 1)] for i in range(BLOCKS + COUNTED)]
        alarms, recoveries, repeats = (numbers[..., i].astype(int) for i in (-3, -2, -1))
        counts = Counts(*[*columns[BLOCKS:], repeats])
        rest = numbers[..., -4], alarms, recoveries, counts
        return cls(*[*columns[:BLOCKS], *rest])

    @classmethod
    def learned(cls, row: Float[Array, "n"], dim: int, counts: Counts) -> "Results":
        """From the numbers of `learn_row`, without what is said of states."""
        columns = [row[dim * i : dim * (i + 1)] for i in range(BLOCKS)]
        alarms, recoveries = (row[i].astype(int) for i in (-2, -1))
        return cls(*[*columns, row[-5], alarms, recoveries, counts])

    @property
    def numbers(self) -> Float[Array, "n"]:
        """Side by side, as `of` takes them."""
        counts = self.counts
        columns = (self.mean, self.low, self.high, self.filled)
        columns += (self.failure, self.anomaly, self.kind, self.age)
        columns += (counts.since, counts.missing, counts.longest, counts.dead)
        rest = (self.log_score, self.alarms, self.recoveries, counts.repeats)
        return jnp.concatenate([*columns, jnp.stack([v.astype(float) for v in rest])])

    def known(self, last: Any, y: Any, units: "RowUnits") -> "Results":
        """In the units of the data; nothing of columns that never had a value, and filled only
        where there is none.
        """
        new = jnp.isnan(last)
        inner = (self.mean, self.low, self.high, self.filled)
        mean, low, high, filled = (
            jnp.where(new, jnp.nan, units.mean + units.scale * v) for v in inner
        )
        doubted = jnp.isnan(units.z)
        score = jnp.where(jnp.all(new | doubted), jnp.nan, self.log_score)
        score = score - jnp.sum(jnp.where(doubted, 0.0, jnp.log(units.scale)))
        filled = jnp.where(jnp.isnan(y), filled, jnp.nan)
        judged = (self.failure, self.anomaly, self.kind, self.age)
        rest = score, self.alarms, self.recoveries, self.counts
        return Results(mean, low, high, filled, *judged, *rest)


class RowUnits(NamedTuple):
    """A row in the learner's units, and what makes them, (dy,)."""

    z: Float[Array, "dy"]
    mean: Float[Array, "dy"]
    scale: Float[Array, "dy"]

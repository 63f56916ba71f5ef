"""Exponential smoothing of each column: a level, a trend and a season, and what they get wrong.

    g(y_t) = o_t + f + s (w' phi + noise),    phi = (x - f, c - f, b) / s,    x = g(y) - o,

with o what the profile of the season adds, f and c a fast and a slow running mean of x, b that of
its changes, x the last one, and s the mean size of a change. Its three coefficients start at 0, 0
and 1, where this is Holt's and Winters' forecast: a few dozen rows with a trend and a season need
no more. It runs in raw and in asinh units.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi.learners.seasonal.columns import Columns
from rmcvi.learners.seasonal.component import Component
from rmcvi.learners.seasonal.design import Design
from rmcvi.learners.seasonal.small_regression import Outlook, SmallRegression
from rmcvi.learners.seasonal.units import LocationScale, to_asinh

TWO = 2
"""The first two components, whose units and seasons it shares: raw ones and asinh ones."""
START, PRIOR = (0.0, 0.0, 1.0), (0.3, 0.3, 0.3)
"""Coefficients at first, those of level and trend, and their prior deviations."""
FAST, SLOW, TREND, SCALE = 0.3, 0.05, 0.05, 0.02
"""Least rates of what is followed."""
LEAP, FAR = 3.0, 10.0
"""A change counts for at most so many mean ones in trend and scale, and in the running means, from
the second on."""
NEED, NEXT = 3.0, 2.0
"""Values before it says anything, and the gap from which on it says nothing."""
TINY = 1e-30
"""Least scale."""


class Smoothed(eqx.Module):
    """What it says of a row in each of its units, and what learning from the row needs."""

    outlook: Outlook
    law: LocationScale
    offset: Float[Array, "2 dy"]
    """What the season adds: 0 as long as it is not known."""


class Smoothing(eqx.Module):
    """Coefficients, and what they need, in the units of g."""

    rows: SmallRegression
    fast: Float[Array, "2 dy"]
    slow: Float[Array, "2 dy"]
    trend: Float[Array, "2 dy"]
    last: Float[Array, "2 dy"]
    scale: Float[Array, "2 dy"]
    """Mean size of a change, of those that are one; 0 before the first."""
    count: Float[Array, "dy"]
    """Values so far."""

    @classmethod
    def unknown(cls, size: int) -> "Smoothing":
        """Nothing seen."""
        start = jnp.broadcast_to(jnp.array(START), (TWO, size, len(START)))
        rows = SmallRegression.around(start, PRIOR)
        zeros = jnp.zeros((TWO, size))
        return cls(rows, zeros, zeros, zeros, zeros, zeros, jnp.zeros(size))

    @property
    def unit(self) -> Float[Array, "2 dy"]:
        """The scale s."""
        return jnp.maximum(self.scale, 1e-7 * jnp.abs(self.last) + TINY)

    def predict(
        self,
        components: Component,
        columns: Columns,
        phase: Float[Array, ""],
        gap: Float[Array, "dy"],
        design: Design,
    ) -> Smoothed:
        """The next row; its deviation is NaN in columns of which nothing can be said."""
        offset, unit = _offset(components, columns, phase, design), self.unit
        away = self.last - self.fast, self.slow - self.fast, self.trend
        said = jax.vmap(SmallRegression.predict)(self.rows, jnp.stack(away, -1) / unit[..., None])
        near = (self.count >= NEED) & (gap < NEXT)
        deviation = jnp.where(near[None], unit * jnp.sqrt(said.variance), jnp.nan)
        law = LocationScale(offset + self.fast + unit * said.change, deviation)
        return Smoothed(said, law, offset)

    def learn(
        self,
        told: Smoothed,
        y: Float[Array, "dy"],
        columns: Columns,
        asinh: Bool[Array, "2"],
        teaches: Bool[Array, "dy"],
        confirmed: Bool[Array, "dy"],
    ) -> "Smoothing":
        """After a row; where a new level was `confirmed`, it is there at once.

        Args:
            told: what was said of the row.
            y: the row.
            columns: which are known, and the scale of their asinh units.
            asinh: which units are such.
            teaches: columns whose value is neither missing, doubted nor stuck.
            confirmed: columns that are at a new level.
        """
        seen, unit = teaches & columns.known, self.unit
        g = jax.vmap(lambda asinh: to_asinh(y, columns.scale, asinh))(asinh)
        error = (g - told.law.location) / unit
        ready = seen[None] & jnp.isfinite(told.law.deviation)
        rows = jax.vmap(SmallRegression.learn, (0, 0, 0, 0, None, None))(
            self.rows, told.outlook, error, ready, self.count, jnp.asarray(PRIOR)
        )
        x, started = g - told.offset, self.scale > 0.0

        def follow(old: Array, new: Array, least: float, leap: float) -> Float[Array, "2 dy"]:
            pace = jnp.where(seen, jnp.maximum(1.0 / (self.count + 1.0), least), 0.0)
            most = jnp.where(started, leap * self.scale, jnp.inf)
            return old + pace[None] * jnp.where(seen[None], jnp.clip(new - old, -most, most), 0.0)

        change = jnp.where(self.count > 0.0, x - self.last, 0.0)
        size = jnp.where(seen, jnp.abs(change), 0.0)
        # A column that stands still for long keeps its scale: it may move again.
        moved = jnp.where(size > 0.0, follow(self.scale, size, SCALE, LEAP), self.scale)
        at_once = (confirmed & columns.known)[None]
        return Smoothing(
            rows=rows,
            fast=jnp.where(at_once, x, follow(self.fast, x, FAST, FAR)),
            slow=jnp.where(at_once, x, follow(self.slow, x, SLOW, FAR)),
            trend=follow(self.trend, change, TREND, LEAP),
            last=jnp.where(seen[None] | at_once, x, self.last),
            scale=jnp.where(started, moved, size),
            count=self.count + seen,
        )


def _offset(
    components: Component, columns: Columns, phase: Float[Array, ""], design: Design
) -> Float[Array, "2 dy"]:
    """The profile less the level of its units."""
    if not design.periods:
        return jnp.zeros((TWO, design.size))
    visited = columns.visits[0][design.places(phase, design.periods[0])[0]] > 0.0

    def one(component: Component) -> Float[Array, "dy"]:
        now, _ = component.season(columns, phase, design)[-1]
        return jnp.where(visited, component.units.deviation * now, 0.0)

    return jax.vmap(one)(jax.tree.map(lambda v: v[:TWO], components))

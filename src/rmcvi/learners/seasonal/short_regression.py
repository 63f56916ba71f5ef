"""A short regression of each column on its own last changes, its season and its level.

    y_t - l = s w' phi,    phi = (l - y'', y'' - y''', p_t - l, p_t - p_{t-1}, c - l) / s

with l the last value, y'' and y''' those before it, p the profile of the season, c a running mean
and s the mean size of the column's changes. It has five coefficients, knows no other column and
needs no units, so it is there from the fourth value on, and a new level costs it two rows.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi.learners.seasonal.small_regression import Outlook, SmallRegression
from rmcvi.learners.seasonal.units import LocationScale
from rmcvi.learners.seasonal.walk import RandomWalk

PRIOR = (0.6, 0.3, 0.3, 0.3, 0.3)
"""Prior deviations of the coefficients around 0, the last value's own forecast. That of the last
change is the wider: momentum must be learned within a dozen rows."""
NEED = 3.0
"""Values before it says anything."""
LEAP = 3.0
"""A change counts for at most so many mean ones in the scale and the level, from the second on."""
SLOW_LEVEL = 0.02
"""Least rate of the level."""


class ShortRegression(eqx.Module):
    """Coefficients, and the values they need, in raw units."""

    rows: SmallRegression
    before: Float[Array, "2 dy"]
    """The values y'' and y'''."""
    season: Float[Array, "dy"]
    """The profile at the row before; NaN if there is none."""
    level: Float[Array, "dy"]
    scale: Float[Array, "dy"]
    """Mean size of a change, of those that are one; 0 before the first."""

    @classmethod
    def unknown(cls, size: int) -> "ShortRegression":
        """Nothing seen."""
        zeros = jnp.zeros(size)
        rows = SmallRegression.around(jnp.zeros((size, len(PRIOR))), PRIOR)
        return cls(rows, jnp.zeros((2, size)), zeros + jnp.nan, zeros, zeros)

    def unit(self, walk: RandomWalk) -> Float[Array, "dy"]:
        """The scale s, no finer than the column's resolution."""
        return jnp.maximum(self.scale, walk.finest)

    def predict(self, walk: RandomWalk, season: LocationScale) -> tuple[Outlook, LocationScale]:
        """The next row; its deviation is NaN in columns of which nothing can be said."""
        profile = jnp.where(jnp.isfinite(season.deviation), season.location, jnp.nan)
        last, scale = walk.last, self.unit(walk)
        features = [
            last - self.before[0],
            self.before[0] - self.before[1],
            profile - last,
            profile - self.season,
            self.level - last,
        ]
        said = self.rows.predict(jnp.stack(features, 1) / scale[:, None])
        near = (walk.count >= NEED) & (walk.gap < 2.0)
        deviation = jnp.where(near, scale * jnp.sqrt(said.variance), jnp.nan)
        return said, LocationScale(last + scale * said.change, deviation)

    def learn(
        self,
        outlook: tuple[Outlook, LocationScale],
        y: Float[Array, "dy"],
        walk: RandomWalk,
        teaches: Bool[Array, "dy"],
        confirmed: Bool[Array, "dy"],
        season: LocationScale,
    ) -> "ShortRegression":
        """After a row; where a new level was `confirmed`, what is older moves there.

        Args:
            outlook: what was said of the row.
            y: the row.
            walk: the last values before it.
            teaches: columns whose value is neither missing, doubted nor stuck.
            confirmed: columns that are at a new level.
            season: what the season alone said of the row.
        """
        seen, (said, law) = ~jnp.isnan(y), outlook
        error = (y - law.location) / self.unit(walk)
        near = teaches & jnp.isfinite(law.deviation)
        rows = self.rows.learn(said, error, near, walk.count, jnp.asarray(PRIOR))
        pace = jnp.where(seen, jnp.maximum(1.0 / (walk.count + 1.0), SLOW_LEVEL), 0.0)
        most = jnp.where(self.scale > 0.0, LEAP * self.scale, jnp.inf)
        away = jnp.where(seen, y, self.level) - self.level
        level = self.level + pace * jnp.clip(away, -most, most)
        change = jnp.where(
            seen & (walk.count > 0.0), jnp.minimum(jnp.abs(y - walk.last), most), 0.0
        )
        # A column that stands still for long keeps its scale: it may move again.
        moved = jnp.where(change > 0.0, self.scale + pace * (change - self.scale), self.scale)
        scale = jnp.where(self.scale > 0.0, moved, change)
        before = jnp.stack([walk.last, self.before[0]])
        before = jnp.where(seen[None], before, self.before)
        before = jnp.where(confirmed[None], y[None], before)
        profile = jnp.where(jnp.isfinite(season.deviation), season.location, jnp.nan)
        level = jnp.where(confirmed, y, level)
        return ShortRegression(rows, before, profile, level, scale)

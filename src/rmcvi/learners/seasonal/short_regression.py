"""A short regression of each column on its own last changes, its season and its level.

    y_t - l = s w' phi,    phi = (l - y'', y'' - y''', p_t - l, p_t - p_{t-1}, c - l) / s

with l the last value, y'' and y''' those before it, p the profile of the season, c a running mean
and s the mean size of the column's changes. It has five coefficients, knows no other column and
needs no units, so it is there from the fourth value on, and a new level costs it two rows.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi.core.regression import Regression
from rmcvi.learners.seasonal.units import LocationScale
from rmcvi.learners.seasonal.walk import RandomWalk

FEATURES, PRIOR = 5, 0.3
"""Number of coefficients; their prior deviation around 0, the last value's own forecast."""
KEEP = 0.998
"""What it keeps from one value to the next: it is there for what the long memory of the components
has not followed yet."""
NEED = 3.0
"""Values before it says anything."""
BOUND = 10.0
"""Inputs lie within this many scales, and so do errors that teach."""
LEAP = 3.0
"""A change counts for at most so many mean ones in the scale and the level, from the second on."""
SLOW, SLOW_LEVEL = 0.01, 0.02
"""Least rates of the noise and of the level."""
LEAST, LARGEST = 0.0025, 100.0
"""Bounds of the noise, in squares of the scale of changes: a column that stands still does not make
it surer than the last value, whose width may shrink as far."""


class Outlook(eqx.Module):
    """What it says of a row, and what learning from the row needs."""

    law: LocationScale
    white: Float[Array, "dy k"]
    leverage: Float[Array, "dy"]
    usual: Bool[Array, "dy"]
    """Whether no input had to be bounded: one that is would outweigh all others together."""


class ShortRegression(eqx.Module):
    """Coefficients, and the values they need, in raw units."""

    rows: Regression
    noise: Float[Array, "dy"]
    """Variance in squares of the scale of changes."""
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
        prior = Regression.prior(jnp.zeros((size, FEATURES)), jnp.full((size, FEATURES), PRIOR))
        return cls(prior, jnp.ones(size), jnp.zeros((2, size)), zeros + jnp.nan, zeros, zeros)

    def unit(self, walk: RandomWalk) -> Float[Array, "dy"]:
        """The scale s, no finer than the column's resolution."""
        return jnp.maximum(self.scale, walk.finest)

    def predict(self, walk: RandomWalk, season: LocationScale) -> Outlook:
        """The next row; its deviation is NaN in columns of which nothing can be said."""
        profile = jnp.where(jnp.isfinite(season.deviation), season.location, jnp.nan)
        last, scale = walk.last, self.unit(walk)
        features = jnp.stack(
            [
                last - self.before[0],
                self.before[0] - self.before[1],
                profile - last,
                profile - self.season,
                self.level - last,
            ],
            1,
        )
        whole = jnp.nan_to_num(features / scale[:, None])
        phi = jnp.clip(whole, -BOUND, BOUND)
        white, leverage = jax.vmap(Regression.leverage)(self.rows, phi)
        change = jnp.clip(jnp.sum(self.rows.weights * phi, 1), -BOUND, BOUND)
        near = (walk.count >= NEED) & (walk.gap < 2.0)
        deviation = jnp.where(near, scale * jnp.sqrt(self.noise + leverage), jnp.nan)
        law = LocationScale(last + scale * change, deviation)
        return Outlook(law, white, leverage, jnp.all(whole == phi, 1))

    def learn(
        self,
        outlook: Outlook,
        y: Float[Array, "dy"],
        walk: RandomWalk,
        teaches: Bool[Array, "dy"],
        confirmed: Bool[Array, "dy"],
        season: LocationScale,
        nu: int,
    ) -> "ShortRegression":
        """After a row; where a new level was `confirmed`, what is older moves there.

        Args:
            outlook: what was said of the row.
            y: the row.
            walk: the last values before it.
            teaches: columns whose value is neither missing, doubted nor stuck.
            confirmed: columns that are at a new level.
            season: what the season alone said of the row.
            nu: degrees of Student's t.
        """
        seen, law = ~jnp.isnan(y), outlook.law
        error = (y - law.location) / self.unit(walk)
        # Of values this far out nothing is learned: among the first, none is doubted by others.
        near = outlook.usual & (jnp.abs(error) <= BOUND)
        taught = teaches & jnp.isfinite(law.deviation) & near
        error = jnp.where(taught, error, 0.0)
        weight = (nu + 1.0) / (nu + error**2 / (self.noise + outlook.leverage))
        rows = jax.vmap(Regression.learn, (0, 0, 0, 0, 0, None))(
            self.rows,
            jnp.where(taught[:, None], outlook.white, 0.0),
            error,
            self.noise / weight,
            jnp.where(taught, KEEP, 1.0),
            jnp.full(FEATURES, PRIOR),
        )
        pace = jnp.where(taught, jnp.maximum(1.0 / (walk.count + 6.0), SLOW), 0.0)
        noise = jnp.clip(self.noise + pace * (weight * error**2 - self.noise), LEAST, LARGEST)
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
        return ShortRegression(rows, noise, before, profile, level, scale)

"""A short regression of each column on its own last changes, its season and its level.

    y_t - l = s w' phi,    phi = (l - y'', y'' - y''', p_t - l, p_t - p_{t-1}, c - l) / s

with l the last value, y'' and y''' those before it, p the profile of the season, c a running mean
and s the scale of the column's changes. It has five coefficients, knows no other column and needs
no units, so it is there from the fourth value on, and a new level costs it two rows.
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
"""Inputs and errors lie within this many scales."""
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

    @classmethod
    def unknown(cls, size: int) -> "ShortRegression":
        """Nothing seen."""
        zeros = jnp.zeros(size)
        prior = Regression.prior(jnp.zeros((size, FEATURES)), jnp.full((size, FEATURES), PRIOR))
        return cls(prior, jnp.ones(size), jnp.zeros((2, size)), zeros + jnp.nan, zeros)

    def predict(self, walk: RandomWalk, season: LocationScale) -> Outlook:
        """The next row; its deviation is NaN in columns of which nothing can be said."""
        profile = jnp.where(jnp.isfinite(season.deviation), season.location, jnp.nan)
        last, scale = walk.last, walk.deviation
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
        phi = jnp.nan_to_num(jnp.clip(features / scale[:, None], -BOUND, BOUND))
        white, leverage = jax.vmap(Regression.leverage)(self.rows, phi)
        change = jnp.clip(jnp.sum(self.rows.weights * phi, 1), -BOUND, BOUND)
        near = (walk.count >= NEED) & (walk.gap < 2.0)
        deviation = jnp.where(near, scale * jnp.sqrt(self.noise + leverage), jnp.nan)
        return Outlook(LocationScale(last + scale * change, deviation), white, leverage)

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
        taught = teaches & jnp.isfinite(law.deviation)
        error = jnp.clip((y - law.location) / walk.deviation, -BOUND, BOUND)
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
        level = self.level + pace * (jnp.where(seen, y, self.level) - self.level)
        before = jnp.stack([walk.last, self.before[0]])
        before = jnp.where(seen[None], before, self.before)
        before = jnp.where(confirmed[None], y[None], before)
        profile = jnp.where(jnp.isfinite(season.deviation), season.location, jnp.nan)
        level = jnp.where(confirmed, y, level)
        return ShortRegression(rows, noise, before, profile, level)

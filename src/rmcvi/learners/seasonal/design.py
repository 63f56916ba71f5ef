"""What explains the next value of column i, all of it in standard units:

    phi_i = (x_{t-1}, .., x_{t-cross} of all columns, x_{i,t-cross-1}, .., x_{i,t-own},
             x_{i,t-l} for l in long, profiles of i at this phase and the one before,
             harmonics of the phase, 1, u_t).

W starts as the identity at lag 1, with a prior the tighter the further away an input is.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

OWN, CROSS, OTHER = 0.2, 0.1, 0.1
"""Prior standard deviations: own lag, lag of another column, anything else."""
GAINS = (0.05, 0.1)
"""Least rate at which the profile of each period follows."""
SHORT, FAST, YEARS = 24, 0.3, 40.0
"""A season of fewer rows is one of quarters, months or days, and changes from year to year: its
profile follows at this rate at least. One that came back more often than this is a cycle that
holds, and must not take a slow drift for its own."""
FARTHEST = 1500
"""Rows of the longest period whose own lags are inputs: the state holds all rows in between."""
BOUND = 10.0
"""Inputs lie within this many standard deviations."""


class Design(eqx.Module):
    """Sizes and places of the inputs; all of it is known when the program is compiled."""

    size: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    """Exogenous inputs, without the phase."""
    cross: int = eqx.field(static=True)
    own: int = eqx.field(static=True)
    long: tuple[int, ...] = eqx.field(static=True)
    periods: tuple[int, ...] = eqx.field(static=True)
    harmonics: int = eqx.field(static=True)

    @property
    def older(self) -> int:
        """Rows to keep beyond the state, for the long lags."""
        return max(self.long, default=self.own) - self.own

    @property
    def lagged(self) -> int:
        """Inputs that are part of the state."""
        return self.cross * self.size + self.own - self.cross

    @property
    def seasonal(self) -> int:
        """Inputs that repeat with the season."""
        return len(self.long) + 2 * len(self.periods) + 2 * self.harmonics

    @property
    def count(self) -> int:
        """Length of phi."""
        return self.lagged + self.seasonal + 1 + self.width

    def rate(self, place: int, visits: Float[Array, "dy"]) -> Float[Array, "dy"]:
        """At which the profile of a period follows at its phase, visited so often."""
        least = jnp.full_like(visits, GAINS[place])
        if self.periods[place] < SHORT:
            least = jnp.maximum(least, FAST * jnp.minimum(1.0, YEARS / jnp.maximum(visits, 1.0)))
        return jnp.maximum(1.0 / jnp.maximum(visits, 1.0), least)

    def mask(self, seasonal: bool) -> Float[Array, "k"]:
        """Which inputs a component uses."""
        place = np.arange(self.count)
        idle = (place >= self.lagged) & (place < self.lagged + self.seasonal)
        return jnp.asarray(np.where(idle & (not seasonal), 0.0, 1.0), float)

    def prior(self) -> tuple[Float[Array, "dy k"], Float[Array, "dy k"]]:
        """Mean and standard deviation of every coefficient."""
        d, own = self.size, np.arange(self.size)
        mean, deviation = np.zeros((d, self.count)), np.full((d, self.count), OTHER)
        mean[own, own] = 1.0
        for lag in range(self.cross):
            deviation[:, lag * d : (lag + 1) * d] = CROSS / (1 + lag)
            deviation[own, lag * d + own] = OWN / (1 + lag)
        return jnp.asarray(mean, float), jnp.asarray(deviation, float)

    def season(self, phase: Float[Array, ""]) -> tuple[Float[Array, "c"], Float[Array, "h"]]:
        """Harmonics for the mean, and the first two of them for the variance."""
        if not self.periods:
            return jnp.zeros(0), jnp.zeros(0)
        angle = 2.0 * np.pi / self.periods[0] * phase * jnp.arange(1.0, self.harmonics + 1.0)
        waves = jnp.stack([jnp.sin(angle), jnp.cos(angle)])
        return waves.ravel(), waves[:, :2].ravel()

    def places(self, phase: Float[Array, ""], period: int) -> tuple[Array, Array]:
        """Where a profile keeps this phase, and the one before."""
        now = jnp.round(phase).astype(int)
        return now % period, (now - 1) % period

    def inputs(
        self,
        past: Float[Array, "own dy"],
        older: Float[Array, "older dy"],
        profiles: list[tuple[Float[Array, "dy"], Float[Array, "dy"]]],
        waves: Float[Array, "c"],
        u: Float[Array, "du"],
    ) -> Float[Array, "dy k"]:
        """phi, a row for each column."""
        shared = jnp.broadcast_to(past[: self.cross].ravel(), (self.size, self.cross * self.size))
        own = [past[lag] for lag in range(self.cross, self.own)]
        own += [older[lag - self.own - 1] for lag in self.long]
        own += [value for pair in profiles for value in pair]
        same = jnp.concatenate([waves, jnp.ones(1), u])
        same = jnp.broadcast_to(same, (self.size, same.shape[0]))
        phi = jnp.concatenate([shared, *(v[:, None] for v in own), same], 1)
        return jnp.clip(phi, -BOUND, BOUND)

    def transition(self, weights: Float[Array, "dy k"]) -> Float[Array, "dy lags"]:
        """F: the coefficients on the state (x_{t-1}, .., x_{t-own})."""
        first = self.cross * self.size
        own = [jnp.diag(weights[:, first + j]) for j in range(self.own - self.cross)]
        return jnp.concatenate([weights[:, :first], *own], 1)


def seasonal_lags(period: int | None, own: int) -> list[int]:
    """Lags of one period and its neighbours, unless that is too far back or among the own ones."""
    if period is None or period > FARTHEST:
        return []
    return [lag for lag in range(period - 1, period + 2) if lag > own]

"""The closed form and the particles as one: weights by probability, the mean by squared error.

    P(y) = w P_e(y) + (1 - w) P_m(y),    logit w <- .99 logit w + log P_e(y) - log P_m(y),
    mean = m + b (e - m),    b = argmin_{0 <= b <= 1} prior + sum_t .998^(T-t) (y - mean)^2,

with m the mean of the closed form and e that of the particles. P is the probability of the value's
cell, for a density is no match for it; that of the closed form is Student's t through its band.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from rmcvi.contract import Band, Prediction
from rmcvi.core.student import quantile, upper_tail
from rmcvi.learners.emissions.expert import Foreseen

KEEP, KEEP_SQUARES = 0.99, 0.998
"""Discounts of log scores, and of squared errors, as in `learners.seasonal`."""
GAP, CAP = 8.0, 4.0
"""Nats that one of them may be behind, and that one value may weigh."""
PRIOR, SHARE = 1.0, 0.5
"""Squared distance of the means, in that of the errors, that the prior share counts for."""
DEGREES = 6
"""Of Student's t, as in `learners.seasonal`."""
ABSURD = 25.0
"""Squared error, in its mean, beyond which it counts for no more."""


class Grid(eqx.Module):
    """Where values lie: bounds, and half the distance of two neighbours."""

    low: Float[Array, "c"]
    high: Float[Array, "c"]
    half: Float[Array, "c"]
    whole: bool = eqx.field(static=True)
    """Whether they are whole numbers."""

    def snap(
        self, mean: Float[Array, "*n c"], low: Float[Array, "*n c"], high: Float[Array, "*n c"]
    ) -> tuple[Array, Array, Array]:
        """A mean within the bounds, and an interval of possible values around it.

        An end that is a quarter of a count beyond one is that count. An end between two shares is
        the nearer one: the quantile of a rounded value is the rounded quantile, and a share of
        exactly 1 is in the interval whose end lies in the last cell.
        """
        mean, low, high = (jnp.clip(v, self.low, self.high) for v in (mean, low, high))
        low, high = jnp.minimum(low, mean), jnp.maximum(high, mean)
        if not self.whole:
            step = 2.0 * self.half
            low, high = (self.low + step * jnp.round((v - self.low) / step) for v in (low, high))
            return mean, jnp.minimum(low, mean), jnp.maximum(high, mean)
        low = jnp.minimum(jnp.floor(low + 0.25), jnp.floor(mean))
        return mean, low, jnp.maximum(jnp.ceil(high - 0.25), jnp.ceil(mean))

    def foreseen(
        self, prediction: Prediction, at: Int[Array, "c"], y: Float[Array, "c"], level: float
    ) -> Foreseen:
        """What the closed form says of the columns `at`, whose values are y."""
        band = Band(prediction.mean[at], prediction.low[at], prediction.high[at])
        log_mass = jnp.where(jnp.isnan(y), jnp.nan, self._log_mass(band, y, level))
        return Foreseen(band.mean, band.low, band.high, log_mass, prediction.p_value[at])

    def _log_mass(self, band: Band, y: Float[Array, "c"], level: float) -> Float[Array, "c"]:
        """Log-probability of y's cell if Student's t lies behind mean and interval."""
        reach = quantile(0.5 * (1.0 + level), DEGREES)

        def tails(edge: Float[Array, "c"]) -> tuple[Array, Array]:
            side = jnp.where(edge < band.mean, band.mean - band.low, band.high - band.mean)
            # Never so narrow that nothing but one cell is possible.
            z = (edge - band.mean) / jnp.maximum(side / reach, 0.2 * self.half)
            z = jnp.clip(z, -1e15, 1e15)
            return upper_tail(-z, DEGREES), upper_tail(z, DEGREES)

        first, last = y - self.half <= self.low, y + self.half >= self.high
        below_low, above_low = tails(y - self.half)
        below_high, above_high = tails(y + self.half)
        from_below = jnp.where(last, 1.0, below_high) - jnp.where(first, 0.0, below_low)
        from_above = jnp.where(first, 1.0, above_low) - jnp.where(last, 0.0, above_high)
        # Whichever tail is the smaller has the digits.
        mass = jnp.where(y < band.mean, from_below, from_above)
        return jnp.log(jnp.maximum(mass, 1e-120))


class Mixing(eqx.Module):
    """How both have fared, column by column."""

    lead: Float[Array, "c"]
    """Discounted log score of the particles less that of the closed form."""
    apart: Float[Array, "c"]
    """Discounted squares of e - m, and products with y - m, in mean squared errors of m."""
    along: Float[Array, "c"]
    square: Float[Array, "c"]
    """Mean square of y - m."""
    count: Float[Array, "c"]

    @classmethod
    def unknown(cls, columns: int) -> "Mixing":
        """Nothing seen."""
        return cls(*[jnp.zeros(columns)] * 5)

    @property
    def weight(self) -> Float[Array, "c"]:
        """`w`."""
        return jax.nn.sigmoid(self.lead)

    @property
    def share(self) -> Float[Array, "c"]:
        """`b`."""
        return jnp.clip((self.along + PRIOR * SHARE) / (self.apart + PRIOR), 0.0, 1.0)

    def mixed(self, grid: Grid, closed: Foreseen, particles: Foreseen) -> Foreseen:
        """One prediction."""
        w = self.weight
        mean, low, high = grid.snap(
            closed.mean + self.share * (particles.mean - closed.mean),
            closed.low + w * (particles.low - closed.low),
            closed.high + w * (particles.high - closed.high),
        )
        parts = jnp.log(w) + particles.log_mass, jnp.log1p(-w) + closed.log_mass
        p_value = closed.p_value + w * (particles.p_value - closed.p_value)
        # The particles say nothing of a value that cannot be.
        p_value = jnp.where(jnp.isnan(p_value), closed.p_value, p_value)
        return Foreseen(mean, low, high, jnp.logaddexp(*parts), p_value)

    def learn(self, y: Float[Array, "c"], closed: Foreseen, particles: Foreseen) -> "Mixing":
        """After a row; a column without a value stays as it is."""
        error, away = y - closed.mean, particles.mean - closed.mean
        rate = jnp.maximum(1.0 / (self.count + 1.0), 1.0 - KEEP_SQUARES)
        bounded = jnp.minimum(error**2, jnp.where(self.count > 20.0, ABSURD * self.square, jnp.inf))
        square = self.square + rate * (bounded - self.square)
        unit = jnp.maximum(square, 1e-12)
        error = jnp.sign(error) * jnp.sqrt(bounded)
        better = jnp.clip(particles.log_mass - closed.log_mass, -CAP, CAP)
        new = Mixing(
            jnp.clip(KEEP * self.lead + better, -GAP, GAP),
            KEEP_SQUARES * self.apart + away**2 / unit,
            KEEP_SQUARES * self.along + away * error / unit,
            square,
            self.count + 1.0,
        )
        seen = ~jnp.isnan(y) & ~jnp.isnan(closed.mean)
        return jax.tree.map(lambda a, b: jnp.where(seen, a, b), new, self)

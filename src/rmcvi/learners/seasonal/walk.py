"""The last value, which every column has from its second row on, and which nothing can destroy.

    y_t | past ~ t(l, v h),    h rows since the last value,    v <- v + rate (change^2 / h - v)

A value far from everything that was expected is doubted: l follows it only by the share k that such
values have lasted so far, until the next value confirms it. So where spikes are faults they are not
followed, where they are news they are, and a new level is followed from its second row on.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

SLOW = 0.03
"""Least rate of the variance: scales change within tens of rows, not within thousands."""
CLIP = 25.0
"""A squared change counts at most this many variances: one spike must not widen the band much."""
FEW = 8.0
"""Values before any is doubted, and before changes are clipped."""
BELIEVED, REMEMBERED = 2.0, 30.0
"""Doubted values that the prior, that they do not last, counts for; how many are remembered."""
SHRINK = 1e-4
"""Rate at which the range closes in on the values: one absurd level is not remembered for ever."""
LONGEST = 4096.0
"""Rows after which the variance of a gap grows no further."""
TINY = 1e-30
"""Least variance: its root is still a number in single precision."""


class RandomWalk(eqx.Module):
    """Last values and the scale of their changes, in raw units."""

    last: Float[Array, "dy"]
    """Last value that was not doubted; 0 before the first."""
    candidate: Float[Array, "dy"]
    """The value before, if it was doubted, else NaN."""
    base: Float[Array, "dy"]
    """The last value before that one."""
    lasts: Float[Array, "dy"]
    """Share k of a doubted change that the next value kept, on average."""
    doubts: Float[Array, "dy"]
    """Doubted values so far."""
    variance: Float[Array, "dy"]
    quantum: Float[Array, "dy"]
    """Smallest change other than 0: the resolution of a rounded column."""
    low: Float[Array, "dy"]
    high: Float[Array, "dy"]
    count: Float[Array, "dy"]
    """Values so far."""
    gap: Float[Array, "dy"]
    """Time since the last value, in rows: 0 right after it."""
    repeats: Float[Array, "dy"]
    """Values in a row that were the same."""

    @classmethod
    def unknown(cls, size: int) -> "RandomWalk":
        """Nothing seen."""
        zeros, endless = jnp.zeros(size), jnp.full(size, jnp.inf, float)
        nothing = jnp.full(size, jnp.nan, float)
        return cls(
            last=zeros,
            candidate=nothing,
            base=zeros,
            lasts=zeros,
            doubts=zeros,
            variance=jnp.ones(size),
            quantum=endless,
            low=endless,
            high=-endless,
            count=zeros,
            gap=zeros,
            repeats=zeros,
        )

    def wait(self, dt: Float[Array, ""]) -> "RandomWalk":
        """Before the next row, `dt` later: `gap` is its distance from the last value."""
        gap = jnp.minimum(self.gap + jnp.maximum(dt, 1.0), LONGEST)
        return eqx.tree_at(lambda w: w.gap, self, jnp.where(self.count > 0.0, gap, 1.0))

    @property
    def finest(self) -> Float[Array, "dy"]:
        """Least scale of a change: a quarter of the column's resolution."""
        grain = jnp.where(jnp.isfinite(self.quantum), 0.25 * self.quantum, 0.0)
        return jnp.maximum(grain, 1e-7 * jnp.abs(self.last) + TINY)

    @property
    def deviation(self) -> Float[Array, "dy"]:
        """Scale of one row's change, no finer than the column's resolution; 1 before any value."""
        root = jnp.maximum(jnp.sqrt(self.variance), self.finest)
        return jnp.where(self.count > 0.0, root, 1.0)

    @property
    def margin(self) -> Float[Array, "dy"]:
        """How far beyond the range seen a prediction may go."""
        span = jnp.where(self.count > 0.0, self.high - self.low, 0.0)
        return 0.1 * span + 3.0 * self.deviation

    def confirms(self, y: Float[Array, "dy"], gate: float) -> Bool[Array, "dy"]:
        """Whether the value lies where the one before, which was doubted, did."""
        return jnp.abs(y - self.candidate) <= gate * self.deviation

    def belief(self, y: Float[Array, "dy"], gate: float) -> Float[Array, "dy"]:
        """How far a value that is far out is followed: 1 if it confirms the one before."""
        return jnp.where(self.confirms(y, gate), 1.0, self.lasts)

    def learn(self, y: Float[Array, "dy"], far: Bool[Array, "dy"], gate: float) -> "RandomWalk":
        """After one row; `far` are values far from all that was expected."""
        seen, first = ~jnp.isnan(y), self.count == 0.0
        confirmed = self.confirms(y, gate)
        doubted = far & ~confirmed & (self.count >= FEW)
        change = jnp.where(confirmed, y - self.candidate, y - self.last)
        unit = jnp.where(confirmed, 1.0, self.gap) * self.deviation**2
        ratio = jnp.clip(change / jnp.sqrt(unit), -1e4, 1e4) ** 2
        ratio = jnp.where(self.count >= FEW, jnp.minimum(ratio, CLIP), ratio)
        rate = jnp.maximum(1.0 / (self.count + 1.0), SLOW)
        variance = jnp.maximum(self.deviation**2 * (1.0 + rate * (ratio - 1.0)), TINY)
        # Before the second value a tenth of the first is the scale.
        variance = jnp.where(first, jnp.minimum(0.01 * y**2 + TINY, 1e30), variance)
        size = jnp.abs(y - self.last)
        finer = seen & ~first & (size > 0.0)
        last = jnp.where(doubted, self.last + self.lasts * (y - self.last), y)
        inside = seen & ~doubted
        judged = seen & ~jnp.isnan(self.candidate)  # whether the doubted value before lasted
        jump = self.candidate - self.base
        kept = jnp.clip((y - self.base) / jnp.where(judged, jump, 1.0), 0.0, 1.0)
        pace = 1.0 / jnp.minimum(self.doubts + BELIEVED, REMEMBERED)

        def follow(new: Array, old: Array) -> Array:
            return jnp.where(seen, new, old)

        return RandomWalk(
            last=follow(last, self.last),
            candidate=follow(jnp.where(doubted, y, jnp.nan), self.candidate),
            base=jnp.where(seen & doubted, self.last, self.base),
            lasts=jnp.where(judged, self.lasts + pace * (kept - self.lasts), self.lasts),
            doubts=self.doubts + judged,
            variance=follow(variance, self.variance),
            quantum=jnp.where(finer, jnp.minimum(self.quantum, size), self.quantum),
            low=jnp.where(inside, jnp.minimum(self._near(self.low), y), self.low),
            high=jnp.where(inside, jnp.maximum(self._near(self.high), y), self.high),
            count=self.count + seen,
            gap=follow(jnp.zeros_like(self.gap), self.gap),
            repeats=follow(jnp.where(y == self.last, self.repeats + 1.0, 0.0), self.repeats),
        )

    def _near(self, bound: Float[Array, "dy"]) -> Float[Array, "dy"]:
        moved = bound + SHRINK * (self.last - bound)
        return jnp.where(jnp.isfinite(bound), moved, bound)

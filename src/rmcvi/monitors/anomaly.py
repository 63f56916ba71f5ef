"""How unusual is what a column does, compared with its own long run?

With g the error of the prediction over its long-run size, p the value's two-sided p-value, and m_k
a running mean over k values, each column has K statistics x = m_k^2,

    jump, level, drift:   of g, k = 1; 4, 16; 64, 128
    rhythm:               of sqrt(12) (1/2 - p), k = 16

whose mean is 1 / (2 k - 1) and whose tail falls by e in twice that if predictions are calibrated.
Where a column keeps what it gains, the sum of k errors is that of a forecast k ahead: what is slow,
which every one-step prediction follows, shows there. Values of x above `over` times their mean are
exceedances; those with pauses of at most `pause` values a cluster. Clusters come at a rate lambda,
and their peaks exceed the bound by a generalised Pareto law with moments f and s (peaks over
threshold), all learned from the column's past:

    shape xi = (1 - f^2 / (s - f^2)) / 2,    scale f (1 - xi),
    r(x) = 10 000 lambda (1 + xi (x - bound) / scale)^(-1 / xi).

So often is the like met in 10 000 values. What does not rise above its cluster's peak is no news:
there x counts as the bound. The score is 1 / (1 + K min r): K min r bounds how often any of them
does the like.
"""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from rmcvi.core.checks import check_int, check_real

ROWS = 10_000.0
"""Values in which false alarms are counted: five weeks of five minutes, a year of hours."""
JUMP, LEVEL, DRIFT, RHYTHM = 1, 2, 3, 4
"""What a statistic is about."""
_FARTHEST, _ABSURD = 10.0, 1000.0
"""Largest g. Beyond its square an error is absurd: as a jump it counts a tenth, up to this."""
_LEAST_SHAPE, _MOST_SHAPE = 1e-3, 0.45
"""An exponential tail; one that nearly has no variance, beyond which moments say nothing."""
_PEAK = 30.0
"""Largest peak that is learned from, in mean ones."""
_START, _RATE = 50.0, 0.01
"""Values that the first means are worth; clusters per value at the start."""


class AnomalyState(eqx.Module):
    """What is known of the K statistics of each column."""

    count: Float[Array, "dy"]
    """Values seen."""
    size: Float[Array, "dy"]
    """Long-run size of the prediction's error, NaN before the first."""
    recent: Float[Array, "k dy"]
    """Running means m."""
    usual: Float[Array, "k dy"]
    """Mean of m^2."""
    rate: Float[Array, "k dy"]
    """Clusters per value."""
    first: Float[Array, "k dy"]
    second: Float[Array, "k dy"]
    """Moments of the peaks above the bound."""
    clusters: Float[Array, "k dy"]
    """Their number, that of the prior's included."""
    peak: Float[Array, "k dy"]
    """Of the cluster that goes on; 0 if none does."""
    quiet: Float[Array, "k dy"]
    """Values since the last exceedance."""
    age: Float[Array, "k dy"]
    """Values since m^2 was last below its mean."""


class Anomaly(eqx.Module):
    """What is thought of each column."""

    score: Float[Array, "dy"]
    about: Int[Array, "dy"]
    """What the score rests on: `JUMP`, `LEVEL`, `DRIFT` or `RHYTHM`."""
    age: Float[Array, "dy"]
    """Values since that began."""


class AnomalyMonitor(eqx.Module):
    """A score in [0, 1] per column; above 1/2 the like is expected less than once in 10 000."""

    memories: tuple[int, ...] = eqx.field(static=True, default=(1, 4, 16, 64, 128, 16))
    """Values that each running mean remembers."""
    about: tuple[int, ...] = eqx.field(
        static=True, default=(JUMP, LEVEL, LEVEL, DRIFT, DRIFT, RHYTHM)
    )
    """What each statistic is about."""
    over: float = eqx.field(static=True, default=6.0)
    """Bound of an exceedance, in means: 1.4 % of the values of a squared normal lie above."""
    pause: int = eqx.field(static=True, default=25)
    """Values without an exceedance that end a cluster, or twice the memory if that is more."""
    memory: float = eqx.field(static=True, default=5000.0)
    """Values that means and rates remember."""
    error_memory: float = eqx.field(static=True, default=2000.0)
    """Values that the error's size remembers."""
    prior: float = eqx.field(static=True, default=60.0)
    """Peaks that the first moments are worth: those of calibrated predictions, a little heavier."""
    shape: float = eqx.field(static=True, default=0.2)
    """The first shape."""
    most: float = eqx.field(static=True, default=200.0)
    """Peaks that the moments remember."""
    news: float = eqx.field(static=True, default=0.5)
    """Rise above a cluster's peak, in mean peaks, that is news."""
    warmup: int = eqx.field(static=True, default=100)
    """Values of a column before it has a score."""

    def __check_init__(self):
        if len(self.memories) != len(self.about):
            raise ValueError(f"about: got {len(self.about)}, expected {len(self.memories)}")
        check_real("over", self.over, 1.0)
        check_int("pause", self.pause)
        check_int("warmup", self.warmup, 0)
        check_real("shape", self.shape, 0.0, 0.5)
        check_real("news", self.news, 0.0)
        for name in ("memory", "error_memory", "prior", "most"):
            check_real(name, getattr(self, name), 1.0)

    def init(self, dim: int) -> AnomalyState:
        """Nothing seen yet of `dim` columns."""
        memories = np.array(self.memories, float)
        mean = jnp.asarray(np.tile((1.0 / (2.0 * memories - 1.0))[:, None], (1, dim)), float)
        zero = jnp.zeros_like(mean)
        return AnomalyState(
            count=jnp.zeros(dim),
            size=jnp.full(dim, jnp.nan, float),
            recent=zero,
            usual=mean,
            rate=zero + _RATE,
            # A squared normal falls by e in twice its mean.
            first=2.0 * mean,
            second=4.0 * mean**2 * (1.0 + 1.0 / (1.0 - 2.0 * self.shape)),
            clusters=zero + self.prior,
            peak=zero,
            quiet=zero,
            age=zero,
        )

    def step(
        self,
        state: AnomalyState,
        error: Float[Array, "dy"],
        p_value: Float[Array, "dy"],
        spread: Float[Array, "dy"],
    ) -> tuple[AnomalyState, Anomaly]:
        """Take in one row; a column that is NaN keeps its state, and is no news.

        Args:
            state: what is known so far.
            error: value less prediction, NaN = not observed.
            p_value: two-sided predictive p-value (NaN = unknown).
            spread: predictive standard deviation, the error's first size.
        """
        known = jnp.isfinite(error) & jnp.isfinite(p_value)
        state, jump, g = self._scaled(state, jnp.where(known, error, 0.0), known, spread)
        h = math.sqrt(12.0) * (0.5 - jnp.where(known, p_value, 0.5))
        about = np.array(self.about)[:, None]
        new = jnp.where(about == RHYTHM, h[None], jnp.where(about == JUMP, jump[None], g[None]))
        memories = jnp.asarray(np.array(self.memories, float)[:, None], float)
        moved = state.recent + (new - state.recent) / memories
        recent = jnp.where(known[None], moved, state.recent)
        state = eqx.tree_at(lambda s: s.recent, state, recent)
        often = len(self.memories) * self._often(state)
        state = self._learn(state, known)
        score = 1.0 / (1.0 + jnp.min(often, 0))
        # The shortest memory that is enough for an alarm: after a jump the longer ones are, too.
        enough = often < 1.0
        which = jnp.where(jnp.any(enough, 0), jnp.argmax(enough, 0), jnp.argmin(often, 0))
        age = jnp.take_along_axis(state.age, which[None], 0)[0]
        verdict = Anomaly(
            jnp.where(state.count > self.warmup, score, 0.0), jnp.asarray(about[:, 0])[which], age
        )
        return state, verdict

    def _scaled(
        self, state: AnomalyState, error: Array, known: Bool[Array, "dy"], spread: Array
    ) -> tuple[AnomalyState, Float[Array, "dy"], Float[Array, "dy"]]:
        """The error in units of its size, which then follows it: bounded for jumps, and for all."""
        away, begun = jnp.abs(error), state.size > 0.0
        first = jnp.where(jnp.isfinite(spread) & (spread > 0.0), spread, away)
        size = jnp.where(begun, state.size, first)
        ratio = jnp.where(size > 0.0, jnp.minimum(away / size, _ABSURD), 0.0)
        counted = jnp.minimum(ratio, _FARTHEST)
        jump = jnp.maximum(counted, ratio / _FARTHEST)
        count = state.count + known
        weight = 1.0 / jnp.minimum(count + 1.0, self.error_memory)
        moved = size * jnp.sqrt(1.0 + weight * (counted**2 - 1.0))
        state = eqx.tree_at(
            lambda s: (s.count, s.size), state, (count, jnp.where(known, moved, state.size))
        )
        return state, jnp.sign(error) * jump, jnp.sign(error) * counted

    def _often(self, state: AnomalyState) -> Float[Array, "k dy"]:
        """How often the like is met in 10 000 values."""
        excess = jnp.maximum(state.recent**2 - self.over * state.usual, 0.0)
        news = (state.peak <= 0.0) | (excess > state.peak + self.news * state.first)
        excess = jnp.where(news, excess, 0.0)
        variance = jnp.maximum(state.second - state.first**2, 1e-6 * state.first**2)
        shape = 0.5 * (1.0 - state.first**2 / variance)
        shape = jnp.clip(shape, _LEAST_SHAPE, _MOST_SHAPE)
        reach = jnp.log1p(shape * excess / (state.first * (1.0 - shape)))
        # Clusters that never came are no rarer than what is remembered.
        return ROWS * jnp.maximum(state.rate, 1.0 / self.memory) * jnp.exp(-reach / shape)

    def _learn(self, state: AnomalyState, known: Bool[Array, "dy"]) -> AnomalyState:
        """Means, rates, and the moments of the peaks."""
        x, bound = state.recent**2, self.over * state.usual
        weight = 1.0 / jnp.minimum(state.count + _START, self.memory)[None]
        above, inside = x > bound, state.peak > 0.0
        quiet = jnp.where(above, 0.0, state.quiet + 1.0)
        pause = np.maximum(self.pause, 2 * np.array(self.memories))[:, None]
        ends = inside & (quiet >= pause)
        clusters = jnp.where(ends, jnp.minimum(state.clusters + 1.0, self.most), state.clusters)
        lesson = jnp.minimum(state.peak, _PEAK * state.first)
        pace = jnp.where(ends, 1.0 / clusters, 0.0)
        usual = state.usual + weight * (jnp.minimum(x, 2.0 * bound) - state.usual)
        peak = jnp.where(above, jnp.maximum(state.peak, x - bound), state.peak)
        new = AnomalyState(
            count=state.count,
            size=state.size,
            recent=state.recent,
            usual=usual,
            rate=state.rate + weight * ((above & ~inside) - state.rate),
            first=state.first + pace * (lesson - state.first),
            second=state.second + pace * (lesson**2 - state.second),
            clusters=clusters,
            peak=jnp.where(ends, 0.0, peak),
            quiet=quiet,
            age=jnp.where(x > usual, state.age + 1.0, 0.0),
        )
        pairs = zip(_tables(new), _tables(state), strict=True)
        learned = [jnp.where(known[None], a, b) for a, b in pairs]
        return eqx.tree_at(_tables, state, tuple(learned))


def _tables(s: AnomalyState) -> Any:
    """What is learned of each statistic."""
    return s.usual, s.rate, s.first, s.second, s.clusters, s.peak, s.quiet, s.age

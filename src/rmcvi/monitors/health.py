"""Is the learner well? Alarms from running means, and two remedies: smaller steps, better times.

Stability is judged by the log score per observed coordinate, less that of a yardstick that knows no
model, the running mean and variance of the observations: its mean over a short memory against zero
and against its mean over a long one. (The score alone falls whenever a stream is less predictable
for a while, as under stochastic volatility; the yardstick's falls as well.) A learner that
deteriorates, or stays below the yardstick without getting better, takes steps half as long, again
and again until it is well; then they grow back.
If the shortest steps do not help it is lost, and goes back to the parameters of its best time.
"""

import enum

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float, Int

from rmcvi.core import tree
from rmcvi.core.checks import check_int, check_real
from rmcvi.core.inputs import split_missing
from rmcvi.core.moments import OUTLIER, SURE, RunningMoments

_LARGEST = 10.0
"""Largest departure, in nats, that one score may contribute."""
OFTEN = 0.2
"""Share of rows in which the posterior may be something else than the family's law."""


class Alarm(enum.IntFlag):
    """What is wrong, as a set of flags."""

    NONE = 0
    WEIGHTS_COLLAPSED = 1
    WINDOW_SHORT = 2
    UNSTABLE = 4
    DRIFT = 8
    SENSOR = 16
    UNSOUND = 32
    LOST = 64
    FAMILY_WORSE = 128
    MODEL_WORSE = 256
    FAMILY_MISFIT = 512

    @property
    def sentences(self) -> list[str]:
        """One sentence for each flag."""
        return [_SENTENCES[flag] for flag in _SENTENCES if flag in self]


_SENTENCES = {
    Alarm.WEIGHTS_COLLAPSED: (
        "Most backward weights rest on fewer than two particles: use more particles, or a family "
        "tied to the model."
    ),
    Alarm.WINDOW_SHORT: (
        "More than a tenth of the gradient's mass lies beyond the window: lengthen it "
        "(OnlineEstimator.lengthen)."
    ),
    Alarm.UNSTABLE: (
        "Predictions have become worse, or are worse than a running mean and variance without a "
        "model: the steps are too long, or the model does not suit; steps are being shortened."
    ),
    Alarm.DRIFT: "Predictions have become better or worse: the stream or a sensor has changed.",
    Alarm.SENSOR: "A coordinate behaves as no healthy sensor would under this model.",
    Alarm.UNSOUND: (
        "The learner gave a prediction or a state that is not a sensible number: it went back to "
        "its last sound state, and where need be the last value was predicted instead."
    ),
    Alarm.LOST: "The learner could not be saved: it has started afresh and learns anew.",
    Alarm.FAMILY_WORSE: (
        "The trained family predicted worse than it did untrained: it went back to its start and "
        "learns more slowly; use a family without training (LinearGaussianFamily) or NaturalRMCVI."
    ),
    Alarm.MODEL_WORSE: (
        "The learned parameters predicted worse than earlier ones: they went back to those and "
        "learn more slowly; the gradient is biased (more particles, another family) or steps are "
        "too long."
    ),
    Alarm.FAMILY_MISFIT: (
        "In more than a fifth of the rows the posterior is not as the family has it (weights with "
        "a heavy tail, Pareto k above .7, or a mode left out): use NaturalRMCVI with "
        "LinearGaussianFamily(), with components=4 if there are several modes, or a particle "
        "recursion; rmcvi.suggest tries them."
    ),
}


class HealthState(eqx.Module):
    """Running means, and the factor by which steps are shortened."""

    count: Int[Array, ""]
    """Scores seen."""
    recent: Float[Array, ""]
    """Recent mean score."""
    usual: Float[Array, ""]
    """Mean, over the long memory, of scores less the yardstick's."""
    yardstick: Float[Array, ""]
    """Recent mean score of the running mean and variance."""
    mean: Float[Array, "dy"]
    variance: Float[Array, "dy"]
    number: Float[Array, "dy"]
    """Running moments of the observations."""
    collapsed: Float[Array, ""]
    beyond: Float[Array, ""]
    misfit: Float[Array, ""]
    """Share of rows in which the family's law is not the posterior."""
    factor: Float[Array, ""]
    rest: Int[Array, ""]
    """Steps since the factor was last halved."""
    lost: Bool[Array, ""]
    """Whether it is unstable although its steps are the shortest; once per short memory."""

    @property
    def merit(self) -> Float[Array, ""]:
        """Nats per coordinate by which recent scores lie above the yardstick's."""
        return self.recent - self.yardstick


class Health(eqx.Module):
    """When to raise an alarm, and whether to shorten steps (`damp`)."""

    recent: int = eqx.field(static=True, default=50)
    """Observations that the short memory holds."""
    usual: int = eqx.field(static=True, default=1000)
    """Observations that the long memory holds."""
    tolerance: float = eqx.field(static=True, default=0.5)
    """Nats per coordinate that a recent score may fall below what it is compared with."""
    warmup: int = eqx.field(static=True, default=200)
    """Observations before the first alarm."""
    shortest: float = eqx.field(static=True, default=1 / 64)
    """Smallest factor."""
    damp: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        check_int("recent", self.recent, 2)
        check_int("usual", self.usual, self.recent)
        check_int("warmup", self.warmup, 0)
        check_real("tolerance", self.tolerance, 0.0)
        check_real("shortest", self.shortest, 0.0, 1.0)

    def init(self, dim: int) -> HealthState:
        """Nothing seen yet of `dim` coordinates."""
        zero, count = jnp.zeros(()), jnp.zeros((), int)
        return HealthState(
            count=count,
            recent=zero,
            usual=zero,
            yardstick=zero,
            mean=jnp.zeros(dim),
            variance=jnp.ones(dim),
            number=jnp.zeros(dim),
            collapsed=zero,
            beyond=zero,
            misfit=zero,
            factor=jnp.ones(()),
            rest=count,
            lost=jnp.zeros((), bool),
        )

    def step(
        self,
        state: HealthState,
        y: Float[Array, "dy"],
        log_score: Float[Array, ""],
        told: tuple[Float[Array, ""], Float[Array, ""], Bool[Array, ""]],
    ) -> tuple[HealthState, Int[Array, ""]]:
        """Take in one observation and its score; returns the alarms as flags.

        Args:
            state: running means so far.
            y: the observation, NaN = not observed.
            log_score: log-density of what was observed under its prediction.
            told: by the recursion: effective sample size, share of the gradient's mass beyond the
                window, and whether the family's law fails.
        """
        state = self._score(state, y, log_score)
        pace, (ess, beyond, fails) = 1.0 / self.recent, told
        collapsed = state.collapsed + pace * ((ess < 2.0) - state.collapsed)
        truncated = state.beyond + pace * (jnp.minimum(beyond, 1.0) - state.beyond)
        slow = jnp.maximum(1.0 / self.usual, 1.0 / jnp.maximum(state.count, 1))
        misfit = state.misfit + slow * (fails - state.misfit)
        unstable = self._unstable(state)
        halve = unstable & (state.rest >= self.recent)
        grown = jnp.where(unstable, state.factor, state.factor * 2.0 ** (1.0 / self.usual))
        factor = jnp.where(halve, 0.5 * state.factor, grown)
        state = eqx.tree_at(
            lambda s: (s.collapsed, s.beyond, s.misfit, s.factor, s.rest, s.lost),
            state,
            (
                collapsed,
                truncated,
                misfit,
                jnp.clip(factor, self.shortest, 1.0) if self.damp else state.factor,
                jnp.where(halve, 0, state.rest + 1),
                halve & (state.factor <= self.shortest),
            ),
        )
        ready = state.count >= self.warmup
        alarms = (
            jnp.where(ready & (collapsed > 0.5), int(Alarm.WEIGHTS_COLLAPSED), 0)
            + jnp.where(ready & (truncated > 0.1), int(Alarm.WINDOW_SHORT), 0)
            + jnp.where(ready & (misfit > OFTEN), int(Alarm.FAMILY_MISFIT), 0)
            + jnp.where(unstable, int(Alarm.UNSTABLE), 0)
        )
        return state, alarms

    def _score(
        self, state: HealthState, y: Float[Array, "dy"], log_score: Float[Array, ""]
    ) -> HealthState:
        """Running means of the scores, then of the observations."""
        filled, seen = split_missing(jnp.where(jnp.isfinite(y), y, jnp.nan))
        number = jnp.maximum(jnp.sum(seen), 1.0)
        usual = RunningMoments(state.mean, state.variance, state.number)
        scale = jnp.sqrt(usual.variance)
        naive = jnp.dot(seen, norm.logpdf((filled - usual.mean) / scale) - jnp.log(scale)) / number

        def follow(mean, value, memory):
            weight = jnp.maximum(1.0 / memory, 1.0 / (state.count + 1.0))
            return mean + weight * jnp.clip(value - mean, -_LARGEST, _LARGEST)

        score = log_score / number
        known = jnp.any(seen > 0.0) & ~jnp.isnan(score)
        bound = jnp.where(usual.count + seen > SURE, OUTLIER * scale, jnp.inf)
        observations = usual.add(filled, seen > 0.0, float(self.usual), bound)
        new = HealthState(
            count=state.count + 1,
            recent=follow(state.recent, score, self.recent),
            usual=follow(state.usual, score - naive, self.usual),
            yardstick=follow(state.yardstick, naive, self.recent),
            mean=observations.mean,
            variance=observations.variance,
            number=observations.count,
            collapsed=state.collapsed,
            beyond=state.beyond,
            misfit=state.misfit,
            factor=state.factor,
            rest=state.rest,
            lost=state.lost,
        )
        return tree.where(known, new, state)

    def _unstable(self, state: HealthState) -> Bool[Array, ""]:
        worse = state.merit < state.usual - self.tolerance
        stuck = (state.merit < -self.tolerance) & (state.merit <= state.usual)
        return (state.count >= self.warmup) & (worse | stuck)

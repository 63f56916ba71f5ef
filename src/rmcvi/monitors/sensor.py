"""Has a sensor failed? Two pieces of evidence per coordinate, each in nats.

Outlying: e = -log p, exponential of mean 1 while predictions are calibrated; its running mean A
over a short memory, e divided by its own slow baseline (at least 1) so that predictions a little
too narrow are not failures. The tail of A decays as exp(-memory A).

Stuck: a run of exactly repeated values. In healthy data a run goes on with probability rho (0 for
continuous values, larger for rounded ones), learned from the runs that ended; so r repeats have
probability rho^(r - 1), and (1 - r) log rho is their evidence.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from rmcvi.core.checks import check_int, check_real

_CAP = 30.0
"""Largest -log p: one absurd value is forgotten within a few steps."""
_RUNS_PRIOR, _ENDS_PRIOR = 0.5, 4.5
"""Prior counts of repeats that went on and that ended: rho = .1."""
_STILL = 0.1
"""Share of the usual change below which a predictive deviation foresees a repeat."""


class SensorState(eqx.Module):
    """Evidence so far, per coordinate."""

    count: Int[Array, "dy"]
    """Observations seen."""
    surprise: Float[Array, "dy"]
    """A, the recent mean of e over its baseline."""
    baseline: Float[Array, "dy"]
    """Slow mean of e while healthy."""
    last: Float[Array, "dy"]
    """Last observed value, NaN before the first."""
    change: Float[Array, "dy"]
    """Running median of |y_t - y_{t-1}| over the steps that moved, NaN before the first."""
    run: Float[Array, "dy"]
    """Repeats of the last value."""
    went_on: Float[Array, "dy"]
    """Repeats, in runs that ended, that were followed by another."""
    ended: Float[Array, "dy"]
    """Runs that ended."""


class SensorMonitor(eqx.Module):
    """Failure score per coordinate, for automatic masking.

    The monitor sees every raw value, masked by the learner or not, with the p-value of that value
    under its one-step prediction. It cannot tell a failed sensor from a model that has gone wrong:
    when most coordinates fail together, suspect the model.
    """

    memory: float = eqx.field(static=True, default=5.0)
    """Observations that the running mean of -log p remembers."""
    surprise: float = eqx.field(static=True, default=4.0)
    """Running mean, relative to a calibrated prediction's 1, at which a coordinate has failed."""
    stuck: float = eqx.field(static=True, default=10.0)
    """Nats of a run of repeats at which a coordinate has failed."""
    baseline: int = eqx.field(static=True, default=500)
    """Observations that the baseline remembers."""
    warmup: int = eqx.field(static=True, default=50)
    """Observations of a coordinate before it can fail."""

    def __check_init__(self):
        check_real("memory", self.memory, 1.0)
        check_real("surprise", self.surprise, 1.0)
        check_real("stuck", self.stuck, 0.0)
        check_int("baseline", self.baseline)
        check_int("warmup", self.warmup, 0)

    def init(self, dim: int) -> SensorState:
        """Nothing seen yet of `dim` coordinates."""
        zero, one = jnp.zeros(dim), jnp.ones(dim)
        return SensorState(
            count=jnp.zeros(dim, int),
            surprise=one,
            baseline=one,
            last=jnp.full(dim, jnp.nan, float),
            change=jnp.full(dim, jnp.nan, float),
            run=zero,
            went_on=jnp.full(dim, _RUNS_PRIOR, float),
            ended=jnp.full(dim, _ENDS_PRIOR, float),
        )

    def step(
        self,
        state: SensorState,
        y: Float[Array, "dy"],
        p_value: Float[Array, "dy"],
        deviation: Float[Array, "dy"] | None = None,
        move: Float[Array, "dy"] | None = None,
    ) -> tuple[SensorState, Float[Array, "dy"], Bool[Array, "dy"]]:
        """Take in one observation; a coordinate that is NaN keeps its state and its verdict.

        Args:
            state: evidence so far.
            y: raw observation, NaN = not observed.
            p_value: two-sided predictive p-value of each coordinate (NaN = unknown).
            deviation: predictive standard deviation; a repeat counts only where it says that the
                value should move. None: it should always move.
            move: y less its last value, if the caller knows it more exactly than y tells.

        Returns:
            The state, a score in [0, 1] (evidence on a logistic scale, 1/2 = the thresholds) and
            whether the coordinate has failed: score > 1/2.
        """
        seen = ~jnp.isnan(y)
        healthy = self._score(state) <= 0.5
        state = eqx.tree_at(lambda s: s.count, state, state.count + seen)
        state = self._surprise(state, seen & ~jnp.isnan(p_value), p_value, healthy)
        if move is None:
            move = jnp.where(y == state.last, 0.0, y - state.last)
        state = self._repeats(state, y, move, deviation)
        score = self._score(state)
        return state, score, score > 0.5

    def stuck_score(self, state: SensorState) -> Float[Array, "dy"]:
        """The part of the score that comes from repeats: above 1/2 a coordinate is stuck."""
        evidence = jax.nn.sigmoid(self._run_evidence(state) - self.stuck)
        return jnp.where(state.count > self.warmup, evidence, 0.0)

    def _score(self, state: SensorState) -> Float[Array, "dy"]:
        outlying = self.memory * (state.surprise - self.surprise)
        repeated = self._run_evidence(state) - self.stuck
        evidence = jax.nn.sigmoid(jnp.maximum(outlying, repeated))
        return jnp.where(state.count > self.warmup, evidence, 0.0)

    def _run_evidence(self, state: SensorState) -> Float[Array, "dy"]:
        return jnp.maximum(state.run - 1.0, 0.0) * self._nats_per_repeat(state)

    def _nats_per_repeat(self, state: SensorState) -> Float[Array, "dy"]:
        return jnp.log1p(state.ended / state.went_on)

    def _surprise(
        self, state: SensorState, known: Bool[Array, "dy"], p_value: Array, healthy: Array
    ) -> SensorState:
        nats = jnp.minimum(-jnp.log(jnp.where(known, p_value, 1.0)), _CAP)
        recent = state.surprise + (nats / state.baseline - state.surprise) / self.memory
        rate = 1.0 / jnp.clip(state.count, self.warmup + 1, self.baseline)
        # Capped, so that outliers before the alarm do not raise the level they are judged by.
        typical = jnp.minimum(nats, 5.0 * state.baseline)
        baseline = jnp.maximum(state.baseline + rate * (typical - state.baseline), 1.0)
        return eqx.tree_at(
            lambda s: (s.surprise, s.baseline),
            state,
            (
                jnp.where(known, recent, state.surprise),
                jnp.where(known & healthy, baseline, state.baseline),
            ),
        )

    def _repeats(
        self, state: SensorState, y: Array, move: Array, deviation: Array | None
    ) -> SensorState:
        seen = ~jnp.isnan(y)
        same = seen & (move == 0.0)
        moved = seen & ~same & ~jnp.isnan(move)
        should_move = True if deviation is None else ~(deviation <= _STILL * state.change)
        # A run teaches no more repeats than it takes to fail, lest a stuck sensor become normal.
        lesson = jnp.minimum(state.run - 1.0, self.stuck / self._nats_per_repeat(state))
        learn = moved & (state.run >= 1.0)
        rate = 1.0 / jnp.clip(state.count, 1, self.baseline)
        step = jnp.abs(move)
        change = state.change * jnp.exp(rate * jnp.sign(step - state.change))
        change = jnp.where(jnp.isnan(state.change), step, change)
        return eqx.tree_at(
            lambda s: (s.last, s.change, s.run, s.went_on, s.ended),
            state,
            (
                jnp.where(seen, y, state.last),
                jnp.where(moved & jnp.isfinite(step), change, state.change),
                jnp.where(moved, 0.0, state.run + (same & should_move)),
                state.went_on + jnp.where(learn, lesson, 0.0),
                state.ended + learn,
            ),
        )

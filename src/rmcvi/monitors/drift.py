"""A change point in the predictive score: a two-sided cumulative sum (Page 1954).

Scores are standardised robustly, z = clip((score - m) / s, -c, c), where m and s solve E z = 0 and
E z^2 = E clip(N(0, 1))^2. The increments of

    up_t = max(0, up_{t-1} + z_t - k),    down_t = max(0, down_{t-1} - z_t - k)

then have mean -k and the same variance whatever the distribution of the score, and one absurd score
adds c at most. False alarms of such sums decay as exp(-2 k h / v) in the threshold h, v the
long-run variance of z; so h grows with v = (1 + r) / (1 - r), r the running autocorrelation of z.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from rmcvi.core import tree
from rmcvi.core.checks import check_int, check_real
from rmcvi.core.moments import MEDIAN_TO_DEVIATION, clipped_square

_HUGE = 1e30
"""Scores beyond this count as this: infinities must not enter the sums."""
_FIT_ITERATIONS = 12
"""Rounds that fit location and scale; each shrinks the error several times over."""
_LARGEST_AUTOCORRELATION = 0.9
"""The threshold grows by at most (1 + .9) / (1 - .9) = 19: it must stay within reach."""


class DriftState(eqx.Module):
    """What the next score is compared with."""

    start: Float[Array, "warmup"]
    """The first scores since the last reset."""
    count: Int[Array, ""]
    """Scores seen since the last reset."""
    location: Float[Array, ""]
    scale: Float[Array, ""]
    autocorrelation: Float[Array, ""]
    previous: Float[Array, ""]
    """The last standardised score."""
    up: Float[Array, ""]
    down: Float[Array, ""]


class DriftDetector(eqx.Module):
    """Alarm when the level of the one-step predictive log score changes.

    Defaults: `tests/monitors/test_drift.py` measures them.
    """

    threshold: float = eqx.field(static=True, default=14.0)
    """Height h of the sums that raises an alarm, for uncorrelated scores."""
    allowance: float = eqx.field(static=True, default=0.5)
    """Change k, in standard deviations of the score, that a sum forgives at each step."""
    memory: int = eqx.field(static=True, default=1000)
    """Observations that location, scale and autocorrelation remember."""
    warmup: int = eqx.field(static=True, default=200)
    """Observations that set them, at first and after an alarm; no alarm during that time."""
    clip: float = eqx.field(static=True, default=3.0)
    """Largest standardised score c."""

    def __check_init__(self):
        for name in ("threshold", "allowance", "clip"):
            check_real(name, getattr(self, name), 0.0)
        check_int("warmup", self.warmup, 10)
        check_int("memory", self.memory, self.warmup)

    def init(self) -> DriftState:
        """Nothing seen yet."""
        zero = jnp.zeros(())
        count = jnp.zeros((), int)
        return DriftState(jnp.zeros(self.warmup), count, zero, jnp.ones(()), zero, zero, zero, zero)

    def step(
        self, state: DriftState, score: Float[Array, ""]
    ) -> tuple[DriftState, Bool[Array, ""], Float[Array, ""]]:
        """Take in one score, NaN = none.

        Returns:
            state: starts afresh after an alarm.
            alarm: whether the level has changed.
            statistic: the larger sum as a share of its threshold, negative for `down`; an alarm is
                a statistic outside [-1, 1], and its sign says whether the score rose or fell.
        """
        seen = ~jnp.isnan(score)
        bounded = jnp.clip(score, -_HUGE, _HUGE)
        new = jax.lax.cond(state.count < self.warmup, self._warm_up, self._compare, state, bounded)
        state = tree.where(seen, new, state)
        r = jnp.clip(state.autocorrelation, 0.0, _LARGEST_AUTOCORRELATION)
        height = self.threshold * (1.0 + r) / (1.0 - r)
        statistic = jnp.where(state.up >= state.down, state.up, -state.down) / height
        alarm = jnp.abs(statistic) > 1.0
        return tree.where(alarm, self.init(), state), alarm, statistic

    def _warm_up(self, state: DriftState, score: Float[Array, ""]) -> DriftState:
        start = state.start.at[state.count].set(score)
        count = state.count + 1
        # A loop of at most one round: of a vectorised `cond` both sides are always worked out. What
        # is fitted depends on the loop, or the compiler would do it before.
        zero = jnp.zeros(())
        _, fit = jax.lax.while_loop(
            lambda loop: loop[0],
            lambda loop: (~loop[0], self._fit(jnp.where(loop[0], start, 0.0))),
            (count == self.warmup, (zero, zero, zero, zero)),
        )
        return DriftState(start, count, *fit, up=state.up, down=state.down)

    def _compare(self, state: DriftState, score: Float[Array, ""]) -> DriftState:
        z = self._standardise(score, state.location, state.scale)
        count = jnp.minimum(state.count + 1, self.memory)
        rate = 1.0 / count
        return DriftState(
            state.start,
            count,
            state.location + rate * state.scale * z,
            state.scale * jnp.exp(0.5 * rate * (z**2 / self._second_moment - 1.0)),
            state.autocorrelation
            + rate * (self._agreement(z, state.previous) - state.autocorrelation),
            z,
            jnp.maximum(state.up + z - self.allowance, 0.0),
            jnp.maximum(state.down - z - self.allowance, 0.0),
        )

    def _fit(self, start: Float[Array, "warmup"]) -> tuple[Array, Array, Array, Array]:
        """Location, scale, autocorrelation and last standardised value of the first scores."""
        location = jnp.median(start)
        smallest = 1e-6 * (1.0 + jnp.abs(location))
        scale = jnp.maximum(MEDIAN_TO_DEVIATION * jnp.median(jnp.abs(start - location)), smallest)

        def improve(_: Array, fit: tuple[Array, Array]) -> tuple[Array, Array]:
            z = self._standardise(start, *fit)
            growth = jnp.sqrt(jnp.mean(z**2) / self._second_moment)
            return fit[0] + fit[1] * jnp.mean(z), jnp.maximum(fit[1] * growth, smallest)

        location, scale = jax.lax.fori_loop(0, _FIT_ITERATIONS, improve, (location, scale))
        z = self._standardise(start, location, scale)
        return location, scale, jnp.mean(self._agreement(z[1:], z[:-1])), z[-1]

    def _agreement(self, z: Array, previous: Array) -> Array:
        """Its mean is the autocorrelation; by differences, which a change of level leaves alone."""
        return 1.0 - (z - previous) ** 2 / (2.0 * self._second_moment)

    def _standardise(self, score: Array, location: Array, scale: Array) -> Array:
        return jnp.clip((score - location) / scale, -self.clip, self.clip)

    @property
    def _second_moment(self) -> float:
        """E clip(Z, -c, c)^2 for Z ~ N(0, 1)."""
        return clipped_square(self.clip)

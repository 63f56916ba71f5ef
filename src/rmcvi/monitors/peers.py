"""Does a sensor still agree with its peers? A slow drift that a one-step prediction follows.

Each coordinate is regressed on all others by recursive least squares. What matters is not one
residual but a persistent one: its running mean, in units of that mean's own usual size. Only a
coordinate that its peers explain is judged, and of those that disagree only the worst, for a sensor
that drifts makes its peers look wrong as well.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi.core.checks import check_int, check_real
from rmcvi.core.moments import OUTLIER, SURE, RunningMoments
from rmcvi.core.regression import Regression

_CAP = 4.0
"""Largest standardised residual: one absurd value is not persistent."""
_FARTHEST = 10.0
"""Standard units beyond which a value explains no more."""
_PRIOR = 10.0
"""Prior variance of the coefficients, in standard units."""
_SUSPECT = 0.1
"""Weight in the regression of a coordinate that disagrees: it may be right in the end."""


class PeerState(eqx.Module):
    """Regressions so far, one per coordinate."""

    count: Float[Array, "dy"]
    last: Float[Array, "dy"]
    """Last observed value, NaN before the first."""
    mean: Float[Array, "dy"]
    variance: Float[Array, "dy"]
    """Running moments of the values; `count` is their number."""
    regression: Regression
    """One per coordinate j, on the others; in place of its own, the constant."""
    residual: Float[Array, "dy"]
    """Mean square of the residuals, in standard units."""
    recent: Float[Array, "dy"]
    """Running mean of the standardised residuals."""
    usual: Float[Array, "dy"]
    """Mean square of `recent`."""


class PeerMonitor(eqx.Module):
    """Failure score per coordinate from its disagreement with the others."""

    memory: float = eqx.field(static=True, default=6.0)
    """Observations that the running mean of residuals remembers."""
    threshold: float = eqx.field(static=True, default=4.5)
    """Running mean, in its own usual size, at which a coordinate has failed."""
    baseline: int = eqx.field(static=True, default=1000)
    """Observations that regressions and usual sizes remember."""
    explained: float = eqx.field(static=True, default=0.5)
    """Share of its variance that the peers must explain before a coordinate is judged."""
    warmup: int = eqx.field(static=True, default=300)
    """Observations of a coordinate before it can fail."""

    def __check_init__(self):
        check_real("memory", self.memory, 1.0)
        check_real("threshold", self.threshold, 0.0)
        check_int("baseline", self.baseline, 2)
        check_real("explained", self.explained, 0.0, 1.0)
        check_int("warmup", self.warmup, 0)

    def init(self, dim: int) -> PeerState:
        """Nothing seen yet of `dim` coordinates."""
        zero, one = jnp.zeros(dim), jnp.ones(dim)
        size = dim, dim
        prior = jax.vmap(Regression.prior)(jnp.zeros(size), jnp.full(size, _PRIOR**0.5, float))
        nothing = jnp.full(dim, jnp.nan, float)
        return PeerState(zero, nothing, zero, one, prior, one, zero, one)

    def step(
        self,
        state: PeerState,
        y: Float[Array, "dy"],
        filled: Float[Array, "dy"] | None = None,
    ) -> tuple[PeerState, Float[Array, "dy"], Bool[Array, "dy"]]:
        """Take in one observation; a coordinate that is NaN keeps its state and its verdict.

        Args:
            state: regressions so far.
            y: raw observation, NaN = not observed.
            filled: best guess of every coordinate, for where `y` is NaN (default: its last value).

        Returns:
            The state, a score in [0, 1] (1/2 = the threshold) and whether a coordinate has failed.
        """
        seen = jnp.isfinite(y)
        before = RunningMoments(state.mean, state.variance, state.count)
        scale = jnp.sqrt(jnp.maximum(before.variance, jnp.finfo(y.dtype).tiny))
        guess = state.last if filled is None else filled
        known = jnp.where(seen, y, jnp.where(jnp.isfinite(guess), guess, before.mean))
        z = jnp.clip((known - before.mean) / scale, -_FARTHEST, _FARTHEST)
        healthy = self._score(state) <= 0.5
        state = self._regress(state, seen, z, healthy)
        bound = jnp.where(before.count + seen > SURE, OUTLIER * jnp.sqrt(before.variance), jnp.inf)
        after = before.add(y, seen, float(self.baseline), bound)
        state = eqx.tree_at(
            lambda s: (s.count, s.last, s.mean, s.variance),
            state,
            (after.count, jnp.where(seen, y, state.last), after.mean, after.variance),
        )
        score = self._score(state)
        return state, score, score > 0.5

    def _regress(
        self, state: PeerState, seen: Bool[Array, "dy"], z: Float[Array, "dy"], healthy: Array
    ) -> PeerState:
        """One step of every regression, and of the residuals' running means."""
        keep = 1.0 - 1.0 / self.baseline
        features = jnp.where(jnp.eye(z.size, dtype=bool), 1.0, z[None, :])
        residual = z - jnp.sum(features * state.regression.weights, 1)
        x = residual / jnp.sqrt(jnp.maximum(state.residual, 1e-4))
        weight = jnp.where(healthy, jnp.minimum(1.0, 2.0 / jnp.maximum(jnp.abs(x), 2.0)), _SUSPECT)
        most = jnp.full(z.size, _PRIOR**0.5, float)

        def learn(one: Regression, phi: Array, error: Array, noise: Array) -> Regression:
            return one.learn(one.leverage(phi)[0], error, noise, keep, most)

        regression = jax.vmap(learn)(state.regression, features, residual, 1.0 / weight)
        capped = jnp.clip(x, -_CAP, _CAP)
        recent = state.recent + (capped - state.recent) / self.memory
        pace = jnp.where(healthy, 1.0, _SUSPECT) * self._pace(state)
        least = 1.0 / (2.0 * self.memory - 1.0)
        square = jnp.minimum(residual**2, 2.0 * _CAP**2 * state.residual)
        new = (
            regression.weights,
            regression.root,
            state.residual + pace * (square - state.residual),
            recent,
            jnp.maximum(state.usual + pace * (recent**2 - state.usual), least),
        )

        def where(s: PeerState):
            law = s.regression
            return law.weights, law.root, s.residual, s.recent, s.usual

        def choose(a: Array, b: Array) -> Array:
            return jnp.where(seen.reshape(-1, *[1] * (a.ndim - 1)), a, b)

        chosen = tuple(choose(a, b) for a, b in zip(new, where(state), strict=True))
        return eqx.tree_at(where, state, chosen)

    def _pace(self, state: PeerState) -> Float[Array, "dy"]:
        return jnp.maximum(1.0 / self.baseline, 1.0 / jnp.maximum(state.count, 1.0))

    def _score(self, state: PeerState) -> Float[Array, "dy"]:
        ratio = jnp.abs(state.recent) / jnp.sqrt(state.usual)
        evidence = jax.nn.sigmoid(0.5 * (ratio**2 - self.threshold**2))
        judged = (state.count > self.warmup) & (state.residual < 1.0 - self.explained)
        evidence = jnp.where(judged, evidence, 0.0)
        worst = jnp.arange(evidence.size) == jnp.argmax(jnp.where(judged, ratio, -1.0))
        return jnp.where(worst, evidence, jnp.minimum(evidence, 0.5))

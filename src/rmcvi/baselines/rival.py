"""What rivals without a hidden state share: tails of predictions, the last rows, the report.

How heavy the tails of the residuals are is chosen online:

    z = (y - mean) / scale ~ sqrt((nu - 2) / nu) t_nu,    of variance 1 for every nu,

with nu = infinity, 12, 6 or 4, whichever has the best log scores so far; Gaussian at first. Such a
rival learns nothing about a row from the rows after it: a value that did not come stays what its
prediction was.
"""

import math
import statistics
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, Float

from rmcvi.contract import AbstractLearner, Band
from rmcvi.core import student
from rmcvi.core.checks import check_real
from rmcvi.core.inputs import split_missing
from rmcvi.core.prediction import Prediction

_DEGREES = (12, 6, 4)
"""Even, so that all is a finite sum; above 2, so that there is a variance."""
_MEMORY = 1000.0
"""Values that the choice remembers."""
_CAP = 10.0
"""Nats that one value may add: the first ones, of unknown scale, must not decide for long."""
ROWS = 25
"""Rows that are kept: of an hourly stream the present one and the day before it."""


class Tails(eqx.Module):
    """Recent log score of each candidate, over the Gaussian's: Gaussian, t of 12, 6, 4."""

    scores: Float[Array, "4 dy"]

    @classmethod
    def unknown(cls, dim: int) -> "Tails":
        """Nothing seen."""
        return cls(jnp.zeros((1 + len(_DEGREES), dim)))

    def predict(
        self,
        mean: Float[Array, "dy"],
        scale: Float[Array, "dy"],
        y: Float[Array, "dy"],
        level: float,
    ) -> tuple["Tails", Prediction]:
        """The prediction with the best tails so far, and the scores with y taken in."""
        filled, seen = split_missing(y)
        z = jnp.where(seen > 0.0, (filled - mean) / scale, 0.0)
        logs = jnp.stack([norm.logpdf(z), *(_log_density(z, nu) for nu in _DEGREES)])
        best = jnp.argmax(self.scores, 0)
        half = self.half_width(scale, level)
        log_score = jnp.take_along_axis(logs, best[None], 0)[0] - jnp.log(scale)
        p = jnp.stack([2.0 * norm.sf(jnp.abs(z)), *(_p_value(z, nu) for nu in _DEGREES)])
        prediction = Prediction(
            mean=mean,
            low=mean - half,
            high=mean + half,
            log_score=jnp.where(jnp.any(seen > 0.0), jnp.dot(seen, log_score), jnp.nan),
            p_value=jnp.where(seen > 0.0, jnp.take_along_axis(p, best[None], 0)[0], jnp.nan),
        )
        gained = jnp.clip(logs - logs[:1], -_CAP, _CAP)
        scores = (1.0 - 1.0 / _MEMORY) * self.scores + gained
        return Tails(jnp.where(seen[None] > 0.0, scores, self.scores)), prediction

    def half_width(self, scale: Float[Array, "dy"], level: float) -> Float[Array, "dy"]:
        """Of the central interval, with the best tails so far."""
        return jnp.asarray(half_widths(level))[jnp.argmax(self.scores, 0)] * scale


def half_widths(level: float) -> list[float]:
    """Half-width of the central interval of each candidate, in standard deviations."""
    upper = 0.5 * (1.0 + level)
    gaussian = statistics.NormalDist().inv_cdf(upper)
    return [gaussian, *(student.quantile(upper, nu) / _unit(nu) for nu in _DEGREES)]


def _unit(nu: int) -> float:
    """Scales of Student's t in its standard deviation, of which z counts the number, inverted."""
    return math.sqrt(nu / (nu - 2.0))


def _log_density(z: Float[Array, "dy"], nu: int) -> Float[Array, "dy"]:
    return student.log_density(_unit(nu) * z, nu) + math.log(_unit(nu))


def _p_value(z: Float[Array, "dy"], nu: int) -> Float[Array, "dy"]:
    return 2.0 * student.upper_tail(_unit(nu) * jnp.abs(z), nu)


class Past(eqx.Module):
    """Rows, latest last; NaN before the first."""

    y: Float[Array, "rows dy"]
    mean: Float[Array, "rows dy"]
    scale: Float[Array, "rows dy"]

    @classmethod
    def empty(cls, dim: int) -> "Past":
        """No rows."""
        unknown = jnp.full((ROWS, dim), jnp.nan, float)
        return cls(unknown, unknown, unknown)

    def push(
        self, y: Float[Array, "dy"], mean: Float[Array, "dy"], scale: Float[Array, "dy"]
    ) -> "Past":
        """One row more, the oldest dropped."""
        rows = (self.y, self.mean, self.scale)
        new = zip(rows, (y, mean, scale), strict=True)
        return Past(*(jnp.concatenate([old[1:], row[None]]) for old, row in new))

    @eqx.filter_jit
    def band(self, lag: int, tails: Tails, level: float) -> Band:
        """The last `lag + 1` rows: values as they came, the others as they were predicted."""
        y, mean, scale = (v[-lag - 1 :] for v in (self.y, self.mean, self.scale))
        half = jax.vmap(lambda scale: tails.half_width(scale, level))(scale)
        predicted = Band(mean, mean - half, mean + half)
        return jax.tree.map(lambda v: jnp.where(jnp.isnan(y), v, y), predicted)


class AbstractRival(AbstractLearner):
    """A learner without a hidden state; its state has the fields `past` and `tails`."""

    @property
    def reach(self) -> int:
        """Rows before the present one."""
        return ROWS - 1

    def present(self, state: Any, *, level: float = 0.9) -> Band:
        """The row taken in last."""
        return jax.tree.map(lambda v: v[0], self.recent(state, 0, level=level))

    def recent(self, state: Any, lag: int, *, level: float = 0.9) -> Band:
        """The last rows; a value that did not come as it was predicted."""
        self.check_lag(lag)
        return state.past.band(lag, state.tails, check_real("level", level, 0.0, 1.0))


class RivalInfo(eqx.Module):
    """The prediction, and how it fared."""

    prediction: Prediction

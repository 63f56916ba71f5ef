"""A learner predicts y_t, scores the prediction, learns from it, and answers questions.

state = learner.init(key)
state, info = learner.update(state, y)
band = learner.forecast(state, 24)
"""

import abc
import dataclasses
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, Key, PyTree

from rmcvi.contract import compiled
from rmcvi.contract.recursion import Filtered, Smoothed
from rmcvi.core.array_checks import check_array
from rmcvi.core.checks import check_int, check_real
from rmcvi.core.inputs import Inputs


class Band(eqx.Module):
    """Mean and central interval of observations."""

    mean: Float[Array, "*rows dy"]
    low: Float[Array, "*rows dy"]
    high: Float[Array, "*rows dy"]


class ByHorizon(eqx.Module):
    """How forecasts fared that were made along the way: sums over values, by horizon and column."""

    ends: tuple[int, ...] = eqx.field(static=True)
    """Horizons ends[k] to ends[k + 1] - 1 are counted together."""
    count: Float[Array, "bins dy"]
    square: Float[Array, "bins dy"]
    """Squared errors; and of the same values, those of the last value and of the season alone."""
    last: Float[Array, "bins dy"]
    season: Float[Array, "bins dy"]
    inside: Float[Array, "bins dy"]
    """Values inside the interval."""


class Diagnostics(eqx.Module):
    """What a learner may know about itself after a step; None where it has no such thing."""

    elbo: Float[Array, "*batch"] | None = None
    """Evidence lower bound per row so far."""
    ess: Float[Array, "*batch"] | None = None
    """Effective sample size."""
    sensor_score: Float[Array, "*batch dy"] | None = None
    """Evidence in [0, 1] that each coordinate's sensor has failed (above 1/2: it has)."""
    alarms: Int[Array, "*batch"] | None = None
    """A set of `Alarm` flags."""


class AbstractLearner(eqx.Module):
    """Anything that predicts the next observation, and learns from it once it has come.

    A subclass needs its sizes and its level as fields, `init` and `step`; it overrides a question
    that it can answer better than by default.
    """

    dim_obs: eqx.AbstractVar[int]
    dim_input: eqx.AbstractVar[int]
    level: eqx.AbstractVar[float]
    """Probability of the interval of `info.prediction`."""

    @abc.abstractmethod
    def init(self, key: Key[Array, ""]) -> PyTree:
        """The state before the first observation."""

    @abc.abstractmethod
    def step(self, state: PyTree, y: Float[Array, "dy"], inputs: Inputs) -> tuple[PyTree, Any]:
        """Predict, score, learn; the info has a field `prediction` (None: none was made)."""

    @property
    def streams(self) -> tuple[int, ...]:
        """Leading axes of an observation: none for one stream, (n,) for a fleet of n."""
        return ()

    @property
    def dim_state(self) -> int:
        """Length of the hidden state; 0 if there is none with a meaning of its own."""
        return 0

    @property
    def units(self) -> Literal["raw", "standard"]:
        """Whether columns may come in any units, or have to be standardised for it."""
        return "standard"

    @property
    def reach(self) -> int:
        """How many rows before the present one `recent` can look back."""
        return 0

    def update(
        self,
        state: PyTree,
        y: ArrayLike,
        u: ArrayLike | None = None,
        dt: ArrayLike | None = None,
    ) -> tuple[PyTree, Any]:
        """Take in one observation (NaN = not observed), compiled."""
        y = jnp.asarray(y, float) if isinstance(y, jax.Array) else np.asarray(y, float)
        check_array("y", y, (*self.streams, self.dim_obs))
        if u is None and dt is None:
            usual = np.zeros((*self.streams, self.dim_input)), np.ones(self.streams)
            return compiled.step(self, state, y, *usual)
        inputs = Inputs.of(u, dt, self.dim_input, self.streams)
        return compiled.step(self, state, y, inputs.u, inputs.dt)

    def forecast(
        self,
        state: PyTree,
        horizon: int,
        u: ArrayLike | None = None,
        dt: ArrayLike | None = None,
        *,
        level: float = 0.9,
    ) -> Band:
        """The next `horizon` rows, each given only those before the first of them.

        By default what the learner says of rows in which nothing is seen.

        Args:
            state: after the last row.
            horizon: number of rows.
            u: their inputs, one row each.
            dt: their lengths.
            level: probability of the intervals.
        """
        steps = check_int("horizon", horizon)
        inputs = Inputs.sequence(steps, u, dt, self.dim_input, self.streams)
        return _forecast(self.at_level(level), state, inputs)

    def present(self, state: PyTree, *, level: float = 0.9) -> Band:
        """The row taken in last: what was seen as it is, the rest by what is known of it.

        By default nothing is (NaN), for a state need not keep what it was given.
        """
        check_real("level", level, 0.0, 1.0)
        del state
        unknown = jnp.full((*self.streams, self.dim_obs), jnp.nan)
        return Band(unknown, unknown, unknown)

    def recent(self, state: PyTree, lag: int, *, level: float = 0.9) -> Band:
        """The last `lag + 1` rows, oldest first, each as by `present`; `lag` <= `reach`."""
        self.check_lag(lag)
        return jax.tree.map(lambda v: v[None], self.present(state, level=level))

    def parameters(self, state: PyTree) -> dict[str, Array]:
        """What has been learned, by name; one that begins with `*.` has an entry per column."""
        del state
        return {}

    def by_horizon(self, state: PyTree) -> ByHorizon | None:
        """How its forecasts have fared so far, if it keeps a record of them."""
        del state

    @property
    def method(self) -> str:
        """What makes its numbers, in a few words; by default the name of its class."""
        return type(self).__name__

    def diagnostics(self, state: PyTree, info: Any) -> Diagnostics:
        """What the learner knows about itself, from the state and the info of a step."""
        del state, info
        return Diagnostics()

    def filter(self, state: PyTree) -> Filtered:
        """Mean and covariance of the hidden state x_t given everything so far."""
        del state
        return Filtered(jnp.zeros((*self.streams, 0)), jnp.zeros((*self.streams, 0, 0)))

    def smooth(self, state: PyTree, lag: int) -> Smoothed:
        """Draws of the hidden states x_{t-lag}, ..., x_t given everything so far."""
        del state
        self.check_lag(lag)
        return Smoothed(jnp.zeros((*self.streams, 1, lag + 1, 0)))

    def smooth_sequence(
        self,
        state: PyTree,
        ys: ArrayLike,
        u: ArrayLike | None = None,
        dt: ArrayLike | None = None,
    ) -> Smoothed:
        """Draws of all hidden states of a whole sequence, with the parameters learned so far."""
        del state, u, dt
        return Smoothed(jnp.zeros((*self.streams, 1, len(jnp.asarray(ys)), 0)))

    @property
    def gradient_window(self) -> int:
        """Rows of the window that `lengthen` makes longer; 0 if there is none."""
        return 0

    def lengthen(
        self, state: PyTree, window: int | None = None
    ) -> tuple["AbstractLearner", PyTree]:
        """The same learner in mid-stream with a longer window (default: twice as long)."""
        raise ValueError(f"lengthen: got {type(self).__name__}, which has no window")

    def trained(self) -> "AbstractLearner":
        """This learner with None in place of all but the arrays whose values the state holds."""
        return eqx.filter(self, False)

    def at_level(self, level: float) -> "AbstractLearner":
        """The same learner with intervals of another probability."""
        check_real("level", level, 0.0, 1.0)
        # As equinox builds a module from its leaves: a constructor may take other arguments.
        other = object.__new__(type(self))
        for field in dataclasses.fields(self):
            object.__setattr__(other, field.name, getattr(self, field.name))
        object.__setattr__(other, "level", float(level))
        return other

    def check_lag(self, lag: int, seen: Array | None = None, reach: int | None = None) -> None:
        """Raise unless one can look back that far.

        Args:
            lag: rows before the present one.
            seen: rows so far, if their number is known (those of many streams are not counted).
            reach: rows that are kept (default: `reach` of the learner).
        """
        most, rows = self.reach if reach is None else reach, ""
        kept = f"the learner looks back {most} rows"
        if seen is not None and not isinstance(seen, Tracer):
            most, rows = min(most, int(seen) - 1), f" and has seen {int(seen)}"
        if check_int("lag", lag, 0) > most:
            raise ValueError(f"lag: got {lag}, expected at most {most} ({kept}{rows})")


@eqx.filter_jit
def _forecast(learner: AbstractLearner, state: PyTree, inputs: Inputs) -> Band:
    unseen = jnp.full((*learner.streams, learner.dim_obs), jnp.nan)

    def step(state: PyTree, inputs: Inputs) -> tuple[PyTree, Band]:
        state, info = learner.step(state, unseen, inputs)
        return state, Band(info.prediction.mean, info.prediction.low, info.prediction.high)

    return jax.lax.scan(step, state, inputs)[1]

"""A seasonal state-space model learned in one pass, every update in closed form.

    x_t = W phi(x_{t-1}, x_{t-2}, ..; season, u_t) + noise_t,    y_t = g^{-1}(a + b x_t),

exact Kalman filter over x given W, Bayesian regressions for the rows of W, moving noise variance,
and a mixture over the units g in which the model is linear. The first `warm` rows are predicted by
the last value; then their units are known and they are learned from, in order, at once.
"""

from collections.abc import Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from rmcvi.contract import AbstractLearner, Band, ByHorizon, Prediction
from rmcvi.core.checks import check_int, check_real
from rmcvi.core.inputs import Inputs
from rmcvi.core.lanes import loop_from
from rmcvi.learners.seasonal import query
from rmcvi.learners.seasonal.design import Design, seasonal_lags
from rmcvi.learners.seasonal.ensemble import Ensemble
from rmcvi.learners.seasonal.experts import BINS
from rmcvi.learners.seasonal.predict import Row
from rmcvi.learners.seasonal.recent import Exogenous, Recent
from rmcvi.learners.seasonal.settings import Settings
from rmcvi.learners.seasonal.state import Learned, SeasonalInfo, SeasonalState
from rmcvi.learners.seasonal.warm_up import first_units

HUGE, SQUARED = 1e30, 0.01
"""Values beyond this are codes, not values; and so are those beyond this share of the largest
number that has a square: 2e17 in single precision."""
HIDDEN = 64
"""Units of the nonlinear path. A column alone has none: they would treble its state, of which a
fleet keeps many."""
BURN = 32
"""Rows before the window of `recent`, from which its filter finds its way."""


class SeasonalLearner(AbstractLearner):
    """Forecasts, gaps and intervals for columns in their raw units, from the first row on.

    Lags count rows; the season's clock goes on by `dt`, one row a unit. Inputs may have any units.
    """

    dim_obs: int = eqx.field(static=True)
    dim_input: int = eqx.field(static=True)
    ensemble: Ensemble
    level: float = eqx.field(static=True)
    warm: int = eqx.field(static=True)
    window: int = eqx.field(static=True)
    phase_input: bool = eqx.field(static=True)

    def __init__(
        self,
        dim_obs: int,
        dim_input: int = 0,
        *,
        period: int | None = 24,
        long_period: int | None = 168,
        cross: int = 2,
        own: int = 3,
        long: Sequence[int] | None = None,
        harmonics: int = 4,
        phase_input: bool = False,
        plain: bool = True,
        hidden: int | None = None,
        keep: float = 0.9995,
        degrees: int = 6,
        memory: float = 1000.0,
        gate: float = 15.0,
        warm: int = 12,
        window: int = 96,
        level: float = 0.9,
    ):
        """Set up the learner.

        Args:
            dim_obs: length of y.
            dim_input: length of u.
            period: rows in a season (None: no season, nor anything that belongs to it).
            long_period: rows in a longer one (None: there is none).
            cross: lags of all columns that explain each.
            own: lags of a column that explain it.
            long: further lags of its own, beyond `own` (default: the period and its neighbours, if
                it is shorter than 1500 rows).
            harmonics: sines and cosines of the period.
            phase_input: the first input is the phase in rows, such as hours since any Monday;
                otherwise rows are counted.
            plain: add a component without seasonal inputs, for series that have no season.
            hidden: tanh units of the nonlinear path (default: 64 if there are several columns; 0:
                no such path).
            keep: what a regression keeps from one row to the next, in (0, 1].
            degrees: of Student's t, an even number.
            memory: number of values that units remember.
            gate: deviations beyond which a value is doubted.
            warm: rows before the model starts.
            window: rows that `recent` can look back on, the present one among them.
            level: probability of the predictive interval.
        """
        check_int("dim_obs", dim_obs)
        check_int("dim_input", dim_input, 1 if phase_input else 0)
        check_int("own", own, check_int("cross", cross))
        if period is None:
            long_period, long, harmonics, plain = None, (), 0, False
        else:
            check_int("period", period, 2)
            harmonics = min(check_int("harmonics", harmonics), max(1, (period - 1) // 2))
        long = seasonal_lags(period, own) if long is None else long
        if long_period is not None:
            check_int("long_period", long_period, (period or 0) + 1)
        if check_int("degrees", degrees, 2) % 2:
            raise ValueError(f"degrees: got {degrees}, expected an even number")
        self.dim_obs, self.dim_input = dim_obs, dim_input
        seasonal = period is not None
        self.ensemble = Ensemble(
            design=Design(
                size=dim_obs,
                width=dim_input - phase_input,
                cross=cross,
                own=own,
                long=tuple(check_int("long", lag, own + 1) for lag in long),
                periods=tuple(p for p in (period, long_period) if p is not None),
                harmonics=harmonics,
            ),
            settings=Settings(
                keep=1.0 if keep == 1.0 else check_real("keep", keep, 0.0, 1.0),
                degrees=degrees,
                memory=check_real("memory", memory, 1.0),
                gate=check_real("gate", gate, 0.0),
            ),
            hidden=HIDDEN * (dim_obs > 1) if hidden is None else check_int("hidden", hidden, 0),
            kinds=((False, seasonal), (True, seasonal), *([(False, False)] * plain)),
        )
        self.level = check_real("level", level, 0.0, 1.0)
        self.warm = check_int("warm", warm, 8)
        self.window = check_int("window", window)
        self.phase_input = phase_input

    @property
    def design(self) -> Design:
        """Sizes and places of the inputs."""
        return self.ensemble.design

    @eqx.filter_jit  # nearly a hundred arrays: as one program, not as one each
    def init(self, key: Key[Array, ""]) -> SeasonalState:
        """The state before the first observation; nothing is drawn."""
        rows = max(self.window + BURN, self.warm + 1)
        return SeasonalState(
            learned=self.ensemble.nothing(),
            recent=Recent.empty(rows, self.dim_obs, self.design.width),
            exogenous=Exogenous.unknown(self.design.width),
            clock=jnp.zeros(()),
            t=jnp.zeros((), int),
            key=key,
        )

    def step(
        self, state: SeasonalState, y: Float[Array, "dy"], inputs: Inputs
    ) -> tuple[SeasonalState, SeasonalInfo]:
        """Predict, score, learn."""
        largest = min(HUGE, SQUARED * float(jnp.finfo(y.dtype).max) ** 0.5)
        y = jnp.where(jnp.abs(y) <= largest, y, jnp.nan)
        u, phase, dt = self._clock(state, inputs)
        recent = state.recent.push(y, u, phase)
        exogenous = state.exogenous.add(u, self.ensemble.settings.memory)
        started = state.t >= self.warm
        before = state.learned
        components, columns = first_units(before, recent.y[:-1], self.ensemble.kind.asinh, started)
        walk = before.walk.wait(dt)
        learned = eqx.tree_at(
            lambda v: (v.components, v.columns, v.walk), before, (components, columns, walk)
        )
        # Usually one row; once, when the first columns are known, the rows that waited for it too.
        size = recent.y.shape[0]
        first = size - 1 - jnp.where(state.t == self.warm, self.warm, 0)

        def row(
            i: Int[Array, ""], carry: tuple[Learned, SeasonalInfo], *given: Any
        ) -> tuple[Learned, SeasonalInfo]:
            recent, exogenous, dt, started = given
            latest = i == size - 1
            known = Row(
                exogenous.standard(recent.u[i]), recent.phase[i], jnp.where(latest, dt, 1.0)
            )
            old = carry[0], recent.y[i], known
            return self.ensemble.row(*old, latest & started, latest, self.level)

        nothing = jnp.full(self.dim_obs, jnp.nan)
        none = SeasonalInfo(
            Prediction(nothing, nothing, nothing, jnp.asarray(jnp.nan, float), nothing),
            jnp.zeros(self.dim_obs),
        )
        given = recent, exogenous, dt, started
        learned, info = loop_from(first, size, row, (learned, none), *given)
        new = SeasonalState(
            learned=learned,
            recent=recent,
            exogenous=exogenous,
            clock=phase,
            t=state.t + 1,
            key=state.key,
        )
        return new, info

    def _clock(
        self, state: SeasonalState, inputs: Inputs
    ) -> tuple[Float[Array, "du"], Float[Array, ""], Float[Array, ""]]:
        """Exogenous inputs, the phase of this row, and the time since the one before."""
        u = jnp.where(jnp.isfinite(inputs.u), inputs.u, jnp.nan)
        dt = jnp.where(jnp.isfinite(inputs.dt), inputs.dt, 1.0)
        turn = 1.0
        for period in self.design.periods:
            turn *= period
        # The first row's dt, before which there is nothing, does not count.
        clock = jnp.where(state.t > 0, state.clock + dt, 0.0) % turn
        if self.phase_input:
            u, clock = u[1:], jnp.where(jnp.isnan(u[0]), clock, u[0] % turn)
        return u, clock, dt

    @property
    def method(self) -> str:
        """Which part is online EM, and which is not (docs/theory/seasonal.md, section 5)."""
        others = "exponential smoothing, the last value, the season and a short regression"
        if self.ensemble.hidden:
            others = f"a nonlinear path (tanh units by gradient), {others}"
        return (
            "seasonal linear-Gaussian model, coefficients by online EM with exact expectations"
            f" (no particles); aggregated with {others}"
        )

    @property
    def units(self) -> Literal["raw", "standard"]:
        """It learns them itself."""
        return "raw"

    @property
    def reach(self) -> int:
        """Rows before the present one."""
        return self.window - 1

    def present(self, state: SeasonalState, *, level: float = 0.9) -> Band:
        """The present row: what was seen, and the rest given it."""
        check_real("level", level, 0.0, 1.0)
        return query.present(self, state, level)

    def recent(self, state: SeasonalState, lag: int, *, level: float = 0.9) -> Band:
        """The last `lag + 1` rows, what is missing given all rows so far."""
        self.check_lag(lag, state.t)
        return query.recent(self, state, lag, check_real("level", level, 0.0, 1.0))

    def by_horizon(self, state: SeasonalState) -> ByHorizon:
        """How its forecasts have fared: those of gaps, and those under way along the stream."""
        record = state.learned.skill.record
        ends = tuple(2**k for k in range(BINS + 1))
        return ByHorizon(
            ends, record.count, record.square, record.last, record.season, record.inside
        )

    def parameters(self, state: SeasonalState) -> dict[str, Array]:
        """Of each column, in its own units: level, noise, and persistence."""
        first = jax.tree.map(lambda v: v[0], state.learned.components)
        return {
            "*.level": first.units.centre,
            "*.noise": jnp.sqrt(first.noise.variance) * first.units.deviation,
            "*.persistence": jnp.diagonal(first.rows.weights),
        }

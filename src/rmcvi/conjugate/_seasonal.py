"""A seasonal state-space model learned in one pass, every update in closed form.

    x_t = W phi(x_{t-1}, x_{t-2}, ..; season, u_t) + noise_t,    y_t = g^{-1}(a + b x_t),

exact Kalman filter over x given W, Bayesian regressions for the rows of W, moving noise variance,
and a mixture over the units g in which the model is linear. The first `warm` rows are predicted by
the last value; then their units are known and they are learned from, in order, at once.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, Key

from rmcvi._contract import AbstractLearner
from rmcvi._core.checks import check_int, check_real
from rmcvi._core.inputs import Inputs
from rmcvi.conjugate import _component, _mixture, _query
from rmcvi.conjugate._columns import Columns, Waiting, moments
from rmcvi.conjugate._component import Component, Kind
from rmcvi.conjugate._design import Design
from rmcvi.conjugate._mixture import Band, Mixture
from rmcvi.conjugate._recent import Exogenous, Recent
from rmcvi.conjugate._settings import Settings
from rmcvi.conjugate._state import SeasonalInfo, SeasonalState
from rmcvi.conjugate._units import Located, Units, bend

BURN = 32
"""Rows before the window of `impute`, from which its filter finds its way."""


class SeasonalLearner(AbstractLearner):
    """Forecasts, gaps and intervals for columns in their raw units, from the first row on.

    Lags count rows; the season's clock goes on by `dt`, one row a unit. Inputs may have any units.
    """

    dim_obs: int = eqx.field(static=True)
    dim_input: int = eqx.field(static=True)
    design: Design
    settings: Settings
    level: float = eqx.field(static=True)
    warm: int = eqx.field(static=True)
    window: int = eqx.field(static=True)
    phase_input: bool = eqx.field(static=True)
    kinds: tuple[tuple[bool, bool], ...] = eqx.field(static=True)

    def __init__(
        self,
        dim_obs: int,
        dim_input: int = 0,
        *,
        period: int | None = 24,
        long_period: int | None = 168,
        cross: int = 2,
        own: int = 3,
        long: Sequence[int] = (23, 24, 25),
        harmonics: int = 4,
        phase_input: bool = False,
        plain: bool = True,
        keep: float = 0.9995,
        degrees: int = 6,
        memory: float = 1000.0,
        gate: float = 15.0,
        warm: int = 24,
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
            long: further lags of its own, beyond `own`.
            harmonics: sines and cosines of the period.
            phase_input: the first input is the phase in rows, such as hours since any Monday;
                otherwise rows are counted.
            plain: add a component without seasonal inputs, for series that have no season.
            keep: what a regression keeps from one row to the next, in (0, 1].
            degrees: of Student's t, an even number.
            memory: number of values that units remember.
            gate: deviations beyond which a value is doubted.
            warm: rows before the model starts.
            window: rows that `impute` can look back.
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
        if long_period is not None:
            check_int("long_period", long_period, (period or 0) + 1)
        if check_int("degrees", degrees, 2) % 2:
            raise ValueError(f"degrees: got {degrees}, expected an even number")
        self.dim_obs, self.dim_input = dim_obs, dim_input
        self.design = Design(
            size=dim_obs,
            width=dim_input - phase_input,
            cross=cross,
            own=own,
            long=tuple(check_int("long", lag, own + 1) for lag in long),
            periods=tuple(p for p in (period, long_period) if p is not None),
            harmonics=harmonics,
        )
        self.settings = Settings(
            keep=1.0 if keep == 1.0 else check_real("keep", keep, 0.0, 1.0),
            slow=0.003,
            slow_slopes=0.004,
            degrees=degrees,
            memory=check_real("memory", memory, 1.0),
            gate=check_real("gate", gate, 0.0),
        )
        self.level = check_real("level", level, 0.0, 1.0)
        self.warm = check_int("warm", warm, 8)
        self.window = check_int("window", window)
        self.phase_input = phase_input
        seasonal = period is not None
        self.kinds = ((False, seasonal), (True, seasonal), *([(False, False)] * plain))

    @property
    def kind(self) -> Kind:
        """What tells the components apart, as arrays."""
        bent = jnp.asarray([bent for bent, _ in self.kinds])
        return Kind(bent, jnp.stack([self.design.mask(seasonal) for _, seasonal in self.kinds]))

    def init(self, key: Key[Array, ""]) -> SeasonalState:
        """The state before the first observation; nothing is drawn."""
        d, m = self.design.size, len(self.kinds)
        one = Component.prior(self.design)
        rows = max(self.window + BURN, self.warm + 1)
        return SeasonalState(
            components=jax.tree.map(lambda v: jnp.tile(v[None], (m,) + (1,) * v.ndim), one),
            columns=Columns.unknown(self.design),
            waiting=Waiting.empty(self.warm, d),
            mixture=Mixture(jnp.zeros((m, d))),
            recent=Recent.empty(rows, d, self.design.width),
            exogenous=Exogenous.unknown(self.design.width),
            clock=jnp.zeros(()),
            t=jnp.zeros((), int),
            key=key,
        )

    def step(
        self, state: SeasonalState, y: Float[Array, "dy"], inputs: Inputs
    ) -> tuple[SeasonalState, SeasonalInfo]:
        """Predict, score, learn."""
        return self.step_at(state, y, inputs, self.level)

    def step_at(
        self, state: SeasonalState, y: Float[Array, "dy"], inputs: Inputs, level: float
    ) -> tuple[SeasonalState, SeasonalInfo]:
        """A step with intervals of another level."""
        y = jnp.where(jnp.isfinite(y), y, jnp.nan)
        u, phase = self._season(state, inputs)
        recent = state.recent.push(y, u, phase)
        exogenous = state.exogenous.add(u, self.settings.memory)
        started = state.t >= self.warm
        components, columns = self._welcome(state, started)
        components, columns, told = self._pass(
            components,
            columns,
            recent,
            exogenous,
            jnp.where(state.t == self.warm, self.warm, 0) + started,
        )
        simple = ~columns.known | ~started
        mixture, prediction = _mixture.predict(
            state.mixture,
            told,
            y,
            columns.scale,
            self.kind.bent,
            state.waiting,
            simple,
            self.settings.degrees,
            level,
        )
        new = SeasonalState(
            components=components,
            columns=columns,
            waiting=state.waiting.add(y, simple, columns),
            mixture=mixture,
            recent=recent,
            exogenous=exogenous,
            clock=phase,
            t=state.t + 1,
            key=state.key,
        )
        return new, SeasonalInfo(prediction)

    def _season(
        self, state: SeasonalState, inputs: Inputs
    ) -> tuple[Float[Array, "du"], Float[Array, ""]]:
        """Exogenous inputs and the phase of this row."""
        u = jnp.where(jnp.isfinite(inputs.u), inputs.u, jnp.nan)
        dt = jnp.where(jnp.isfinite(inputs.dt), inputs.dt, 1.0)
        turn = 1.0
        for period in self.design.periods:
            turn *= period
        # The first row's dt, before which there is nothing, does not count.
        clock = jnp.where(state.t > 0, state.clock + dt, 0.0) % turn
        if self.phase_input:
            u, clock = u[1:], jnp.where(jnp.isnan(u[0]), clock, u[0] % turn)
        return u, clock

    def _welcome(self, state: SeasonalState, started: Bool[Array, ""]) -> tuple[Component, Columns]:
        """Columns that have become known get their units."""
        columns, new = state.waiting.ready(state.columns)
        new = new & started
        columns = jax.tree.map(lambda a, b: jnp.where(started, a, b), columns, state.columns)
        early, valid = state.waiting.early, state.waiting.valid
        scale = jnp.broadcast_to(columns.scale, early.shape)

        def units(old, bent):
            centre, variance = moments(bend(early, scale, bent), valid)
            return Units(jnp.where(new, centre, old.centre), jnp.where(new, variance, old.variance))

        moved = jax.vmap(units)(state.components.units, self.kind.bent)
        return eqx.tree_at(lambda c: c.units, state.components, moved), columns

    def _pass(
        self,
        components: Component,
        columns: Columns,
        recent: Recent,
        exogenous: Exogenous,
        count: Int[Array, ""],
    ) -> tuple[Component, Columns, Located]:
        """Learn from the last `count` rows; the last one's prediction is told.

        Usually one row, none at first, and `warm` more once: the same program for all of them.
        """
        rows, kind = recent.y.shape[0], self.kind

        def body(i, carry):
            components, columns, _ = carry
            y, phase, u = recent.y[i], recent.phase[i], exogenous.standard(recent.u[i])
            told, located = jax.vmap(
                lambda c, mask: _component.ahead(c, columns, mask, u, phase, self.design)
            )(components, kind.mask)
            counted = columns.count(y, phase, self.design)
            components, ratio = jax.vmap(
                lambda c, a, bent: _component.learn(
                    c, a, counted, bent, y, phase, self.design, self.settings
                )
            )(components, told, kind.bent)
            return components, counted.judge(ratio, y, self.settings.gate), located

        shape = (len(self.kinds), self.design.size)
        nothing = Located(jnp.zeros(shape), jnp.ones(shape))
        return jax.lax.fori_loop(rows - count, rows, body, (components, columns, nothing))

    def forecast(
        self,
        state: SeasonalState,
        horizon: int,
        u: ArrayLike | None = None,
        dt: ArrayLike | None = None,
        *,
        level: float = 0.9,
    ) -> Band:
        """The next rows, each given only those before the first of them."""
        return _query.forecast(self, state, horizon, u, dt, level)

    def filter(self, state: SeasonalState, *, level: float = 0.9) -> Band:
        """The present row: what was seen, and the rest given it."""
        check_real("level", level, 0.0, 1.0)
        return _query.present(self, state, level)

    def impute(self, state: SeasonalState, lag: int, *, level: float = 0.9) -> Band:
        """The last `lag + 1` rows, what is missing given all rows so far."""
        return _query.impute(self, state, lag, level)

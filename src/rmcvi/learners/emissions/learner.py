"""`SeasonalLearner` with particles for columns that are counts or shares.

The closed form learns and predicts all columns as it always does, to the bit. Beside it, an
`Expert` predicts each column of counts or shares by particles, and what is said of such a column is
a mixture of both: the particles lead where they predict better, and only there.
"""

from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from rmcvi.contract import AbstractLearner, Band, ByHorizon, Prediction
from rmcvi.core.checks import check_instance, check_int, check_option, check_real
from rmcvi.core.inputs import Inputs
from rmcvi.learners.emissions.expert import Expert, ExpertState, Foreseen
from rmcvi.learners.emissions.mixing import Grid, Mixing
from rmcvi.learners.seasonal import SeasonalLearner
from rmcvi.models import LatentRate, NegativeBinomial, Poisson, Share

LAWS = {"poisson": Poisson, "negative-binomial": NegativeBinomial, "bounded": Share}
"""Laws by the names that users say."""


class Emission(NamedTuple):
    """How the values of a column come about."""

    column: int
    law: str
    """A name in `LAWS`."""
    low: float = 0.0
    high: float = float("inf")
    """Bounds of a share; those of counts are as they are here."""
    step: float = 1.0
    """Distance of two neighbouring values."""


class Group(eqx.Module):
    """Columns with the same law."""

    law: str = eqx.field(static=True)
    emissions: tuple[Emission, ...] = eqx.field(static=True)
    expert: Expert

    def __init__(self, law: str, emissions: tuple[Emission, ...]):
        """Put them together."""
        self.law, self.emissions, self.expert = law, emissions, Expert(LatentRate(LAWS[law]()))

    @property
    def columns(self) -> list[int]:
        """Where they are in a row."""
        return [e.column for e in self.emissions]

    @property
    def grid(self) -> Grid:
        """Where their values lie."""
        low, high, step = (
            jnp.asarray(v, float) for v in list(zip(*self.emissions, strict=True))[2:]
        )
        return Grid(low, high, 0.5 * step, whole=self.law != "bounded")

    def possible(self, y: Float[Array, "dy"]) -> Float[Array, "c"]:
        """Their values in a row, NaN in place of what cannot be."""
        grid, own = self.grid, y[jnp.asarray(self.columns)]
        inside = (own >= grid.low) & (own <= grid.high)
        return jnp.where(inside, jnp.round(own) if grid.whole else own, jnp.nan)

    def step(
        self,
        states: ExpertState,
        y: Float[Array, "c"],
        mean: Float[Array, "c"],
        dt: Float[Array, ""],
        level: float,
    ) -> tuple[ExpertState, Foreseen]:
        """Predict their values by particles around a mean, then learn from them."""
        grid = self.grid
        zero, one = grid.low, jnp.ones_like(grid.low) if grid.whole else grid.high - grid.low
        mean = jnp.where(jnp.isfinite(mean), (mean - zero) / one, 0.5)
        dt = jnp.where(jnp.isfinite(dt), jnp.maximum(dt, 0.0), 1.0)
        states, told = jax.vmap(lambda s, y, m, half: self.expert.step(s, y, m, half, dt, level))(
            states, (y - zero) / one, mean, grid.half / one
        )
        mean, low, high = grid.snap(*(zero + one * v for v in (told.mean, told.low, told.high)))
        return states, Foreseen(mean, low, high, told.log_mass, told.p_value)


class GroupState(eqx.Module):
    """What is known of a group, one entry per column."""

    experts: ExpertState
    mixing: Mixing


class EmissionState(eqx.Module):
    """What is known of all columns."""

    base: Any
    groups: tuple[GroupState, ...]


class EmissionInfo(eqx.Module):
    """What a step reports: the prediction, and what is behind it, group by group."""

    prediction: Prediction
    log_scores: Float[Array, "*batch dy"]
    """Log-probabilities of counts and shares, log-densities of others; 0 where nothing came."""
    closed: tuple[Foreseen, ...]
    """What the closed form alone says of counts and shares."""
    particles: tuple[Foreseen, ...]
    """What the particles alone say of them."""


class EmissionLearner(AbstractLearner):
    """A learner for columns of which some are counts, or shares of something."""

    base: SeasonalLearner
    groups: tuple[Group, ...]
    dim_obs: int = eqx.field(static=True)
    dim_input: int = eqx.field(static=True)
    level: float = eqx.field(static=True)

    def __init__(self, base: SeasonalLearner, emissions: tuple[Emission, ...]):
        """Set the learner up.

        Args:
            base: for all columns.
            emissions: of the columns that are counts or shares.
        """
        check_instance("base", base, SeasonalLearner)
        self.base, self.level = base, base.level
        self.dim_obs, self.dim_input = base.dim_obs, base.dim_input
        for e in emissions:
            check_option("law", e.law, LAWS)
            if check_int("column", e.column, 0) >= base.dim_obs:
                raise ValueError(f"column: got {e.column}, expected less than {base.dim_obs}")
            if e.law == "bounded":
                check_real("step", e.step, 0.0, check_real("high", e.high, e.low) - e.low)
        if not emissions or len({e.column for e in emissions}) < len(emissions):
            raise ValueError("emissions: got none or a column twice, expected some columns once")
        laws = sorted({e.law for e in emissions})
        self.groups = tuple(
            Group(law, tuple(sorted(e for e in emissions if e.law == law))) for law in laws
        )

    def init(self, key: Key[Array, ""]) -> EmissionState:
        """The state before the first observation."""

        def begin(i: int, group: Group) -> GroupState:
            keys = jax.random.split(jax.random.fold_in(key, i), len(group.emissions))
            return GroupState(jax.vmap(group.expert.init)(keys), Mixing.unknown(len(keys)))

        states = tuple(begin(i, group) for i, group in enumerate(self.groups))
        return EmissionState(self.base.init(key), states)

    def step(
        self, state: EmissionState, y: Float[Array, "dy"], inputs: Inputs
    ) -> tuple[EmissionState, EmissionInfo]:
        """Predict, score, learn."""
        base, info = self.base.step(state.base, y, inputs)
        prediction, scores = info.prediction, info.log_densities
        states, closed, particles = [], [], []
        for group, own in zip(self.groups, state.groups, strict=True):
            at, values = jnp.asarray(group.columns), group.possible(y)
            # Nothing is learned from a value before the closed form has said something of it.
            values = jnp.where(jnp.isnan(prediction.p_value[at]), jnp.nan, values)
            before = group.grid.foreseen(prediction, at, values, self.level)
            experts, beside = group.step(own.experts, values, before.mean, inputs.dt, self.level)
            mixed = own.mixing.mixed(group.grid, before, beside)
            prediction = _put(prediction, at, mixed)
            scores = scores.at[at].set(jnp.where(jnp.isnan(values), 0.0, mixed.log_mass))
            states.append(GroupState(experts, own.mixing.learn(values, before, beside)))
            closed.append(before)
            particles.append(beside)
        total = jnp.where(jnp.isnan(prediction.log_score), jnp.nan, jnp.sum(scores))
        prediction = eqx.tree_at(lambda p: p.log_score, prediction, total)
        info = EmissionInfo(prediction, scores, tuple(closed), tuple(particles))
        return EmissionState(base, tuple(states)), info

    @property
    def method(self) -> str:
        """That of the closed form, and what is done for which columns."""
        laws = ", ".join(f"{g.law} ({len(g.emissions)})" for g in self.groups)
        return (
            f"{self.base.method}; columns of counts or shares also by NaturalRMCVI with particles"
            f" of a hidden rate, {laws}, aggregated by probability"
        )

    @property
    def units(self) -> Literal["raw", "standard"]:
        """It learns them itself."""
        return "raw"

    @property
    def reach(self) -> int:
        """Rows before the present one."""
        return self.base.reach

    def at_level(self, level: float) -> "EmissionLearner":
        """The same learner with intervals of another probability."""
        other = super().at_level(level)
        return eqx.tree_at(lambda v: v.base, other, self.base.at_level(level))

    def present(self, state: EmissionState, *, level: float = 0.9) -> Band:
        """The closed form's, at possible values."""
        return self._possible(self.base.present(state.base, level=level))

    def recent(self, state: EmissionState, lag: int, *, level: float = 0.9) -> Band:
        """The closed form's, at possible values."""
        return self._possible(self.base.recent(state.base, lag, level=level))

    def _possible(self, band: Band) -> Band:
        for group in self.groups:
            at = jnp.asarray(group.columns)
            own = group.grid.snap(band.mean[..., at], band.low[..., at], band.high[..., at])
            parts = zip((band.mean, band.low, band.high), own, strict=True)
            band = Band(*(whole.at[..., at].set(part) for whole, part in parts))
        return band

    def by_horizon(self, state: EmissionState) -> ByHorizon:
        """Those of the closed form, for the columns that it predicts alone."""
        record = self.base.by_horizon(state.base)
        mixed = jnp.asarray([c for group in self.groups for c in group.columns])
        return eqx.tree_at(lambda r: r.count, record, record.count.at[:, mixed].set(0.0))

    def parameters(self, state: EmissionState) -> dict[str, Array]:
        """Those of the closed form, and of counts and shares those of their law."""
        own = self.base.parameters(state.base)
        for group, known in zip(self.groups, state.groups, strict=True):
            learned = jax.vmap(group.expert.parameters)(known.experts)
            learned |= {"particles": known.mixing.weight}
            own |= {f"{group.law}.{name}": value for name, value in learned.items()}
        return own


def _put(prediction: Prediction, at: Int[Array, "c"], mixed: Foreseen) -> Prediction:
    """The prediction with other numbers for some columns; its log score is as it was."""
    return Prediction(
        prediction.mean.at[at].set(mixed.mean),
        prediction.low.at[at].set(mixed.low),
        prediction.high.at[at].set(mixed.high),
        prediction.log_score,
        prediction.p_value.at[at].set(mixed.p_value),
    )

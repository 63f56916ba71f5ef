"""One row through all components and experts: predict, score, learn."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi.core import tree
from rmcvi.learners.seasonal.columns import STUCK, Columns
from rmcvi.learners.seasonal.component import Component, Kind
from rmcvi.learners.seasonal.design import Design
from rmcvi.learners.seasonal.experts import Experts, Scored, Skill, score
from rmcvi.learners.seasonal.learn import Value, learn
from rmcvi.learners.seasonal.nonlinear import BASE, NEXT, Base, Nonlinear
from rmcvi.learners.seasonal.panel import assemble, extended, season_alone, trial_forecast
from rmcvi.learners.seasonal.predict import Row, predict, standardised
from rmcvi.learners.seasonal.settings import Settings
from rmcvi.learners.seasonal.short_regression import ShortRegression
from rmcvi.learners.seasonal.smoothing import TWO, Smoothing
from rmcvi.learners.seasonal.state import Learned, SeasonalInfo
from rmcvi.learners.seasonal.trial import Trial
from rmcvi.learners.seasonal.units import LocationScale
from rmcvi.learners.seasonal.walk import RandomWalk


class Ensemble(eqx.Module):
    """What runs side by side, and how it learns; all of it is known when it is compiled."""

    design: Design
    settings: Settings
    kinds: tuple[tuple[bool, bool], ...] = eqx.field(static=True)
    """Of each component, whether it is in asinh units, and whether it has a season."""
    hidden: int = eqx.field(static=True)
    """Units of the nonlinear path; 0: there is none."""

    @property
    def kind(self) -> Kind:
        """What tells the components apart, as arrays."""
        asinh = jnp.asarray([asinh for asinh, _ in self.kinds])
        return Kind(asinh, jnp.stack([self.design.mask(seasonal) for _, seasonal in self.kinds]))

    @property
    def transforms(self) -> tuple[bool, ...]:
        """Which experts are in asinh units: components, those that add to one, simple ones."""
        components = tuple(asinh for asinh, _ in self.kinds)
        path = [components[BASE]] * bool(self.hidden)
        return (*components, *path, *components[:TWO], False, False, False)

    def nothing(self) -> Learned:
        """What is known before the first row."""
        d, m = self.design.size, len(self.kinds)
        one = Component.prior(self.design)
        return Learned(
            components=jax.tree.map(lambda v: jnp.tile(v[None], (m,) + (1,) * v.ndim), one),
            columns=Columns.unknown(self.design),
            walk=RandomWalk.unknown(d),
            smoothing=Smoothing.unknown(d),
            short=ShortRegression.unknown(d),
            nonlinear=[Nonlinear.unknown(self.hidden, self.design)] * bool(self.hidden),
            skill=Skill.unknown(len(self.transforms), d),
            trial=Trial.none(self.design),
        )

    def row(
        self,
        learned: Learned,
        y: Float[Array, "dy"],
        row: Row,
        started: Bool[Array, ""],
        latest: Bool[Array, ""],
        level: float,
    ) -> tuple[Learned, SeasonalInfo]:
        """Predict a row, score the prediction, learn from the row.

        Args:
            learned: what was learned before.
            y: the row.
            row: what is known of it before it is seen.
            started: whether there were rows enough.
            latest: one that is not was met before, by the last value.
            level: probability of the interval.
        """
        components, columns, walk = learned.components, learned.columns, learned.walk
        kind, settings, trial = self.kind, self.settings, learned.trial
        season = season_alone(components, columns, row.phase, self.design)
        last = LocationScale(walk.last, walk.deviation)
        known = columns.known & started
        predicted, laws = jax.vmap(
            lambda c, mask: predict(
                c, c.path, c.season(columns, row.phase, self.design), mask, row, self.design
            )
        )(components, kind.mask)
        short = learned.short.predict(walk, season)
        smoothed = learned.smoothing.predict(components, columns, row.phase, walk.gap, self.design)
        base = Base.of(components, predicted, laws)
        paths = [p.predict(base, columns, row, walk.gap, self.design) for p in learned.nonlinear]
        laws = extended(laws, [path.law for path in paths], smoothed.law)
        experts = assemble(laws, season, short[1], last, self.transforms, walk.gap, known)
        been = trial.been(columns, row.phase, self.design)
        components, forecast, season_then = trial_forecast(
            components, been, kind.mask, row, predicted.leverage, self.design
        )
        running = known & trial.known & trial.running & (trial.horizon > 1.5)
        last = LocationScale(trial.walk.last, trial.walk.deviation)
        silent = LocationScale(trial.walk.last, jnp.full(self.design.size, jnp.nan))
        forecast = extended(forecast, [silent] * (len(paths) + TWO))
        later = assemble(
            forecast, season_then, silent, last, self.transforms, trial.horizon, running
        )
        # A row teaches a horizon once, by its own prediction rather than the forecast under way.
        running = running & (later.bins != experts.bins)
        scored, skill = self.score(
            learned.skill,
            (experts, later),
            (y, jnp.where(running, y, jnp.nan)),
            (walk, trial.walk),
            columns.scale,
            level,
        )
        far = scored.far & latest
        belief = jnp.where(far, walk.belief(y, settings.gate), 1.0)
        teaches = columns.known & ~jnp.isnan(y) & (walk.repeats < STUCK)
        z, _ = standardised(base.component, columns, kind.asinh[BASE], y)
        nonlinear = [
            path.learn(said, base, z, teaches & (walk.gap < NEXT), settings)
            for path, said in zip(learned.nonlinear, paths, strict=True)
        ]
        columns = columns.count(teaches, row.phase, self.design)
        value = Value(y, row.phase, teaches, jnp.where(latest, belief, 0.0))
        components, moved = jax.vmap(
            lambda c, p, asinh: learn(c, p, columns, asinh, value, self.design, settings)
        )(components, predicted, kind.asinh)
        columns = columns.restart(jnp.any(moved, 0))
        confirmed = far & walk.confirms(y, settings.gate)
        walked = walk.learn(y, far, settings.gate)
        trial, components = trial.at(been, row.phase, self.design).onward(
            components, columns, walked, started, jnp.any(moved)
        )
        taught = ~jnp.isnan(y) & ~far & (walk.repeats < STUCK)
        smoothing = learned.smoothing.learn(
            smoothed, y, columns, kind.asinh[:TWO], taught, confirmed
        )
        shorter = learned.short.learn(short, y, walk, taught, confirmed, season)
        new = (walked, shorter, nonlinear, skill.trust_last(confirmed), trial)
        old = (walk, learned.short, learned.nonlinear, learned.skill, learned.trial)
        new = tree.where(latest, new, old)
        info = SeasonalInfo(scored.prediction, scored.log_densities)
        return Learned(components, columns, smoothing, *new), info

    def score(
        self,
        skill: Skill,
        both: tuple[Experts, Experts],
        ys: tuple[Float[Array, "dy"], Float[Array, "dy"]],
        walks: tuple[RandomWalk, RandomWalk],
        scale: Float[Array, "dy"],
        level: float,
    ) -> tuple[Scored, Skill]:
        """What the first experts say of their row, and the skill of both after their rows."""
        experts = jax.tree.map(lambda *v: jnp.stack(v), *both)
        walk, y = jax.tree.map(lambda *v: jnp.stack(v), *walks), jnp.stack(ys)
        scored = jax.vmap(
            lambda experts, walk, y: score(skill, experts, y, scale, walk, self.settings, level)
        )(experts, walk, y)
        taught = jax.vmap(lambda e: e.here)(experts) & ~jnp.isnan(y)[:, None]
        for i in (1, 0):  # widths of further rows go with those of the next, which comes last
            skill = skill.put(jax.tree.map(lambda v, i=i: v[i], scored.skill), taught[i])
        return jax.tree.map(lambda v: v[0], scored), skill

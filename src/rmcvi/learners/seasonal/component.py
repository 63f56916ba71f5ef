"""One component: a state-space model that is linear in its own units, and all it has learned."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi.core.regression import Regression
from rmcvi.learners.seasonal.columns import Columns
from rmcvi.learners.seasonal.companion import Companion
from rmcvi.learners.seasonal.design import Design
from rmcvi.learners.seasonal.level_shift import LevelShift
from rmcvi.learners.seasonal.noise import Noise
from rmcvi.learners.seasonal.units import Units


class Kind(eqx.Module):
    """What tells components apart."""

    asinh: Bool[Array, "*m"]
    """Linear in s asinh(y / s), not in y."""
    mask: Float[Array, "*m k"]
    """Inputs in use."""


class Path(eqx.Module):
    """Where a filter is: the last rows, and the older ones that long lags need."""

    state: Companion
    older: Float[Array, "older dy"]
    """Rows before those of the state, latest first."""

    def onward(self, state: Companion, design: Design) -> "Path":
        """One row on."""
        older = jnp.concatenate([state.mean[None, -design.size :], self.older])[: design.older]
        return Path(state, older)

    def expressed(self, r: Float[Array, "dy"], f: Float[Array, "dy"]) -> "Path":
        """In units in which z is r z + f."""
        repeat = self.state.mean.shape[0] // r.shape[0]
        ratios, shifts = jnp.tile(r, repeat), jnp.tile(f, repeat)
        mean = self.state.mean * ratios + shifts
        cov = self.state.covariance * ratios[:, None] * ratios[None]
        return Path(Companion(mean, cov), self.older * r[None] + f[None])


Pairs = list[tuple[Float[Array, "dy"], Float[Array, "dy"]]]
"""Of each period, the profile at a phase and at the one before."""
Been = list[tuple[Bool[Array, "2 dy"], Bool[Array, "2 dy"]]]
"""Of each period, at a phase and at the one before: whether the forecast under way has been there,
and whether there was a value when it was made."""


class Frozen(eqx.Module):
    """A forecast under way, by which those of its length are judged, and what it rests on."""

    path: Path
    weights: Float[Array, "*m dy k"]
    noise: Noise
    units: Units
    profiles: list[Float[Array, "*m _ dy"]]
    """What profiles said at the phases where the forecast has been, in these units."""


class Component(eqx.Module):
    """All that one component has learned, in its own standard units."""

    rows: Regression
    path: Path
    """The filter."""
    trial: Frozen
    profiles: list[Float[Array, "_ dy"]]
    noise: Noise
    units: Units
    shift: LevelShift
    """Values in a row that were far out."""

    @classmethod
    def prior(cls, design: Design) -> "Component":
        """Nothing seen."""
        d, n = design.size, (design.own + 1) * design.size
        waves = 2 * min(2, design.harmonics)
        path = Path(Companion(jnp.zeros(n), jnp.eye(n)), jnp.zeros((design.older, d)))
        rows = Regression.prior(*design.prior())
        noise, units = Noise.prior(d, waves + 2), Units(jnp.zeros(d), jnp.ones(d))
        profiles = [jnp.zeros((period, d)) for period in design.periods]
        trial = Frozen(path, rows.weights, noise, units, profiles)
        return cls(rows, path, trial, profiles, noise, units, LevelShift.none(d))

    def season(self, columns: Columns, phase: Float[Array, ""], design: Design) -> Pairs:
        """Each profile at this phase and the one before."""
        entries = [
            [(profile[j], count[j] > 0.0) for j in design.places(phase, period)]
            for profile, count, period in zip(
                self.profiles, columns.visits, design.periods, strict=True
            )
        ]
        return _resolved(entries, self.path.state.mean[: design.size])

    def season_then(self, been: Been, phase: Float[Array, ""], design: Design) -> Pairs:
        """The same as it was when the forecast under way was made, in the units of then.

        Where the forecast has not been yet, no row since has taught anything.
        """
        r, f = self.units.change(self.trial.units)
        entries = [
            [
                (jnp.where(was, old[j], profile[j] * r + f), known)
                for j, was, known in zip(design.places(phase, period), *here, strict=True)
            ]
            for profile, old, period, here in zip(
                self.profiles, self.trial.profiles, design.periods, been, strict=True
            )
        ]
        return _resolved(entries, self.trial.path.state.mean[: design.size])

    def as_it_was(self) -> "Component":
        """The component when the forecast was made, but for its uncertainty and its profiles."""
        then = self.trial
        return eqx.tree_at(
            lambda c: (c.rows.weights, c.path, c.noise, c.units),
            self,
            (then.weights, then.path, then.noise, then.units),
        )


def _resolved(entries: list[list[tuple[Array, Array]]], last: Float[Array, "dy"]) -> Pairs:
    """Values, where there is one; else that of the shorter period, the last value at first."""
    pairs, back = [], (last, last)
    for both in entries:
        (now, known), (before, then) = both
        back = jnp.where(known, now, back[0]), jnp.where(then, before, back[1])
        pairs.append(back)
    return pairs

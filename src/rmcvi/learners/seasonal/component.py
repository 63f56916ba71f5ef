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


class Component(eqx.Module):
    """All that one component has learned, in its own standard units."""

    rows: Regression
    path: Path
    """The filter."""
    trial: Path
    """A forecast under way, by which those of its length are judged."""
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
        return cls(
            rows=Regression.prior(*design.prior()),
            path=path,
            trial=path,
            profiles=[jnp.zeros((period, d)) for period in design.periods],
            noise=Noise.prior(d, waves + 2),
            units=Units(jnp.zeros(d), jnp.ones(d)),
            shift=LevelShift.none(d),
        )

    def season(
        self, columns: Columns, phase: Float[Array, ""], design: Design
    ) -> list[tuple[Float[Array, "dy"], Float[Array, "dy"]]]:
        """Each profile at this phase and the one before.

        An empty one falls back on that of the shorter period, the shortest on the last value.
        """
        last = self.path.state.mean[: design.size]
        pairs, back = [], (last, last)
        for profile, count, period in zip(
            self.profiles, columns.visits, design.periods, strict=True
        ):
            places = design.places(phase, period)
            back = tuple(
                jnp.where(count[j] > 0.0, profile[j], b) for j, b in zip(places, back, strict=True)
            )
            pairs.append(back)
        return pairs

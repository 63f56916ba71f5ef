"""One component: a state-space model that is linear in its own units, one row at a time.

    mu = W phi,    S = diag(F C F' + D K D + min(phi' P phi, 4)),    z | past ~ t_nu(mu, S),
    w = (nu + 1) / (nu + e^2 / S),    e = z - mu:    weight of the row in all that is learned.

Predict (`ahead`), then condition and learn (`learn`). Missing and unknown columns are masked.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi.core.regression import Regression
from rmcvi.learners.seasonal.columns import Columns
from rmcvi.learners.seasonal.companion import Companion
from rmcvi.learners.seasonal.design import BOUND, GAINS, Design
from rmcvi.learners.seasonal.noise import Noise
from rmcvi.learners.seasonal.settings import Settings
from rmcvi.learners.seasonal.streak import ENOUGH, Streak
from rmcvi.learners.seasonal.units import Located, Units, to_asinh

JITTER = 1e-6
"""Least variance of a prediction: a thousandth of the column's deviation."""
MOST = 4.0
"""Variance of the mean beyond this does not count."""


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
    streak: Streak
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
            streak=Streak.none(d),
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


class Row(eqx.Module):
    """What is known of a row before it is seen: exogenous inputs, phase, time since the last."""

    u: Float[Array, "du"]
    phase: Float[Array, ""]
    dt: Float[Array, ""]


class Value(eqx.Module):
    """A row that was seen, what it may teach, and how far values far out are followed."""

    y: Float[Array, "dy"]
    teaches: Bool[Array, "dy"]
    belief: Float[Array, "dy"]


class Ahead(eqx.Module):
    """A prediction in standard units, and what learning from its outcome needs."""

    white: Float[Array, "dy k"]
    leverage: Float[Array, "dy"]
    features: Float[Array, "dy f"]
    noise: Float[Array, "dy"]
    """Variance D^2 of the noise."""
    transition: Float[Array, "dy lags"]
    joint: Companion

    @property
    def mu(self) -> Float[Array, "dy"]:
        """Mean of the row."""
        return self.joint.mean[: self.leverage.shape[0]]

    @property
    def variance(self) -> Float[Array, "dy"]:
        """The variance S."""
        return jnp.maximum(jnp.diagonal(self.joint.covariance)[: self.leverage.shape[0]], JITTER)


def ahead(
    component: Component,
    path: Path,
    columns: Columns,
    mask: Float[Array, "k"],
    row: Row,
    design: Design,
    leverage: Float[Array, "dy"] | None = None,
) -> tuple[Ahead, Located]:
    """The next row on a path, given all before it; `leverage` if it need not be worked out."""
    past = path.state.past(design.size)
    waves, first_waves = design.season(row.phase)
    pairs = component.season(columns, row.phase, design)
    phi = mask[None] * design.inputs(past, path.older, pairs, waves, row.u)
    rows, noise = component.rows, component.noise
    mu = jnp.clip(jnp.sum(rows.weights * phi, 1), -BOUND, BOUND)
    white = jnp.zeros_like(phi)
    if leverage is None:
        white, leverage = jax.vmap(Regression.leverage)(rows, phi)
    features = noise.features(first_waves, mu)
    variance = noise.now(features)
    root = jnp.sqrt(variance)
    cov = root[:, None] * noise.correlation * root[None]
    cov = cov + jnp.diag(jnp.minimum(leverage, MOST) + JITTER)
    transition = design.transition(rows.weights)
    joint = path.state.ahead(mu, transition, jnp.maximum(row.dt, 1.0) * cov)
    told = Ahead(white, leverage, features, variance, transition, joint)
    return told, component.units.located(told.mu, told.variance)


def standardised(
    component: Component, columns: Columns, asinh: Bool[Array, ""], y: Float[Array, "dy"]
) -> tuple[Float[Array, "dy"], Bool[Array, "dy"]]:
    """Values z, with 0 for what the model does not see, and what it sees."""
    seen = columns.known & ~jnp.isnan(y)
    z = component.units.standard(to_asinh(y, columns.scale, asinh))
    return jnp.where(seen, z, 0.0), seen


def extra_noise(
    ratio: Float[Array, "dy"],
    variance: Float[Array, "dy"],
    belief: Float[Array, "dy"],
    gate: float,
) -> Float[Array, "dy"]:
    """R: the state follows a value beyond `gate` deviations by a share `belief`, or less than
    `gate` deviations if that is more.
    """
    share = jnp.maximum(jnp.minimum(1.0, gate**2 / jnp.maximum(ratio, 1e-12)), belief)
    return variance * (1.0 / share - 1.0)


def learn(
    component: Component,
    told: Ahead,
    columns: Columns,
    asinh: Bool[Array, ""],
    value: Value,
    phase: Float[Array, ""],
    design: Design,
    settings: Settings,
) -> tuple[Component, Bool[Array, "dy"]]:
    """The component after the row, and which columns it now takes to be at a new level.

    `columns` counts the row.
    """
    z, seen = standardised(component, columns, asinh, value.y)
    variance, nu = told.variance, settings.degrees
    error = jnp.where(seen, z - told.mu, 0.0)
    ratio = error**2 / variance
    state = told.joint.condition(
        error, extra_noise(ratio, variance, value.belief, settings.gate), seen
    )
    teaches = value.teaches & (ratio <= settings.gate**2)
    weight = (nu + 1.0) / (nu + ratio)
    free = jnp.maximum(variance - told.leverage, told.noise) / weight
    # A row that teaches nothing is one that nothing explains, and after which nothing is forgotten.
    rows = jax.vmap(Regression.learn)(
        component.rows,
        jnp.where(teaches[:, None], told.white, 0.0),
        jnp.where(teaches, error, 0.0),
        free,
        jnp.where(teaches, settings.keep, 1.0),
        design.prior()[1],
    )
    surprise = (weight * ratio - 1.0) * (told.noise / variance)
    noise = component.noise.learn(surprise, told.features, teaches, columns.noisy, settings)
    rate = jnp.maximum(1.0 / (10.0 + columns.rows), settings.slow)
    noise = noise.correlate(_second_moment(told, state), jnp.where(jnp.any(teaches), rate, 0.0))
    new = Component(
        rows=rows,
        path=component.path.onward(state, design),
        trial=component.trial,
        profiles=_follow(component, columns, state, teaches, phase, design),
        noise=noise,
        units=component.units,
        streak=component.streak.add(z, told.mu, ratio > settings.gate**2, seen),
    )
    gain = jnp.where(teaches, 1.0 / jnp.minimum(columns.values, settings.memory), 0.0)
    return _relocate(_express(new, component.units.learn(z, gain)))


def _relocate(component: Component) -> tuple[Component, Bool[Array, "dy"]]:
    """Columns at a new level: everything that was learned moves there with the units.

    If the values at the new level scatter far more than expected, the units widen as well.
    """
    streak = component.streak
    which, usual = streak.enough, jnp.sqrt(component.noise.variance)
    units = component.units.moved(streak.shift, streak.scale(usual), which)
    # The rows of the streak are at the new level already; what is older moves there.
    ratio, shift = component.units.change(units)
    state, older = component.path.state, component.path.older

    def there(rows: Float[Array, "n dy"]) -> Float[Array, "n dy"]:
        moved = jnp.clip(rows * ratio[None] + shift[None], -BOUND, BOUND)
        return jnp.where(which[None], moved, rows)

    latest = state.mean.reshape(-1, which.shape[0])
    rest = max(0, ENOUGH - latest.shape[0])
    path = Path(
        Companion(there(latest).ravel(), state.covariance),
        jnp.concatenate([there(older[:rest]), older[rest:]]),
    )
    new = eqx.tree_at(
        lambda c: (c.units, c.path, c.streak), component, (units, path, streak.ended(which))
    )
    return new, which


def _second_moment(told: Ahead, state: Companion) -> Float[Array, "dy dy"]:
    """E[noise noise' | data], in units of D: noise = (I, -F) (x_t, .., x_{t-own})."""
    from_state = jnp.concatenate([jnp.eye(told.leverage.shape[0]), -told.transition], 1)
    noise = from_state @ (state.mean - told.joint.mean)
    second = noise[:, None] * noise[None] + from_state @ state.covariance @ from_state.T
    root = jnp.sqrt(told.noise)
    return second / (root[:, None] * root[None])


def _follow(
    component: Component,
    columns: Columns,
    state: Companion,
    teaches: Bool[Array, "dy"],
    phase: Float[Array, ""],
    design: Design,
) -> list[Float[Array, "_ dy"]]:
    """Profiles: p[phase] moves towards the value just seen."""
    profiles = []
    for profile, count, period, gain in zip(
        component.profiles, columns.visits, design.periods, GAINS, strict=False
    ):
        j, _ = design.places(phase, period)
        rate = jnp.maximum(1.0 / jnp.maximum(count[j], 1.0), gain)
        step = jnp.where(teaches, rate, 0.0) * (state.mean[: design.size] - profile[j])
        profiles.append(profile.at[j].set(profile[j] + step))
    return profiles


def _express(component: Component, units: Units) -> Component:
    """Everything in new units."""
    r, f = component.units.change(units)
    noise = component.noise
    return Component(
        rows=component.rows,
        path=component.path.expressed(r, f),
        trial=component.trial.expressed(r, f),
        profiles=[profile * r[None] + f[None] for profile in component.profiles],
        noise=eqx.tree_at(lambda n: n.variance, noise, noise.variance * r**2),
        units=units,
        streak=component.streak,
    )

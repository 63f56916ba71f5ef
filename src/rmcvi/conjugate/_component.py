"""One component: a state-space model that is linear in its own units, one row at a time.

    mu = W phi,    S = diag(F C F' + D K D + min(phi' P phi, 4)),    z | past ~ t_nu(mu, S),
    w = (nu + 1) / (nu + e^2 / S),    e = z - mu:    weight of the row in all that is learned.

Predict (`ahead`), then condition and learn (`learn`). Missing and unknown columns are masked.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi.conjugate._columns import Columns
from rmcvi.conjugate._companion import Companion
from rmcvi.conjugate._design import BOUND, GAINS, Design
from rmcvi.conjugate._noise import Noise
from rmcvi.conjugate._rows import Rows
from rmcvi.conjugate._settings import Settings
from rmcvi.conjugate._units import Located, Units, bend

JITTER = 1e-6
MOST = 4.0
"""Variance of the mean beyond this does not count."""


class Kind(eqx.Module):
    """What tells components apart."""

    bent: Bool[Array, "*m"]
    """Linear in s asinh(y / s), not in y."""
    mask: Float[Array, "*m k"]
    """Inputs in use."""


class Component(eqx.Module):
    """All that one component has learned, in its own standard units."""

    rows: Rows
    state: Companion
    older: Float[Array, "older dy"]
    """Rows before those of the state, latest first."""
    profiles: list[Float[Array, "_ dy"]]
    noise: Noise
    units: Units

    @classmethod
    def prior(cls, design: Design) -> "Component":
        """Nothing seen."""
        d, n = design.size, (design.own + 1) * design.size
        waves = 2 * min(2, design.harmonics)
        return cls(
            rows=Rows.prior(*design.prior()),
            state=Companion(jnp.zeros(n), jnp.eye(n)),
            older=jnp.zeros((design.older, d)),
            profiles=[jnp.zeros((period, d)) for period in design.periods],
            noise=Noise.prior(d, waves + 2),
            units=Units(jnp.zeros(d), jnp.ones(d)),
        )


class Ahead(eqx.Module):
    """A prediction in standard units, and what learning from its outcome needs."""

    phi: Float[Array, "dy k"]
    lever: Float[Array, "dy"]
    features: Float[Array, "dy f"]
    variance: Float[Array, "dy"]
    """D^2."""
    transition: Float[Array, "dy lags"]
    joint: Companion

    @property
    def mu(self) -> Float[Array, "dy"]:
        """Mean of the row."""
        return self.joint.mean[: self.lever.shape[0]]

    @property
    def spread(self) -> Float[Array, "dy"]:
        """S."""
        return jnp.diagonal(self.joint.covariance)[: self.lever.shape[0]]


def ahead(
    component: Component,
    columns: Columns,
    mask: Float[Array, "k"],
    u: Float[Array, "du"],
    phase: Float[Array, ""],
    design: Design,
) -> tuple[Ahead, Located]:
    """The next row, given all before it."""
    past = component.state.past(design.size)
    waves, first_waves = design.season(phase)
    pairs, back = [], (past[0], past[0])
    for profile, count, period in zip(
        component.profiles, columns.visits, design.periods, strict=True
    ):
        # An empty profile falls back on that of the shorter period, that one on the last value.
        places = design.places(phase, period)
        back = tuple(
            jnp.where(count[j] > 0.0, profile[j], b) for j, b in zip(places, back, strict=True)
        )
        pairs.append(back)
    phi = mask[None] * design.inputs(past, component.older, pairs, waves, u)
    rows, noise = component.rows, component.noise
    mu = jnp.clip(jnp.sum(rows.weights * phi, 1), -BOUND, BOUND)
    _, lever = rows.spread(phi)
    features = noise.features(first_waves, mu)
    variance = noise.now(features)
    root = jnp.sqrt(variance)
    cov = root[:, None] * noise.correlation * root[None]
    cov = cov + jnp.diag(jnp.minimum(lever, MOST) + JITTER)
    transition = design.transition(rows.weights)
    joint = component.state.ahead(mu, transition, cov)
    told = Ahead(phi, lever, features, variance, transition, joint)
    return told, component.units.located(told.mu, told.spread)


def standardised(
    component: Component, columns: Columns, bent: Bool[Array, ""], y: Float[Array, "dy"]
) -> tuple[Float[Array, "dy"], Bool[Array, "dy"]]:
    """Values z, with 0 for what the model does not see, and what it sees."""
    seen = columns.known & ~jnp.isnan(y)
    z = component.units.standard(bend(y, columns.scale, bent))
    return jnp.where(seen, z, 0.0), seen


def extra_noise(
    ratio: Float[Array, "dy"], spread: Float[Array, "dy"], columns: Columns, gate: float
) -> Float[Array, "dy"]:
    """R: a value beyond `gate` deviations counts less, the less the longer such values last."""
    far = jnp.maximum(1.0, ratio / (gate * 4.0**columns.streak) ** 2)
    return spread * (far - 1.0)


def learn(
    component: Component,
    told: Ahead,
    columns: Columns,
    bent: Bool[Array, ""],
    y: Float[Array, "dy"],
    phase: Float[Array, ""],
    design: Design,
    settings: Settings,
) -> tuple[Component, Float[Array, "dy"]]:
    """The component after the row, and the squared errors e^2 / S; `columns` counts the row."""
    z, seen = standardised(component, columns, bent, y)
    spread, nu = told.spread, settings.degrees
    error = jnp.where(seen, z - told.mu, 0.0)
    ratio = error**2 / spread
    state = told.joint.condition(error, extra_noise(ratio, spread, columns, settings.gate), seen)
    weight = (nu + 1.0) / (nu + ratio)
    free = jnp.maximum(spread - told.lever, told.variance) / weight
    rows = component.rows.learn(told.phi, error, free, seen, settings.keep, design.prior()[1])
    share = told.variance / spread
    surprise = (weight * ratio - 1.0) * share
    noise = component.noise.learn(
        surprise, told.features, seen, columns.noisy, settings.slow, settings.slow_slopes
    )
    rate = jnp.maximum(1.0 / (10.0 + columns.rows), settings.slow)
    noise = noise.correlate(_second_moment(told, state), jnp.where(jnp.any(seen), rate, 0.0))
    new = Component(
        rows=rows,
        state=state,
        older=jnp.concatenate([state.mean[None, -design.size :], component.older])[: design.older],
        profiles=_follow(component, columns, state, seen, phase, design),
        noise=noise,
        units=component.units,
    )
    gain = jnp.where(seen, 1.0 / jnp.minimum(columns.values, settings.memory), 0.0)
    return _express(new, component.units.learn(z, gain)), ratio


def _second_moment(told: Ahead, state: Companion) -> Float[Array, "dy dy"]:
    """E[noise noise' | data], in units of D: noise = (I, -F) (x_t, .., x_{t-own})."""
    from_state = jnp.concatenate([jnp.eye(told.lever.shape[0]), -told.transition], 1)
    noise = from_state @ (state.mean - told.joint.mean)
    second = noise[:, None] * noise[None] + from_state @ state.covariance @ from_state.T
    root = jnp.sqrt(told.variance)
    return second / (root[:, None] * root[None])


def _follow(
    component: Component,
    columns: Columns,
    state: Companion,
    seen: Bool[Array, "dy"],
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
        moved = profile[j] + jnp.where(seen, rate, 0.0) * (state.mean[: design.size] - profile[j])
        profiles.append(profile.at[j].set(moved))
    return profiles


def _express(component: Component, units: Units) -> Component:
    """Everything in new units."""
    r, f = component.units.change(units)
    repeat = component.state.mean.shape[0] // r.shape[0]
    ratios, shifts = jnp.tile(r, repeat), jnp.tile(f, repeat)
    state, noise = component.state, component.noise
    return Component(
        rows=component.rows,
        state=Companion(
            state.mean * ratios + shifts, state.covariance * ratios[:, None] * ratios[None]
        ),
        older=component.older * r[None] + f[None],
        profiles=[profile * r[None] + f[None] for profile in component.profiles],
        noise=Noise(noise.variance * r**2, noise.slopes, noise.volatility, noise.correlation),
        units=units,
    )

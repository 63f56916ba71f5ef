"""What a component learns from a row: condition on it, then move everything a little.

    w = (nu + 1) / (nu + e^2 / S),    e = z - mu:    weight of the row in all that is learned.

Missing and unknown columns are masked.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi.core.regression import Regression
from rmcvi.learners.seasonal.columns import Columns
from rmcvi.learners.seasonal.companion import Companion
from rmcvi.learners.seasonal.component import Component, Path
from rmcvi.learners.seasonal.design import BOUND, Design
from rmcvi.learners.seasonal.level_shift import ENOUGH
from rmcvi.learners.seasonal.predict import RowPrediction, extra_noise, standardised
from rmcvi.learners.seasonal.settings import Settings
from rmcvi.learners.seasonal.units import Units


class Value(eqx.Module):
    """A row that was seen, what it may teach, and how far values far out are followed."""

    y: Float[Array, "dy"]
    phase: Float[Array, ""]
    teaches: Bool[Array, "dy"]
    belief: Float[Array, "dy"]


def learn(
    component: Component,
    predicted: RowPrediction,
    columns: Columns,
    asinh: Bool[Array, ""],
    value: Value,
    design: Design,
    settings: Settings,
) -> tuple[Component, Bool[Array, "dy"]]:
    """The component after the row, and which columns it now takes to be at a new level.

    Args:
        component: what was learned before.
        predicted: what it predicted of the row.
        columns: what all components share, the row counted.
        asinh: whether it is linear in s asinh(y / s).
        value: the row.
        design: sizes and places of the inputs.
        settings: rates.
    """
    z, seen = standardised(component, columns, asinh, value.y)
    variance, nu = predicted.variance, settings.degrees
    error = jnp.where(seen, z - predicted.mu, 0.0)
    ratio = error**2 / variance
    state = predicted.joint.condition(
        error, extra_noise(ratio, variance, value.belief, settings.gate), seen
    )
    teaches = value.teaches & (ratio <= settings.gate**2)
    weight = (nu + 1.0) / (nu + ratio)
    free = jnp.maximum(variance - predicted.leverage, predicted.noise) / weight
    # A row that teaches nothing is one that nothing explains, and after which nothing is forgotten.
    rows = jax.vmap(Regression.learn)(
        component.rows,
        jnp.where(teaches[:, None], predicted.white, 0.0),
        jnp.where(teaches, error, 0.0),
        free,
        jnp.where(teaches, settings.keep, 1.0),
        design.prior()[1],
    )
    surprise = (weight * ratio - 1.0) * (predicted.noise / variance)
    noise = component.noise.learn(surprise, predicted.features, teaches, columns.noisy, settings)
    rate = jnp.maximum(1.0 / (10.0 + columns.rows), settings.slow)
    noise = noise.correlate(
        _second_moment(predicted, state), jnp.where(jnp.any(teaches), rate, 0.0)
    )
    new = Component(
        rows=rows,
        path=component.path.onward(state, design),
        trial=component.trial,
        profiles=_follow(component, columns, state, teaches, value.phase, design),
        noise=noise,
        units=component.units,
        shift=component.shift.add(z, predicted.mu, ratio > settings.gate**2, seen),
    )
    gain = jnp.where(teaches, 1.0 / jnp.minimum(columns.values, settings.memory), 0.0)
    return _relocate(_express(new, component.units.learn(z, gain)))


def _relocate(component: Component) -> tuple[Component, Bool[Array, "dy"]]:
    """Columns at a new level: everything that was learned moves there with the units.

    If the values at the new level scatter far more or less than expected, the units follow, and how
    much of that is noise is learned anew.
    """
    found = component.shift
    which, usual = found.certain, jnp.sqrt(component.noise.variance)
    scale = found.scale(usual)
    units = component.units.moved(found.distance, scale, which)
    noise = component.noise.restart(which & (scale != 1.0))
    # The rows since the shift are at the new level already; what is older moves there.
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
        lambda c: (c.units, c.path, c.noise, c.shift),
        component,
        (units, path, noise, found.ended(which)),
    )
    return new, which


def _second_moment(predicted: RowPrediction, state: Companion) -> Float[Array, "dy dy"]:
    """E[noise noise' | data], in units of D: noise = (I, -F) (x_t, .., x_{t-own})."""
    from_state = jnp.concatenate([jnp.eye(predicted.leverage.shape[0]), -predicted.transition], 1)
    noise = from_state @ (state.mean - predicted.joint.mean)
    second = noise[:, None] * noise[None] + from_state @ state.covariance @ from_state.T
    root = jnp.sqrt(predicted.noise)
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
    for i, (profile, count) in enumerate(zip(component.profiles, columns.visits, strict=True)):
        j, _ = design.places(phase, design.periods[i])
        rate = jnp.where(teaches, design.rate(i, count[j]), 0.0)
        step = rate * (state.mean[: design.size] - profile[j])
        profiles.append(profile.at[j].set(profile[j] + step))
    return profiles


def _express(component: Component, units: Units) -> Component:
    """Everything in new units."""
    r, f = component.units.change(units)
    noise = component.noise
    return Component(
        rows=component.rows,
        path=component.path.expressed(r, f),
        trial=component.trial,
        profiles=[profile * r[None] + f[None] for profile in component.profiles],
        noise=eqx.tree_at(lambda n: n.variance, noise, noise.variance * r**2),
        units=units,
        shift=component.shift,
    )

"""The experts for a row: the components, the season alone, short regression and last value."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi.learners.seasonal.columns import Columns
from rmcvi.learners.seasonal.component import Component, Path
from rmcvi.learners.seasonal.design import Design
from rmcvi.learners.seasonal.experts import Experts, bin_of
from rmcvi.learners.seasonal.predict import Row, predict
from rmcvi.learners.seasonal.pull import SIMPLE
from rmcvi.learners.seasonal.units import LocationScale


def season_alone(
    components: Component, columns: Columns, phase: Float[Array, ""], design: Design
) -> LocationScale:
    """What the season alone says, in raw units; its deviation is NaN if there is none."""
    first = jax.tree.map(lambda v: v[0], components)
    size = design.size
    if not design.periods:
        return LocationScale(jnp.zeros(size), jnp.full(size, jnp.nan))
    known = columns.visits[0][design.places(phase, design.periods[0])[0]] > 0.0
    profile = first.season(columns, phase, design)[-1][0]
    law = first.units.location_scale(profile, jnp.ones(size))
    return LocationScale(law.location, jnp.where(known, law.deviation, jnp.nan))


def trial_forecast(
    components: Component,
    columns: Columns,
    mask: Float[Array, "m k"],
    row: Row,
    leverage: Float[Array, "m dy"],
    design: Design,
) -> tuple[Component, LocationScale]:
    """The forecast under way, one row on, and what it says of this row.

    Args:
        components: what was learned; the paths of the forecast are in it.
        columns: what all components share.
        mask: inputs that each component uses.
        row: what is known of the row before it is seen.
        leverage: that of the row itself; its coefficients are taken to be as uncertain as those,
            since working them out is the dearest part of a prediction.
        design: sizes and places of the inputs.
    """

    def one(component: Component, mask: Array, leverage: Array) -> tuple[Path, LocationScale]:
        path = component.trial
        predicted, law = predict(component, path, columns, mask, row, design, leverage)
        return component.trial.onward(predicted.joint.unseen(design.size), design), law

    paths, laws = jax.vmap(one)(components, mask, leverage)
    return eqx.tree_at(lambda c: c.trial, components, paths), laws


def assemble(
    laws: LocationScale,
    season: LocationScale,
    short: LocationScale,
    last: LocationScale,
    asinh: tuple[bool, ...],
    horizon: Float[Array, "dy"],
    usable: Bool[Array, "dy"],
) -> Experts:
    """The panel; its last two are there whenever they are sound, the others where `usable`.

    Args:
        laws: of the components.
        season: what the season alone says.
        short: what the short regression says.
        last: the last value, and by how much it wanders in one row.
        asinh: which experts are in asinh units.
        horizon: rows since the last value of each column.
        usable: columns of which the components know enough.
    """
    wander = last.deviation * jnp.sqrt(horizon)
    alone = jnp.stack([season.location, short.location, last.location])
    location = jnp.concatenate([laws.location, alone])
    alone = jnp.stack([season.deviation, short.deviation, wander])
    deviation = jnp.concatenate([laws.deviation, alone])
    sound = jnp.isfinite(location) & (deviation > 0.0)
    always = jnp.arange(location.shape[0]) >= location.shape[0] - SIMPLE
    return Experts(
        laws=LocationScale(location, deviation),
        asinh=asinh,
        valid=sound & (usable[None] | always[:, None]),
        bins=bin_of(horizon),
    )

"""The experts for a row: the components, the season alone, short regression and last value."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi.learners.seasonal.columns import Columns
from rmcvi.learners.seasonal.component import Been, Component, Frozen, Pairs
from rmcvi.learners.seasonal.design import Design
from rmcvi.learners.seasonal.experts import BINS, Experts
from rmcvi.learners.seasonal.predict import Row, predict
from rmcvi.learners.seasonal.pull import SIMPLE
from rmcvi.learners.seasonal.units import LocationScale, Units


def season_alone(
    components: Component, columns: Columns, phase: Float[Array, ""], design: Design
) -> LocationScale:
    """What the season alone says, in raw units; its deviation is NaN if there is none."""
    first = jax.tree.map(lambda v: v[0], components)
    pairs = first.season(columns, phase, design)
    visits = [
        v[design.places(phase, p)[0]] for v, p in zip(columns.visits, design.periods, strict=True)
    ]
    return _season_law(first.units, pairs, [v > 0.0 for v in visits])


def trial_forecast(
    components: Component,
    been: Been,
    mask: Float[Array, "m k"],
    row: Row,
    leverage: Float[Array, "m dy"],
    design: Design,
) -> tuple[Component, LocationScale, LocationScale]:
    """The forecast under way, one row on, and what it and the season of its time say of this row.

    Args:
        components: what was learned; the paths of the forecast are in it.
        been: whether the forecast has been at this phase, and at the one before.
        mask: inputs that each component uses.
        row: what is known of the row before it is seen.
        leverage: that of the row itself; its coefficients are taken to be as uncertain as those,
            since working them out is the dearest part of a prediction.
        design: sizes and places of the inputs.
    """

    def one(
        component: Component, mask: Array, leverage: Array
    ) -> tuple[Frozen, LocationScale, LocationScale]:
        pairs = component.season_then(been, row.phase, design)
        then = component.as_it_was()
        predicted, law = predict(then, then.path, pairs, mask, row, design, leverage)
        path = then.path.onward(predicted.joint.unseen(design.size), design)
        profiles = [
            profile.at[design.places(row.phase, period)[0]].set(now)
            for profile, period, (now, _) in zip(
                component.trial.profiles, design.periods, pairs, strict=True
            )
        ]
        new = eqx.tree_at(lambda t: (t.path, t.profiles), component.trial, (path, profiles))
        return new, law, _season_law(then.units, pairs, [known[0] for _, known in been])

    frozen, laws, alone = jax.vmap(one)(components, mask, leverage)
    new = eqx.tree_at(lambda c: c.trial, components, frozen)
    return new, laws, jax.tree.map(lambda v: v[0], alone)


def _season_law(units: Units, pairs: Pairs, known: list[Bool[Array, "dy"]]) -> LocationScale:
    """The longest profile in raw units, where the shortest has a value."""
    if not pairs:
        return LocationScale(jnp.zeros_like(units.centre), jnp.full_like(units.centre, jnp.nan))
    law = units.location_scale(pairs[-1][0], jnp.ones_like(units.centre))
    return LocationScale(law.location, jnp.where(known[0], law.deviation, jnp.nan))


def extended(
    laws: LocationScale, others: list[LocationScale], *more: LocationScale
) -> LocationScale:
    """The components' laws, others after them, and more that are several each."""
    rows = jax.tree.map(lambda v: v[None], others)
    return jax.tree.map(lambda *v: jnp.concatenate(v), laws, *rows, *more)


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
        laws: of the components, and of the nonlinear path.
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
        place=place_of(horizon),
    )


def place_of(horizon: Float[Array, "dy"]) -> Float[Array, "dy"]:
    """The place of a horizon among the bins, on a logarithmic scale."""
    place = jnp.log2(jnp.maximum(horizon, 1.0)) - (0.5 - 1e-4)
    return jnp.where(place < 0.5, 0.0, jnp.clip(place, 1.0, BINS - 1.0))

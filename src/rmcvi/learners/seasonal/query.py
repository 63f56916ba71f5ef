"""Questions to a seasonal learner: the present row, and the last ones."""

import statistics
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rmcvi.contract import Band
from rmcvi.learners.seasonal.experts import Experts
from rmcvi.learners.seasonal.recent import Recent
from rmcvi.learners.seasonal.smooth import smooth
from rmcvi.learners.seasonal.units import LocationScale


@eqx.filter_jit
def present(learner: Any, state: Any, level: float) -> Band:
    """The row that was taken in last."""

    def law(component):
        mean, cov = component.path.state.mean, component.path.state.covariance
        d = learner.dim_obs
        return component.units.location_scale(mean[:d], jnp.diagonal(cov)[:d])

    return _band(learner, state, jax.vmap(law)(state.learned.components), state.recent.y[-1], level)


@eqx.filter_jit
def recent(learner: Any, state: Any, lag: int, level: float) -> Band:
    """The last rows, by smoothing."""
    recent, kind = state.recent, learner.ensemble.kind
    us = jax.vmap(state.exogenous.standard)(recent.u)

    def one(component, kind):
        rows = Recent(recent.y, us, recent.phase)
        columns = state.learned.columns
        return smooth(component, columns, kind, rows, learner.design, learner.ensemble.settings)

    laws = jax.vmap(one, out_axes=1)(state.learned.components, kind)
    laws, ys = jax.tree.map(lambda v: v[-lag - 1 :], (laws, recent.y))
    return jax.vmap(lambda law, y: _band(learner, state, law, y, level))(laws, ys)


def _band(
    learner: Any, state: Any, laws: LocationScale, y: Float[Array, "dy"], level: float
) -> Band:
    """Values that were seen as they are, the others by the components."""
    half = statistics.NormalDist().inv_cdf(0.5 * (1.0 + level))
    walk, size = state.learned.walk, learner.dim_obs
    last = LocationScale(walk.last[None], walk.deviation[None])
    known, number = state.learned.columns.known, laws.location.shape[0]
    simple = len(learner.ensemble.transforms) - number
    laws = jax.tree.map(lambda v, w: jnp.concatenate([v, *[w] * simple]), laws, last)
    # The nonlinear path, which speaks of the next row alone, is silent.
    components = jnp.arange(number + simple) < number
    lastly = jnp.arange(number + simple) >= number + simple - 3
    experts = Experts(
        laws=laws,
        asinh=learner.ensemble.transforms,
        valid=jnp.where(known[None], components[:, None], lastly[:, None]),
        place=jnp.zeros(size),
    )
    mixed = state.learned.skill.at(experts).mixed(
        experts, state.learned.columns.scale, walk, learner.ensemble.settings.degrees, half
    )
    return jax.tree.map(lambda modelled: jnp.where(jnp.isnan(y), modelled, y), mixed.band)

"""Questions to a seasonal learner: the present row, and the last ones."""

import statistics
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rmcvi.contract import Band
from rmcvi.learners.seasonal.experts import Experts
from rmcvi.learners.seasonal.smooth import smooth
from rmcvi.learners.seasonal.units import Located


@eqx.filter_jit
def present(learner: Any, state: Any, level: float) -> Band:
    """The row that was taken in last."""

    def located(component):
        mean, cov = component.path.state.mean, component.path.state.covariance
        d = learner.dim_obs
        return component.units.located(mean[:d], jnp.diagonal(cov)[:d])

    return _band(
        learner, state, jax.vmap(located)(state.learned.components), state.recent.y[-1], level
    )


@eqx.filter_jit
def recent(learner: Any, state: Any, lag: int, level: float) -> Band:
    """The last rows, by smoothing."""
    recent, kind = state.recent, learner.kind
    us = jax.vmap(state.exogenous.standard)(recent.u)

    def one(component, asinh, mask):
        rows = (recent.y, us, recent.phase)
        return smooth(
            component, state.learned.columns, asinh, mask, *rows, learner.design, learner.settings
        )

    located = jax.vmap(one, out_axes=1)(state.learned.components, kind.asinh, kind.mask)
    located, ys = jax.tree.map(lambda v: v[-lag - 1 :], (located, recent.y))
    return jax.vmap(lambda told, y: _band(learner, state, told, y, level))(located, ys)


def _band(learner: Any, state: Any, told: Located, y: Float[Array, "dy"], level: float) -> Band:
    """Values that were seen as they are, the others by the components."""
    half = statistics.NormalDist().inv_cdf(0.5 * (1.0 + level))
    walk, size = state.learned.walk, learner.dim_obs
    last = Located(walk.last[None], walk.deviation[None])
    told = jax.tree.map(lambda *v: jnp.concatenate(v), told, last, last)
    lastly = jnp.arange(told.location.shape[0]) >= told.location.shape[0] - 2
    experts = Experts(
        told=told,
        asinh=learner.transforms,
        valid=state.learned.columns.known[None] != lastly[:, None],
        horizon=jnp.ones(size),
    )
    mixed = state.learned.skill.mixed(
        experts, state.learned.columns.scale, walk, learner.settings.degrees, half
    )
    return jax.tree.map(lambda modelled: jnp.where(jnp.isnan(y), modelled, y), mixed.band)

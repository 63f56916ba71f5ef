"""Questions to a seasonal learner: the next rows, the present one, the last ones.

A forecast is what the learner says of rows in which nothing is seen.
"""

import statistics
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from rmcvi.core.checks import check_int, check_real
from rmcvi.core.inputs import Inputs
from rmcvi.learners.seasonal.experts import Band, Experts
from rmcvi.learners.seasonal.recent import Recent
from rmcvi.learners.seasonal.smooth import smooth
from rmcvi.learners.seasonal.units import LocationScale


def forecast(
    learner: Any,
    state: Any,
    horizon: int,
    u: ArrayLike | None,
    dt: ArrayLike | None,
    level: float,
) -> Band:
    """Predictions of `horizon` rows."""
    check_int("horizon", horizon)
    check_real("level", level, 0.0, 1.0)
    inputs = Inputs.sequence(horizon, u, dt, learner.dim_input)
    return _forecast(learner, state, inputs, float(level))


@eqx.filter_jit
def _forecast(learner: Any, state: Any, inputs: Inputs, level: float) -> Band:
    unseen = jnp.full(learner.dim_obs, jnp.nan)

    def step(state, inputs):
        state, info = learner.step_at(state, unseen, inputs, level)
        return state, Band(info.prediction.mean, info.prediction.low, info.prediction.high)

    return jax.lax.scan(step, state, inputs)[1]


@eqx.filter_jit
def present(learner: Any, state: Any, level: float) -> Band:
    """The row that was taken in last."""

    def law(component):
        mean, cov = component.path.state.mean, component.path.state.covariance
        d = learner.dim_obs
        return component.units.location_scale(mean[:d], jnp.diagonal(cov)[:d])

    return _band(learner, state, jax.vmap(law)(state.learned.components), state.recent.y[-1], level)


def impute(learner: Any, state: Any, lag: int, level: float) -> Band:
    """The last rows, by smoothing."""
    check_int("lag", lag, 0)
    check_real("level", level, 0.0, 1.0)
    if lag >= learner.window or lag >= int(state.t):
        raise ValueError(
            f"lag: got {lag}, expected less than {learner.window} (the learner's window) and than "
            f"{int(state.t)} (the rows it has seen)"
        )
    return _impute(learner, state, lag, float(level))


@eqx.filter_jit
def _impute(learner: Any, state: Any, lag: int, level: float) -> Band:
    recent, kind = state.recent, learner.kind
    us = jax.vmap(state.exogenous.standard)(recent.u)

    def one(component, kind):
        rows = Recent(recent.y, us, recent.phase)
        columns = state.learned.columns
        return smooth(component, columns, kind, rows, learner.design, learner.settings)

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
    laws = jax.tree.map(lambda *v: jnp.concatenate(v), laws, last, last)
    lastly = jnp.arange(laws.location.shape[0]) >= laws.location.shape[0] - 2
    experts = Experts(
        laws=laws,
        asinh=learner.transforms,
        valid=state.learned.columns.known[None] != lastly[:, None],
        horizon=jnp.ones(size),
    )
    mixed = state.learned.skill.mixed(
        experts, state.learned.columns.scale, walk, learner.settings.degrees, half
    )
    return jax.tree.map(lambda modelled: jnp.where(jnp.isnan(y), modelled, y), mixed.band)

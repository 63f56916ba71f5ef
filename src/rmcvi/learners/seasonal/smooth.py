"""Fixed-interval smoothing of the companion state (de Jong; Durbin and Koopman).

    r <- L' r + H' S^{-1} e,    N <- L' N L + H' S^{-1} H,    L = I - G H,
    E[x | all] = m- + C- r,    Cov[x | all] = C- - C- N C-,    then r <- F' r, N <- F' N F.

Only innovation covariances are inverted: C is singular wherever a value was seen.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi.learners.seasonal.columns import Columns
from rmcvi.learners.seasonal.companion import Companion
from rmcvi.learners.seasonal.component import Component, Kind, Path
from rmcvi.learners.seasonal.design import Design
from rmcvi.learners.seasonal.predict import Row, extra_noise, predict, standardised
from rmcvi.learners.seasonal.recent import Recent
from rmcvi.learners.seasonal.settings import Settings
from rmcvi.learners.seasonal.units import LocationScale


def smooth(
    component: Component,
    columns: Columns,
    kind: Kind,
    rows: Recent,
    design: Design,
    settings: Settings,
) -> LocationScale:
    """Law of g(y) at each row given all of them, parameters held; the start is the average row.

    Args:
        component: what was learned.
        columns: what all components share.
        kind: inputs that the component uses, and its transformation.
        rows: the window; its inputs u in standard units.
        design: sizes and places of the inputs.
        settings: how values far out are followed.
    """
    n, one = component.path.state.mean.shape[0], jnp.ones(())
    start = Path(Companion(jnp.zeros(n), jnp.eye(n)), jnp.zeros_like(component.path.older))

    def forward(path, row):
        now = Row(row.u, row.phase, one)
        season = component.season(columns, now.phase, design)
        predicted, _ = predict(component, path, season, kind.mask, now, design)
        z, seen = standardised(component, columns, kind.asinh, row.y)
        error = jnp.where(seen, z - predicted.mu, 0.0)
        ratio, doubt = error**2 / predicted.variance, jnp.zeros_like(error)
        extra = extra_noise(ratio, predicted.variance, doubt, settings.gate)
        state = predicted.joint.condition(error, extra, seen)
        return path.onward(state, design), (
            predicted.joint,
            predicted.transition,
            error,
            extra,
            seen,
        )

    def backward(carry, row):
        r, big = carry
        joint, transition, error, extra, seen = row
        r, big = _absorb(joint, error, extra, seen, r, big)
        mean = joint.mean + joint.covariance @ r
        cov = joint.covariance - joint.covariance @ big @ joint.covariance
        out = component.units.location_scale(mean[: design.size], jnp.diagonal(cov)[: design.size])
        lags = transition.shape[1]
        move = jnp.zeros((n, n)).at[: design.size, :lags].set(transition)
        move = move + jnp.eye(n, k=-design.size)
        return (move.T @ r, move.T @ big @ move), out

    _, tape = jax.lax.scan(forward, start, rows)
    nothing = jnp.zeros(n), jnp.zeros((n, n))
    return jax.lax.scan(backward, nothing, tape, reverse=True)[1]


def _absorb(
    joint: Companion,
    error: Float[Array, "dy"],
    extra: Float[Array, "dy"],
    seen: Bool[Array, "dy"],
    r: Float[Array, "n"],
    big: Float[Array, "n n"],
) -> tuple[Float[Array, "n"], Float[Array, "n n"]]:
    """Both r and N with one row's innovation."""
    d, n = seen.shape[0], r.shape[0]
    gain, inner = joint.gain(extra, seen)
    inverse = jnp.where(seen[:, None] & seen[None], jnp.linalg.inv(inner), 0.0)
    rest = jnp.eye(n).at[:, :d].add(-gain)
    r = (rest.T @ r).at[:d].add(inverse @ error)
    return r, (rest.T @ big @ rest).at[:d, :d].add(inverse)

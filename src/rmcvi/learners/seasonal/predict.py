"""What a component predicts of a row, in its own units.

mu = W phi,    S = diag(F C F' + D K D + min(phi' P phi, 4)),    z | past ~ t_nu(mu, S)
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rmcvi.core.regression import Regression
from rmcvi.learners.seasonal.columns import Columns
from rmcvi.learners.seasonal.companion import Companion
from rmcvi.learners.seasonal.component import Component, Pairs, Path
from rmcvi.learners.seasonal.design import BOUND, Design
from rmcvi.learners.seasonal.units import LocationScale, to_asinh

JITTER = 1e-6
"""Least variance of a prediction: a thousandth of the column's deviation."""
MOST = 4.0
"""Variance of the mean beyond this does not count."""


class Row(eqx.Module):
    """What is known of a row before it is seen: exogenous inputs, phase, time since the last."""

    u: Float[Array, "du"]
    phase: Float[Array, ""]
    dt: Float[Array, ""]


class RowPrediction(eqx.Module):
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


def predict(
    component: Component,
    path: Path,
    season: Pairs,
    mask: Float[Array, "k"],
    row: Row,
    design: Design,
    leverage: Float[Array, "dy"] | None = None,
) -> tuple[RowPrediction, LocationScale]:
    """The next row on a path, given all before it, in standard units and in those of g(y).

    Args:
        component: what was learned.
        path: where the filter, or a forecast, is.
        season: the profiles at this phase and the one before.
        mask: inputs that the component uses.
        row: what is known of the row before it is seen.
        design: sizes and places of the inputs.
        leverage: phi' P phi, if it need not be worked out.
    """
    past = path.state.past(design.size)
    waves, first_waves = design.season(row.phase)
    phi = mask[None] * design.inputs(past, path.older, season, waves, row.u)
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
    joint = path.state.predict(mu, transition, jnp.maximum(row.dt, 1.0) * cov)
    predicted = RowPrediction(white, leverage, features, variance, transition, joint)
    return predicted, component.units.location_scale(predicted.mu, predicted.variance)


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

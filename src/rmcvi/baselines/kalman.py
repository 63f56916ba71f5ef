"""The Kalman filter with its evidence, exact for linear-Gaussian models, extended for others.

One step is that of `families.kalman`; its evidence is log N(y; G m-, G P- G' + R) for Gaussian
emissions, whatever is missing. If F, G and both noises are diagonal, so is P: variances are kept,
and nothing is factorised.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from rmcvi.contract import Trainable
from rmcvi.core.array_checks import check_array
from rmcvi.core.gaussian import covariance_of, solve_spd, symmetric
from rmcvi.core.inputs import Inputs, split_missing
from rmcvi.families.kalman import (
    Moments,
    check_kalman,
    condition,
    initial_moments,
    predict,
)
from rmcvi.models import AbstractGaussianModel


class Law(eqx.Module):
    """N(mean, covariance); a vector is the diagonal of a covariance."""

    mean: Float[Array, "*batch dx"]
    covariance: Float[Array, "*batch dx"] | Float[Array, "*batch dx dx"]

    def dense(self) -> Float[Array, "dx dx"]:
        """The covariance as a matrix."""
        return jnp.diag(self.covariance) if self.covariance.ndim == 1 else self.covariance


class KalmanFiltered(eqx.Module):
    """Laws of x_t given y_{0:t}, and log p(y_{0:t})."""

    mean: Float[Array, "T dx"]
    covariance: Float[Array, "T dx dx"]
    log_evidence: Float[Array, "T"]


class KalmanSmoothed(eqx.Module):
    """Laws of x_t given all of y; `lag_one[t]` = Cov(x_{t-1}, x_t), zero at t = 0."""

    mean: Float[Array, "T dx"]
    covariance: Float[Array, "T dx dx"]
    lag_one: Float[Array, "T dx dx"]


def initial_law(model: AbstractGaussianModel) -> Law:
    """The law of x_0."""
    if model.diagonals(jnp.ones(())) is not None:
        mean, scale = model.initial_moments()
        return Law(mean, scale**2)
    moments = initial_moments(model)
    return Law(moments.mean, moments.covariance)


def filter_step(
    model: AbstractGaussianModel,
    law: Law,
    y: Float[Array, "dy"],
    inputs: Inputs,
    first: Bool[Array, ""],
) -> tuple[Law, Float[Array, ""]]:
    """The law of x_t from that of x_{t-1} (if `first`, of x_0), and log p(y_t | y_{0:t-1})."""
    if model.untilted is not model:
        return _tilted_step(model, law, y, inputs, first)
    slopes = model.diagonals(inputs.dt)
    if slopes is not None:
        return _diagonal_step(model, slopes, law, y, inputs, first)
    prior = predict(model, Moments(law.mean, law.covariance, first.astype(y.dtype)), inputs)
    now, evidence = condition(model, prior, y, inputs)
    return Law(now.mean, now.covariance), evidence


def kalman_filter(
    model: AbstractGaussianModel, ys: Float[Array, "T dy"], inputs: Inputs | None = None
) -> KalmanFiltered:
    """Filter a whole sequence, NaN = not observed."""
    return _filter(model, ys, _checked(model, ys, inputs))


def kalman_smoother(
    model: AbstractGaussianModel, ys: Float[Array, "T dy"], inputs: Inputs | None = None
) -> KalmanSmoothed:
    """Rauch-Tung-Striebel, in Joseph form."""
    return _smooth(model, ys, _checked(model, ys, inputs))


def log_evidence(
    model: AbstractGaussianModel, ys: Float[Array, "T dy"], inputs: Inputs | None = None
) -> Float[Array, ""]:
    """Log p(y_{0:T-1})."""
    return _evidence(model, ys, _checked(model, ys, inputs))


def score(
    model: AbstractGaussianModel,
    ys: Float[Array, "T dy"],
    inputs: Inputs | None = None,
    trainable: Trainable | None = None,
) -> PyTree:
    """Gradient of `log_evidence` in the trained leaves of the model, None at the others."""
    theta, rest = eqx.partition(model, (trainable or Trainable()).model)
    return _score(theta, rest, ys, _checked(model, ys, inputs))


def _diagonal_step(
    model: AbstractGaussianModel,
    slopes: tuple[Float[Array, "dx"], Float[Array, "dx"]],
    law: Law,
    y: Float[Array, "dy"],
    inputs: Inputs,
    first: Bool[Array, ""],
) -> tuple[Law, Float[Array, ""]]:
    """The same for independent coordinates, given the slopes of x_t and of y_t."""
    slope, emission = slopes
    moved = slope**2 * law.covariance + model.transition_scale(inputs) ** 2
    variance = jnp.where(first, law.covariance, moved)
    mean = jnp.where(first, law.mean, model.transition_mean(law.mean, inputs))
    row = split_missing(y)[1] * emission / model.emission_scale(mean, inputs)
    growth = 1.0 + row**2 * variance
    log_g, score = jax.value_and_grad(model.observed_log_prob)(mean, y, inputs)
    variance = variance / growth
    evidence = log_g + 0.5 * jnp.sum(variance * score**2 - jnp.log(growth))
    return Law(mean + variance * score, variance), evidence


def _tilted_step(
    model: AbstractGaussianModel,
    law: Law,
    y: Float[Array, "dy"],
    inputs: Inputs,
    first: Bool[Array, ""],
) -> tuple[Law, Float[Array, ""]]:
    """The step of the base, then the tilt to first order, which is all that derivatives at 0 see.

    With N(m, P) the law of (x_{t-1}, x_t) given y_t, and g, H derivatives of the tilt l at m, the
    evidence gains l(m) + tr(H P) / 2, the mean P g, the covariance P H P.
    """
    now, evidence = filter_step(model.untilted, law, y, inputs, first)
    mean, covariance = _joint(model, law, now, inputs)
    dim = model.dim_state

    def tilt(both):
        pair = model.transition_tilt(both[:dim], both[dim:], inputs)
        return jnp.where(first, 0.0, pair) + model.emission_tilt(both[dim:], y, inputs)

    (gain, slope), curved = jax.value_and_grad(tilt)(mean), jax.hessian(tilt)(mean)
    gain = gain + 0.5 * jnp.vdot(curved, covariance)
    wider = (covariance @ curved @ covariance)[dim:, dim:]
    wider = jnp.diagonal(wider) if now.covariance.ndim == 1 else symmetric(wider)
    tilted = Law(now.mean + covariance[dim:] @ slope, now.covariance + wider)
    return tilted, evidence + gain


def _joint(
    model: AbstractGaussianModel, before: Law, now: Law, inputs: Inputs
) -> tuple[Float[Array, "dd"], Float[Array, "dd dd"]]:
    """Mean and covariance of (x_{t-1}, x_t) given y_{0:t}."""
    old, new = before.dense(), now.dense()
    jacobian = model.transition_jacobian(before.mean, inputs)
    moved = jacobian @ old
    prior = moved @ jacobian.T + covariance_of(model.transition_scale(inputs))
    back = solve_spd(prior, moved)[0].T
    mean = before.mean + back @ (now.mean - model.transition_mean(before.mean, inputs))
    smoothed = old - back @ moved + back @ new @ back.T
    cross = back @ new
    return jnp.concatenate([mean, now.mean]), jnp.block([[smoothed, cross], [cross.T, new]])


def _checked(
    model: AbstractGaussianModel, ys: Float[Array, "T dy"], inputs: Inputs | None
) -> Inputs:
    check_kalman("model", model)
    check_array("ys", ys, (None, model.dim_obs))
    return Inputs.checked(inputs, ys.shape[:1], model.dim_input)


@eqx.filter_jit
def _filter(model: AbstractGaussianModel, ys: Array, inputs: Inputs) -> KalmanFiltered:
    def step(law, now):
        law, evidence = filter_step(model, law, *now)
        return law, (law.mean, law.dense(), evidence)

    steps = (ys, inputs, jnp.arange(len(ys)) == 0)
    mean, covariance, evidence = jax.lax.scan(step, initial_law(model), steps)[1]
    return KalmanFiltered(mean, covariance, jnp.cumsum(evidence))


@eqx.filter_jit
def _evidence(model: AbstractGaussianModel, ys: Array, inputs: Inputs) -> Float[Array, ""]:
    steps = (ys, inputs, jnp.arange(len(ys)) == 0)
    return jnp.sum(
        jax.lax.scan(lambda law, now: filter_step(model, law, *now), initial_law(model), steps)[1]
    )


@eqx.filter_jit
def _score(theta: PyTree, rest: PyTree, ys: Array, inputs: Inputs) -> PyTree:
    return jax.grad(lambda theta: _evidence(eqx.combine(theta, rest), ys, inputs))(theta)


@eqx.filter_jit
def _smooth(model: AbstractGaussianModel, ys: Array, inputs: Inputs) -> KalmanSmoothed:
    filtered = _filter(model, ys, inputs)

    def step(later, now):
        mean, covariance, inputs = now
        fresh = jnp.zeros((), ys.dtype)
        prior = predict(model, Moments(mean, covariance, fresh), inputs)
        jacobian, scale = model.transition_jacobian(mean, inputs), model.transition_scale(inputs)
        noise = covariance_of(scale)
        back = solve_spd(prior.covariance, jacobian @ covariance)[0].T
        kept = jnp.eye(len(mean), dtype=ys.dtype) - back @ jacobian
        smoothed = kept @ covariance @ kept.T + back @ (later.covariance + noise) @ back.T
        law = Law(mean + back @ (later.mean - prior.mean), symmetric(smoothed))
        return law, (law.mean, law.covariance, back @ later.covariance)

    last = Law(filtered.mean[-1], filtered.covariance[-1])
    links = (filtered.mean[:-1], filtered.covariance[:-1], jax.tree.map(lambda v: v[1:], inputs))
    _, (mean, covariance, lag_one) = jax.lax.scan(step, last, links, reverse=True)
    return KalmanSmoothed(
        jnp.concatenate([mean, last.mean[None]]),
        jnp.concatenate([covariance, last.covariance[None]]),
        jnp.concatenate([jnp.zeros_like(last.covariance)[None], lag_one]),
    )

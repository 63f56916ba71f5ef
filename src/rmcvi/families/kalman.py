"""One (extended) Kalman step, written with the emission's score and Fisher information.

predict    m- = f(m),  P- = F P F' + S S'
condition  P = (P-^-1 + R'R)^-1 in Joseph form,  m = m- + P grad log g(m-, y)

For Gaussian emissions this is the Kalman update; for others the score keeps it robust (a Student-t
outlier moves it little), and stochastic volatility is covered too. Rows of R of missing
coordinates are zero, so nothing observed means prediction.
"""

from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from rmcvi.core.inputs import Inputs, split_missing
from rmcvi.families.base import inverse_spd, symmetric
from rmcvi.families.exponential import DiagonalGaussian, FullGaussian, Natural


@runtime_checkable
class KalmanModel(Protocol):
    """What a model must offer to be imitated by a Kalman step."""

    @property
    def dim_state(self) -> int:
        """Length of x."""
        ...

    @property
    def dim_obs(self) -> int:
        """Length of y."""
        ...

    @property
    def dim_input(self) -> int:
        """Length of u."""
        ...

    def initial_log_prob(self, x: Array) -> Array:
        """The log-density of x_0."""
        ...

    def transition_mean(self, x_prev: Array, inputs: Inputs) -> Array:
        """Mean of x_t given x_{t-1}."""
        ...

    def transition_jacobian(self, x_prev: Array, inputs: Inputs) -> Array:
        """Its derivative."""
        ...

    def transition_scale(self, inputs: Inputs) -> Array:
        """Standard deviations or Cholesky factor of the noise of x_t."""
        ...

    def emission_mean(self, x: Array, inputs: Inputs) -> Array:
        """Mean of y_t given x_t."""
        ...

    def emission_scale(self, x: Array, inputs: Inputs) -> Array:
        """Standard deviations or Cholesky factor of the noise of y_t."""
        ...

    def emission_information(self, x: Array, seen: Array, inputs: Inputs) -> Array:
        """What the values seen say about x."""
        ...

    def observed_log_prob(self, x: Array, y: Array, inputs: Inputs) -> Array:
        """The log-density of the values seen."""
        ...


def check_kalman(name: str, value: object) -> None:
    """Raise unless `value` is a model that a Kalman step can imitate."""
    if not isinstance(value, KalmanModel):
        raise ValueError(
            f"{name}: got {type(value).__name__}, expected a KalmanModel: write the model as a "
            "rmcvi.models.AbstractGaussianModel, or use RecurrentFamily"
        )


class Moments(eqx.Module):
    """Mean and covariance, and whether they describe x_0 before any step (`fresh` = 1)."""

    mean: Float[Array, "dx"]
    covariance: Float[Array, "dx dx"]
    fresh: Float[Array, ""]


def initial_moments(model: KalmanModel) -> Moments:
    """Mean and covariance of x_0, read off its Gaussian log-density at the origin."""
    origin = jnp.zeros(model.dim_state)
    score = jax.grad(model.initial_log_prob)(origin)
    covariance = inverse_spd(-jax.hessian(model.initial_log_prob)(origin))
    return Moments(covariance @ score, covariance, jnp.ones(()))


def predict(model: KalmanModel, now: Moments, inputs: Inputs) -> Moments:
    """Moments of x_t before y_t; a fresh carry is the law of x_0 and stays as it is."""
    jacobian = model.transition_jacobian(now.mean, inputs)
    scale = model.transition_scale(inputs)
    noise = jnp.diag(scale**2) if scale.ndim == 1 else scale @ scale.T
    mean = model.transition_mean(now.mean, inputs)
    covariance = symmetric(jacobian @ now.covariance @ jacobian.T) + noise
    fresh = now.fresh > 0.5
    return Moments(
        jnp.where(fresh, now.mean, mean),
        jnp.where(fresh, now.covariance, covariance),
        jnp.zeros_like(now.fresh),
    )


def condition(model: KalmanModel, prior: Moments, y: Float[Array, "dy"], inputs: Inputs) -> Moments:
    """Moments of x_t after y_t."""
    _, seen = split_missing(y)
    rows = model.emission_information(prior.mean, seen, inputs)
    cross = rows @ prior.covariance
    innovation = jnp.eye(rows.shape[0], dtype=rows.dtype) + symmetric(cross @ rows.T)
    gain = cho_solve((jnp.linalg.cholesky(innovation), True), cross).T
    kept = jnp.eye(rows.shape[1], dtype=rows.dtype) - gain @ rows
    covariance = symmetric(kept @ prior.covariance @ kept.T) + symmetric(gain @ gain.T)
    score = jax.grad(model.observed_log_prob)(prior.mean, y, inputs)
    return Moments(prior.mean + covariance @ score, covariance, prior.fresh)


def mean_field(now: Moments) -> Moments:
    """The independent Gaussian closest to N(mean, covariance) in KL(q | .)."""
    precision = jnp.diagonal(inverse_spd(now.covariance))
    return Moments(now.mean, jnp.diag(1.0 / precision), now.fresh)


def natural(distribution: DiagonalGaussian | FullGaussian, now: Moments) -> Natural:
    """Natural parameter of N(mean, covariance) in the given family."""
    if isinstance(distribution, DiagonalGaussian):
        precision = 1.0 / jnp.diagonal(now.covariance)
        return Natural(precision * now.mean, precision)
    return distribution.from_moments(now.mean, inverse_spd(now.covariance))


def linearised_potential(
    model: KalmanModel, mean: Float[Array, "dx"], x: Float[Array, "dx"], inputs: Inputs
) -> tuple[Float[Array, "dx"], Float[Array, "dx dx"]]:
    """Score at `mean` and curvature of x_{t-1} -> log m(x_{t-1}, x), by linearising f there."""
    jacobian, scale = model.transition_jacobian(mean, inputs), model.transition_scale(inputs)
    residual = x - model.transition_mean(mean, inputs)
    if scale.ndim == 1:
        rows, white = jacobian / scale[:, None], residual / scale
    else:
        rows = solve_triangular(scale, jacobian, lower=True)
        white = solve_triangular(scale, residual, lower=True)
    return rows.T @ white, rows.T @ rows


def expand(
    distribution: DiagonalGaussian | FullGaussian,
    mean: Float[Array, "dx"],
    score: Float[Array, "dx"],
    curvature: Float[Array, "dx dx"],
) -> Natural:
    """Natural parameter of exp(score (x - mean) - (x - mean)' curvature (x - mean) / 2)."""
    if isinstance(distribution, DiagonalGaussian):
        diagonal = jnp.diagonal(curvature)
        return Natural(score + diagonal * mean, diagonal)
    return Natural(score + curvature @ mean, curvature)

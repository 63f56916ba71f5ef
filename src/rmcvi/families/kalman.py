"""One (extended) Kalman step, written with the emission's score and Fisher information.

predict    m- = f(m),  P- = F P F' + S S'
condition  P = (P-^-1 + R'R)^-1 in Joseph form,  m = m- + P s,  s = grad log g(m-, y)
evidence   log p(y_t | y_{0:t-1}) = log g(m-, y_t) + s'P s / 2 - log det(I + R P- R') / 2

For Gaussian emissions this is the Kalman update; for others the score keeps it robust (a Student-t
outlier moves it little), and stochastic volatility is covered too. Rows of R of missing
coordinates are zero, so nothing observed means prediction.
"""

from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve
from jaxtyping import Array, Float

from rmcvi.core import gaussian
from rmcvi.core.gaussian import inverse_spd, whiten
from rmcvi.core.inputs import Inputs, split_missing
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
    mean = model.transition_mean(now.mean, inputs)
    covariance = gaussian.predict(now.covariance, jacobian, model.transition_scale(inputs))
    fresh = now.fresh > 0.5
    return Moments(
        jnp.where(fresh, now.mean, mean),
        jnp.where(fresh, now.covariance, covariance),
        jnp.zeros_like(now.fresh),
    )


def condition(
    model: KalmanModel, prior: Moments, y: Float[Array, "dy"], inputs: Inputs
) -> tuple[Moments, Float[Array, ""]]:
    """Moments of x_t after y_t, and log p(y_t | y_{0:t-1}).

    Args:
        model: its emission is linearised at the prior's mean.
        prior: moments of x_t before y_t.
        y: the observation, NaN = not observed.
        inputs: of this step.
    """
    rows = model.emission_information(prior.mean, split_missing(y)[1], inputs)
    covariance, log_det = gaussian.condition(prior.covariance, rows)
    log_g, score = jax.value_and_grad(model.observed_log_prob)(prior.mean, y, inputs)
    shift = covariance @ score
    evidence = log_g + 0.5 * score @ shift - 0.5 * log_det
    return Moments(prior.mean + shift, covariance, prior.fresh), evidence


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
    rows, white = whiten(scale, jacobian.T).T, whiten(scale, residual[None])[0]
    return rows.T @ white, rows.T @ rows


def backward_law(
    model: KalmanModel, now: Moments, inputs: Inputs
) -> tuple[Float[Array, "dx"], Float[Array, "dx dx"], Float[Array, "dx dx"]]:
    """m-, G and C: given x_t = x, x_{t-1} is N(m + G (x - m-), C), with f linearised at m.

    G = P F' P-^-1 and Joseph's form of C take no inverse of the noise, which may be singular.
    """
    jacobian, scale = model.transition_jacobian(now.mean, inputs), model.transition_scale(inputs)
    root = gaussian.root_of(gaussian.predict(now.covariance, jacobian, scale))
    gain = cho_solve((root, True), jacobian @ now.covariance).T
    kept = jnp.eye(now.mean.size, dtype=now.mean.dtype) - gain @ jacobian
    noise = gaussian.symmetric(gain @ gaussian.covariance_of(scale) @ gain.T)
    covariance = gaussian.symmetric(kept @ now.covariance @ kept.T) + noise
    return model.transition_mean(now.mean, inputs), gain, covariance


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

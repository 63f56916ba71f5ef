"""Gaussian algebra. A scale S is a vector of standard deviations, or a lower Cholesky factor.

    predict      P- = J P J' + S S'
    condition    P = (P-^-1 + R'R)^-1 = K P- K' + G G'  (Joseph's form, a covariance whatever the
                 rounding),  G = P- R' (I + R P- R')^-1,  K = I - G R

R whitens what is observed: R'R is its information. A row of zeros tells nothing.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Bool, Float, Key

LOG_2PI = 1.8378770664093453
"""log(2 pi)."""
LEAST = 0.5
"""Smallest precision of q in the units of the prediction's: observations inform."""
Scale = Float[Array, "d"] | Float[Array, "d d"]


def symmetric(matrix: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """The symmetric part, against drift by rounding."""
    return 0.5 * (matrix + matrix.T)


def inverse_spd(matrix: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """Inverse of a symmetric positive definite matrix."""
    eye = jnp.eye(matrix.shape[0], dtype=matrix.dtype)
    return symmetric(cho_solve((jnp.linalg.cholesky(matrix), True), eye))


def bounded(matrix: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """The nearest symmetric matrix with eigenvalues between LEAST and what rounding can tell."""
    most = 0.1 / jnp.finfo(matrix.dtype).eps

    def clipped(matrix):
        values, vectors = jnp.linalg.eigh(matrix)
        return (vectors * jnp.clip(values, LEAST, most)[None]) @ vectors.T

    eye = jnp.eye(len(matrix), dtype=matrix.dtype)
    inside = jnp.all(jnp.isfinite(jnp.linalg.cholesky(matrix - LEAST * eye)))
    inside = inside & (jnp.trace(matrix) <= most)
    return jax.lax.cond(inside, lambda m: m, clipped, matrix)


@jax.custom_jvp
def solve_spd(
    matrix: Float[Array, "d d"], right: Float[Array, "d k"]
) -> tuple[Float[Array, "d k"], Float[Array, ""]]:
    """The solution of `matrix` X = `right`, and log det of the matrix, which is positive definite.

    Derivatives are products with the inverse, which vectorise better than triangular solutions.
    """
    chol = jnp.linalg.cholesky(matrix)
    return cho_solve((chol, True), right), 2.0 * jnp.sum(jnp.log(jnp.diagonal(chol)))


@solve_spd.defjvp
def _solve_spd_jvp(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    matrix, right = primals
    solution, log_det = solve_spd(matrix, right)
    inverse = inverse_spd(matrix)
    moved = inverse @ (tangents[1] - tangents[0] @ solution)
    return (solution, log_det), (moved, jnp.vdot(inverse, tangents[0]))


def covariance_of(scale: Scale) -> Float[Array, "d d"]:
    """S S'."""
    return jnp.diag(scale**2) if scale.ndim == 1 else scale @ scale.T


def root_of(covariance: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """Lower triangular L with L L' = P, also where P is singular (integrators, lags).

    In units of its deviations P gets a ridge of the size of its rounding errors.
    """
    variance = jnp.diagonal(covariance)
    known = variance <= 0.0
    unit = jnp.sqrt(jnp.where(known, 1.0, variance))
    correlation = covariance / unit[:, None] / unit[None]
    ridge = 4.0 * variance.size * jnp.finfo(covariance.dtype).eps
    eye = jnp.eye(variance.size, dtype=covariance.dtype)
    return jnp.where(known, 0.0, unit)[:, None] * jnp.linalg.cholesky(correlation + ridge * eye)


def root_of_rows(
    rows: Float[Array, "n d"],
) -> tuple[Float[Array, "d d"], Float[Array, "k d"]]:
    """Lower triangular L with L L' = A'A for rows A, as precise as they are; and Q, A = Q L'.

    Below the rows stands a ridge of the size of their rounding errors (k = n + d): what is singular
    leans on it. Q holds still where L is differentiated: of the many derivatives with the right
    L L' this one takes no inverse. (It is not triangular.)
    """
    frozen = jax.lax.stop_gradient(rows)
    ridge = 4.0 * rows.shape[1] * jnp.finfo(rows.dtype).eps * jnp.sqrt(jnp.sum(frozen**2, 0))
    ridge = jnp.diag(jnp.maximum(ridge, 1e-30))  # of a state that is known for sure
    turn = jnp.linalg.qr(jnp.concatenate([frozen, ridge]))[0]
    return jnp.concatenate([rows, ridge]).T @ turn, turn


def predict(
    covariance: Float[Array, "d d"], jacobian: Float[Array, "d d"], scale: Scale
) -> Float[Array, "d d"]:
    """J P J' + S S'."""
    return symmetric(jacobian @ covariance @ jacobian.T) + covariance_of(scale)


def condition(
    covariance: Float[Array, "d d"], rows: Float[Array, "k d"]
) -> tuple[Float[Array, "d d"], Float[Array, ""]]:
    """P given observations with whitened rows R, and log det (I + R P- R')."""
    cross = rows @ covariance
    innovation = jnp.eye(rows.shape[0], dtype=rows.dtype) + symmetric(cross @ rows.T)
    solution, log_det = solve_spd(innovation, cross)
    gain = solution.T
    kept = jnp.eye(rows.shape[1], dtype=rows.dtype) - gain @ rows
    return symmetric(kept @ covariance @ kept.T) + symmetric(gain @ gain.T), log_det


def observed_cholesky(
    covariance: Float[Array, "d d"], seen: Bool[Array, "d"]
) -> Float[Array, "d d"]:
    """Cholesky factor with unit rows, independent of the rest, in place of what was not seen."""
    both = seen[:, None] & seen[None]
    eye = jnp.eye(seen.size, dtype=covariance.dtype)
    return jnp.linalg.cholesky(jnp.where(both, covariance, eye))


def whiten(scale: Scale, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """S^-1 applied to each row."""
    if scale.ndim == 1:
        return x / scale[None]
    return solve_triangular(scale, x.T, lower=True).T


def colour(scale: Scale, noise: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """S applied to each row: the inverse of `whiten`."""
    return noise * scale[None] if scale.ndim == 1 else noise @ scale.T


def log_volume(scale: Scale) -> Float[Array, ""]:
    """Log of the normalising constant of N(0, S S')."""
    diagonal = scale if scale.ndim == 1 else jnp.diagonal(scale)
    return jnp.sum(jnp.log(diagonal)) + 0.5 * diagonal.size * LOG_2PI


def log_density(scale: Scale, x: Float[Array, "n d"]) -> Float[Array, "n"]:
    """Log N(x; 0, S S') of each row."""
    return -0.5 * jnp.sum(whiten(scale, x) ** 2, 1) - log_volume(scale)


def normal_log_prob(x: Array, mean: Array, scale: Array) -> Array:
    """Elementwise log N(x; mean, scale^2)."""
    return -0.5 * ((x - mean) / scale) ** 2 - jnp.log(scale) - 0.5 * LOG_2PI


def matched_normal(key: Key[Array, ""], num: int, dim: int) -> Float[Array, "{num} {dim}"]:
    """Normal draws whose mean is 0 and whose variances are 1 in the sample as well."""
    half = jax.random.normal(key, (num // 2, dim))
    draws = jnp.concatenate([half, -half, jnp.zeros((num % 2, dim))])
    return draws / jnp.sqrt(jnp.mean(draws**2, 0))[None]


def whitened_normal(key: Key[Array, ""], num: int, dim: int) -> Float[Array, "n {dim}"]:
    """Normal draws in opposite pairs whose covariance is I in the sample as well.

    It takes 2 `dim` of them (randomly turned sigma points); fewer are raised to that.
    """
    num = max(num, 2 * dim)
    half = jnp.linalg.qr(jax.random.normal(key, (num // 2, dim)))[0] * (0.5 * num) ** 0.5
    return jnp.concatenate([half, -half, jnp.zeros((num % 2, dim), half.dtype)])

"""Gaussian algebra against dense inverses, brute-force conditioning and finite differences."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from scipy.stats import multivariate_normal

from rmcvi.core import gaussian

RNG = np.random.default_rng(0)


def _spd(dim: int) -> np.ndarray:
    root = RNG.standard_normal((dim, dim))
    return root @ root.T + np.eye(dim)


FACTOR = np.linalg.cholesky(_spd(3))
SCALES = {"diagonal": np.array([0.5, 1.0, 2.0]), "factor": FACTOR}


def test_solution_and_determinant() -> None:
    matrix, right = _spd(4), RNG.standard_normal((4, 2))
    solution, log_det = gaussian.solve_spd(jnp.asarray(matrix), jnp.asarray(right))
    np.testing.assert_allclose(solution, np.linalg.solve(matrix, right), rtol=1e-12)
    assert float(log_det) == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-12)
    inverse = gaussian.inverse_spd(jnp.asarray(matrix))
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), rtol=1e-11)


def test_derivatives_of_the_solution() -> None:
    """In both modes, by finite differences over symmetric matrices."""

    def solve(root, right):
        return gaussian.solve_spd(root @ root.T + jnp.eye(3), jnp.asarray(right))

    arguments = (jnp.asarray(RNG.standard_normal((3, 3))), jnp.asarray(FACTOR[:, :2]))
    check_grads(solve, arguments, 1, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
def test_predict(scale: np.ndarray) -> None:
    covariance, jacobian = _spd(3), RNG.standard_normal((3, 3))
    noise = np.diag(scale**2) if scale.ndim == 1 else scale @ scale.T
    got = gaussian.predict(*map(jnp.asarray, (covariance, jacobian, scale)))
    np.testing.assert_allclose(got, jacobian @ covariance @ jacobian.T + noise, rtol=1e-12)


def test_condition_is_the_information_form() -> None:
    """(P^-1 + R'R)^-1 and what the observations add; a row of zeros adds nothing."""
    covariance, rows = _spd(3), RNG.standard_normal((2, 3))
    got, log_det = gaussian.condition(jnp.asarray(covariance), jnp.asarray(rows))
    precision = np.linalg.inv(covariance) + rows.T @ rows
    np.testing.assert_allclose(got, np.linalg.inv(precision), rtol=1e-11)
    expected = np.linalg.slogdet(covariance @ precision)[1]
    assert float(log_det) == pytest.approx(expected, rel=1e-11)
    more = jnp.concatenate([jnp.asarray(rows), jnp.zeros((1, 3))])
    np.testing.assert_allclose(
        gaussian.condition(jnp.asarray(covariance), more)[0], got, rtol=1e-13
    )


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
def test_density_and_whitening(scale: np.ndarray) -> None:
    s, x = jnp.asarray(scale), jnp.asarray(RNG.standard_normal((5, 3)))
    law: Any = multivariate_normal
    cov = np.asarray(gaussian.covariance_of(s))
    np.testing.assert_allclose(gaussian.log_density(s, x), law.logpdf(x, cov=cov), rtol=1e-12)
    np.testing.assert_allclose(gaussian.colour(s, gaussian.whiten(s, x)), x, rtol=1e-12)
    peak = gaussian.normal_log_prob(jnp.zeros(()), jnp.zeros(()), jnp.asarray(2.0))
    assert float(peak) == pytest.approx(-np.log(2.0 * np.sqrt(2.0 * np.pi)), rel=1e-14)


def test_unseen_coordinates_are_marginalised() -> None:
    covariance, seen = _spd(3), np.array([True, False, True])
    chol = gaussian.observed_cholesky(jnp.asarray(covariance), jnp.asarray(seen))
    kept = np.ix_(seen, seen)
    np.testing.assert_allclose((chol @ chol.T)[kept], covariance[kept], rtol=1e-13)
    np.testing.assert_array_equal(jax.device_get(chol)[1], [0.0, 1.0, 0.0])

"""The one regression: exact without forgetting, and nothing rots with it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rmcvi.core.regression import Regression

DEVIATION = np.array([0.3, 0.2, 1.0, 0.1])


def _learn(keep, rows, phi, y, noise):
    white, _ = rows.leverage(phi)
    most = jnp.asarray(DEVIATION, phi.dtype)
    return rows.learn(white, y - rows.weights @ phi, noise, keep, most)


def test_equals_the_posterior_of_a_batch() -> None:
    rng = np.random.default_rng(0)
    phi, y, noise = rng.standard_normal((30, 4)), rng.standard_normal(30), 0.5 + rng.random(30)
    mean = np.array([1.0, 0.0, 0.0, 0.5])
    rows = Regression.prior(jnp.asarray(mean), jnp.asarray(DEVIATION))
    given = tuple(map(jnp.asarray, (phi, y, noise)))
    rows, _ = jax.lax.scan(lambda r, row: (_learn(1.0, r, *row), None), rows, given)
    precision = np.diag(DEVIATION**-2) + (phi / noise[:, None]).T @ phi
    cov = np.linalg.inv(precision)
    expected = cov @ (mean / DEVIATION**2 + (phi / noise[:, None]).T @ y)
    np.testing.assert_allclose(rows.weights, expected, atol=1e-12)
    np.testing.assert_allclose(rows.covariance, cov, atol=1e-12)


def test_forgetting_weighs_the_past() -> None:
    """With keep < 1 a row of age n counts keep^n, as long as no variance reaches its bound."""
    rng = np.random.default_rng(1)
    phi, y = rng.standard_normal((200, 4)), rng.standard_normal(200)
    rows = Regression.prior(jnp.zeros(4), jnp.asarray(DEVIATION))
    given = (jnp.asarray(phi), jnp.asarray(y), jnp.full(200, 0.01))
    rows, _ = jax.lax.scan(lambda r, row: (_learn(0.95, r, *row), None), rows, given)
    weight = 0.95 ** np.arange(200)[::-1]
    precision = np.diag(DEVIATION**-2) * 0.95**200 + (phi * weight[:, None] / 0.01).T @ phi
    expected = np.linalg.solve(precision, (phi * weight[:, None] / 0.01).T @ y)
    np.testing.assert_allclose(rows.weights, expected, rtol=1e-9)
    np.testing.assert_allclose(rows.covariance, np.linalg.inv(precision), rtol=1e-9)


@pytest.mark.parametrize("kind", ["white", "walk", "stuck", "nearly collinear"])
def test_sixty_thousand_rows_in_single_precision(kind: str) -> None:
    """No coefficient is less certain than before the first row, and what is excited is known.

    The covariance form of this recursion was indefinite after some 20 000 such rows.
    """
    rng = np.random.default_rng(2)
    phi = rng.standard_normal((60_000, 4))
    if kind == "walk":
        phi[:, 0] = np.cumsum(phi[:, 0]) / 100.0
    elif kind == "stuck":
        phi[2_000:50_000] = phi[2_000]
    elif kind == "nearly collinear":
        phi[:, 1] = phi[:, 0] + 1e-4 * phi[:, 1]
    y = phi @ np.array([0.5, 0.2, -0.3, 0.05]) + 0.1 * rng.standard_normal(60_000)
    given = tuple(jnp.asarray(v, jnp.float32) for v in (phi, y, np.full(60_000, 0.01)))
    rows = Regression.prior(jnp.zeros(4, jnp.float32), jnp.asarray(DEVIATION, jnp.float32))
    rows, _ = jax.lax.scan(lambda r, row: (_learn(0.9995, r, *row), None), rows, given)
    assert rows.weights.dtype == jnp.float32
    deviation = np.sqrt(np.diagonal(np.asarray(rows.covariance, float)))
    assert (deviation <= DEVIATION * (1 + 1e-5)).all()
    # Fisher information of the last 1 / (1 - keep^2) rows; two columns that are one are excepted.
    free = slice(2, 4) if kind == "nearly collinear" else slice(0, 4)
    assert (deviation[free] < 0.02).all()
    error = np.asarray(rows.weights, float) - np.array([0.5, 0.2, -0.3, 0.05])
    assert (np.abs(error[free]) < 5 * deviation[free] + 1e-4).all()

"""The parts in closed form: conditioning of a Gaussian, Student's t."""

import jax.numpy as jnp
import numpy as np
from scipy.stats import t as student

from rmcvi.core.student import log_density, nodes, quantile, upper_tail
from rmcvi.learners.seasonal.companion import Companion


def test_conditioning_is_that_of_a_gaussian() -> None:
    """Columns seen, seen with noise, and not seen."""
    rng = np.random.default_rng(1)
    root = rng.standard_normal((6, 6))
    cov, mean = root @ root.T / 6, rng.standard_normal(6) / 6
    seen, extra = np.array([True, False, True]), np.array([0.0, 0.0, 0.4])
    error = np.array([0.2, 9.0, -0.3])
    got = Companion(jnp.asarray(mean), jnp.asarray(cov)).condition(
        jnp.asarray(error), jnp.asarray(extra), jnp.asarray(seen)
    )
    H = np.eye(6)[[0, 2]]
    gain = cov @ H.T @ np.linalg.inv(H @ cov @ H.T + np.diag([0.0, 0.4]))
    np.testing.assert_allclose(got.mean, mean + gain @ error[[0, 2]], atol=1e-12)
    np.testing.assert_allclose(got.covariance, cov - gain @ H @ cov, atol=1e-12)


def test_student() -> None:
    r = np.linspace(-30.0, 30.0, 41)
    for nu in (4, 6):
        np.testing.assert_allclose(log_density(jnp.asarray(r), nu), student.logpdf(r, nu))
        np.testing.assert_allclose(upper_tail(jnp.asarray(r), nu), student.sf(r, nu), rtol=1e-9)
        np.testing.assert_allclose(quantile(0.05, nu), student.ppf(0.05, nu))
    np.testing.assert_allclose(nodes(15, 6), student.ppf((np.arange(15) + 0.5) / 15, 6), atol=1e-12)

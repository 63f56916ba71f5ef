"""Conditioning of the companion state is that of a Gaussian."""

import jax.numpy as jnp
import numpy as np

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
